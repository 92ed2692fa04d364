//! One connection as a rule sees it: its digests, its stages, its other end, and what the
//! recording could see at all. Rules read; they keep nothing.

use table::manifest::ProbeState;
use table::tables::{Connection, TcpSample, TcpStage};
use table::{Method, Stage};

use crate::cpu::CpuSeen;
use crate::gather::calls::CallDigest;
use crate::gather::threads::Behind;
use crate::gather::{Evidence, Gathered};
use crate::neighbours::Neighbours;
use crate::report::{Direction, RuledOut};
use crate::severity::{WARNING_SHARE, held_up};
use crate::snap::delayed_acks::SnapSettings;
use crate::stages::{Given, Judged};
use crate::units::{count, duration, percent};

/// Polls that must agree before they are believed: five of five happen by chance in 3 % of
/// cases if each way is as likely, below the usual 5 %.
pub const LEAST_POLLS: u64 = 5;

/// What the recording as a whole could see.
#[derive(Debug)]
pub struct Context {
    /// What stages need.
    pub given: Given,
    /// What SNAP's method needs.
    pub snap: SnapSettings,
    /// Detail level of the recording.
    pub detail: String,
    /// Whether the calls of the chosen sockets were logged.
    pub calls: bool,
    /// Whether events were recorded.
    pub events: bool,
    /// Whether the use of the CPUs was to be recorded, with or without success.
    pub cpu: bool,
    /// Records lost, by probe, where any were.
    pub lost: Vec<(String, u64)>,
    /// Hooks that were off, with what mends them.
    pub off: Vec<(String, String)>,
    /// What all who send hold.
    pub send_buffers: SendBuffers,
}

/// Send buffers and congestion windows of all connections that sent, last seen.
#[derive(Debug, Default)]
pub struct SendBuffers {
    /// How many they are.
    pub connections: u64,
    /// Σ of the limits of their buffers.
    pub buffer_bytes: u64,
    /// Σ of their congestion windows.
    pub cwnd_bytes: u64,
}

impl SendBuffers {
    fn of(evidence: &Evidence) -> Self {
        let mut all = Self::default();
        for conn in evidence.connections.conns() {
            let gathered = evidence.connections.get(conn);
            let last = gathered.and_then(|gathered| gathered.samples.last.as_ref());
            let Some(last) = last.filter(|last| last.max_send_queue_bytes > 0) else {
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

impl Context {
    /// Reads it from the manifest and from what rows there are.
    pub fn new(evidence: &Evidence) -> Self {
        let on = |probe: &str| {
            evidence.coverage.iter().any(|coverage| {
                coverage.probe == probe && !matches!(coverage.state, ProbeState::Off { .. })
            })
        };
        let lost = evidence.loss.iter().filter(|loss| loss.lost_total() > 0);
        let off = evidence
            .coverage
            .iter()
            .filter_map(|coverage| match &coverage.state {
                ProbeState::Off { remedy, .. } => Some((coverage.probe.clone(), remedy.clone())),
                _ => None,
            });
        let jiffy_ns = evidence
            .header
            .jiffy_ns
            .unwrap_or(crate::stages::bound::LONGEST_JIFFY_NS);
        Self {
            given: Given {
                jiffy_ns,
                span: evidence.span,
            },
            snap: evidence.snap,
            detail: evidence.header.detail.clone(),
            calls: !evidence.calls.is_empty() || on("calls"),
            events: evidence.any_events || on("tcp_events"),
            cpu: evidence
                .coverage
                .iter()
                .any(|coverage| coverage.probe == "cpu"),
            lost: lost
                .map(|loss| (loss.probe.clone(), loss.lost_total()))
                .collect(),
            off: off.collect(),
            send_buffers: SendBuffers::of(evidence),
        }
    }
}

/// One connection, judged.
#[derive(Debug)]
pub struct Subject<'a> {
    /// Socket cookie.
    pub id: u64,
    /// Digests.
    pub gathered: &'a Gathered,
    /// Calls; `None` when they were not logged.
    pub calls: Option<CallDigest>,
    /// What its data waited for: calls on other connections, in which its reader was blocked.
    pub behind: &'a [Behind],
    /// What its process and its CPUs did.
    pub cpu: CpuSeen,
    /// Stages.
    pub judged: Judged,
    /// Command name of the owner.
    pub comm: Option<&'a str>,
}

impl Subject<'_> {
    /// Row of table `connections`, folded.
    pub fn identity(&self) -> Option<&Connection> {
        self.gathered.identity.as_ref()
    }

    /// When it was opened, if within the recording, ns.
    pub fn opened_ns(&self) -> Option<u64> {
        self.identity().and_then(|identity| identity.opened_ns)
    }

    /// Since when it is judged, ns.
    pub fn start_ns(&self) -> u64 {
        let ledger = self.judged.ledger.as_ref().map(|ledger| ledger.since_ns);
        let listener = self.gathered.listener.as_ref().map(|it| it.since_ns);
        let sample = self
            .gathered
            .samples
            .start(self.opened_ns())
            .map(|(_, ns)| ns);
        self.opened_ns()
            .or(ledger)
            .or(listener)
            .or(sample)
            .unwrap_or(0)
    }

    /// Growth of a counter of `tcp_info` over the judged time.
    pub fn growth(&self, counter: impl Fn(&TcpSample) -> Option<u64>) -> Option<u64> {
        self.gathered.samples.growth(self.opened_ns(), counter)
    }

    /// Last sample.
    pub fn last_sample(&self) -> Option<&TcpSample> {
        self.gathered.samples.last.as_ref()
    }
}

/// A connection with its other end and the recording around it.
#[derive(Debug)]
pub struct Case<'a> {
    /// The connection.
    pub own: &'a Subject<'a>,
    /// Its other end, when it is on this host and recorded.
    pub peer: Option<&'a Subject<'a>>,
    /// What the recording could see.
    pub context: &'a Context,
    /// Connections beside it.
    pub neighbours: &'a Neighbours<'a>,
    /// Rules that fired on it before this one, with the harm found, ns.
    pub earlier: Vec<(&'static str, u64)>,
    /// Whether an earlier rule could not tell.
    pub doubt: bool,
}

impl Case<'_> {
    /// Judged time, ns.
    pub fn life_ns(&self) -> u64 {
        self.own.judged.life_ns
    }

    /// From when to when these stages took time, `CLOCK_MONOTONIC` ns, to a reading of the ledger;
    /// without one, or without stages, its life.
    pub fn when(&self, stages: &[Stage]) -> (u64, u64) {
        let grew = self
            .ledger()
            .and(self.own.gathered.ledger.growth.of(stages));
        grew.unwrap_or_else(|| {
            let start_ns = self.own.start_ns();
            (start_ns, start_ns + self.life_ns())
        })
    }

    /// Time in a stage, ns.
    pub fn ns(&self, stage: Stage) -> u64 {
        self.own.judged.stages.ns(stage)
    }

    /// Share of a stage.
    pub fn share(&self, stage: Stage) -> f64 {
        self.own
            .judged
            .stages
            .get(stage)
            .map_or(0.0, |share| share.share)
    }

    /// How a stage was measured; `None` when it was not.
    pub fn method(&self, stage: Stage) -> Option<Method> {
        self.own.judged.stages.get(stage).map(|share| share.method)
    }

    /// The ledger, where there is one and something was sent.
    pub fn ledger(&self) -> Option<&TcpStage> {
        self.own
            .judged
            .ledger
            .as_ref()
            .filter(|_| !self.own.judged.sent_nothing)
    }

    /// Mean bytes of a send call.
    pub fn mean_send_bytes(&self) -> Option<f64> {
        self.own.calls.as_ref()?.send.mean_bytes()
    }

    /// The calls, if the time blocked in them is known for all.
    pub fn calls_with_blocking(&self) -> Option<&CallDigest> {
        let calls = self.own.calls.as_ref()?;
        (calls.send.unmeasured + calls.receive.unmeasured == 0).then_some(calls)
    }

    /// Share of the time that bytes waited for the other end's reader, by its ledger or else by
    /// polls, if there are enough.
    pub fn peer_reader_late(&self) -> Option<f64> {
        let peer = self.peer?;
        let slow = &peer.judged.receive.as_ref()?.reader_slow;
        let known = slow.method == Method::Ledger || peer.gathered.samples.polls >= LEAST_POLLS;
        known.then_some(slow.share)
    }

    /// Bytes per second delivered over the judged time.
    pub fn delivered_bytes_per_s(&self) -> Option<f64> {
        let samples = &self.own.gathered.samples;
        let (_, start_ns) = samples.start(self.own.opened_ns())?;
        let elapsed_ns = samples.last.as_ref()?.time_ns.checked_sub(start_ns)?;
        let bytes = self.own.growth(|sample| Some(sample.bytes_acked))?;
        (elapsed_ns > 0).then(|| bytes as f64 * 1e9 / elapsed_ns as f64)
    }

    /// Congestion window in bytes, last seen.
    pub fn cwnd_bytes(&self) -> Option<u64> {
        let last = self.own.last_sample()?;
        Some(u64::from(last.cwnd) * u64::from(last.mss_bytes))
    }

    /// Whether so many bytes in flight, at the flow's own best rate, are twice what the path holds
    /// or more, and round trips are twice the path's: half of them waits in a queue on the path,
    /// which is full, and more bytes would only wait longer. (Little's law: bytes = rate × round
    /// trip.) Below the kernel's initial window (TCP_INIT_CWND) a round trip may be long for want
    /// of a second segment to acknowledge.
    pub fn fills_path(&self, in_flight_bytes: u64) -> bool {
        const TCP_INIT_CWND: u64 = 10;
        let mean_rtt_us = self.mean_rtt_us().unwrap_or(0);
        let rtt_us = self.own.gathered.samples.min_rtt_us;
        let mss = self.own.last_sample().map(|last| u64::from(last.mss_bytes));
        let (Some(path_bytes), Some(rtt_us), Some(mss)) =
            (self.best_in_flight_bytes(), rtt_us, mss)
        else {
            return false;
        };
        in_flight_bytes >= TCP_INIT_CWND * mss
            && in_flight_bytes >= 2 * path_bytes
            && mean_rtt_us >= 2 * u64::from(rtt_us)
    }

    /// Most bytes that the flow had on the path at its own best rate: rate times least round trip.
    pub fn best_in_flight_bytes(&self) -> Option<u64> {
        let best = self.ledger()?.best_rate_bytes_per_s?;
        let rtt_us = self.own.gathered.samples.min_rtt_us?;
        u64::try_from(u128::from(best) * u128::from(rtt_us) / 1_000_000).ok()
    }

    /// Mean of all round-trip samples, where the ledger has them.
    pub fn mean_rtt_us(&self) -> Option<u64> {
        let ledger = self.ledger()?;
        ledger.rtt_sum_us.checked_div(ledger.rtt_samples.into())
    }

    /// Whether the receiver's window, when it stops the sender, only keeps a queue on the path
    /// from growing.
    pub fn window_fills_path(&self) -> bool {
        self.fills_path(self.own.gathered.samples.window.largest_bytes.into())
    }

    /// Whether the send buffer, when it stops the writer, only keeps a queue on the path from
    /// growing.
    pub fn send_buffer_fills_path(&self) -> bool {
        self.fills_path(self.own.gathered.samples.max_send_queue_bytes.into())
    }

    /// Largest window that the other end announced, and how much larger it is by that end's own
    /// account, where it is twice as large or more. A shift of the window scale that one end does not
    /// know of makes it a power of two (RFC 7323 2.2); TCP itself never does.
    pub fn window_changed_on_path(&self) -> Option<(u64, u64)> {
        let seen = u64::from(self.own.gathered.samples.window.largest_bytes);
        let announced = u64::from(self.peer?.last_sample()?.rcv_wnd_bytes?);
        (seen > 0 && announced >= 2 * seen).then_some((seen, announced))
    }

    /// Whether an earlier rule found that this connection loses enough to count.
    pub fn is_held_up(&self) -> bool {
        let held = |(_, harm_ns): &(_, u64)| held_up(*harm_ns, self.life_ns());
        self.earlier.iter().any(held)
    }

    /// Whether an earlier rule has named what caused its losses: then those that speak of loss in
    /// general have nothing to add.
    pub fn is_loss_named(&self) -> bool {
        const BY_CAUSE: [&str; 3] = ["incast", "burst_after_idle", "thin_stream_timeouts"];
        self.earlier.iter().any(|(rule, _)| BY_CAUSE.contains(rule))
    }

    /// Whether the receiver already had half or more of what was sent again: that had not been lost.
    pub fn is_mostly_spurious(&self) -> bool {
        let duplicates = self.own.growth(|sample| sample.dsack_dups.map(u64::from));
        let retransmits = self.retransmits().unwrap_or(0);
        retransmits > 0 && duplicates.is_some_and(|duplicates| duplicates * 2 >= retransmits)
    }

    /// Time in which lost data waited for a timer, ns. What the receiver added by holding its ACK
    /// back is not of the loss.
    pub fn stalled_ns(&self) -> u64 {
        let ack_held_ns = self.ledger().map_or(0, |led| led.timeout_ack_delayed_ns);
        let stalls_ns = self.ns(Stage::RetransmitTimeout) + self.ns(Stage::TailLoss);
        stalls_ns.saturating_sub(ack_held_ns)
    }

    /// Retransmitted segments.
    pub fn retransmits(&self) -> Option<u64> {
        self.own.growth(|sample| Some(sample.total_retrans.into()))
    }

    /// Time in which the application was what the connection waited for: it gave nothing to send,
    /// or left ready bytes, or had been woken for them and waited for a CPU, ns.
    pub fn application_ns(&self) -> u64 {
        let receive = self.own.judged.receive.as_ref();
        let unread_ns = receive.map_or(0, |receive| receive.reader_slow.ns);
        let calls = self.own.calls.as_ref();
        let woken_ns = calls.map_or(0, |calls| calls.receive.runq_ns);
        (self.ns(Stage::SenderApp) + unread_ns + woken_ns).min(self.life_ns())
    }

    /// CPU time of `ksoftirqd` on the application's CPU, as far as the application had use for it,
    /// ns; `None` where it is not known.
    pub fn ksoftirqd_ns(&self) -> Option<u64> {
        let worked_ns = self.own.cpu.home?.ksoftirqd_ns?;
        Some(worked_ns.min(self.cpu_wanted_ns()))
    }

    /// Time in which the connection waited for its application, and that for a CPU, as far as that
    /// is known, ns.
    pub fn cpu_wanted_ns(&self) -> u64 {
        let process = self.own.cpu.process.as_ref();
        let waited_ns = process.map_or(u64::MAX, |process| process.waited_ns);
        waited_ns.min(self.application_ns())
    }

    /// Direction of the data that waits for this end's application.
    pub fn application_direction(&self) -> Direction {
        if self.own.judged.sent_nothing {
            Direction::Receiving
        } else {
            Direction::Sending
        }
    }

    /// Rules out a stage by its share of the life; one that takes a part of it worth a
    /// warning is not ruled out.
    pub fn not_stage(&self, cause: &'static str, stage: Stage) -> Option<RuledOut> {
        let share = self.own.judged.stages.get(stage)?;
        if share.share > WARNING_SHARE {
            return None;
        }
        let because = match share.ns {
            0 => "none of its life".to_owned(),
            ns => format!("{} of its life ({})", percent(share.share), duration(ns)),
        };
        Some(RuledOut { cause, because })
    }

    /// Rules out loss by its counters.
    pub fn not_loss(&self) -> Option<RuledOut> {
        let retransmits = self.retransmits()?;
        let because = match self
            .own
            .growth(|sample| sample.data_segs_out.map(u64::from))
        {
            Some(segments) => format!(
                "{} of {} segments were sent again",
                count(retransmits),
                count(segments.max(retransmits))
            ),
            None => format!("{} segments were sent again", count(retransmits)),
        };
        Some(RuledOut {
            cause: "packet loss",
            because,
        })
    }

    /// Rules out a slow reader at the other end.
    pub fn not_peer_reader(&self) -> Option<RuledOut> {
        let late = self
            .peer_reader_late()
            .filter(|late| *late <= WARNING_SHARE)?;
        let because = format!("bytes waited for it {} of the time", percent(late));
        Some(RuledOut {
            cause: "a slow reader",
            because,
        })
    }

    /// What holds for every finding: the far end unseen, records lost.
    pub fn general_blind_spots(&self) -> Vec<String> {
        let mut blind = Vec::new();
        if self.peer.is_none() {
            blind.push(
                "The other end is not in this recording: its side is inferred from here."
                    .to_owned(),
            );
        }
        for (probe, lost) in &self.context.lost {
            blind.push(format!("{} records of {probe} were lost.", count(*lost)));
        }
        blind
    }

    /// What would let an undecided rule decide.
    pub fn more_detail(&self) -> Vec<String> {
        let mut help = Vec::new();
        if self.context.detail == "stats" {
            help.push(
                "Record as root with `--detail calls`: it keeps a ledger of every wait.".into(),
            );
        }
        for (probe, remedy) in self
            .context
            .off
            .iter()
            .filter(|(_, remedy)| !remedy.is_empty())
        {
            help.push(format!("Turn on {probe}: {remedy}"));
        }
        help
    }
}
