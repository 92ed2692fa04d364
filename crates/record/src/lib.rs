//! A recording session, or a watch of what happens now: starts the probes, drains them, batches what they give, accounts for what
//! is lost, and hands it to a recording directory or to whoever looks. No BPF and no diagnosis here.
//!
//! One thread collects (this crate's caller), one stores. When the disk cannot follow, the
//! collector waits, the kernel's ring fills, and what does not fit is counted there as lost: memory
//! stays bounded and the account stays exact.

mod account;
mod collector;
mod cpu;
mod error;
mod intake;
mod keep;
mod launch;
mod listen;
mod met;
mod options;
mod oversee;
mod plan;
mod poll;
mod priority;
pub mod privileges;
mod session;
mod snapshot;
mod sockets;
mod spent;
mod store;
mod usdt;
mod watch;

pub use collector::{CaptureSink, Collector, DRAIN_MOST, WalkShare};
pub use error::RecordError;
pub use keep::{Keep, KeepError, flight_recorder};
pub use launch::invoking_user;
pub use options::{Command, Options, Target};
pub use plan::without_hooks;
pub use probe::hooks::Detail;
pub use probe::usdt::Request as UsdtRequest;
pub use session::{Begun, Outcome, record};
pub use snapshot::{SnapshotError, snapshot};
pub use watch::{Look, WatchOptions, watch};
