//! The recorder lets the recorded programs run first. A thread that decodes or encodes for milliseconds
//! is what their slowest messages would wait for; so it runs when nobody else wants to (`SCHED_IDLE`), until it
//! falls behind.
//!
//! Why it exists: on two CPUs, p99.9 of a redis at 60 % load was nine times as long beside an ordinary storing thread,
//! and 1.3 times beside an idle one.

use std::fs;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::Duration;

use nix::libc;
use probe::clock::monotonic_ns;

/// `include/uapi/linux/capability.h`.
const CAP_SYS_NICE: u32 = 23;

/// Priority of a thread that runs behind others (`SCHED_IDLE`), and when it is raised.
#[derive(Debug, Default)]
pub(crate) struct IdlePriority {
    /// Zero until the thread has begun, and where it may not lower its priority.
    tid: AtomicI32,
    is_raised: AtomicBool,
    /// Until then it has ordinary priority, though it has caught up: `CLOCK_MONOTONIC`, ns.
    raised_until_ns: AtomicU64,
    /// Counts its signs of life.
    alive_count: AtomicU64,
    /// The thread that waits until it has caught up.
    watcher: OnceLock<Thread>,
}

impl IdlePriority {
    /// Lowers the priority of the calling thread to idle. Without `CAP_SYS_NICE` there is no way
    /// back, and nothing is changed.
    pub(crate) fn begin(&self) {
        if can_restore_priority() {
            self.tid
                .store(nix::unistd::gettid().as_raw(), Ordering::Relaxed);
            self.set(libc::SCHED_IDLE);
        }
    }

    /// Gives the thread ordinary priority, because it is behind. A second call does so again: it
    /// may just have lowered it.
    pub(crate) fn raise_priority(&self) {
        self.is_raised.store(true, Ordering::Relaxed);
        self.set(libc::SCHED_OTHER);
    }

    /// Gives the thread ordinary priority for at least this time.
    pub(crate) fn raise_for(&self, length: Duration) {
        let length_ns = u64::try_from(length.as_nanos()).unwrap_or(u64::MAX);
        let until_ns = monotonic_ns().saturating_add(length_ns);
        self.raised_until_ns.store(until_ns, Ordering::Relaxed);
        self.raise_priority();
    }

    /// Lets other threads run that wait for this CPU. Called by the thread itself between small
    /// pieces of work. The weight of `SCHED_IDLE` alone would let it have a CPU for a whole tick
    /// now and then, however many others want it (`kernel/sched/fair.c`, `pick_eevdf()`).
    pub(crate) fn yield_cpu(&self) {
        if self.tid.load(Ordering::Relaxed) != 0 && !self.is_raised() {
            std::thread::yield_now();
        }
    }

    /// Lowers the priority again, after the thread has caught up.
    pub(crate) fn lower_priority(&self) {
        if monotonic_ns() >= self.raised_until_ns.load(Ordering::Relaxed)
            && self.is_raised.swap(false, Ordering::Relaxed)
        {
            self.set(libc::SCHED_IDLE);
            self.watcher.get().map(Thread::unpark);
        }
    }

    /// Counts a sign of life, which the thread itself gives.
    pub(crate) fn note_alive(&self) {
        self.alive_count.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often the thread has shown that it goes on.
    pub(crate) fn alive_count(&self) -> u64 {
        self.alive_count.load(Ordering::Relaxed)
    }

    /// Unparks the calling thread whenever this thread has caught up.
    pub(crate) fn unpark_when_caught_up(&self) {
        // one watchdog, which does not change
        let _ = self.watcher.set(std::thread::current());
    }

    /// Returns whether the thread has ordinary priority until it has caught up.
    pub(crate) fn is_raised(&self) -> bool {
        self.is_raised.load(Ordering::Relaxed)
    }

    /// Sets the scheduling policy; ignores a failure.
    fn set(&self, policy: libc::c_int) {
        let tid = self.tid.load(Ordering::Relaxed);
        if tid == 0 {
            return;
        }
        let parameters = libc::sched_param { sched_priority: 0 };
        // SAFETY: the parameters live through the call, which keeps no pointer to them.
        unsafe { libc::sched_setscheduler(tid, policy, &raw const parameters) };
    }
}

/// Returns whether a thread of `SCHED_IDLE` may become an ordinary one again (`sched(7)`).
fn can_restore_priority() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    capabilities
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & 1 << CAP_SYS_NICE != 0)
}
