//! Kernel to records: the probes of whylat.

pub mod hooks;
pub mod clock;
pub mod netns;
pub mod processes;
pub mod self_cost;
pub mod tcp_stats;
mod calls;
mod inventory;
mod tcp_events;
mod tcp_stages;
mod wire;
