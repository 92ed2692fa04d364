//! A recording session, or a watch of what happens now: starts the probes, drains them, batches what they give, accounts for what
//! is lost, and hands it to a recording directory or to whoever looks. No BPF and no diagnosis here.
//!
//! One thread collects (this crate's caller), one stores. When the disk cannot follow, the
//! collector waits, the kernel's ring fills, and what does not fit is counted there as lost: memory
//! stays bounded and the account stays exact.

mod account;
mod affinity;
mod budget;
mod collector;
mod cpu;
mod error;
mod flight_recorder;
mod itt_listener;
mod launch;
mod options;
mod overhead;
mod pipeline;
mod plan;
mod poll;
mod priority;
pub mod privileges;
mod process_cache;
mod session;
mod snapshot;
mod sockets;
mod store;
mod usdt;
mod watch;
mod watchdog;

pub use affinity::CpuList;
pub use budget::{Budget, BudgetError};
pub use collector::{CaptureSink, Collector, DRAIN_MOST, WalkShare};
pub use error::RecordError;
pub use flight_recorder::{RetentionError, RetentionPolicy, flight_recorder_coverage};
pub use launch::invoking_user;
pub use options::{Command, Options, Target};
pub use plan::without_hooks;
pub use probe::hooks::{Detail, FollowCounts};
pub use probe::usdt::Request as UsdtRequest;
pub use session::{Outcome, RecordingStart, record};
pub use snapshot::{SnapshotError, snapshot};
pub use watch::{LiveSnapshot, WatchOptions, watch};
