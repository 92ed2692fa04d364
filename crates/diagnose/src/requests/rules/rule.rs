//! The trait of rules on requests, and their verdicts on a service or a program.

use std::collections::BTreeSet;

use crate::report::{
    Advice, Confidence, ConfidenceLevel, DataDirection, Fact, FindingSubject, RuleDoubt, RuleId,
    RuledOut,
};
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::requests::evidence::RequestEvidence;

/// Verdict of a rule.
#[derive(Debug)]
pub enum RequestVerdict {
    /// Not this.
    Quiet,
    /// This, with so much harm.
    Fires(Box<RequestFinding>),
    /// It may be this; the recording does not show it: one sentence with the numbers that matter, and the facts.
    Inconclusive(String, Box<RuleDoubt>),
}

impl RequestVerdict {
    /// Makes a verdict that the recording cannot decide, with its headline.
    pub fn undecided(headline: String, doubt: RuleDoubt) -> Self {
        Self::Inconclusive(headline, Box::new(doubt))
    }

    /// Fires if requests of a service spent time in these parts, else is quiet.
    pub fn of_parts(
        case: &ServiceCase<'_>,
        parts: &[RequestPart],
        finding: impl FnOnce(&ServiceCase<'_>, &PartHarm) -> RequestFinding,
    ) -> Self {
        let harm = case.harm(parts);
        match harm.ns {
            0 => Self::Quiet,
            _ => Self::Fires(Box::new(finding(case, &harm))),
        }
    }
}

/// Whether the cause of a finding can be avoided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// The time can be avoided: it counts by its share of the time of all requests.
    Avoidable,
    /// The work has to be done: it counts only as far as it makes the slowest requests slow.
    Unavoidable,
}

/// Finding of a rule.
#[derive(Debug)]
pub struct RequestFinding {
    /// Parts of the time that it explains: no later rule explains them again, if this one is above info.
    pub parts: Vec<RequestPart>,
    /// Names of those that take part: threads with their functions, stacks, connections.
    pub involved: Vec<String>,
    /// Ids of the threads that serve; empty: not known, or it is not about them.
    pub threads: BTreeSet<u32>,
    /// Time that requests lost, ns: all of them together.
    pub harm_ns: u64,
    /// Loss of a request that is an ordinary turn of others, at most, ns; 0: none is.
    pub turn_ns: u64,
    /// Requests of the service; 0: it is about a program.
    pub requests: u64,
    /// Time that it is a part of, ns: that of all requests, or more if it lies outside of them.
    pub whole_ns: u64,
    /// By how much the slowest requests had more of it than others, ns.
    pub excess_ns: u64,
    /// `excess_ns` as a share of what they took longer.
    pub excess_share: f64,
    /// Share of data that was lost, and did not come late; `None`: time is the harm.
    pub lost_share: Option<f64>,
    /// Direction of the data; `None`: that of the requests.
    pub direction: Option<DataDirection>,
    /// Says whether it can be avoided.
    pub remedy: Remedy,
    /// One sentence: cause, effect, number.
    pub headline: String,
    /// Numbers that show it.
    pub facts: Vec<Fact>,
    /// Excluded causes.
    pub ruled_out: Vec<RuledOut>,
    /// Facts that the recording cannot show, beside lost records.
    pub could_not_see: Vec<String>,
    /// Fixes, best first.
    pub advice: Vec<Advice>,
    /// Assumption under which the harm goes away; `None`: no estimate.
    pub gain: Option<&'static str>,
    /// How sure it is.
    pub confidence: Confidence,
}

impl RequestFinding {
    /// Makes a finding about a service without harm or text: the caller fills in the rest.
    pub fn new(case: &ServiceCase<'_>) -> Self {
        Self {
            requests: case.requests(),
            whole_ns: case.total_ns(),
            ..Self::without_harm()
        }
    }

    /// Makes a finding about a program, with neither harm nor text: the caller fills in the rest.
    pub fn without_harm() -> Self {
        Self {
            parts: Vec::new(),
            involved: Vec::new(),
            threads: BTreeSet::new(),
            harm_ns: 0,
            turn_ns: 0,
            requests: 0,
            whole_ns: 0,
            lost_share: None,
            direction: None,
            excess_ns: 0,
            excess_share: 0.0,
            remedy: Remedy::Unavoidable,
            headline: String::new(),
            facts: Vec::new(),
            ruled_out: Vec::new(),
            could_not_see: Vec::new(),
            advice: Vec::new(),
            gain: None,
            confidence: Confidence {
                level: ConfidenceLevel::Medium,
                because: String::new(),
            },
        }
    }

    /// Makes a finding about a service that loses the time of `harm`; the caller fills in the text.
    pub fn from_harm(case: &ServiceCase<'_>, harm: &PartHarm, remedy: Remedy) -> Self {
        Self {
            harm_ns: harm.ns,
            excess_ns: harm.excess_ns,
            excess_share: harm.excess_share,
            remedy,
            ..Self::new(case)
        }
    }
}

/// Verdict on a program, whatever its requests.
#[derive(Debug)]
pub struct ProgramVerdict {
    /// The program.
    pub subject: FindingSubject,
    /// From when to when it was seen, `CLOCK_MONOTONIC` ns.
    pub time: (u64, u64),
    /// Verdict.
    pub verdict: RequestVerdict,
}

/// One rule on requests.
pub trait RequestRule: Sync {
    /// Returns the rule's name in the list of all rules.
    fn id(&self) -> RuleId;
    /// Returns in one line what a finding of the rule means.
    fn summary(&self) -> &'static str;
    /// Judges the requests of one service.
    fn check(&self, _: &ServiceCase<'_>) -> RequestVerdict {
        RequestVerdict::Quiet
    }
    /// Judges programs, whether or not they have requests.
    fn check_programs(&self, _: &RequestEvidence<'_>) -> Vec<ProgramVerdict> {
        Vec::new()
    }
}
