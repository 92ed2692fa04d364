//! Processes as the kernel side meets them (`bpf/process.h`), which may be gone by the time anyone looks them up.

use table::tables::Process;

use super::USER_TICK_NS;
use crate::wire::text;
use crate::wire::types::process_seen;

/// A process that was met: which one it was, and what it was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// When it was met, `CLOCK_MONOTONIC` nanoseconds.
    pub time_ns: u64,
    /// Its id, which the kernel uses again.
    pub pid: u32,
    /// Its start, `CLOCK_MONOTONIC` nanoseconds: with the id, which process it is.
    pub started_ns: u64,
    /// Command name of its first thread, as `/proc/PID/comm` shows it.
    pub comm: String,
}

impl Seen {
    /// `None`: the kernel side does not know which.
    pub(crate) fn of(seen: &process_seen, time_ns: u64) -> Option<Self> {
        let process_seen {
            started_ns,
            pid,
            comm,
            pad: _,
        } = seen;
        (*pid != 0).then(|| Self {
            time_ns,
            pid: *pid,
            started_ns: *started_ns,
            comm: text(comm),
        })
    }

    /// Whether `read`, which `/proc` told later under the same id, is this process. One that uses the id again started
    /// later; `/proc` counts in ticks, and takes a start from before a suspend to be earlier than it was.
    pub fn is(&self, read: &Process) -> bool {
        let latest_ns = self.started_ns.saturating_add(USER_TICK_NS);
        read.started_ns.is_none_or(|at_ns| at_ns <= latest_ns)
    }

    /// The row of a process of which nobody knows more.
    pub fn row(&self) -> Process {
        Process {
            pid: self.pid,
            time_ns: self.time_ns,
            started_ns: Some(self.started_ns),
            comm: self.comm.clone(),
            exe: None,
            cgroup: None,
            uid: None,
        }
    }
}
