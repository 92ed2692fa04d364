//! What several rules share: calls that waited for a delayed ACK, how to end such waits, and why a receiver's window was full.

pub mod late_calls;
pub mod nagle_cures;
pub mod window_cause;
