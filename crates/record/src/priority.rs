//! How much the recorder lets the recorded programs go first. A thread that encodes for milliseconds is what
//! their slowest messages would wait for; so it runs when nobody else wants to (`SCHED_IDLE`), until it
//! falls behind.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use nix::libc;

/// `include/uapi/linux/capability.h`.
const CAP_SYS_NICE: u32 = 23;

/// A thread that gives way to others.
#[derive(Debug, Default)]
pub(crate) struct GivingWay {
    /// Zero until the thread has begun, and where it may not give way.
    tid: AtomicI32,
    hurries: AtomicBool,
}

impl GivingWay {
    /// Called by the thread itself. Without `CAP_SYS_NICE` there is no way back, and nothing is changed.
    pub(crate) fn begin(&self) {
        if may_come_back() {
            self.tid
                .store(nix::unistd::gettid().as_raw(), Ordering::Relaxed);
            self.set(libc::SCHED_IDLE);
        }
    }

    /// It is behind: as fast as others.
    pub(crate) fn hurry(&self) {
        if !self.hurries.swap(true, Ordering::Relaxed) {
            self.set(libc::SCHED_OTHER);
        }
    }

    /// It has caught up, if it was behind.
    pub(crate) fn relax(&self) {
        if self.hurries.swap(false, Ordering::Relaxed) {
            self.set(libc::SCHED_IDLE);
        }
    }

    /// A thread whose policy cannot be set goes on with the one that it has.
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

/// Whether a thread of `SCHED_IDLE` may become an ordinary one again (`sched(7)`).
fn may_come_back() -> bool {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    capabilities
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok())
        .is_some_and(|bits| bits & 1 << CAP_SYS_NICE != 0)
}
