//! One connection in the report: who, how long, which stage for how much of it.

use serde::ser::{Serialize, SerializeMap, Serializer};
use table::{Chosen, Method, Role, Stage};

use super::RuleId;
use super::snap::FlagShares;
use crate::answer::Process;
use crate::answer::decimals::{maybe_nine_decimals, nine_decimals};

/// One socket of a TCP connection. `stages` speak of what it sends, `receive` of what it
/// receives.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Connection {
    /// Socket cookie, unique within the host's boot id.
    pub id: u64,
    /// Local address and port.
    pub local: String,
    /// Remote address and port.
    pub remote: String,
    /// Owner; `None` when not known.
    pub process: Option<Process>,
    /// Side that opened it.
    pub role: Role,
    /// The other end, when it is on this host and recorded.
    pub peer: Option<u64>,
    /// Why it is recorded.
    pub chosen: Chosen,
    /// When it was opened, `CLOCK_MONOTONIC` ns; `None`: before the recording.
    pub opened_ns: Option<u64>,
    /// When it was closed, `CLOCK_MONOTONIC` ns; `None`: still open when last seen.
    pub closed_ns: Option<u64>,
    /// Judged time of its duration, ns.
    pub lifetime_ns: u64,
    /// Whether it sent no data: then it has no sending stages.
    pub sent_nothing: bool,
    /// Why the sending stages could not be judged; `None` when they were, or nothing was sent.
    pub not_judged: Option<String>,
    /// Share of the judged time in each stage. Exclusive; the shares add up to one. A stage
    /// that the method does not show is not listed.
    pub stages: Stages,
    /// Causes of a full congestion window; `None` without the ledger.
    pub congestion_window_ns: Option<CongestionCauses>,
    /// The receiving side; `None` when it was not measured or nothing was received.
    pub receive: Option<Receive>,
    /// SNAP's flags.
    pub flags: FlagShares,
    /// Totals over the judged time.
    pub totals: Totals,
    /// TCP's settings and readings.
    pub tcp: Tcp,
    /// The MPTCP connection of a subflow. Absent: it is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mptcp: Option<Mptcp>,
    /// Time lost to findings, ns.
    pub harm_ns: u64,
    /// Rules of the findings on it.
    pub findings: Vec<RuleId>,
}

/// Share of a connection's judged time.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct StageShare {
    /// Share of the judged time, 0–1.
    #[serde(serialize_with = "nine_decimals")]
    pub share: f64,
    /// The same as time, ns.
    pub ns: u64,
    /// How it was found.
    pub method: Method,
    /// Half-width of the 95 % interval around `share`.
    #[serde(serialize_with = "nine_decimals")]
    pub bound: f64,
}

/// The sending stages by name.
#[derive(Debug, Clone, Default)]
pub struct Stages([Option<StageShare>; Stage::ALL.len()]);

impl Stages {
    /// Sets the share of a stage.
    pub fn set(&mut self, stage: Stage, share: StageShare) {
        self.0[stage as usize] = Some(share);
    }

    /// Returns the share of a stage; `None` if it was not measured.
    pub fn get(&self, stage: Stage) -> Option<&StageShare> {
        self.0[stage as usize].as_ref()
    }

    /// Returns the time in a stage, ns; 0 also if it was not measured.
    pub fn stage_ns(&self, stage: Stage) -> u64 {
        self.get(stage).map_or(0, |share| share.ns)
    }

    /// The measured stages in order of decision.
    pub fn iter(&self) -> impl Iterator<Item = (Stage, &StageShare)> {
        let stages = Stage::ALL.iter().copied().zip(&self.0);
        stages.filter_map(|(stage, share)| Some((stage, share.as_ref()?)))
    }

    /// Returns whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }
}

impl Serialize for Stages {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for (stage, share) in self.iter() {
            map.serialize_entry(stage.name(), share)?;
        }
        map.end()
    }
}

/// Why the congestion window limited the rate.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct CongestionCauses {
    /// Before the window was first reduced, ns.
    pub startup: u64,
    /// From a reduction by loss until the earlier value is regained, ns.
    pub loss: u64,
    /// Reduced by congestion marks or local drops, ns.
    pub cwr: u64,
    /// Otherwise: probing for more, ns.
    pub probing: u64,
}

impl Connection {
    /// Returns whether no stage is known for most (more than half) of the judged time.
    pub fn is_mostly_unknown(&self) -> bool {
        let unknown = self.stages.get(Stage::Unknown);
        unknown.is_some_and(|unknown| unknown.share > 0.5)
    }
}

/// The receiving side. `window_closed` lies mostly within `reader_slow`, so the three do not
/// add up to one.
#[derive(Debug, Clone, Copy, serde::Serialize)]
pub struct Receive {
    /// Bytes were ready and no thread was in a receive call for them.
    pub reader_slow: StageShare,
    /// The window announced to the peer was closed; `None`: polls do not show it.
    pub window_closed: Option<StageShare>,
    /// Nothing was there to be read.
    pub waiting_for_peer: StageShare,
}

/// Totals of a connection over the judged time.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Totals {
    /// Bytes given to TCP by the application, or sent where calls are not recorded.
    pub bytes_sent: Option<u64>,
    /// Bytes received.
    pub bytes_received: Option<u64>,
    /// Send calls that moved data.
    pub send_calls: Option<u64>,
    /// Receive calls that moved data.
    pub receive_calls: Option<u64>,
    /// Time blocked in send calls, ns.
    pub send_blocked_ns: Option<u64>,
    /// Time blocked in receive calls, ns.
    pub receive_blocked_ns: Option<u64>,
    /// Retransmitted segments.
    pub retransmits: Option<u64>,
    /// Retransmission timeouts.
    pub timeouts: Option<u64>,
    /// Tail-loss probes.
    pub tail_loss_probes: Option<u64>,
    /// Segments that the receiver already had.
    pub spurious: Option<u64>,
    /// Times that the peer's window went to zero.
    pub zero_windows: Option<u64>,
    /// Times that Nagle's algorithm held a segment.
    pub nagle_holds: Option<u64>,
    /// Waits that the receiver's delayed-ACK timer ended.
    pub delayed_acks: Option<u64>,
    /// Data segments acknowledged by the receiver's delayed-ACK timer, whether or not anyone waited
    /// for it; `None` also for a peer: not every ACK of it is seen.
    pub acks_by_timer: Option<u64>,
    /// The same as a share of all data segments.
    #[serde(serialize_with = "maybe_nine_decimals")]
    pub delayed_ack_share: Option<f64>,
    /// The share that SNAP's method estimates from sums of round-trip times.
    #[serde(serialize_with = "maybe_nine_decimals")]
    pub snap_delayed_ack_share: Option<f64>,
    /// Longest hold of Nagle's algorithm, ns.
    pub longest_hold_ns: Option<u64>,
}

/// The MPTCP connection of a subflow. Calls on the MPTCP socket are counted to its first subflow.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Mptcp {
    /// Token at this end, as `ss -M` shows it: hexadecimal.
    pub token: String,
    /// Its subflows that were recorded at this end.
    pub subflows: u64,
}

/// TCP's settings and last readings of a connection.
#[derive(Debug, Clone, Default, serde::Serialize)]
pub struct Tcp {
    /// Congestion control algorithm.
    pub congestion: Option<String>,
    /// Whether TCP_NODELAY is set.
    pub nodelay: Option<bool>,
    /// Sending maximum segment size, bytes.
    pub mss_bytes: Option<u32>,
    /// Congestion window, segments.
    pub cwnd: Option<u32>,
    /// Window announced by the peer, bytes.
    pub snd_wnd_bytes: Option<u32>,
    /// Send buffer limit, bytes.
    pub sndbuf_bytes: Option<u32>,
    /// Whether the application set it.
    pub sndbuf_locked: Option<bool>,
    /// Receive buffer limit, bytes.
    pub rcvbuf_bytes: Option<u32>,
    /// Whether the application set it.
    pub rcvbuf_locked: Option<bool>,
    /// Protocol above TCP in the kernel: `mptcp`, `tls`, …. Absent: none, or not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ulp: Option<String>,
    /// Least round-trip time, µs.
    pub min_rtt_us: Option<u32>,
    /// Smoothed round-trip time, µs.
    pub srtt_us: Option<u32>,
}
