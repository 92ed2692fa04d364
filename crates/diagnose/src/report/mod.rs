//! The contract `whylat.report/1`: what a diagnosis says, in the form that it is printed as
//! JSON (`docs/report.schema.json`) and drawn as text. An absent or null value means "not
//! measured", never zero.

mod about;
pub mod connection;
pub mod finding;
mod rule_id;
pub(crate) mod severity;
pub mod slow;
pub mod snap;
mod unseen;

use serde::Serialize;
use table::manifest::{Close, Header, SocketKind};

use crate::units::count;

pub use about::{About, LeftOut, Recorded};
pub use connection::{Connection, Process, Receive, StageShare, Stages};
pub use finding::{
    Advice, Confidence, Direction, Fact, Finding, Level, Merge, RuledOut, Severity, Subject,
    Undecided, Unit, Value, Win,
};
pub use rule_id::RuleId;
pub(crate) use rule_id::for_each_rule;
pub use slow::{SlowCause, SlowMessages};
pub use snap::{Flags, SnapTable4, Table4Row};
pub use unseen::why_unseen;

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
    /// What was found, worst first.
    pub findings: Vec<Finding>,
    /// What holds connections up but cannot be told apart from this recording, worst first.
    pub undecided: Vec<Undecided>,
    /// Why slow messages were slow, the largest sum of delays first; `None`: what CPUs did was not recorded, or
    /// there are too many messages to be judged in passing.
    pub slow_messages: Option<Vec<SlowMessages>>,
}

impl Report {
    /// Lists so many connections: those with the most harm.
    pub fn list(&mut self, most: usize) {
        let left = self.connections.len().saturating_sub(most);
        self.connections.truncate(most);
        self.connections_not_listed += left as u64;
    }

    /// Says that connections are not judged, if any are not.
    pub fn not_judged(&self) -> Option<String> {
        let left = self.connections_not_judged;
        let judged = self.connections.len() as u64 + self.connections_not_listed;
        (left > 0).then(|| {
            format!(
                "Of {} connections the {} seen for longest are judged: whylat report --max-connections N judges \
                 more, at 7 kB of memory each.",
                count(judged + left),
                count(judged),
            )
        })
    }
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Where and how a recording was made.
#[derive(Debug, Clone, Serialize)]
pub struct Host {
    /// Host name.
    pub name: String,
    /// Kernel's boot id: connection ids are unique within it.
    pub boot_id: String,
    /// Kernel release and version.
    pub kernel: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Kernel clock source.
    pub clocksource: String,
    /// Detail level.
    pub detail: String,
    /// Version of whylat that recorded.
    pub whylat: String,
    /// Command line that made the recording.
    pub arguments: Vec<String>,
    /// `CLOCK_REALTIME` at the start, ns.
    pub started_realtime_ns: u64,
    /// When the recording started, `CLOCK_MONOTONIC` ns.
    pub started_ns: u64,
}

impl Host {
    /// What the manifest's first line says.
    pub(crate) fn of(header: &Header) -> Self {
        Self {
            name: header.host.clone(),
            boot_id: header.boot_id.clone(),
            kernel: header.kernel.clone(),
            cpus: header.cpus,
            clocksource: header.clocksource.clone(),
            detail: header.detail.clone(),
            whylat: header.whylat.clone(),
            arguments: header.arguments.clone(),
            started_realtime_ns: header.started_realtime_ns,
            started_ns: header.started_ns,
        }
    }
}

/// How a recording ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Closed {
    /// The recorder closed it.
    InOrder,
    /// `whylat recover` closed it after a crash.
    Recovered,
    /// It was never closed: the end of the recording is missing.
    NotClosed,
}

impl Closed {
    /// What the manifest's last line says; `None`: there is no such line.
    pub(crate) fn of(close: Option<&Close>) -> Self {
        match close {
            Some(close) if close.in_order => Self::InOrder,
            Some(_) => Self::Recovered,
            None => Self::NotClosed,
        }
    }
}

/// Totals of one probe: `produced = stored + filtered + Σ lost + residual`.
#[derive(Debug, Clone, Serialize)]
pub struct Loss {
    /// The probe's own totals.
    #[serde(flatten)]
    pub totals: table::manifest::Loss,
    /// Σ of `lost`.
    pub lost_total: u64,
    /// What the totals leave unexplained; anything but zero is a fault of the recorder.
    pub residual: i64,
}

impl From<table::manifest::Loss> for Loss {
    fn from(totals: table::manifest::Loss) -> Self {
        let residual = totals.residual();
        let lost_total = totals.lost_total();
        let clamped = if residual < 0 { i64::MIN } else { i64::MAX };
        Self {
            totals,
            lost_total,
            residual: i64::try_from(residual).unwrap_or(clamped),
        }
    }
}
