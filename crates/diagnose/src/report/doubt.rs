//! The facts of a rule that cannot decide: the recording does not show the cause.

use super::{Fact, RuleId};

/// Facts of a rule without a verdict: on a connection, on the requests of a service, or on a program.
#[derive(Debug)]
pub struct RuleDoubt {
    /// All rules that may apply.
    pub candidates: Vec<RuleId>,
    /// Time concerned, ns.
    pub concerned_ns: u64,
    /// The numbers that show it.
    pub facts: Vec<Fact>,
    /// Reason why the cause is unknown.
    pub why: &'static str,
    /// Data that would decide it, beside more detail.
    pub would_help: Option<&'static str>,
}
