//! Packets that this host dropped, and resets: how many, why, where, by connection and device; and the
//! retransmissions that answer a drop here. The contract `whylat.drops/1`.
//!
//! ```text
//! cause    reason, function and hook of a row
//! table    rows of drops, counts, counters and retransmissions → the report
//! flow     a packet's addresses → its connection
//! join     retransmissions and dropped packets, by sequence range
//! hook     callers of a netfilter drop → the hook
//! meaning  a reason → what it means, and what helps
//! qdisc    the qdisc that dropped packets, and what waited in it
//! ```

mod cause;
mod flow;
mod hook;
mod join;
mod meaning;
mod qdisc;
pub mod report;
mod table;

pub use cause::DropCause;
pub use hook::hook_of_stack;
pub(crate) use join::overlaps;
pub use meaning::{ReasonMeaning, find_meaning};
pub use qdisc::{DroppingQdisc, QdiscLevel};
pub use report::DropReport;
pub use table::DropTable;
