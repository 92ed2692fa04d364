//! Begins and ends of a tracer → nested spans, rows of the table `activity`.
//!
//! - [`SpanTimeline`]: spans that lie within each other, of one CPU or thread, and their depths;
//! - [`CpuTimeline`]: what one CPU does: which thread has it, and the system calls, functions and interrupts on
//!   top.
//!
//! Whoever sees begins and ends uses it: the flight recorder, and importers of other tools' traces.

mod cpu;
mod timeline;

pub use cpu::{CpuTimeline, OpenActivity, RunningThread, SuspendedActivities};
pub use timeline::{SpanOwner, SpanSubject, SpanTimeline, TimelinePoint};
