//! Asks the C library for the time and the thread, without anything that allocates.

/// Returns `CLOCK_MONOTONIC`, ns, without a system call (vDSO).
#[inline(always)]
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call fills a struct on the stack.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns the id of this thread, from the kernel.
pub(crate) fn thread_id() -> u32 {
    // SAFETY: the call takes nothing and cannot fail.
    unsafe { libc::gettid() as u32 }
}
