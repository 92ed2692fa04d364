//! Describes what the profiler itself costs. In: this process's resource usage and the kernel's run-time
//! statistics of our own BPF programs. Out: the numbers of the manifest's cost line.

mod bpf_time;
mod statistics;
mod usage;

pub(crate) use bpf_time::program_info;
pub use bpf_time::{BpfCost, BpfTimeError, BpfTimeSampler};
pub use statistics::Statistics;
pub use usage::{Usage, UsageError};
