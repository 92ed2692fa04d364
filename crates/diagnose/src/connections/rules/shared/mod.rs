//! Parts that several rules share: evidence and sentences, which rule explains a drop, calls that waited for a delayed
//! ACK, how to end such waits, and why a receiver's window was full.

pub mod delayed_acks;
pub mod explained_drops;
pub mod facts;
pub mod growth;
pub mod late_calls;
pub mod nagle_fixes;
pub mod sentences;
pub mod window_cause;
