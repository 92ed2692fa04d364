//! Finds who used the CPUs, and who waited for one. In: pids. Out: rows of `process_samples`
//! ([`Threads`]) and of `cpu_samples` ([`Cpus`]). Needs no BPF, and no root for own processes.

mod cpus;
mod threads;

pub use cpus::Cpus;
use table::TableId;
pub use threads::Threads;

use crate::interface::Probe;

/// The probe of what processes do with the CPUs.
pub(crate) struct ProcessSamples;

impl Probe for ProcessSamples {
    fn name(&self) -> &'static str {
        "cpu.processes"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::ProcessSample)
    }
}

/// The probe of what the CPUs do.
pub(crate) struct CpuSamples;

impl Probe for CpuSamples {
    fn name(&self) -> &'static str {
        "cpu.cpus"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::CpuSample)
    }
}

/// A file `schedstat` of a thread.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Schedstat {
    cpu_ns: u64,
    runq_ns: u64,
    runs: u64,
}

impl Schedstat {
    /// Reads the times of a thread; `None`: the thread has ended, or the kernel has no such file
    /// (`CONFIG_SCHED_INFO`).
    fn read(path: &str) -> Option<Self> {
        Self::parse(&std::fs::read_to_string(path).ok()?)
    }

    /// Reads `/proc/PID/schedstat`: CPU time, run-queue delay, number of runs.
    fn parse(text: &str) -> Option<Self> {
        let mut fields = text.split_ascii_whitespace().map(str::parse);
        let mut next = || fields.next()?.ok();
        Some(Self {
            cpu_ns: next()?,
            runq_ns: next()?,
            runs: next()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedstat_line_is_parsed() {
        let read = Schedstat {
            cpu_ns: 5,
            runq_ns: 70,
            runs: 3,
        };
        assert_eq!(Schedstat::parse("5 70 3\n"), Some(read));
        assert_eq!(Schedstat::parse("5 70\n"), None);
    }
}
