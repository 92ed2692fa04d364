//! Describes what the profiler itself costs. In: this process's resource usage and the kernel's run-time
//! statistics of our own BPF programs. Out: the numbers of the manifest's cost line.

mod bpf_time;
mod run_time;
mod statistics;
mod usage;

pub use bpf_time::{BpfCost, BpfTimeSampler};
pub(crate) use run_time::program_info;
pub use run_time::{BpfTimeError, ProgramTimes, RunTime};
pub use statistics::Statistics;
pub use usage::{Usage, UsageError};
