//! The whylat command.
fn main() {}
