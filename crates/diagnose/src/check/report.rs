//! The contract `whylat.check/1`: whether runs of a program may pass, and why not.

use serde::Serialize;

use crate::report::{RuleId, Severity};

/// Name and version of the contract.
pub const SCHEMA: &str = "whylat.check/1";

/// The answer to a check.
#[derive(Debug, Clone, Serialize)]
pub struct CheckReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The command and its arguments.
    pub command: Vec<String>,
    /// How often it ran.
    pub runs: u64,
    /// How many runs the baseline has. Absent: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub baseline_runs: Option<u64>,
    /// Whether nothing failed.
    pub is_passed: bool,
    /// Whether every recording is whole.
    pub is_complete: bool,
    /// The failures: findings, then counts, then limits.
    pub failures: Vec<CheckFailure>,
    /// Every count.
    pub counts: Vec<CountResult>,
    /// Every finding above information.
    pub findings: Vec<FindingResult>,
    /// Facts that could not be judged, and why.
    pub could_not_see: Vec<String>,
}

/// A reason to fail.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckFailure {
    /// Says what failed.
    pub kind: FailureKind,
    /// Name of the rule, the count or the limit.
    pub name: String,
    /// One sentence with the numbers.
    pub text: String,
    /// The next step.
    pub hint: String,
}

/// Kind of a failed check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A finding that is neither allowed nor in the baseline.
    Finding,
    /// A count beyond that of the baseline.
    Count,
    /// A number beyond `--limit`.
    Limit,
}

/// A count of all runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CountResult {
    /// Its name.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// The value of each run that has it.
    pub values: Vec<f64>,
    /// The median of these, the lower of two; `None`: no run has it.
    pub median: Option<f64>,
    /// Least and largest value of the baseline; `None`: it does not have it.
    pub baseline: Option<(f64, f64)>,
    /// The largest value that is no regression; `None`: there is no baseline of it.
    pub limit: Option<f64>,
    /// How it compares.
    pub state: CountState,
}

/// State of a count, compared with the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CountState {
    /// Within its limit.
    Within,
    /// Beyond it.
    Worse,
    /// Less than any run of the baseline by more than its spread.
    Better,
    /// No baseline has it.
    New,
    /// No run has it.
    Absent,
}

/// A finding of a rule on a program.
#[derive(Debug, Clone, Serialize)]
pub struct FindingResult {
    /// The rule.
    pub rule: RuleId,
    /// Command name of the process; `None`: not known.
    pub process: Option<String>,
    /// The worst severity.
    pub severity: Severity,
    /// The sentence of the worst.
    pub headline: String,
    /// In how many runs it was found.
    pub runs: u64,
    /// The first advice. Absent: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// Whether it fails the check, and why not.
    pub state: FindingVerdict,
}

/// Verdict of a check on a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingVerdict {
    /// It does.
    Fails,
    /// `--allow` names its rule.
    Allowed,
    /// The baseline has it.
    InBaseline,
    /// It depends on the speed of the machine.
    DependsOnMachine,
    /// At most half of the runs have it.
    InFewRuns,
}

impl FindingVerdict {
    /// Returns why the finding does not fail the check; `None`: it fails.
    pub const fn why_not(self) -> Option<&'static str> {
        match self {
            Self::Fails => None,
            Self::Allowed => Some("allowed"),
            Self::InBaseline => Some("in the baseline"),
            Self::DependsOnMachine => Some("depends on the machine"),
            Self::InFewRuns => Some("in at most half of the runs"),
        }
    }
}
