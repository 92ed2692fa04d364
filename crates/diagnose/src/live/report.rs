//! The contract `whylat.top/1`: what connections did in the last seconds, in the form that it is printed as JSON
//! (`docs/top.schema.json`) and drawn on a screen. A null means "not measured", never zero.

use std::collections::BTreeMap;

use serde::Serialize;
use table::manifest::{Cost, Coverage};
use table::{Role, Stage};

use super::waits::ProcessWaits;
use crate::report::{
    ContainerProcesses, Finding, Process, Receive, RuleId, Severity, Stages, UndecidedFinding,
};
use crate::requests::report::Service;
use crate::requests::{RequestPart, Side};

/// Name and version of the contract.
pub const SCHEMA: &str = "whylat.top/1";

/// The last seconds of a host.
#[derive(Debug, Clone, Serialize)]
pub struct LiveReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// How it was observed.
    pub about: AboutLive,
    /// All connections together.
    pub totals: LiveSums,
    /// Every open connection, and those that closed within the observed time.
    pub connections: Vec<LiveConnection>,
    /// Their processes.
    pub processes: Vec<LiveProcess>,
    /// Containers in which they run. Absent: in none that is known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub containers: Vec<ContainerProcesses>,
    /// Services with requests, those with the most time first; empty without calls (`--detail calls`).
    pub services: Vec<LiveService>,
    /// Findings, worst first.
    pub findings: Vec<Finding>,
    /// Problems without a clear cause, worst first.
    pub undecided: Vec<UndecidedFinding>,
}

/// Requests of a service in the last seconds.
#[derive(Debug, Clone, Serialize)]
pub struct LiveService {
    /// Command name of the process.
    pub name: String,
    /// Side of the connection on which the process is.
    pub role: Side,
    /// Address at which it listens, or that it asks.
    pub address: String,
    /// How many requests.
    pub requests: u64,
    /// Requests a second; `None`: no time has passed.
    pub requests_per_s: Option<f64>,
    /// Half of them took no longer, ns.
    pub p50_ns: u64,
    /// 99 % took no longer, ns.
    pub p99_ns: u64,
    /// The part with the most time.
    pub first_part: Option<RequestPart>,
    /// Its share of their time, 0–1.
    pub first_share: Option<f64>,
}

impl LiveService {
    /// Makes the live row of a service; `seconds` is the window's length.
    pub(super) fn new(service: Service, seconds: f64) -> Self {
        let first = service.parts.all.largest().next();
        Self {
            name: service.name,
            role: service.role,
            address: service.address,
            requests: service.requests,
            requests_per_s: (seconds > 0.0).then(|| service.requests as f64 / seconds),
            p50_ns: service.duration_ns.p50,
            p99_ns: service.duration_ns.p99,
            first_part: first.map(|(part, _)| part),
            first_share: first.map(|(_, share)| share),
        }
    }
}

/// How it was observed.
#[derive(Debug, Clone, Serialize)]
pub struct AboutLive {
    /// Host name.
    pub host: String,
    /// Kernel release and version.
    pub kernel: String,
    /// Version of whylat.
    pub whylat: String,
    /// Detail level.
    pub detail: String,
    /// When, `CLOCK_MONOTONIC` ns.
    pub now_ns: u64,
    /// When, `CLOCK_REALTIME` ns.
    pub realtime_ns: u64,
    /// Observed time, ns.
    pub window_ns: u64,
    /// Time until the next look, ns.
    pub interval_ns: u64,
    /// Mean time between polls, ns.
    pub poll_mean_ns: u64,
    /// Only the user's own connections, without privileges.
    pub only_own: bool,
    /// Only those that this option chooses; `None`: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter: Option<String>,
    /// State of each probe.
    pub coverage: Vec<Coverage>,
    /// Records lost, by probe and cause; probes that lost none are not listed.
    pub lost: BTreeMap<String, BTreeMap<String, u64>>,
    /// Σ of `lost`.
    pub lost_total: u64,
    /// Cost of the profiler so far; `None`: unknown.
    pub cost: Option<Cost>,
    /// Its CPU time since the look before, as a share of one CPU; `None`: the first look, or unknown.
    pub cpu_share: Option<f64>,
}

/// Sums over connections, of the observed time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct LiveSums {
    /// Connections.
    pub connections: u64,
    /// Those of them on which something happened.
    pub active: u64,
    /// Sent, bytes per second.
    pub out_bytes_per_s: f64,
    /// Received, bytes per second.
    pub in_bytes_per_s: f64,
    /// Retransmitted segments.
    pub retransmits: u64,
}

impl LiveSums {
    /// Adds a connection's bytes and retransmissions to the sums.
    pub(super) fn add(&mut self, connection: &LiveConnection) {
        self.connections += 1;
        self.active += u64::from(!connection.idle);
        self.out_bytes_per_s += connection.out_bytes_per_s.unwrap_or(0.0);
        self.in_bytes_per_s += connection.in_bytes_per_s.unwrap_or(0.0);
        self.retransmits += connection.retransmits.unwrap_or(0);
    }
}

/// The largest limit of a connection, or else its most frequent stage.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct MainHold {
    /// Side and stage.
    pub by: HoldReason,
    /// Share of the observed time, 0–1.
    pub share: f64,
}

/// A stage of a sending socket, or what a receiving one does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HoldReason {
    /// A stage of the sending side.
    Stage(Stage),
    /// Receives: bytes wait for the reader.
    ReaderSlow,
    /// Receives: nothing is there to be read.
    WaitingForPeer,
}

impl HoldReason {
    /// Returns the stable name of the reason.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stage(stage) => stage.name(),
            Self::ReaderSlow => "reader_slow",
            Self::WaitingForPeer => "waiting_for_peer",
        }
    }
}

impl Serialize for HoldReason {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One socket of a TCP connection in the observed time.
#[derive(Debug, Clone, Serialize)]
pub struct LiveConnection {
    /// Socket cookie, unique within the host's boot id.
    pub id: u64,
    /// Local address and port.
    pub local: String,
    /// Remote address and port.
    pub remote: String,
    /// Owner; `None`: not known.
    pub process: Option<Process>,
    /// Side that opened it.
    pub role: Role,
    /// The other end, when it is on this host and watched.
    pub peer: Option<u64>,
    /// Whether it closed.
    pub closed: bool,
    /// Whether nothing happened to it.
    pub idle: bool,
    /// Time that is judged, ns.
    pub judged_ns: u64,
    /// Largest limit; `None`: idle, or not judged.
    pub held: Option<MainHold>,
    /// Share of the time in stages with a fix: all but `sender_app`, `in_flight` and `unknown`; of a socket
    /// that only receives, in which bytes waited for its reader. `None`: idle, or not judged.
    pub limited_share: Option<f64>,
    /// The sending side; empty when nothing was sent or it could not be judged.
    pub stages: Stages,
    /// The receiving side; `None`: nothing was received, or not measured.
    pub receive: Option<Receive>,
    /// Why the sending side could not be judged.
    pub not_judged: Option<String>,
    /// Sent, bytes per second; `None`: not measured.
    pub out_bytes_per_s: Option<f64>,
    /// Received, bytes per second.
    pub in_bytes_per_s: Option<f64>,
    /// Smoothed round-trip time, µs.
    pub srtt_us: Option<u32>,
    /// Least round-trip time, µs.
    pub min_rtt_us: Option<u32>,
    /// Congestion window, segments.
    pub cwnd: Option<u32>,
    /// Window announced by the peer, bytes.
    pub snd_wnd_bytes: Option<u32>,
    /// Congestion control algorithm.
    pub congestion: Option<String>,
    /// Whether TCP_NODELAY is set.
    pub nodelay: Option<bool>,
    /// Retransmitted segments.
    pub retransmits: Option<u64>,
    /// Retransmission timeouts.
    pub timeouts: Option<u64>,
    /// Share of the time that threads were blocked in calls on it, and at detail `waits` in those for several
    /// descriptors that it ended: above one where several threads were. `None` below detail `calls`, and of peers.
    pub blocked_share: Option<f64>,
    /// By harm, of what was found on it.
    pub severity: Option<Severity>,
    /// Rules of the findings on it.
    pub findings: Vec<RuleId>,
}

/// The connections of one process.
#[derive(Debug, Clone, Serialize)]
pub struct LiveProcess {
    /// The process; `None`: connections without a known owner.
    pub process: Option<Process>,
    /// Sums.
    #[serde(flatten)]
    pub sums: LiveSums,
    /// Largest limit: shares of the time of those that sent.
    pub held: Option<MainHold>,
    /// As of a connection.
    pub limited_share: Option<f64>,
    /// Stages over the time of all of them.
    pub stages: Stages,
    /// The longest smoothed round-trip time, µs.
    pub srtt_us: Option<u32>,
    /// Σ of the connections'.
    pub blocked_share: Option<f64>,
    /// The worst of the connections'.
    pub severity: Option<Severity>,
    /// Findings on its connections.
    pub findings: u64,
    /// Waits of its threads; `None` below detail `waits`, or when none of its waits ended.
    pub waits: Option<ProcessWaits>,
}
