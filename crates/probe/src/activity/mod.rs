//! `activity`: what every CPU did. The flight recorder ([`Flight`]) holds the last moments of each CPU in
//! memory that overwrites itself; whoever knows that a moment was worth it asks for a window of it, and gets
//! rows of table `activity`: tasks, idle, interrupts, softirqs, system calls and some functions, nested, with
//! exact begins and ends.
//!
//! `activity.bpf.c` writes events, `memory` reads them, `replay` makes spans of them, `names` says what
//! the numbers mean, `faults` has the ends of page faults.

mod faults;
mod flight;
mod memory;
mod names;
mod replay;
mod skel;

pub use flight::{Flight, Storage, USUAL_CPU_BYTES};
pub use replay::Window;

/// Name of the probe in coverage and accounts.
pub const PROBE: &str = "activity";
