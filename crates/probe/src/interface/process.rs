//! Processes as the kernel side finds them (`bpf/process.h`), which may be gone by the time anyone looks them up.

use table::tables::Process;

use crate::wire::types::process_seen;
use crate::wire::{Wire, text};

// SAFETY: `process_seen` is `repr(C)` and made of integers and an array of them.
unsafe impl Wire for process_seen {}

/// A process that was found: which one it was, and what it was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObservedProcess {
    /// When, `CLOCK_MONOTONIC` nanoseconds; of one that became another program, when that was read.
    pub time_ns: u64,
    /// Its id, which the kernel uses again.
    pub pid: u32,
    /// Its start, `CLOCK_MONOTONIC` nanoseconds: with the id, which process it is.
    pub started_ns: u64,
    /// How often it, and those that it was forked from, became other programs: with the others, which program it is.
    pub execs: u32,
    /// Command name of its first thread, as `/proc/PID/comm` shows it. A socket keeps the one of when its owner was found.
    pub comm: String,
}

impl ObservedProcess {
    /// Converts the kernel side's process; `None`: the kernel side does not know it.
    pub(crate) fn from_wire(seen: &process_seen, time_ns: u64) -> Option<Self> {
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

    /// Returns the row of a process with nothing more known.
    pub fn row(&self) -> Process {
        Process {
            pid: self.pid,
            time_ns: self.time_ns,
            started_ns: Some(self.started_ns),
            comm: self.comm.clone(),
            exe: None,
            cgroup: None,
            container: None,
            pod: None,
            pod_namespace: None,
            workload: None,
            workload_kind: None,
            workload_source: None,
            uid: None,
        }
    }
}
