//! The trait of rules, and their verdicts on a connection.

use table::Stage;

use crate::connections::case::Case;
use crate::report::{
    Advice, Confidence, DataDirection, Fact, Finding, RuleId, RuledOut, UndecidedFinding,
};

/// Verdict of a rule on one connection.
#[derive(Debug)]
pub enum Verdict {
    /// Not this.
    Quiet,
    /// This, with so much harm.
    Fires(RuleFinding),
    /// It may be this; the recording does not show it.
    Inconclusive(RuleDoubt),
}

/// Finding of a rule on one connection.
#[derive(Debug)]
pub struct RuleFinding {
    /// Direction of the data concerned.
    pub direction: DataDirection,
    /// Time in the stages concerned, ns.
    pub concerned_ns: u64,
    /// Time that threads were blocked or data was late, ns: within the life, but for rules that
    /// count [beyond it](Rule::is_beyond_life).
    pub harm_ns: u64,
    /// The numbers that show it.
    pub facts: Vec<Fact>,
}

/// Facts of a rule without a verdict on one connection.
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

/// Text of a finding beside its numbers, from its worst connection.
#[derive(Debug)]
pub struct FindingExplanation {
    /// Excluded causes.
    pub ruled_out: Vec<RuledOut>,
    /// Facts that the recording cannot show.
    pub could_not_see: Vec<String>,
    /// Fixes, best first.
    pub advice: Vec<Advice>,
    /// Estimated effect of the fix.
    pub win: WinBasis,
    /// How sure it is.
    pub confidence: Confidence,
}

/// How the win is estimated.
#[derive(Debug)]
pub enum WinBasis {
    /// All of the harm goes away.
    HarmGone(&'static str),
    /// At least as the harm promises; at most so many times is sure: what grew in spite of it
    /// may grow further.
    AtLeast(f64, &'static str),
    /// It cannot be estimated.
    Unknown,
}

/// One rule.
pub trait Rule: Sync {
    /// Returns its name in the list of all rules.
    fn id(&self) -> RuleId;
    /// Returns the finding in one line.
    fn summary(&self) -> &'static str;
    /// Returns whether the rule answers a question and blames nothing: what sets the rate, where memory is, who
    /// reset. Or it is about CPU time for which no thread waits. It is always `info`.
    fn is_answer(&self) -> bool {
        false
    }
    /// Returns whether it looks at listening sockets, instead of connections.
    fn is_of_listeners(&self) -> bool {
        false
    }
    /// Returns whether the harm is outside of the connection's duration: before it, or at clients.
    fn is_beyond_life(&self) -> bool {
        false
    }
    /// Returns whether it names what caused losses, so that rules that speak of loss in general are quiet.
    fn names_cause_of_loss(&self) -> bool {
        false
    }
    /// The stages in which its harm lies: they show when. None if it lies in no stage.
    fn stages(&self) -> &'static [Stage] {
        &[]
    }
    /// Returns from when to when it did harm, `CLOCK_MONOTONIC` ns.
    fn interval(&self, case: &Case) -> (u64, u64) {
        case.interval(self.stages())
    }
    /// Looks at one connection.
    fn check(&self, case: &Case) -> Verdict;
    /// Explains a finding by its worst connection.
    fn explain(&self, case: &Case) -> FindingExplanation;
    /// Returns one sentence for the finding.
    fn headline(&self, finding: &Finding) -> String;
    /// Returns the same with what only its worst connection shows.
    fn headline_of_worst(&self, finding: &Finding, _worst: &Case) -> String {
        self.headline(finding)
    }
    /// Returns one sentence for an inconclusive verdict.
    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "Up to {} may be lost; the recording does not show the cause.",
            crate::units::duration(undecided.possible_harm_ns)
        )
    }
}
