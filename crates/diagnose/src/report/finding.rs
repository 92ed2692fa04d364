//! Findings in the report: cause, connections, cost, evidence, what was ruled
//! out, what could not be seen, and what to do.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::RuleId;
use super::severity::{EXPLAINS_LEAST, LEAST_HARM_NS, Severity, WARNING_SHARE};
use crate::answer::Process;
use crate::answer::Side;

/// Direction of the data in a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DataDirection {
    /// The subject sends: from local to remote.
    Sending,
    /// The subject receives: from remote to local.
    Receiving,
}

/// Requests of a finding: of one service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SubjectRequests {
    /// Side of the connection on which the process is.
    pub role: Side,
    /// Address at which it listens, or that it asks.
    pub address: String,
    /// How many requests.
    pub requests: u64,
}

/// Connections of a finding: one, or many alike of one program.
#[derive(Debug, Clone, Serialize)]
pub struct FindingSubject {
    /// Owner of the sockets; `None` when not known.
    pub process: Option<Process>,
    /// Local address of the worst connection; without the port when there are many.
    pub local: String,
    /// Remote address of the worst connection.
    pub remote: String,
    /// Number of connections.
    pub connections: u64,
    /// Ids of the worst of them, at most sixteen.
    pub ids: Vec<u64>,
    /// Their lives together, ns; of a finding on requests, the time of these.
    pub lifetime_ns: u64,
    /// The requests that it is about. Absent: it is about connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requests: Option<SubjectRequests>,
}

impl FindingSubject {
    /// Returns whether its requests are of the process and the address of some connections.
    fn is_service_of(&self, connections: &Self) -> bool {
        let address = match self.requests.as_ref().map(|it| it.role) {
            Some(Side::Server) => &connections.local,
            Some(Side::Client) => &connections.remote,
            None => return false,
        };
        let is_process = match (&self.process, &connections.process) {
            (Some(own), Some(other)) => match own.pid.zip(other.pid) {
                Some((own, other)) => own == other,
                None => own.comm == other.comm,
            },
            _ => false,
        };
        let requests = self.requests.as_ref();
        is_process
            && connections.requests.is_none()
            && requests.is_some_and(|it| it.address == *address)
    }
}

/// One answer.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// Stable name of the rule, documented in `docs/findings/RULE.md`.
    pub rule: RuleId,
    /// How much it matters.
    pub severity: Severity,
    /// One sentence with the numbers that matter.
    pub headline: String,
    /// The first sentence of the report speaks of it. Absent: it does not.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_answer: bool,
    /// Affected connections.
    pub subject: FindingSubject,
    /// Direction of the data concerned.
    pub direction: DataDirection,
    /// From when it did harm, `CLOCK_MONOTONIC` ns, to a reading of the ledger.
    pub from_ns: u64,
    /// Until when.
    pub until_ns: u64,
    /// `harm_ns` as a share of the subject's life, at most 1; without harm, that of the stages concerned. Of connections that
    /// each lost less than 40 ms: as a share of the evidence `program_time_ns`, if that is longer.
    pub share: f64,
    /// Time that threads were blocked or data was late because of it, ns.
    pub harm_ns: u64,
    /// Threads, functions, stacks and connections that take part, in words. Absent: nothing is named.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub involved: Vec<String>,
    /// Ids of the threads that it is about: that serve, or that read the connections; empty: not known.
    #[serde(skip)]
    pub threads: BTreeSet<u32>,
    /// Numbers that show it.
    pub evidence: FactList,
    /// Other causes that the recording excludes, and why.
    pub ruled_out: Vec<RuledOut>,
    /// Facts that the recording cannot show.
    pub could_not_see: Vec<String>,
    /// Fixes, best first.
    pub advice: Vec<Advice>,
    /// Estimated effect; `None`: no estimate.
    pub estimated_win: Option<EstimatedWin>,
    /// How sure this is.
    pub confidence: Confidence,
}

/// A problem with a cause that the recording does not show.
#[derive(Debug, Clone, Serialize)]
pub struct UndecidedFinding {
    /// Rules that may apply.
    pub candidates: Vec<RuleId>,
    /// One sentence with the numbers that matter.
    pub headline: String,
    /// Affected connections.
    pub subject: FindingSubject,
    /// Direction of the data concerned.
    pub direction: DataDirection,
    /// Share of the subject's life concerned.
    pub share: f64,
    /// Time that may have been lost, ns.
    pub possible_harm_ns: u64,
    /// Numbers that show it.
    pub evidence: FactList,
    /// Reason why the cause is unknown.
    pub why: String,
    /// Data that would decide it.
    pub would_help: Vec<String>,
}

fn is_false(is: &bool) -> bool {
    !is
}

/// Sorts findings and undecided findings, the worst first.
pub(crate) fn rank_findings(findings: &mut [Finding], undecided: &mut [UndecidedFinding]) {
    findings.sort_by_key(|finding| {
        std::cmp::Reverse((
            finding.severity,
            finding.harm_ns,
            finding.subject.lifetime_ns,
        ))
    });
    undecided.sort_by_key(|undecided| {
        std::cmp::Reverse((undecided.possible_harm_ns, undecided.subject.lifetime_ns))
    });
    put_stalls_first(findings);
}

/// Puts a thread that was blocked on a connection before the full buffer of that connection: others wait because of the
/// thread, whatever the buffer. Where a lack of threads explains the thread's finding, it takes that place.
fn put_stalls_first(findings: &mut [Finding]) {
    for stall in 0..findings.len() {
        let explaining = findings[stall].find_explaining(findings);
        let is_named = !findings[stall].is_note() || explaining.is_some();
        let other = findings[stall].blocking_connection();
        let Some(other) = other.filter(|_| is_named) else {
            continue;
        };
        let place = explaining.unwrap_or(stall);
        let is_its = |it: &Finding| it.is_of_buffer() && it.subject.ids.contains(&other);
        if let Some(first) = findings[..place].iter().position(is_its) {
            findings[first..=place].rotate_right(1);
        }
    }
}

/// Keeps one finding of a lack of CPU of a service: that on its requests, because their time counts once. If that on its
/// connections is more severe, their data is not all of requests, and it stays.
pub(crate) fn keep_one_lack_of_cpu(findings: &mut Vec<Finding>) {
    let is_kept: Vec<bool> = findings
        .iter()
        .map(|it| match it.rule {
            RuleId::CpuContention if it.subject.requests.is_some() => it.is_worst_of(findings),
            RuleId::CpuContention => !findings.iter().any(|other| {
                other.rule == it.rule
                    && other.subject.is_service_of(&it.subject)
                    && other.is_worst_of(findings)
            }),
            _ => true,
        })
        .collect();
    let mut is_kept = is_kept.into_iter();
    findings.retain(|_| is_kept.next().unwrap_or(true));
}

/// Lowers findings to information that say less of what another says of the same requests. Of a lack of CPU, that is any larger
/// cause. That the other end or computing takes their time is such a cause, too, even where it is no warning. Of data that
/// waited for a blocked thread, it is a lack of the same threads.
pub(crate) fn demote_lesser(findings: &mut [Finding]) {
    for place in 0..findings.len() {
        let lesser = &findings[place];
        let is_demoted = match lesser.rule {
            RuleId::CpuContention if lesser.share < EXPLAINS_LEAST => {
                findings.iter().any(|it| it.is_larger_than(lesser))
            }
            RuleId::ProxyStall => findings.iter().any(|it| it.explains_stall(lesser)),
            _ => false,
        };
        if is_demoted {
            findings[place].severity = Severity::Info;
        }
    }
}

/// Puts a lack of CPU behind larger causes of requests of the process that have the same severity: its harm is a sum over
/// connections, that of requests is counted once. A slow reader goes behind what keeps it from reading.
pub(crate) fn put_larger_first(findings: &mut [Finding]) {
    for place in 0..findings.len() {
        let severity = findings[place].severity;
        let is_larger = |it: &Finding| {
            it.severity == severity && !it.is_note() && it.is_larger_than(&findings[place])
        };
        if let Some(last) = findings
            .iter()
            .rposition(is_larger)
            .filter(|it| *it > place)
        {
            findings[place..=last].rotate_left(1);
        }
    }
}

impl Finding {
    /// Returns whether none of the same rule on the connections of its service is more severe.
    fn is_worst_of(&self, findings: &[Self]) -> bool {
        let mut same = findings
            .iter()
            .filter(|it| it.rule == self.rule && self.subject.is_service_of(&it.subject));
        same.all(|it| it.severity <= self.severity)
    }

    /// Returns whether it is a cause of requests that is larger than `other`, a lack of CPU of the same process or of the
    /// one that serves them; or most of what makes it a slow reader.
    fn is_larger_than(&self, other: &Self) -> bool {
        let pid = |it: &Self| it.subject.process.as_ref().and_then(|it| it.pid);
        let requests = self.subject.requests.as_ref();
        let is_process = pid(self).is_some() && pid(self) == pid(other);
        let is_larger = match other.rule {
            RuleId::CpuContention => self.share > other.share,
            RuleId::SlowReader => self.rule != RuleId::RemoteSlow && 2.0 * self.share > other.share,
            _ => false,
        };
        is_larger && requests.is_some_and(|it| is_process || it.address == other.subject.local)
    }

    /// Returns whether requests waited for a thread of their service, at least as long as their data waited for a blocked one, and
    /// all threads that were blocked are among those that were busy, at the same time.
    fn explains_stall(&self, stall: &Self) -> bool {
        let is_same = self.subject.is_service_of(&stall.subject);
        let is_larger = self.harm_ns >= stall.harm_ns;
        let has_threads = !stall.threads.is_empty() && stall.threads.is_subset(&self.threads);
        let overlaps = self.from_ns < stall.until_ns && stall.from_ns < self.until_ns;
        let is_busy = self.rule == RuleId::BusyWorkers && !self.is_note();
        is_busy && is_same && is_larger && has_threads && overlaps
    }

    /// Returns the place of the finding that explains a stall, which is information only because of it.
    fn find_explaining(&self, findings: &[Self]) -> Option<usize> {
        let is_large = self.harm_ns >= LEAST_HARM_NS && self.share > WARNING_SHARE;
        let is_demoted = self.rule == RuleId::ProxyStall && self.is_note() && is_large;
        let mut findings = findings.iter();
        findings.position(|it| is_demoted && it.explains_stall(self))
    }

    /// Returns the connection on which a thread was blocked while data of others waited.
    fn blocking_connection(&self) -> Option<u64> {
        if self.rule != RuleId::ProxyStall {
            return None;
        }
        let mut facts = self.evidence.0.iter();
        let other = facts.find(|fact| fact.name == "other_connection")?;
        match other.value {
            FactValue::Whole(id) => Some(id),
            _ => None,
        }
    }

    /// Returns whether the finding is on a full buffer at one of the ends.
    fn is_of_buffer(&self) -> bool {
        matches!(
            self.rule,
            RuleId::SendBufferLimited | RuleId::ReceiveBufferLimited | RuleId::SlowReader
        )
    }

    /// Returns whether the finding is information only, not a problem.
    pub fn is_note(&self) -> bool {
        self.severity == Severity::Info
    }
}

impl UndecidedFinding {
    /// Returns the names of the rules that may apply, with `separator` between them.
    pub fn join_candidates(&self, separator: &str) -> String {
        let names: Vec<_> = self.candidates.iter().map(|rule| rule.name()).collect();
        names.join(separator)
    }

    /// Returns the rules that may apply in short: one or two by name, more by their number.
    pub fn candidates_title(&self) -> String {
        match self.candidates.len() {
            0..=2 => self.join_candidates(" or "),
            number => format!("one of {number} rules"),
        }
    }

    /// Returns whether the undecided harm is too small for a warning.
    pub fn is_minor(&self) -> bool {
        self.possible_harm_ns == 0 || self.share < WARNING_SHARE
    }
}

/// Evidence of a client that sleeps between its requests: the first sentence of a report without a problem says so, too.
pub(crate) const SLEPT_BETWEEN: &str = "slept_between_ns";

/// Fixes of a lack of CPU, on connections and on requests.
pub(crate) const CPU_FIXES: [&str; 3] = [
    "Find who uses the CPUs (`top`, `pidstat -u`), and move it: to another host, to other CPUs (cpuset, `taskset`), or to \
     another time.",
    "If it must run here: give it less CPU (nice, `cpu.weight` of its control group), or this program more. Check that \
     `cpu.max` does not throttle the program.",
    "Use more CPUs, or fewer runnable threads in the program: more threads than CPUs only wait for each other.",
];

/// Name of the fact that short stalls are weighed against.
pub(crate) const PROGRAM_TIME: &str = "program_time_ns";

/// Facts in order, printed as an object by name.
#[derive(Debug, Clone, Default)]
pub struct FactList(pub Vec<Fact>);

impl Serialize for FactList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for fact in &self.0 {
            map.serialize_entry(fact.name, fact)?;
        }
        map.end()
    }
}

/// One number of evidence.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Fact {
    /// Name, unique within a finding.
    #[serde(skip)]
    pub name: &'static str,
    /// The value.
    pub value: FactValue,
    /// Its unit.
    pub unit: FactUnit,
    /// Label that follows the number.
    pub label: &'static str,
    /// How the facts of many connections become one.
    #[serde(skip)]
    pub merge: FactMerge,
}

/// Value of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum FactValue {
    /// A whole number.
    Whole(u64),
    /// A share, a rate or a mean.
    Real(f64),
    /// Yes or no.
    Is(bool),
}

/// Unit of a fact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FactUnit {
    /// A number of things.
    Count,
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerS,
    /// Share of one.
    Share,
    /// A plain ratio.
    Ratio,
    /// Yes or no.
    Flag,
    /// Id of a connection: for scripts; the text names addresses.
    Id,
}

/// How the facts of many connections become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactMerge {
    /// Added up.
    Sum,
    /// The largest.
    Max,
    /// That of the worst connection.
    Worst,
}

/// A cause that was excluded.
#[derive(Debug, Clone, Serialize)]
pub struct RuledOut {
    /// The cause.
    pub cause: &'static str,
    /// Why it is not that, with a number.
    pub because: String,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Advice(pub Cow<'static, str>);

/// Estimated effect of a fix.
#[derive(Debug, Clone, Serialize)]
pub struct EstimatedWin {
    /// How many times faster the same work may become.
    pub times_faster: f64,
    /// Whether that is only the least: what would be left is within the bound of what was measured,
    /// or windows that nothing has let grow may grow.
    pub at_least: bool,
    /// Whether that is the most: other work may take the place of what is saved. Absent: it is not.
    #[serde(skip_serializing_if = "is_false")]
    pub at_most: bool,
    /// Assumption of the estimate.
    pub assumes: &'static str,
}

/// How sure a finding is.
#[derive(Debug, Clone, Serialize)]
pub struct Confidence {
    /// Level.
    pub level: ConfidenceLevel,
    /// Why.
    pub because: String,
}

/// Level of confidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ConfidenceLevel {
    /// Measured directly, nothing lost.
    High,
    /// Measured in part, inferred in part, or with losses.
    Medium,
    /// Few samples, or only one sign of it.
    Low,
}

impl ConfidenceLevel {
    /// Returns the level's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Medium => "medium",
            Self::Low => "low",
        }
    }
}
