//! The agent: watches every connection of a host all the time, within a budget, and ships what the fleet reads.
//!
//! Two sides that meet in an [`Interval`]: what collects asks the kernel and judges, what ships writes files, keeps
//! what cannot be delivered yet, answers Prometheus, and sends metrics and findings by OTLP.

mod announce;
pub mod apps;
pub mod collect;
pub mod config;
mod container;
mod delivery;
#[cfg(test)]
mod fixture;
mod interval;
pub mod metrics;
pub mod notify;
pub mod problems;
mod run;
pub mod ship;
pub mod telemetry;

pub use container::ContainerIdentity;
pub use delivery::reservation;
pub use interval::Interval;
pub use run::{AgentError, StartOptions, run};
