//! Processes as the kernel side meets them (`bpf/process.h`), which may be gone by the time anyone looks them up.

use table::tables::Process;

use crate::wire::text;
use crate::wire::types::process_seen;

/// A process that was met: which one it was, and what it was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// When, `CLOCK_MONOTONIC` nanoseconds; of one that became another program, when that was read.
    pub time_ns: u64,
    /// Its id, which the kernel uses again.
    pub pid: u32,
    /// Its start, `CLOCK_MONOTONIC` nanoseconds: with the id, which process it is.
    pub started_ns: u64,
    /// How often it, and those that it was forked from, became other programs: with the others, which program it is.
    pub execs: u32,
    /// Command name of its first thread, as `/proc/PID/comm` shows it. A socket keeps the one of when its owner was met.
    pub comm: String,
}

impl Seen {
    /// `None`: the kernel side does not know which.
    pub(crate) fn of(seen: &process_seen, time_ns: u64) -> Option<Self> {
        let process_seen {
            started_ns,
            pid,
            execs,
            comm,
        } = seen;
        (*pid != 0).then(|| Self {
            time_ns,
            pid: *pid,
            started_ns: *started_ns,
            execs: *execs,
            comm: text(comm),
        })
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
