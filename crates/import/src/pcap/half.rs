//! One direction of a connection: which bytes passed, which did again, which the other end acknowledged.

use super::acks::PendingAcks;
use super::clock::SenderClock;
use super::copies::RecentPackets;
use super::counts::{HalfCounts, Passage};
use super::ids::IdCounter;
use super::ledger::{ArrivedAck, RetransmitKind, StageLedger};
use super::round_trip::{EchoTrip, PendingSegments, SideTrip};
use super::segment::Segment;
use super::sequence::{Gap, GapList, Offset, SequenceSpace};

/// Least delayed ACK of Linux (`TCP_DELACK_MIN`), less the longest jiffy (`CONFIG_HZ=100`). RFC 1122 (4.2.3.2) allows 500 ms.
const DELACK_LEAST_NS: u64 = 30_000_000;

/// Least retransmission timeout of Linux (`TCP_RTO_MIN`), less the longest jiffy.
const RTO_LEAST_NS: u64 = 190_000_000;

/// Least time until a tail-loss probe: two jiffies (`TCP_TIMEOUT_MIN`), the longest; else two round trips (RFC 8985, 7.2).
const PROBE_LEAST_NS: u64 = 20_000_000;

/// Largest payload of a frame: a jumbo frame of 9,000 bytes. What is larger is a bundle that a network adapter is to cut.
const FRAME_MOST_BYTES: u32 = 8_960;

/// Payload of a full segment on Ethernet with timestamps (RFC 6691).
const USUAL_MSS_BYTES: u32 = 1_448;

/// Knowledge of the connection when a segment with data passes.
#[derive(Debug, Clone, Copy)]
pub struct SendContext {
    /// When it left, by the sender's clock, in the time of the capture.
    pub sent_ns: u64,
    /// The smoothed round trip of the whole path, ns.
    pub trip_ns: u64,
    /// Whether the other end waits for no ACK.
    pub is_other_idle: bool,
}

/// One end as a sender, and what the other end announced to it.
#[derive(Debug, Clone)]
pub struct Half {
    space: Option<SequenceSpace>,
    /// Whether its SYN was seen.
    pub has_syn: bool,
    /// Offset after the last byte that passed.
    pub next: Offset,
    /// Offset after the last byte that was acknowledged.
    pub una: Offset,
    gaps: GapList,
    /// End of the stream, after its FIN.
    pub fin: Option<Offset>,
    /// Largest segment that it takes, by its SYN.
    pub mss: Option<u16>,
    /// Shift of the windows that it announces.
    pub shift: Option<u8>,
    /// Whether it takes selective ACKs; `None`: its SYN was not seen.
    pub is_sack: Option<bool>,
    /// Payload of a full segment, as the SYNs say.
    pub peer_mss: Option<u32>,
    pending: PendingSegments,
    /// ACKs without news since.
    duplicate_acks: u32,
    /// Bytes before this offset arrived at the other end, some maybe not.
    sacked: Offset,
    recovery_end: Option<Offset>,
    /// Segment that a timeout retransmitted last: its end, and when it passed.
    after_timeout: Option<(Offset, u64)>,
    has_probed: bool,
    acks: PendingAcks,
    /// Packets that just passed.
    pub recent: RecentPackets,
    clock: SenderClock,
    /// Delays of the path before the capture that are not counted yet, ns.
    delays_ns: i64,
    echo: EchoTrip,
    ids: IdCounter,
    /// Counters.
    pub counts: HalfCounts,
    /// Stages.
    pub ledger: StageLedger,
}

impl Half {
    /// Starts without any segment.
    pub fn new(conn: u64, since_ns: u64) -> Self {
        Self {
            space: None,
            has_syn: false,
            next: 0,
            una: 0,
            gaps: GapList::default(),
            fin: None,
            mss: None,
            shift: None,
            is_sack: None,
            peer_mss: None,
            pending: PendingSegments::default(),
            duplicate_acks: 0,
            sacked: 0,
            recovery_end: None,
            after_timeout: None,
            has_probed: false,
            acks: PendingAcks::default(),
            recent: RecentPackets::default(),
            clock: SenderClock::default(),
            delays_ns: 0,
            echo: EchoTrip::default(),
            ids: IdCounter::default(),
            counts: HalfCounts::default(),
            ledger: StageLedger::new(conn, since_ns),
        }
    }

    /// Counts a packet by IPv4's identification.
    pub fn count_ids(&mut self, segment: &Segment) {
        let Some(id) = segment.ip_id.filter(|id| *id != 0) else {
            return;
        };
        let full = self.full_bytes().unwrap_or(u32::MAX).max(1);
        let segments = segment.bytes.div_ceil(full).max(1) as u16;
        self.ids.add(id, segments);
    }

    /// Adds the SYN of this direction.
    pub fn begin(&mut self, segment: &Segment) {
        self.space = Some(SequenceSpace::new(segment.seq.wrapping_add(1)));
        self.has_syn = true;
        self.mss = segment.options.mss;
        self.shift = segment.options.window_shift;
        self.is_sack = Some(segment.options.is_sack_permitted);
    }

    /// Starts in the middle of the stream, at this sequence number, if it has not started.
    pub fn join(&mut self, seq: u32) -> SequenceSpace {
        *self.space.get_or_insert_with(|| SequenceSpace::new(seq))
    }

    /// Returns whether lost data is not acknowledged yet.
    pub fn is_recovering(&self) -> bool {
        self.recovery_end.is_some()
    }

    /// Returns the sequence number of an offset.
    pub fn seq(&self, offset: Offset) -> u32 {
        self.space.map_or(0, |space| space.seq(offset))
    }

    /// Returns the offset up to which all bytes passed.
    pub fn contiguous(&self) -> Offset {
        let passed = self.gaps.first().unwrap_or(self.next);
        // The FIN has a sequence number, and is no byte.
        self.fin.map_or(passed, |fin| passed.min(fin - 1))
    }

    /// Returns the bytes in flight at the place of the capture.
    pub fn flight_bytes(&self) -> Offset {
        self.next - self.una
    }

    /// Reads the timestamp of a segment of this end.
    pub fn see_stamp(&mut self, segment: &Segment) {
        let stamp = segment.options.timestamps.map(|(own, _)| own);
        self.clock.compare(segment.time_ns, stamp);
        if let Some(stamp) = stamp {
            self.echo.note_segment(segment.time_ns, stamp);
        }
    }

    /// Reads the echo in a segment of the other end. Returns the round trip to that end or more, ns.
    pub fn take_echo(&mut self, segment: &Segment) -> Option<u64> {
        segment.ack?;
        let (_, echo) = segment.options.timestamps?;
        self.echo.take_echo(segment.time_ns, echo)
    }

    /// Returns when the segment that passes left, by the sender's clock, in the time of the capture.
    pub fn sent_ns(&mut self, segment: &Segment) -> u64 {
        self.clock.sent_ns(segment.time_ns)
    }

    /// Applies ACKs that have arrived at the sender by now. `echo`: the latest timestamp that this
    /// end has.
    pub fn settle(&mut self, now_ns: u64, echo: Option<u32>) {
        while let Some((at_ns, ack)) = self.acks.pop(now_ns, echo) {
            self.ledger.acknowledge(at_ns, ack);
        }
    }

    /// Applies ACKs that arrived before the data on its way to the capture was sent.
    pub fn settle_passed(&mut self, now_ns: u64) {
        let delay_ns = match self.clock.is_known() {
            true => self.clock.delay_ns().max(0).unsigned_abs(),
            false => 0,
        };
        self.settle(now_ns.saturating_sub(delay_ns), None);
    }

    /// Applies an ACK of the other end; returns whether its delayed-ACK timer sent it. `near`: the
    /// round trip to this end; `far`: to the other.
    pub fn acknowledge(
        &mut self,
        segment: &Segment,
        ack: Offset,
        window_bytes: Option<i64>,
        (near, far): (&SideTrip, &mut SideTrip),
    ) -> bool {
        let now_ns = segment.time_ns;
        let has_data = segment.bytes > 0 || segment.is_fin;
        let is_new = ack > self.una;
        let mut is_by_timer = false;
        let mut held_after_timeout_ns = None;
        if is_new {
            let most = self.mss_bytes().unwrap_or(i64::MAX);
            let may_be_late = !has_data && ack - self.una <= most;
            let held_ns = |took_ns: u64, far: &SideTrip| {
                let held_ns = took_ns.saturating_sub(far.least_ns?);
                (may_be_late && held_ns >= DELACK_LEAST_NS).then_some(held_ns)
            };
            if let Some(probe) = self.pending.acknowledge(ack) {
                let took_ns = now_ns.saturating_sub(probe.passed_ns);
                far.add(took_ns);
                is_by_timer = held_ns(took_ns, far).is_some();
                let whole_ns = took_ns.saturating_add(near.least_ns.unwrap_or(0));
                self.count_trip(whole_ns, probe.delay_ns, is_by_timer);
            }
            if let Some((_, sent_ns)) = self.after_timeout.take_if(|(end, _)| *end <= ack) {
                held_after_timeout_ns = held_ns(now_ns.saturating_sub(sent_ns), far);
            }
            self.take_new(ack);
        }
        let is_repeat = !is_new && !has_data && self.flight_bytes() > 0 && !segment.is_rst;
        self.duplicate_acks += u32::from(is_repeat);
        let is_duplicate = self.take_sack(segment, ack);
        let stamps = segment.options.timestamps;
        self.acks.push(
            now_ns,
            near,
            stamps.map(|(own, _)| own),
            ArrivedAck {
                ack,
                window_bytes,
                has_data,
                is_by_timer,
                held_after_timeout_ns,
                is_duplicate,
                shows_arrival: is_repeat && !is_duplicate,
                echo: stamps.map(|(_, echo)| echo),
            },
        );
        is_by_timer
    }

    /// Adds a round trip; `delay_ns`: its part before the capture. The delay counts once the
    /// sender's clock is known, then also that of earlier segments.
    fn count_trip(&mut self, ns: u64, delay_ns: i64, is_by_timer: bool) {
        self.delays_ns = self.delays_ns.saturating_add(delay_ns);
        let row = &mut self.ledger.row;
        row.rtt_sum_us += ns / 1_000;
        if self.clock.is_known() {
            let delays_us = std::mem::take(&mut self.delays_ns) / 1_000;
            row.rtt_sum_us = row.rtt_sum_us.saturating_add_signed(delays_us);
        }
        row.rtt_samples = row.rtt_samples.saturating_add(1);
        row.acks_by_timer += u32::from(is_by_timer);
    }

    /// Applies an ACK of new data, up to this byte.
    fn take_new(&mut self, ack: Offset) {
        let unseen = (ack - self.next).max(0).unsigned_abs() + self.gaps.close_before(ack);
        // Bytes from before the capture are no loss of it.
        if self.has_syn || self.counts.data_segments > 0 {
            self.counts.unseen_bytes += unseen;
        }
        self.una = ack;
        self.next = self.next.max(ack);
        self.duplicate_acks = 0;
        self.has_probed = false;
        self.sacked = self.sacked.max(ack);
        if self.recovery_end.is_some_and(|end| ack >= end) {
            self.recovery_end = None;
        }
    }

    /// Applies selective ACKs; returns whether the first block reports a duplicate (RFC 2883).
    fn take_sack(&mut self, segment: &Segment, ack: Offset) -> bool {
        let (Some(space), [Some(first), second, ..]) = (self.space, segment.options.sack) else {
            return false;
        };
        let range = |block: (u32, u32)| (space.offset(block.0, ack), space.offset(block.1, ack));
        let (begin, end) = range(first);
        let is_within = second
            .map(range)
            .is_some_and(|(b, e)| b <= begin && end <= e);
        let is_duplicate = begin < ack || is_within;
        self.counts.duplicates += u32::from(is_duplicate);
        let blocks = segment.options.sack.into_iter().flatten();
        let highest = blocks.map(|block| range(block).1).max().unwrap_or(ack);
        self.sacked = self.sacked.max(highest.min(self.next));
        is_duplicate
    }

    /// Returns the payload of a full segment, bytes; `None`: no segment shows it.
    pub fn mss_bytes(&self) -> Option<i64> {
        self.full_bytes().map(i64::from)
    }

    /// Returns the size of a full segment, bytes; `None` if unknown.
    pub fn full_bytes(&self) -> Option<u32> {
        let seen = self.counts.largest_bytes;
        self.peer_mss.or(match seen {
            0 => None,
            1..=FRAME_MOST_BYTES => Some(seen),
            _ => Some(USUAL_MSS_BYTES),
        })
    }

    /// Takes the sequence number of an ACK without data. It shows how much was sent: what did not pass is a gap.
    pub fn see_next(&mut self, segment: &Segment) {
        let Some(space) = self.space.filter(|_| self.is_begun()) else {
            return;
        };
        let next = space.offset(segment.seq, self.next);
        if next > self.next {
            self.add_gap(segment, next);
            self.next = next;
            self.ledger.see_next(next);
        }
    }

    /// Returns whether offsets are known: a SYN or data has passed.
    fn is_begun(&self) -> bool {
        self.has_syn || self.counts.data_segments > 1
    }

    /// Remembers bytes that the capture does not have.
    fn add_gap(&mut self, segment: &Segment, end: Offset) {
        let lost = self.gaps.push(Gap {
            first: self.next,
            end,
            since_ns: segment.time_ns,
            ip_id: segment.ip_id,
        });
        self.counts.unseen_bytes += lost;
    }

    /// Adds data, or a FIN.
    pub fn send(&mut self, segment: &Segment, first: Offset, context: SendContext) -> Passage {
        let sent_ns = context.sent_ns;
        let end = first + i64::from(segment.bytes) + i64::from(segment.is_fin);
        if self.is_probe(segment, first, end) {
            return Passage::Probe;
        }
        if segment.is_fin {
            self.fin = Some(end);
        }
        let passage = self.passage(segment, (first, end), context);
        self.counts.add(segment, passage, (first, end));
        if passage == Passage::New {
            if first > self.next && self.is_begun() {
                self.add_gap(segment, first);
            }
            let delay_ns = self.clock.delay_ns();
            self.pending.push(end, segment.time_ns, delay_ns);
            self.ledger
                .send(sent_ns, end, (end - first.max(self.next), segment.is_fin));
        }
        if let Passage::Again(kind) | Passage::Late(Some(kind)) = passage {
            self.pending.clear();
            self.has_probed |= kind == RetransmitKind::TailLossProbe;
            self.after_timeout =
                (kind == RetransmitKind::Timeout).then_some((end, segment.time_ns));
            let recovery_end = self.next;
            self.recovery_end.get_or_insert(recovery_end);
            let stamp = segment.options.timestamps.map(|(own, _)| own);
            // Of what was sent before and did not pass only the number is known.
            let unseen = match passage {
                Passage::Late(_) => i64::from(self.ids.missing()) * self.mss_bytes().unwrap_or(1),
                _ => 0,
            };
            self.ledger
                .resend(sent_ns, (first, end), (kind, stamp, unseen));
        }
        self.next = self.next.max(end);
        passage
    }

    /// Returns whether a segment is a keep-alive or a probe of a zero window: it repeats
    /// acknowledged bytes.
    fn is_probe(&self, segment: &Segment, first: Offset, end: Offset) -> bool {
        let is_closed = self.ledger.is_window_closed();
        segment.bytes <= 1
            && !segment.is_fin
            && (first == self.una - 1 && end <= self.una || is_closed && first == self.next)
            && self.counts.data_segments > 0
    }

    /// Decides whether a segment is new, retransmitted, out of order, or late.
    fn passage(
        &mut self,
        segment: &Segment,
        (first, end): (Offset, Offset),
        context: SendContext,
    ) -> Passage {
        let trip_ns = context.trip_ns;
        if first >= self.next {
            let silent_ns = context.sent_ns.saturating_sub(self.ledger.progress_ns());
            // The tail was lost before it came here: a packet is missing, and it was no ACK that the other end waits for.
            let is_lost = first == self.next
                && self.ids.missing() > 0
                && context.is_other_idle
                && silent_ns >= PROBE_LEAST_NS.max(2 * trip_ns);
            return match is_lost {
                true => Passage::Late(Some(self.kind(context, end))),
                false => Passage::New,
            };
        }
        if let Some(gap) = self.gaps.fill(first, end) {
            let is_late = self.is_reordered(segment, &gap, trip_ns);
            return Passage::Late((!is_late).then(|| self.kind(context, end)));
        }
        // Of a segment that begins with old bytes the new ones count: the old ones go along.
        match end > self.next && first < self.una {
            true => Passage::New,
            false => Passage::Again(self.kind(context, end)),
        }
    }

    /// Returns whether a segment that comes late was sent before the one that it follows (Jaiswal et al., Measurement
    /// and Classification of Out-of-Sequence Packets, 2007): by IPv4's identification, else by time.
    fn is_reordered(&self, segment: &Segment, gap: &Gap, trip_ns: u64) -> bool {
        let ids = segment.ip_id.zip(gap.ip_id).filter(|ids| *ids != (0, 0));
        match ids {
            Some((own, later)) => later.wrapping_sub(own) < u16::MAX / 2,
            None => segment.time_ns.saturating_sub(gap.since_ns) < trip_ns,
        }
    }

    /// Returns why a segment was retransmitted: by timer, fast, or as a probe.
    fn kind(&self, context: SendContext, end: Offset) -> RetransmitKind {
        let silent_ns = context.sent_ns.saturating_sub(self.ledger.progress_ns());
        let is_shown = self.sacked > end || self.duplicate_acks >= 3 || self.recovery_end.is_some();
        let is_due = silent_ns >= RTO_LEAST_NS + context.trip_ns.min(RTO_LEAST_NS);
        let is_tail = end >= self.next && self.is_sack != Some(false);
        if is_shown && !is_due && !self.has_probed {
            RetransmitKind::Fast
        } else if is_tail && self.recovery_end.is_none() && !self.has_probed {
            RetransmitKind::TailLossProbe
        } else if self.sacked > end && !is_due {
            RetransmitKind::Fast
        } else {
            RetransmitKind::Timeout
        }
    }
}
