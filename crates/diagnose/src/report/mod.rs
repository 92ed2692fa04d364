//! The contract `whylat.report/1`: what a diagnosis says, in the form that it is printed as
//! JSON (`docs/report.schema.json`) and drawn as text. An absent or null value means "not
//! measured", never zero.

pub mod connection;
mod containers;
mod doubt;
pub mod finding;
mod report_answer;
mod rule_id;
pub mod severity;
pub mod slow;
pub mod snap;
mod unseen;

use serde::Serialize;
use table::manifest::SocketKind;

use crate::drops::DropReport;
use crate::imports::ImportedTrace;
use crate::requests::{RequestFindings, RequestReport};
use crate::units::count;

pub use crate::answer::{
    About, CloseState, OmittedRows, ProbeLoss, Process, RecordingHost, RecordingState,
};
pub use connection::{Connection, Receive, StageShare, Stages};
pub use containers::{ContainerProcesses, PodWorkload};
pub use doubt::RuleDoubt;
pub(crate) use finding::PROGRAM_TIME;
pub use finding::{
    Advice, Confidence, ConfidenceLevel, DataDirection, EstimatedWin, Fact, FactMerge, FactUnit,
    FactValue, Finding, FindingSubject, RuledOut, SubjectRequests, UndecidedFinding,
};
pub use report_answer::ReportAnswer;
pub use rule_id::RuleId;
pub(crate) use rule_id::{for_each_request_rule, for_each_rule};
pub use severity::Severity;
pub use slow::{SlowCause, SlowMessages};
pub use snap::{FlagShares, SnapTable4, Table4Row};
pub use unseen::{has_other_sockets, why_unseen};

/// Name and version of the contract.
pub const SCHEMA: &str = "whylat.report/1";

/// A whole diagnosis.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Of what recording.
    #[serde(flatten)]
    pub about: About,
    /// Sockets that recorded processes had, by kind. Absent: nobody counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sockets: Vec<SocketKind>,
    /// Why there may be no connection. Absent: there are connections, or nobody counted sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_unseen: Option<String>,
    /// Containers in which recorded processes ran. Absent: in none that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerProcesses>,
    /// Every connection, the one with the most harm first.
    pub connections: Vec<Connection>,
    /// Connections that are not judged, because there are too many: those seen for the shortest time. Absent: all are.
    #[serde(skip_serializing_if = "is_zero")]
    pub connections_not_judged: u64,
    /// Judged connections that are not listed, because the answer would be too large: those with the least harm.
    /// Absent: all are.
    #[serde(skip_serializing_if = "is_zero")]
    pub connections_not_listed: u64,
    /// SNAP's Table 4 of these connections.
    pub snap_table4: SnapTable4,
    /// Findings, worst first.
    pub findings: Vec<Finding>,
    /// Problems with a cause that the recording does not show, worst first.
    pub undecided: Vec<UndecidedFinding>,
    /// Why slow messages were slow, the largest sum of delays first; `None`: what CPUs did was not recorded, or
    /// there are too many messages to be judged in passing.
    pub slow_messages: Option<Vec<SlowMessages>>,
    /// A trace that was imported, of a recording that holds nothing else. Absent: it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportedTrace>,
    /// Requests, without a list of them: the contract `whylat.requests/1` has these. `None`: they were not searched for.
    #[serde(skip)]
    pub requests: Option<RequestReport>,
    /// Drops and resets, without a list of them: the contract `whylat.drops/1` has these. `None`: there were none.
    #[serde(skip)]
    pub drops: Option<DropReport>,
}

impl Report {
    /// Adds what rules on requests found, and puts all findings in order, worst first.
    pub(crate) fn add_findings(&mut self, found: RequestFindings) {
        self.findings.extend(found.findings);
        self.undecided.extend(found.undecided);
        finding::keep_one_lack_of_cpu(&mut self.findings);
        finding::demote_lesser(&mut self.findings);
        finding::rank_findings(&mut self.findings, &mut self.undecided);
        finding::put_larger_first(&mut self.findings);
    }

    /// Keeps the first `most` connections, which have the most harm, and counts the others.
    pub fn list_connections(&mut self, most: usize) {
        let left = self.connections.len().saturating_sub(most);
        self.connections.truncate(most);
        self.connections_not_listed += left as u64;
    }

    /// Returns the sentence on connections that were not judged; `None` if all were.
    pub fn unjudged_text(&self) -> Option<String> {
        let left = self.connections_not_judged;
        let judged = self.connections.len() as u64 + self.connections_not_listed;
        (left > 0).then(|| {
            format!(
                "whylat judged the {} longest of {} connections. whylat report --max-connections N judges \
                    more; each takes 7 kB of memory.",
                count(judged),
                count(judged + left),
            )
        })
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}
