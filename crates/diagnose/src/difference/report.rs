//! The contract `whylat.diff/1`: changes from one recording to another. A null means "not there", never zero.

use serde::Serialize;
use table::WaitObject;

use crate::answer::About;
use crate::answer::decimals::nine_decimals;
use crate::report::{RuleId, Severity};
use crate::requests::report::DurationSpread;
use crate::requests::{PartTimes, RequestPart, Side};

/// Name and version of the contract.
pub const SCHEMA: &str = "whylat.diff/1";

/// Two recordings side by side.
#[derive(Debug, Clone, Serialize)]
pub struct DiffReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The first recording.
    pub before: DiffSide,
    /// The second.
    pub after: DiffSide,
    /// Services, those with the most time first.
    pub services: Vec<ServiceChange>,
    /// Findings, new ones first, then those that are gone, then those of both.
    pub findings: Vec<FindingChange>,
    /// Stages of connections, the largest change first.
    pub stages: Vec<StageChange>,
    /// Waits by process and kind of object, the largest change first.
    pub waits: Vec<WaitChange>,
    /// Counters by program and name; absent: neither has one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<CounterChange>,
}

impl DiffReport {
    /// Returns whether both recordings were closed in order, are undamaged, and lost nothing.
    pub fn is_complete(&self) -> bool {
        self.before.about.is_complete() && self.after.about.is_complete()
    }
}

/// One of the recordings.
#[derive(Debug, Clone, Serialize)]
pub struct DiffSide {
    /// Of what recording.
    #[serde(flatten)]
    pub about: About,
    /// How many requests; `None`: it holds no calls.
    pub requests: Option<u64>,
    /// How many connections.
    pub connections: u64,
}

/// A service in both recordings, or in one.
#[derive(Debug, Clone, Serialize)]
pub struct ServiceChange {
    /// Command name of the process.
    pub name: String,
    /// Side of the connection on which the process is.
    pub role: Side,
    /// Address at which it listens, or that it asks.
    pub address: String,
    /// Its requests in the first recording; `None`: there were none.
    pub before: Option<ServiceNumbers>,
    /// Its requests in the second.
    pub after: Option<ServiceNumbers>,
    /// The part with the largest change of its mean time, in the direction of the whole request.
    pub change: Option<PartChange>,
}

/// Requests of a service in one recording.
#[derive(Debug, Clone, Serialize)]
pub struct ServiceNumbers {
    /// How many requests.
    pub requests: u64,
    /// How long they took.
    pub duration_ns: DurationSpread,
    /// Mean time of each part of a request, ns.
    pub mean_ns: PartTimes,
}

/// Mean times of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PartChange {
    /// The part.
    pub part: RequestPart,
    /// Mean time of a request before, ns.
    pub before_ns: u64,
    /// And after.
    pub after_ns: u64,
}

/// Where a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FindingState {
    /// In the second recording only.
    New,
    /// In the first only.
    Gone,
    /// In both.
    Both,
}

impl FindingState {
    /// Returns the state's name: `new`, `gone` or `both`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Gone => "gone",
            Self::Both => "both",
        }
    }
}

/// Findings of one rule on one program.
#[derive(Debug, Clone, Serialize)]
pub struct FindingChange {
    /// Where it is.
    pub state: FindingState,
    /// The rule.
    pub rule: RuleId,
    /// Command name of the process; `None`: not known.
    pub process: Option<String>,
    /// The worst of them in the first recording.
    pub before: Option<FindingNumbers>,
    /// The worst of them in the second.
    pub after: Option<FindingNumbers>,
}

/// The worst finding of a rule on a program in one recording.
#[derive(Debug, Clone, Serialize)]
pub struct FindingNumbers {
    /// How much it matters.
    pub severity: Severity,
    /// One sentence with the numbers that matter.
    pub headline: String,
    /// Time lost, of all of them, ns.
    pub harm_ns: u64,
    /// How many findings.
    pub findings: u64,
}

/// A stage of all connections together.
#[derive(Debug, Clone, Serialize)]
pub struct StageChange {
    /// The stage.
    pub stage: &'static str,
    /// Its time in the first recording; `None`: no connection was judged.
    pub before: Option<StageSum>,
    /// Its time in the second.
    pub after: Option<StageSum>,
}

/// Time in a stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct StageSum {
    /// Of all connections, ns.
    pub ns: u64,
    /// The same as a share of their judged time, 0–1.
    #[serde(serialize_with = "nine_decimals")]
    pub share: f64,
}

/// Waits of a program for one kind of object.
#[derive(Debug, Clone, Serialize)]
pub struct WaitChange {
    /// Command name of the process; `None`: not known, or of several.
    pub process: Option<String>,
    /// Kind of object; `None`: of the objects beyond those that are named.
    pub kind: Option<WaitObject>,
    /// In the first recording; `None`: there were none.
    pub before: Option<WaitSum>,
    /// In the second.
    pub after: Option<WaitSum>,
}

/// Waits of one recording.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct WaitSum {
    /// How many.
    pub count: u64,
    /// Time blocked, ns.
    pub blocked_ns: u64,
}

/// A counter of a program.
#[derive(Debug, Clone, Serialize)]
pub struct CounterChange {
    /// Command name of the process; `None`: not known.
    pub process: Option<String>,
    /// Its domain and name.
    pub name: String,
    /// Unit of its values, in the program's words.
    pub unit: Option<String>,
    /// In the first recording; `None`: it has no value there.
    pub before: Option<CounterNumbers>,
    /// In the second.
    pub after: Option<CounterNumbers>,
}

/// Values of a counter in one recording.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct CounterNumbers {
    /// Number of values, or of changes.
    pub values: u64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
    /// Last value; of several processes, of the one named last.
    pub last: f64,
}

impl CounterNumbers {
    /// Adds the values of another process.
    pub(super) fn add(&mut self, other: Self) {
        self.values += other.values;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.last = other.last;
    }
}
