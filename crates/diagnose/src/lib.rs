//! Tables to findings: which stage limits each TCP connection, and why.
//!
//! Comes in: the columns of a recording, batch by batch ([`Evidence`]), and what its manifest
//! says. Goes out: one [`Report`], worst finding first. Pure: no I/O, no clock, no kernel; the
//! same rows give the same answer. Only `recording/` asks somebody for rows: an opened recording.
//!
//! ```text
//! gather/   rows → one small digest a connection (nothing else is kept)
//! stages/   digest → share of time in each stage, with method and bound
//! snap/     digest → SNAP's flags and Table 4, independent of the stages
//! causes/   the name of what a CPU did → why: categories of functions, system calls, interrupts
//! rules/    one file a rule: fires, quiet, or cannot tell
//! group     findings of many connections of one program → one finding
//! histogram durations, in log-linear buckets
//! live/     the last seconds, judged again and again: the contract `whylat.top/1`
//! recording/ one pass over an opened recording → every answer that is wanted of it
//! report/   the contract `whylat.report/1`
//! messages/ rows of `messages` → the parts of their way, by connection: `whylat.messages/1`
//! tail/     rows of `messages`, `waits`, `activity` → why slow messages are slow: `whylat.tail/1`
//! verdict   the one stage that held a connection, of those that are somebody's to mend
//! waits/    rows of `waits` → groups by object, thread or waker: `whylat.waits/1`
//! ```

mod assemble;
mod case;
pub mod causes;
mod coincidence;
mod context;
mod cpu;
mod exclusion;
mod gather;
mod group;
mod histogram;
mod kernel;
pub mod live;
pub mod messages;
mod neighbours;
pub mod recording;
pub mod report;
pub mod rules;
mod sends;
mod severity;
mod snap;
mod stages;
mod subject;
pub mod tail;
pub mod units;
pub mod verdict;
pub mod waits;

pub use assemble::diagnose;
pub use gather::Evidence;
pub use gather::ledger::RttInterval;
pub use report::Report;
pub use snap::delayed_acks::SnapSettings;
pub use snap::flags::{Flags, delayed_ack};
