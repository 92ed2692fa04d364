//! One connection: segments of both directions in; rows of its two ends out, each as if its socket had been recorded.

use std::net::SocketAddr;

use table::{Columns, RowSet, SampleKind, TcpEventKind};

use super::Vantage;
use super::counts::Passage;
use super::due::{LINGER_NS, UNANSWERED_NS, WaitKind};
use super::half::{Half, SendContext};
use super::ledger::RetransmitKind;
use super::round_trip::SideTrip;
use super::segment::Segment;
use super::turns::{ByteRun, TurnRuns};
use super::window::{AnnouncedWindow, WindowRoom};

/// Between two rows of a connection's statistics, as a live recording has on average.
const SAMPLE_NS: u64 = 500_000_000;

/// Between two rows of its stages: requests share what lies between.
const STAGE_NS: u64 = 100_000_000;

/// Congestion states of Linux (`TCP_CA_*`).
const OPEN: u8 = 0;
const RECOVERY: u8 = 3;
const LOSS: u8 = 4;

/// Connection states of Linux (`TCP_ESTABLISHED`, `TCP_CLOSE`).
pub const ESTABLISHED: u8 = 1;
pub const CLOSE: u8 = 7;

/// Times of a connection's begin and end, ns.
#[derive(Debug, Clone, Copy, Default)]
pub struct Milestones {
    /// The first SYN passed.
    pub syn_ns: Option<u64>,
    /// The last SYN passed.
    pub last_syn_ns: Option<u64>,
    /// The last SYN-ACK passed.
    pub answer_ns: Option<u64>,
    /// The handshake's last ACK passed.
    pub opened_ns: Option<u64>,
    /// A RST passed, or the last ACK of both FINs.
    pub closed_ns: Option<u64>,
    /// SYNs retransmitted.
    pub syn_retries: u32,
    /// SYN-ACKs retransmitted.
    pub answer_retries: u32,
    /// The end that sent a RST.
    pub reset_by: Option<usize>,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    /// Number of its first end's socket; the other's follows.
    pub conn: u64,
    /// Addresses of its ends.
    pub ends: [SocketAddr; 2],
    /// The ends as senders.
    pub halves: [Half; 2],
    /// Round trips between the capture and each end.
    pub sides: [SideTrip; 2],
    /// The end that opened it.
    pub client: usize,
    /// Whether a SYN shows that.
    pub has_role: bool,
    /// When its first segment passed.
    pub first_ns: u64,
    /// When its last segment passed.
    pub last_ns: u64,
    /// Begin and end.
    pub times: Milestones,
    /// Time with bytes out, by sender, ns.
    pub busy_ns: [u64; 2],
    /// Room that each end leaves to the other.
    rooms: [WindowRoom; 2],
    is_zero_window: [bool; 2],
    congestion: [u8; 2],
    sampled_ns: u64,
    staged_ns: u64,
    runs: TurnRuns,
    taken: [i64; 2],
}

impl Connection {
    /// Begins a connection with its first segment.
    pub fn new(conn: u64, segment: &Segment) -> Self {
        let now_ns = segment.time_ns;
        let ends = [segment.source, segment.target];
        let by_port = usize::from(ends[0].port() < ends[1].port());
        let client = match (segment.is_syn, segment.ack) {
            (true, None) => 0,
            (true, Some(_)) => 1,
            _ => by_port,
        };
        let mut halves = [Half::new(conn, now_ns), Half::new(conn + 1, now_ns)];
        if !segment.is_syn {
            for half in &mut halves {
                half.ledger.row.window_growth_ns = None; // windows may have been larger before
            }
        }
        Self {
            conn,
            ends,
            halves,
            sides: [SideTrip::default(); 2],
            client,
            has_role: segment.is_syn,
            first_ns: now_ns,
            last_ns: now_ns,
            times: Milestones::default(),
            busy_ns: [0; 2],
            rooms: [WindowRoom::default(); 2],
            is_zero_window: [false; 2],
            congestion: [OPEN; 2],
            sampled_ns: now_ns,
            staged_ns: now_ns,
            runs: TurnRuns::default(),
            taken: [0; 2],
        }
    }

    /// Returns whether a SYN begins another connection of the same addresses.
    pub fn is_replaced_by(&self, segment: &Segment) -> bool {
        let from = self.sender(segment);
        let is_other = |half: &Half| {
            half.has_syn && segment.seq.wrapping_add(1) != half.seq(0)
                || !half.has_syn && half.counts.segments > 0
        };
        segment.is_syn && segment.ack.is_none() && is_other(&self.halves[from])
    }

    /// Returns the end that sent a segment.
    pub fn sender(&self, segment: &Segment) -> usize {
        usize::from(segment.source != self.ends[0])
    }

    /// Returns whether the round trips to both ends are known.
    pub fn has_path(&self) -> bool {
        self.sides.iter().all(|side| side.least_ns.is_some())
    }

    /// Returns the round trip of the whole path, the least, ns. With one side known it is that.
    pub fn path_ns(&self) -> Option<u64> {
        let [one, other] = self.sides.map(|side| side.least_ns);
        one.or(other).map(|_| one.unwrap_or(0) + other.unwrap_or(0))
    }

    /// Adds a segment to the connection; returns whether it was a copy and left out.
    pub fn add(&mut self, segment: &Segment, vantage: Vantage, rows: &mut RowSet) -> bool {
        let from = self.sender(segment);
        if self.halves[from].recent.is_copy(segment) {
            return true;
        }
        let now_ns = segment.time_ns;
        let elapsed_ns = now_ns.saturating_sub(self.last_ns);
        for (busy_ns, half) in self.busy_ns.iter_mut().zip(&self.halves) {
            *busy_ns += if half.flight_bytes() > 0 {
                elapsed_ns
            } else {
                0
            };
        }
        self.last_ns = now_ns;
        self.halves[from].counts.segments += 1;
        self.halves[from].count_ids(segment);
        self.halves[from].counts.marked += u32::from(segment.is_marked);
        self.halves[from].see_stamp(segment);
        if let Some(ns) = self.halves[1 - from].take_echo(segment) {
            self.sides[from].add_bound(ns);
        }
        self.set_vantage(vantage);
        match segment.is_syn {
            true => self.take_syn(segment, from, rows),
            false => self.take_ack(segment, from, rows),
        }
        if segment.bytes > 0 || segment.is_fin {
            self.send(segment, from, rows);
        }
        self.end(segment, from, rows);
        self.write_due(rows);
        false
    }

    /// Sets the place of the capture, as the user gave it.
    fn set_vantage(&mut self, vantage: Vantage) {
        let near = match vantage {
            Vantage::Estimated => return,
            Vantage::Client => self.client,
            Vantage::Server => 1 - self.client,
        };
        self.sides[near].least_ns = Some(0);
    }

    /// Takes a SYN, or a SYN-ACK.
    fn take_syn(&mut self, segment: &Segment, from: usize, rows: &mut RowSet) {
        let now_ns = segment.time_ns;
        let is_again = self.halves[from].has_syn;
        self.has_role = true;
        self.client = match segment.ack {
            None => from,
            Some(_) => 1 - from,
        };
        self.halves[from].begin(segment);
        match segment.ack {
            None => {
                self.times.syn_ns.get_or_insert(now_ns);
                self.times.last_syn_ns = Some(now_ns);
                self.times.syn_retries += u32::from(is_again);
            }
            Some(_) => {
                let asked_ns = self
                    .times
                    .last_syn_ns
                    .filter(|_| self.times.syn_retries == 0);
                if let Some(asked_ns) = asked_ns.filter(|_| !is_again) {
                    self.sides[from].add(now_ns.saturating_sub(asked_ns));
                }
                self.times.answer_ns = Some(now_ns);
                self.times.answer_retries += u32::from(is_again);
            }
        }
        if is_again {
            self.event(rows, from, TcpEventKind::SynRetransmit, |_| {});
        }
        self.apply_syn_options();
    }

    /// Applies the options that both SYNs have: window scale, timestamps, SACK.
    fn apply_syn_options(&mut self) {
        const TIMESTAMP_BYTES: u32 = 12;
        let [one, other] = &self.halves;
        let least = one.mss.into_iter().chain(other.mss).min();
        let timestamps = match one.is_sack.is_some() || other.is_sack.is_some() {
            true => TIMESTAMP_BYTES,
            false => 0,
        };
        let full = least.map(|mss| u32::from(mss).saturating_sub(timestamps).max(1));
        for half in &mut self.halves {
            half.peer_mss = full;
        }
    }

    /// Applies a segment's ACK to the other direction: round trips, loss, state.
    fn take_ack(&mut self, segment: &Segment, from: usize, rows: &mut RowSet) {
        let Some(ack) = segment.ack else {
            return;
        };
        let now_ns = segment.time_ns;
        let to = 1 - from;
        if segment.bytes == 0 && !segment.is_fin && !segment.is_rst {
            self.halves[from].see_next(segment);
        }
        if let Some(answer_ns) = self.times.answer_ns
            && self.times.opened_ns.is_none()
            && from == self.client
        {
            if self.times.answer_retries == 0 {
                self.sides[from].add(now_ns.saturating_sub(answer_ns));
            }
            self.open(now_ns);
        }
        let window = self.announced_window(segment, from);
        let space = self.halves[to].join(ack);
        let near_una = self.halves[to].una;
        let ack = space.offset(ack, near_una);
        let duplicates = self.halves[to].counts.duplicates;
        let [one, other] = &mut self.sides;
        let (near, far) = match to {
            0 => (&*one, other),
            _ => (&*other, one),
        };
        let is_by_timer = self.halves[to].acknowledge(segment, ack, window, (near, far));
        if let Some(bytes) = window {
            let edge = ack + bytes;
            let window = AnnouncedWindow {
                edge,
                bytes,
                is_by_timer,
            };
            self.see_window(from, window, rows);
        }
        if self.halves[to].counts.duplicates > duplicates {
            self.event(rows, to, TcpEventKind::Spurious, |row| {
                row.segments = Some(1)
            });
        }
        if !self.halves[to].is_recovering() {
            self.change_congestion(to, OPEN, rows);
        }
    }

    /// Marks the connection as established: its stages begin.
    fn open(&mut self, now_ns: u64) {
        self.times.opened_ns = Some(now_ns);
        for half in &mut self.halves {
            half.ledger.begin(now_ns);
        }
    }

    /// Returns the window that a segment announces, bytes; `None`: its scale is not known.
    fn announced_window(&self, segment: &Segment, from: usize) -> Option<i64> {
        let [one, other] = &self.halves;
        let window = i64::from(segment.window);
        match (one.has_syn && other.has_syn, one.shift.and(other.shift)) {
            (true, Some(_)) => self.halves[from].shift.map(|shift| window << shift),
            (true, None) => Some(window),
            (false, _) => (window == 0).then_some(0),
        }
    }

    /// Applies an announced receive window, and writes an event when it closes or opens.
    fn see_window(&mut self, from: usize, window: AnnouncedWindow, rows: &mut RowSet) {
        if self.times.closed_ns.is_some() {
            return;
        }
        let sender = &self.halves[1 - from];
        let out = (sender.next, sender.mss_bytes().unwrap_or(1));
        let closed_ns = self.rooms[from].announce(self.last_ns, window, out);
        self.halves[from].ledger.row.window_closed_ns += closed_ns;
        let is_zero = window.bytes == 0;
        if is_zero == self.is_zero_window[from] {
            return;
        }
        self.is_zero_window[from] = is_zero;
        let kind = match is_zero {
            true => TcpEventKind::ZeroWindowOpen,
            false => TcpEventKind::ZeroWindowClose,
        };
        self.event(rows, 1 - from, kind, |_| {});
    }

    /// Applies data that one end sends: new, retransmitted or late.
    fn send(&mut self, segment: &Segment, from: usize, rows: &mut RowSet) {
        let trip_ns = self.sides.iter().map(|side| side.smoothed_ns).sum();
        let path_ns = self.path_ns().unwrap_or(0);
        let is_other_idle = self.halves[1 - from].flight_bytes() <= 0;
        let half = &mut self.halves[from];
        let space = half.join(segment.seq);
        let first = space.offset(segment.seq, half.next);
        let mss = half.full_bytes();
        half.ledger.set_path(path_ns, &self.sides[from], mss);
        let sent_ns = half.sent_ns(segment);
        half.settle(sent_ns, segment.options.timestamps.map(|(_, echo)| echo));
        let flight = half.flight_bytes();
        let context = SendContext {
            sent_ns,
            trip_ns,
            is_other_idle,
        };
        let passage = half.send(segment, first, context);
        match passage {
            Passage::Again(kind) | Passage::Late(Some(kind)) => {
                self.resent(segment, (from, kind), flight, rows);
            }
            Passage::New | Passage::Late(None) | Passage::Probe => {}
        }
        self.count_run(from, segment.time_ns, rows);
    }

    /// Writes the event of a retransmission, and its congestion state.
    fn resent(
        &mut self,
        segment: &Segment,
        (from, kind): (usize, RetransmitKind),
        flight: i64,
        rows: &mut RowSet,
    ) {
        let full = self.halves[from]
            .full_bytes()
            .unwrap_or(segment.bytes)
            .max(1);
        let kind = match kind {
            RetransmitKind::Fast => TcpEventKind::FastRetransmit,
            RetransmitKind::Timeout => TcpEventKind::TimeoutRetransmit,
            RetransmitKind::TailLossProbe => TcpEventKind::TailLossProbe,
        };
        let to = match kind {
            TcpEventKind::FastRetransmit => RECOVERY,
            TcpEventKind::TimeoutRetransmit => LOSS,
            _ => self.congestion[from],
        };
        self.change_congestion(from, to, rows);
        self.event(rows, from, kind, |row| {
            row.segments = Some(segment.bytes.div_ceil(full).max(1));
            row.in_flight_bytes = Some(u32::try_from(flight).unwrap_or(0));
            row.seq = Some(segment.seq);
            row.end_seq = Some(segment.seq.wrapping_add(segment.bytes));
        });
    }

    /// Changes the congestion state of an end, and writes the event.
    fn change_congestion(&mut self, end: usize, new: u8, rows: &mut RowSet) {
        let old = self.congestion[end];
        if old == new || old == LOSS && new == RECOVERY {
            return;
        }
        self.congestion[end] = new;
        self.event(rows, end, TcpEventKind::CongestionState, |row| {
            (row.old, row.new) = (Some(old), Some(new));
        });
    }

    /// Returns the congestion state that an end seems to have.
    pub fn congestion_state(&self, end: usize) -> u8 {
        self.congestion[end]
    }

    /// Counts bytes that passed in order.
    fn count_run(&mut self, from: usize, now_ns: u64, rows: &mut RowSet) {
        let range = (self.taken[from], self.halves[from].contiguous());
        if range.1 <= range.0 {
            return;
        }
        self.taken[from] = range.1;
        let run = self.runs.add(from == self.client, now_ns, range);
        self.write_run(run, rows);
    }

    /// Writes a run of bytes as one call; nothing for None.
    fn write_run(&self, run: Option<ByteRun>, rows: &mut RowSet) {
        if let Some(run) = run {
            let away_ns = self.sides[self.client].least_ns.unwrap_or(0) / 2;
            let conn = self.conn + self.client as u64;
            rows.calls.push(run.row(conn, conn as u32, away_ns));
        }
    }

    /// Applies FIN or RST: the connection may be closed now.
    fn end(&mut self, segment: &Segment, from: usize, rows: &mut RowSet) {
        let now_ns = segment.time_ns;
        if segment.is_rst && self.times.reset_by.is_none() && self.times.closed_ns.is_none() {
            self.times.reset_by = Some(from);
            self.times.closed_ns = Some(now_ns);
            for end in [0, 1] {
                self.event(rows, end, TcpEventKind::State, |row| {
                    (row.old, row.new) = (Some(ESTABLISHED), Some(CLOSE));
                });
            }
        }
        let is_over = |half: &Half| half.fin.is_some_and(|fin| half.una >= fin);
        if self.halves.iter().all(is_over) {
            self.times.closed_ns.get_or_insert(now_ns);
        }
    }

    /// Returns whether the connection waits for this kind of timer.
    pub fn is_waiting(&self, kind: WaitKind) -> bool {
        let is_closed = self.times.closed_ns.is_some();
        match kind {
            WaitKind::Run => self.runs.due_ns().is_some(),
            WaitKind::Linger => is_closed,
            WaitKind::Answer => self.has_role && self.times.opened_ns.is_none() && !is_closed,
        }
    }

    /// Returns when something is to be written although no packet comes.
    fn due_ns(&self) -> u64 {
        let over_ns = match (self.times.closed_ns, self.times.opened_ns) {
            (Some(_), _) => self.last_ns.saturating_add(LINGER_NS),
            (None, None) if self.has_role => self.last_ns.saturating_add(UNANSWERED_NS),
            (None, _) => u64::MAX,
        };
        over_ns.min(self.runs.due_ns().unwrap_or(u64::MAX))
    }

    /// Writes rows that are due by now; returns whether the connection is over.
    pub fn pass_time(&mut self, now_ns: u64, rows: &mut RowSet) -> bool {
        let run = self
            .runs
            .take_run(now_ns.saturating_sub(super::turns::RUN_PAUSE_NS));
        self.write_run(run, rows);
        self.due_ns() <= now_ns
    }

    /// Writes ledgers and samples that are due.
    fn write_due(&mut self, rows: &mut RowSet) {
        let now_ns = self.last_ns;
        if now_ns.saturating_sub(self.staged_ns) >= STAGE_NS {
            self.staged_ns = now_ns;
            for end in [0, 1] {
                self.halves[end].settle_passed(now_ns);
                rows.tcp_stages.push(self.halves[end].ledger.row.clone());
            }
        }
        if now_ns.saturating_sub(self.sampled_ns) >= SAMPLE_NS {
            self.sampled_ns = now_ns;
            for end in [0, 1] {
                rows.tcp_samples.push(self.sample(end, SampleKind::Poll));
            }
        }
    }

    /// Ends the connection, and writes its last rows.
    pub fn finish(&mut self, rows: &mut RowSet) {
        let run = self.runs.take_run(u64::MAX);
        self.write_run(run, rows);
        if self.is_failed() {
            return rows.failed_connects.push(self.failed_connect());
        }
        let until_ns = self.times.closed_ns.unwrap_or(self.last_ns);
        for end in [0, 1] {
            let half = &mut self.halves[end];
            half.settle(u64::MAX, None);
            half.ledger.finish(until_ns, self.times.closed_ns.is_some());
            half.ledger.row.window_closed_ns += self.rooms[end].finish(until_ns);
            rows.tcp_stages.push(half.ledger.row.clone());
            rows.tcp_samples.push(self.sample(end, SampleKind::Close));
            rows.connections.push(self.row(end));
        }
    }
}
