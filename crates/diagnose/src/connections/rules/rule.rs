//! The trait of rules, and their verdicts on a connection.

use table::Stage;

use crate::connections::case::Case;
use crate::report::{
    Advice, Confidence, DataDirection, Fact, Finding, RuleId, RuledOut, UndecidedFinding,
};

pub use crate::report::RuleDoubt;

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
    /// Returns the rule's name in the list of all rules.
    fn id(&self) -> RuleId;
    /// Returns in one line what a finding of the rule means.
    fn summary(&self) -> &'static str;
    /// Returns whether the rule answers a question and blames nothing: what sets the rate, where memory is, who
    /// reset. Or it is about CPU time for which no thread waits. It is always `info`.
    fn is_answer(&self) -> bool {
        false
    }
    /// Returns whether the rule judges listening sockets instead of connections.
    fn is_of_listeners(&self) -> bool {
        false
    }
    /// Returns whether the harm lies outside the connection's duration: before it began, or at
    /// clients.
    fn is_beyond_life(&self) -> bool {
        false
    }
    /// Returns whether the rule names what caused losses, so that general rules on loss are quiet.
    fn names_cause_of_loss(&self) -> bool {
        false
    }
    /// Returns the stages in which the harm lies: they show when it happened. None if it lies in no
    /// stage.
    fn stages(&self) -> &'static [Stage] {
        &[]
    }
    /// Returns begin and end of the time in which harm was done, `CLOCK_MONOTONIC` ns.
    fn interval(&self, case: &Case) -> (u64, u64) {
        case.interval(self.stages())
    }
    /// Judges one connection: a finding, none, or undecided.
    fn check(&self, case: &Case) -> Verdict;
    /// Explains a finding by its worst connection: confidence, causes ruled out, fixes.
    fn explain(&self, case: &Case) -> FindingExplanation;
    /// Returns whether the cause is in the program, which has it for all its connections at a time. Then even a long stall is
    /// weighed against the time in which there were such connections: the life of a short one says nothing.
    fn is_of_program(&self) -> bool {
        false
    }
    /// Returns whether the connection needs words of its own: it has a finding apart from others of the rule.
    fn is_apart(&self, _case: &Case) -> bool {
        false
    }
    /// Returns the headline of a finding in one sentence.
    fn headline(&self, finding: &Finding) -> String;
    /// Returns the headline, with details of the finding's worst connection.
    fn headline_of_worst(&self, finding: &Finding, _worst: &Case) -> String {
        self.headline(finding)
    }
    /// Returns the headline of a verdict that is undecided.
    fn undecided_headline(&self, undecided: &UndecidedFinding) -> String {
        format!(
            "A delay of up to {}: the recording does not show the cause.",
            crate::units::duration(undecided.possible_harm_ns)
        )
    }
}
