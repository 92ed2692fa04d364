//! The first steps of threads and of forked processes that help a recorder. The latter must not allocate: other threads of
//! the recorder may have held the allocator's lock.

use std::io;
use std::os::fd::RawFd;

/// Drops all capabilities of the calling thread but those with these bits (`capset(2)`).
pub(crate) fn keep_capabilities(bits: u64) -> io::Result<()> {
    /// `_LINUX_CAPABILITY_VERSION_3` (`uapi/linux/capability.h`).
    const VERSION: u32 = 0x2008_0522;
    let header = [VERSION, 0];
    let mut sets = [[0u32; 3]; 2];
    // SAFETY: a header of version and own pid, and room for the two triples of words that it gives.
    let code = unsafe { libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()) };
    if code != 0 {
        return Err(io::Error::last_os_error());
    }
    for (word, [effective, permitted, inheritable]) in sets.iter_mut().enumerate() {
        // half of the bits each
        let kept = (bits >> (32 * word)) as u32;
        *permitted &= kept;
        *effective = *permitted;
        *inheritable = 0;
    }
    // SAFETY: as above; it only reads.
    match unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Forbids the calling thread to get any capability that it does not have, also by a program that it runs. Without
/// `CAP_SETPCAP`, the second holds by `PR_SET_NO_NEW_PRIVS` alone.
pub(crate) fn forbid_more_capabilities() -> io::Result<()> {
    // SAFETY: these calls take numbers only. A capability that the kernel does not have ends the list.
    unsafe {
        let mut capability: libc::c_ulong = 0;
        while libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) == 0 {
            capability += 1;
        }
        match libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Closes all descriptors but two: the helper must not live longer than the recorder. Linux before
/// 5.9 has no `close_range`: the first 1,024 descriptors, the usual limit, are closed one by one.
pub(crate) fn close_all_but(one: RawFd, other: RawFd) {
    let (low, high) = (one.min(other), one.max(other));
    for (first, last) in [(0, low - 1), (low + 1, high - 1), (high + 1, RawFd::MAX)] {
        if first > last {
            continue;
        }
        // SAFETY: nothing in this process uses the descriptors.
        unsafe {
            if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
                (first..=last.min(1023)).for_each(|fd| {
                    libc::close(fd);
                });
            }
        }
    }
}
