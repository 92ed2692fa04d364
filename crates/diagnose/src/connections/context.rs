//! Coverage of the recording as a whole.

use table::manifest::ProbeState;
use table::tables::Connection;

use crate::connections::gather::Evidence;
use crate::connections::gather::samples::SYN_BYTES;
use crate::connections::snap::delayed_acks::SnapSettings;
use crate::connections::stages::StageInputs;
use crate::report::severity::held_up;
use crate::rows::addresses::is_at;
use crate::rows::serving::ServedAddresses;

/// Coverage of the recording as a whole.
#[derive(Debug)]
pub struct RecordingContext {
    /// Inputs of the stages.
    pub given: StageInputs,
    /// Settings of SNAP's method.
    pub snap: SnapSettings,
    /// Detail level of the recording.
    pub detail: String,
    /// Whether the calls of the chosen sockets were logged.
    pub calls: bool,
    /// Whether the waits of threads were recorded, without gaps.
    pub waits: bool,
    /// Whether events were recorded.
    pub events: bool,
    /// Whether the use of the CPUs was to be recorded, with or without success.
    pub cpu: bool,
    /// Whether samples of what threads run were to be taken, and were not.
    pub no_samples: bool,
    /// Records lost, by probe, where any were.
    pub lost: Vec<(String, u64)>,
    /// Connections that are not judged, because there are too many.
    pub not_judged: u64,
    /// Hooks that were off, with their remedy.
    pub off: Vec<(String, String)>,
    /// Send buffers of all senders.
    pub send_buffers: SendBufferTotals,
    /// Packets of recorded sockets that this host dropped and that are no rows.
    pub drops_unstored: u64,
    /// Addresses that serve.
    pub served: ServedAddresses,
    /// Listening sockets with a full accept queue that cost enough for a warning.
    pub full_listeners: Vec<FullListener>,
}

/// A recorded listening socket with a full accept queue: the rule `listen_overflow` has a finding above `info`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FullListener {
    netns: u32,
    local: String,
    /// From when to when packets found it full, between two readings, ns.
    within_ns: (u64, u64),
}

impl FullListener {
    /// Returns whether a client's connection was meant for this listening socket. Namespaces of
    /// both ends may differ, so that a socket on all addresses is found in its own only.
    fn listens_at(&self, client: &Connection) -> bool {
        let is_inside = self.netns == client.netns && is_at(&client.remote, &self.local);
        is_inside || self.local == client.remote
    }
}

/// Send buffers and congestion windows of all connections that sent, last seen.
#[derive(Debug, Default)]
pub struct SendBufferTotals {
    /// How many they are.
    pub connections: u64,
    /// Σ of the limits of their buffers.
    pub buffer_bytes: u64,
    /// Σ of their congestion windows.
    pub cwnd_bytes: u64,
}

impl SendBufferTotals {
    /// Sums send buffers and congestion windows over connections that sent data.
    fn from_evidence(evidence: &Evidence) -> Self {
        let mut all = Self::default();
        for conn in evidence.connections.conns() {
            let gathered = evidence.connections.get(conn);
            let last = gathered.and_then(|gathered| gathered.samples.last.as_ref());
            let Some(last) = last.filter(|last| last.bytes_acked > SYN_BYTES) else {
                continue;
            };
            let Some(buffer_bytes) = last.sndbuf_bytes else {
                continue;
            };
            all.connections += 1;
            all.buffer_bytes += u64::from(buffer_bytes);
            all.cwnd_bytes += u64::from(last.cwnd) * u64::from(last.mss_bytes);
        }
        all
    }
}

/// The probes of what programs say of themselves: no rule asks them, so that no finding is less sure
/// without them.
const PROGRAMS_WORDS: [&str; 2] = ["itt", "usdt"];

impl RecordingContext {
    /// Reads what all rules need to know of the recording: probes, clock tick, losses.
    pub fn new(evidence: &Evidence) -> Self {
        let on = |probe: &str| {
            evidence.coverage.iter().any(|coverage| {
                coverage.probe == probe && !matches!(coverage.state, ProbeState::Off { .. })
            })
        };
        let lost = evidence
            .loss
            .iter()
            .filter(|loss| loss.lost_total() > 0 && !PROGRAMS_WORDS.contains(&loss.probe.as_str()));
        let off = evidence
            .coverage
            .iter()
            .filter(|coverage| !PROGRAMS_WORDS.contains(&coverage.probe.as_str()))
            .filter_map(|coverage| match &coverage.state {
                ProbeState::Off { remedy, .. } => Some((coverage.probe.clone(), remedy.clone())),
                _ => None,
            });
        let jiffy_ns = evidence
            .header
            .jiffy_ns
            .unwrap_or(crate::kernel::LONGEST_JIFFY_NS);
        Self {
            given: StageInputs {
                jiffy_ns,
                span: evidence.span,
                is_capture: evidence.header.is_capture(),
            },
            snap: evidence.snap,
            detail: evidence.header.detail.clone(),
            calls: evidence.windows.is_none() && (!evidence.calls.is_empty() || on("calls")),
            waits: evidence.windows.is_none() && on("waits"),
            events: evidence.any_events || on("tcp_events"),
            cpu: evidence
                .coverage
                .iter()
                .any(|coverage| coverage.probe == "cpu"),
            no_samples: evidence.windows.is_some()
                || off.clone().any(|(probe, _)| probe == "on_cpu_samples"),
            lost: lost
                .map(|loss| (loss.probe.clone(), loss.lost_total()))
                .collect(),
            not_judged: evidence.count_unjudged(),
            off: off.collect(),
            send_buffers: SendBufferTotals::from_evidence(evidence),
            drops_unstored: evidence.drops.count_unstored(),
            served: served_addresses(evidence),
            full_listeners: full_listeners(evidence),
        }
    }

    /// Returns whether the recorded listener that a client connects to had a full accept queue in an interval, ns.
    pub fn is_listener_full(&self, client: &Connection, (from_ns, until_ns): (u64, u64)) -> bool {
        self.full_listeners.iter().any(|full| {
            let (since_ns, to_ns) = full.within_ns;
            full.listens_at(client) && since_ns <= until_ns && from_ns <= to_ns
        })
    }
}

/// Returns listening sockets with an accept queue that was full for long enough to matter.
fn full_listeners(evidence: &Evidence) -> Vec<FullListener> {
    let listeners = evidence.listeners.values();
    let full = listeners.filter_map(|it| {
        let (identity, digest) = (it.identity.as_ref()?, it.listener.as_ref()?);
        let is_full = held_up(digest.least_wait_ns(), digest.life_ns());
        let within_ns = digest.drops.within_ns.filter(|_| is_full)?;
        Some(FullListener {
            netns: identity.netns,
            local: identity.local.clone(),
            within_ns,
        })
    });
    full.collect()
}

/// Returns the addresses of all connections that serve.
fn served_addresses(evidence: &Evidence) -> ServedAddresses {
    let digests = evidence.connections.conns();
    let digests = digests.filter_map(|conn| evidence.connections.get(conn));
    let identities: Vec<&Connection> = digests.filter_map(|it| it.identity.as_ref()).collect();
    let listening = evidence.listeners.values();
    let listening = listening.filter_map(|it| Some(it.identity.as_ref()?.local.as_str()));
    ServedAddresses::new(identities.iter().copied(), listening)
}
