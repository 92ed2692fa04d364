//! From tables to findings: why networked programs are slow.
//!
//! Comes in: the columns of a recording, batch by batch, and what its manifest says. Goes out: reports, worst first.
//! Pure: no I/O, no clock, no kernel; the same rows give the same answer. Only `recording/` reads rows from elsewhere: an
//! opened recording. A folder for each question, above what all of them share:
//!
//! ```text
//! recording/   one pass over an opened recording → every answer that is wanted of it
//! live/        the last seconds, judged again and again: the contract `whylat.top/1`
//! connections/ which stage limits each TCP connection, and why: findings
//! requests/    where the time of requests went: `whylat.requests/1`
//! drops/       packets that the host dropped, and resets: `whylat.drops/1`
//! messages/    where the time of messages went: `whylat.messages/1`; tail/: why slow ones are slow, `whylat.tail/1`
//! waits/       what threads waited for, by object, thread or waker: `whylat.waits/1`
//! difference/  two recordings side by side: `whylat.diff/1`
//! check/       runs of a program beside a baseline: `whylat.check/1`
//! answer/      what all answers share
//! report/      the contract `whylat.report/1`
//! causes/      the name of what a CPU did → why: categories of functions, system calls, interrupts
//! rows/        what several analyses keep of rows
//! histogram    durations, in log-linear buckets
//! pages        the page of each rule
//! kernel       numbers of the Linux kernel
//! units        numbers as people read them
//! ```

mod answer;
pub mod causes;
pub mod check;
mod connections;
pub mod difference;
pub mod drops;
mod histogram;
pub mod imports;
mod kernel;
pub mod live;
pub mod messages;
pub mod pages;
pub mod recording;
pub mod report;
pub mod requests;
mod rows;
pub mod units;
pub mod waits;

pub use connections::snap::delayed_acks::SnapSettings;
pub use connections::snap::flags::{IntervalFlags, delayed_ack};
pub use connections::snap::interval::RttInterval;
pub use connections::{Evidence, diagnose, rules, verdict};
pub use messages::tail;
pub use report::Report;
pub use requests::rules::REQUEST_RULES;
pub use rows::windows;
