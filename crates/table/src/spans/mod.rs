//! Begins and ends, as a tracer tells them → nested spans, rows of the table `activity`.
//!
//! - [`Lane`]: spans that lie within each other, of one CPU or thread, and their depths;
//! - [`Core`]: what one CPU does: which thread has it, and the system calls, functions and interrupts on
//!   top.
//!
//! Whoever sees begins and ends uses it: the flight recorder, and importers of other tools' traces.

mod cpu;
mod timeline;

pub use cpu::{Activity, Core, Runner, Suspended};
pub use timeline::{Lane, Moment, Owner, What};
