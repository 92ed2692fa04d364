//! Stages of a sending socket as packets show them: what stopped its next byte. A time is judged when it ends, by what ended it:
//! data that follows an ACK at once had waited for that ACK; data that follows nothing had waited for the application.
//!
//! The order of decision is that of the recorder's own ledger. What packets cannot show (a send buffer, pacing, a local queue,
//! a cork) lies in the stage that they look like: docs/captures.md says in which.

use table::tables::TcpStage;

mod ack;
mod burst;
mod stall;

pub use ack::ArrivedAck;
pub use stall::RetransmitKind;

use super::empty_stages::empty_stages;
use super::pace::DeliveryPace;
use super::round_trip::SideTrip;
use super::sequence::Offset;
use burst::BurstWatch;
use stall::Stall;

/// Data that was held by TCP leaves within the same softirq as the ACK that allows it, some tens of microseconds. The limit
/// leaves room for a busy CPU, and is far below every timer of TCP (the delayed ACK's least is 40 ms).
const RELEASE_NS: u64 = 1_000_000;

/// Segments that one ACK lets go leave together (an ACK is for two at least: RFC 9293, 3.8.6.3). By the clock of the sender they
/// do so to a tick of 1 ms on either side.
const TOGETHER_NS: u64 = 2_000_000;

/// Duplicate ACKs show a loss only with three more segments out (RFC 5681, 3.2).
const THIN_SEGMENTS: i64 = 3;

/// Segments that a new connection may have out (`TCP_INIT_CWND`).
const INITIAL_SEGMENTS: i64 = 10;

/// A pause of a retransmission timeout (`TCP_RTO_MIN`) makes a congestion window old (RFC 5681, 4.1).
const PAUSE_NS: u64 = 200_000_000;

/// The ACK that let the sender go on.
#[derive(Debug, Clone, Copy)]
struct Release {
    ns: u64,
    /// Room in the window before it.
    room_bytes: Option<i64>,
    flight_bytes: Offset,
    /// It acknowledged all.
    is_emptied: bool,
    /// No full-sized segment was out.
    is_small_flight: bool,
    is_by_timer: bool,
    /// It let data go.
    is_used: bool,
}

/// A recovery from loss.
#[derive(Debug, Clone, Copy)]
struct Recovery {
    /// It ends when all before is acknowledged.
    end: Offset,
    is_fast: bool,
    /// Something was lost. A tail-loss probe alone does not show that: it may be of data that arrived (RFC 8985, 7.4).
    is_proved: bool,
}

/// The stage ledger of one sending end.
#[derive(Debug, Clone)]
pub struct StageLedger {
    /// Sums until `time_ns`.
    pub row: TcpStage,
    una: Offset,
    next: Offset,
    window_bytes: Option<i64>,
    /// The window when it was last twice as large as then, bytes; 0: none yet.
    grown_bytes: u32,
    /// The window has grown so since the last data.
    is_grown: bool,
    /// Time in `receiver_window` when it last had, ns.
    grown_ns: u64,
    mss: Option<u32>,
    /// Least round trip of the whole path, ns.
    path_ns: u64,
    /// Data follows an ACK that allows it within so long.
    slack_ns: u64,
    sent_ns: u64,
    acked_ns: u64,
    emptied_ns: Option<u64>,
    release: Option<Release>,
    is_small_flight: bool,
    /// Data of the other end came since the last byte was sent.
    has_heard: bool,
    /// The latest ACK shows that something is missing before what arrived.
    is_missing: bool,
    stall: Option<Stall>,
    recovery: Option<Recovery>,
    /// Most bytes out before the latest loss; `None`: none was lost.
    flight_before_loss: Option<Offset>,
    /// A timer found the latest loss, and what is before this offset was out then.
    timeout_end: Option<Offset>,
    pace: DeliveryPace,
    burst: BurstWatch,
}

impl StageLedger {
    /// Begins the ledger of a connection's direction.
    pub fn new(conn: u64, since_ns: u64) -> Self {
        Self {
            row: empty_stages(conn, since_ns),
            una: 0,
            next: 0,
            window_bytes: None,
            grown_bytes: 0,
            is_grown: false,
            grown_ns: 0,
            mss: None,
            path_ns: 0,
            slack_ns: RELEASE_NS,
            sent_ns: since_ns,
            acked_ns: since_ns,
            emptied_ns: Some(since_ns),
            release: None,
            is_small_flight: true,
            has_heard: false,
            is_missing: false,
            stall: None,
            recovery: None,
            flight_before_loss: None,
            timeout_end: None,
            pace: DeliveryPace::default(),
            burst: BurstWatch::default(),
        }
    }

    /// Sets the path's round trip, its part up to the capture, and the size of a full segment.
    pub fn set_path(&mut self, path_ns: u64, near: &SideTrip, mss: Option<u32>) {
        self.path_ns = path_ns;
        let near_ns = near.least_ns.unwrap_or(0);
        let varies_ns = (4 * near.deviation_ns).min(near_ns);
        self.slack_ns = RELEASE_NS + near_ns * 3 / 4 + varies_ns;
        self.mss = mss;
    }

    /// Returns the bytes out.
    pub fn flight_bytes(&self) -> Offset {
        self.next - self.una
    }

    /// Returns whether the receiver announced a window of no bytes.
    pub fn is_window_closed(&self) -> bool {
        self.window_bytes == Some(0)
    }

    /// Returns when data was last sent, or acknowledged at the sender.
    pub fn progress_ns(&self) -> u64 {
        self.sent_ns.max(self.acked_ns)
    }

    /// Returns the window that the receiver announced last, bytes; `None`: its scale is not known.
    pub fn window_bytes(&self) -> Option<u64> {
        self.window_bytes.map(i64::unsigned_abs)
    }

    /// Begins the judged time: the connection is established.
    pub fn begin(&mut self, now_ns: u64) {
        self.row = empty_stages(self.row.conn, now_ns);
        self.stall = None;
        self.sent_ns = now_ns;
        self.emptied_ns = Some(now_ns);
    }

    /// Returns the MSS; 1 if it is unknown.
    fn mss_bytes(&self) -> i64 {
        self.mss.map_or(1, i64::from)
    }

    /// Accounts the time until an ACK arrived at the sender.
    pub fn acknowledge(&mut self, now_ns: u64, ack: ArrivedAck) {
        let (before, flight_bytes) = (self.una, self.flight_bytes());
        let is_new = ack.ack > self.una;
        let room_bytes = self.window_bytes.map(|window| window - flight_bytes);
        let is_wider = ack.window_bytes > self.window_bytes;
        if is_new && self.stall.is_some_and(|stall| ack.ack > stall.first) {
            self.end_stall(now_ns, Some(&ack));
        }
        self.is_missing = ack.shows_arrival || self.is_missing && !is_new;
        if is_new {
            self.acked_ns = now_ns;
            let is_large = flight_bytes > INITIAL_SEGMENTS * self.mss_bytes();
            self.burst.see_ack(&mut self.row, is_large);
        }
        self.una = self.una.max(ack.ack);
        self.next = self.next.max(self.una);
        self.window_bytes = ack.window_bytes.or(self.window_bytes);
        if let Some(window) = ack.window_bytes {
            self.see_window(u32::try_from(window).unwrap_or(u32::MAX));
        }
        if self
            .recovery
            .is_some_and(|recovery| self.una >= recovery.end)
        {
            self.judge_until(now_ns, None);
            self.recovery = None;
            self.burst.recover(&mut self.row, now_ns);
        }
        if self.una == self.next && before < self.una {
            self.emptied_ns = Some(now_ns);
        }
        self.has_heard |= ack.has_data;
        if !ack.has_data && (is_new || is_wider || ack.shows_arrival) {
            let is_emptied = self.una == self.next;
            let waiting = self.release.take().filter(|it| !it.is_used);
            let first = self.release.insert(waiting.unwrap_or(Release {
                ns: now_ns,
                room_bytes,
                flight_bytes,
                is_emptied,
                is_small_flight: self.is_small_flight,
                is_by_timer: false,
                is_used: false,
            }));
            // Of several ACKs the first shows what had held data back, the last what allowed it.
            first.ns = now_ns;
            first.room_bytes = first.room_bytes.min(room_bytes);
            first.is_emptied = is_emptied;
            first.is_by_timer |= ack.is_by_timer;
        }
    }

    /// Notes the window that the receiver announced.
    fn see_window(&mut self, bytes: u32) {
        self.row.max_snd_wnd_bytes = self.row.max_snd_wnd_bytes.max(bytes);
        if bytes / 2 >= self.grown_bytes {
            self.is_grown |= self.grown_bytes > 0;
            self.grown_bytes = bytes;
        }
    }

    /// Counts the wait for a window that has grown, two round trips at most: the receiver's kernel measures what is read in a
    /// round trip, and is one late.
    fn count_growth(&mut self) {
        if !std::mem::take(&mut self.is_grown) {
            return;
        }
        let waited_ns = self.row.receiver_window_ns.saturating_sub(self.grown_ns);
        if let Some(growth_ns) = &mut self.row.window_growth_ns {
            *growth_ns += waited_ns.min(2 * self.path_ns);
        }
        self.grown_ns = self.row.receiver_window_ns;
    }

    /// Notes that data up to `next` was sent at an unknown time.
    pub fn see_next(&mut self, next: Offset) {
        self.next = self.next.max(next);
        self.emptied_ns = None;
    }

    /// Accounts the time until new data was sent.
    pub fn send(&mut self, now_ns: u64, end: Offset, (bytes, is_fin): (i64, bool)) {
        // When a program closes, nothing had held its FIN.
        self.judge_until(now_ns, Some(bytes).filter(|_| !is_fin));
        let is_paused = now_ns.saturating_sub(self.sent_ns) >= PAUSE_NS;
        if self.flight_bytes() == 0 && is_paused && self.row.data_segs_out > 0 {
            self.burst.begin();
        }
        self.burst.see_next(end - bytes);
        let is_small = bytes < self.mss_bytes();
        if is_small
            && !is_fin
            && self.flight_bytes() > 0
            && self.is_small_flight
            && self.recovery.is_none()
        {
            // Nagle's algorithm would have held it (RFC 1122, 4.2.3.4).
            self.row.nodelay = true;
        }
        self.is_small_flight = is_small && (self.flight_bytes() == 0 || self.is_small_flight);
        self.next = self.next.max(end);
        self.sent_ns = now_ns;
        self.emptied_ns = None;
        if let Some(release) = &mut self.release {
            release.is_used = true;
        }
        self.has_heard = false;
        self.row.data_segs_out = self.row.data_segs_out.saturating_add(1);
        let flight = u32::try_from(self.flight_bytes()).unwrap_or(u32::MAX);
        self.row.max_send_queue_bytes = self.row.max_send_queue_bytes.max(flight);
    }

    /// Adds a retransmission of data. `unseen`: bytes that were sent before and did not pass.
    pub fn resend(
        &mut self,
        now_ns: u64,
        (first, end): (Offset, Offset),
        (kind, stamp, unseen): (RetransmitKind, Option<u32>, i64),
    ) {
        self.pace.again_bytes += (end - first).unsigned_abs();
        self.row.data_segs_out = self.row.data_segs_out.saturating_add(1);
        if end <= self.una {
            // Its ACK was lost behind the capture: nothing waited here.
            return;
        }
        self.see_loss(now_ns, (first, end + unseen), kind);
        match kind {
            RetransmitKind::Fast => self.resend_fast(now_ns, end - first),
            _ => self.resend_by_timer(now_ns, first, (kind, stamp, unseen)),
        }
        self.next = self.next.max(end);
        if self.una < self.next {
            self.emptied_ns = None;
        }
        self.sent_ns = now_ns;
    }

    /// Counts a loss when it shows, and what detected it.
    fn see_loss(&mut self, now_ns: u64, (first, until): (Offset, Offset), kind: RetransmitKind) {
        // A probe is sent before the retransmission timeout expires (RFC 8985, 7.2): what comes later may follow one.
        let is_long = now_ns.saturating_sub(self.progress_ns()) >= PAUSE_NS;
        match kind {
            RetransmitKind::Timeout => self.timeout_end = Some(self.next.max(until)),
            RetransmitKind::TailLossProbe if is_long => {
                self.timeout_end = Some(self.next.max(until));
            }
            RetransmitKind::TailLossProbe => {}
            RetransmitKind::Fast => {
                self.timeout_end = self.timeout_end.filter(|end| self.una < *end);
            }
        }
        if kind == RetransmitKind::TailLossProbe || self.recovery.is_some_and(|it| it.is_proved) {
            return;
        }
        self.flight_before_loss = Some(self.flight_bytes());
        self.row.loss_episodes += 1;
        let is_large = self.flight_bytes() > INITIAL_SEGMENTS * self.mss_bytes();
        self.burst
            .lose(&mut self.row, first, (is_large, self.sent_ns));
    }

    /// Adds a fast retransmission of `bytes` bytes. The first of a recovery follows a duplicate ACK
    /// at once, as new data would (RFC 5681, 3.2).
    fn resend_fast(&mut self, now_ns: u64, bytes: i64) {
        let is_first = self.recovery.is_none_or(|it| !it.is_fast);
        self.judge_until(now_ns, is_first.then_some(bytes));
        let recovery = self.recovery.get_or_insert(Recovery {
            end: self.next,
            is_fast: true,
            is_proved: true,
        });
        recovery.is_proved = true;
    }

    /// Accounts the time before a retransmission by timer as a stall.
    fn resend_by_timer(
        &mut self,
        now_ns: u64,
        first: Offset,
        (kind, stamp, unseen): (RetransmitKind, Option<u32>, i64),
    ) {
        match &mut self.stall {
            Some(stall) if kind == RetransmitKind::Timeout => {
                // A tail-loss probe is of the last segment, a timeout of the first (RFC 8985, 7.3; RFC 6298, 5.4).
                (stall.kind, stall.first) = (kind, stall.first.min(first));
            }
            Some(_) => {}
            None => {
                // The round trip that an answer may take is not of the stall.
                let due_ns = self.sent_ns.saturating_add(self.path_ns).min(now_ns);
                let in_flight_ns = self.elapsed_ns(due_ns);
                self.row.in_flight_ns += in_flight_ns;
                self.row.time_ns += in_flight_ns;
                let mss = self.mss_bytes();
                self.stall = Some(Stall {
                    kind,
                    first,
                    is_thin: self.flight_bytes() + unseen <= THIN_SEGMENTS * mss,
                    stamp,
                });
            }
        }
        let was_proved = self.recovery.is_some_and(|it| it.is_proved);
        self.recovery = Some(Recovery {
            end: self.next,
            is_fast: false,
            is_proved: was_proved || kind == RetransmitKind::Timeout,
        });
    }

    /// Ends the stall: its data is acknowledged, or (`None`) never was.
    fn end_stall(&mut self, now_ns: u64, ack: Option<&ArrivedAck>) {
        let Some(stall) = self.stall.take() else {
            return;
        };
        let ns = self.elapsed_ns(now_ns);
        self.row.time_ns += ns;
        stall.count(&mut self.row, ns, ack);
    }

    /// Returns the time since the last change of stage.
    fn elapsed_ns(&self, now_ns: u64) -> u64 {
        now_ns.saturating_sub(self.row.time_ns)
    }

    /// Judges the time until now. `bytes`: so many are sent now; `None`: none.
    fn judge_until(&mut self, now_ns: u64, bytes: Option<i64>) {
        if self.stall.is_some() {
            return;
        }
        let is_together = now_ns.saturating_sub(self.sent_ns) <= TOGETHER_NS;
        let release = self.release.filter(|it| {
            now_ns.saturating_sub(it.ns) <= self.slack_ns && (!it.is_used || is_together)
        });
        match bytes.zip(release) {
            Some((bytes, release)) => self.judge_released(now_ns, bytes, release),
            None => self.judge_unasked(now_ns),
        }
        self.count_growth();
        self.row.time_ns = self.row.time_ns.max(now_ns);
    }

    /// Accounts the time before data that followed an ACK at once.
    fn judge_released(&mut self, now_ns: u64, bytes: i64, release: Release) {
        let waits_ns = self.elapsed_ns(now_ns);
        let mss = self.mss_bytes();
        let is_full = release.room_bytes.is_some_and(|room| room < bytes.min(mss));
        if is_full {
            self.row.receiver_window_ns += waits_ns;
        } else if self.recovery.is_some_and(|it| it.is_fast) {
            self.row.fast_retransmit_ns += waits_ns;
            self.count_pace(now_ns, waits_ns, release.flight_bytes);
        } else if release.is_emptied && release.is_small_flight {
            let is_free = self.has_heard || release.is_used;
            match is_free || bytes >= mss || release.flight_bytes == 0 {
                true => self.judge_unasked(now_ns),
                false => self.hold(now_ns, release),
            }
        } else if release.flight_bytes >= mss {
            *self.congestion_ns(release.flight_bytes) += waits_ns;
            self.count_pace(now_ns, waits_ns, release.flight_bytes);
        } else {
            self.judge_unasked(now_ns);
        }
    }

    /// Accounts time in which the network was the limit. After a timeout the timeout made the
    /// window small: its stall has the cost.
    fn count_pace(&mut self, now_ns: u64, ns: u64, flight: Offset) {
        let is_lost = self
            .flight_before_loss
            .is_some_and(|before| flight < before && self.timeout_end.is_none());
        let bytes = (self.una, flight);
        let is_whole = self.recovery.is_none() && !self.is_missing;
        let path = (self.path_ns, is_lost, is_whole);
        self.pace.add(&mut self.row, (now_ns, ns), bytes, path);
    }

    /// Returns the counter of stage `congestion_window`, ns.
    fn congestion_ns(&mut self, flight_bytes: Offset) -> &mut u64 {
        match self.flight_before_loss {
            None => &mut self.row.cwnd_startup_ns,
            Some(before) if flight_bytes < before => &mut self.row.cwnd_loss_ns,
            Some(_) => &mut self.row.cwnd_probing_ns,
        }
    }

    /// Accounts time in which a small segment waited for an ACK: Nagle's algorithm up to one round
    /// trip, then the receiver.
    fn hold(&mut self, now_ns: u64, release: Release) {
        let waits_ns = self.elapsed_ns(now_ns);
        let held_ns = release.ns.saturating_sub(self.row.time_ns).min(waits_ns);
        let path_ns = held_ns.min(self.path_ns);
        self.row.nagle_ns += path_ns;
        self.row.nagle_holds += 1;
        if release.is_by_timer {
            self.row.delayed_ack_ns += held_ns - path_ns;
            self.row.delayed_acks += 1;
        } else {
            self.row.nagle_ns += held_ns - path_ns;
        }
        self.row.longest_hold_ns = self.row.longest_hold_ns.max(held_ns);
        self.row.in_flight_ns += waits_ns - held_ns;
    }

    /// Accounts time in which nothing held data back: first in flight, then none to send.
    fn judge_unasked(&mut self, now_ns: u64) {
        let waits_ns = self.elapsed_ns(now_ns);
        let begin_ns = self.row.time_ns;
        if self.recovery.is_some_and(|it| it.is_fast) {
            self.row.fast_retransmit_ns += waits_ns;
            let flight = self.flight_bytes();
            return self.count_pace(now_ns, waits_ns, flight);
        }
        let is_late = self.release.is_some_and(|it| it.is_by_timer && !it.is_used);
        let acked_ns = self.emptied_ns.unwrap_or(now_ns).min(now_ns);
        let busy_ns = match is_late || self.emptied_ns.is_none() {
            true => acked_ns.min(self.sent_ns.saturating_add(self.path_ns)),
            false => acked_ns,
        };
        let in_flight_ns = busy_ns.saturating_sub(begin_ns).min(waits_ns);
        self.row.in_flight_ns += in_flight_ns;
        self.row.sender_app_ns += waits_ns - in_flight_ns;
        if waits_ns > self.slack_ns {
            self.pace.interrupt(self.una);
        }
    }

    /// Ends the open stall or interval at `now_ns`, when the connection or the capture ended.
    pub fn finish(&mut self, now_ns: u64, is_closed: bool) {
        match self.stall.is_some() {
            true => self.end_stall(now_ns, None),
            false => self.judge_until(now_ns, None),
        }
        self.row.closed = is_closed;
    }
}
