//! Kernel to records: the probes of whylat. `itt` has another source: what programs say.

pub mod activity;
mod calls;
pub mod clock;
pub mod cpu;
#[doc(hidden)]
pub mod fuzz;
mod helper;
pub mod hooks;
pub mod inventory;
pub mod itt;
mod messages;
pub mod netns;
pub mod nic;
mod perf_event;
pub mod privileges;
pub mod processes;
pub mod self_cost;
pub mod signals;
mod skel;
mod spins;
pub mod stacks;
mod tcp_events;
mod tcp_stages;
pub mod tcp_stats;
mod udp;
pub mod usdt;
pub mod waits;
pub mod watch;
mod wire;
