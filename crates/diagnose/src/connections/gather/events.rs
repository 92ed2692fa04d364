//! Events of one connection: counts by kind, the intervals in congestion state Loss, and how
//! long the peer's window was zero.

use table::TcpEventKind;
use table::tables::TcpEvent;

use crate::kernel::{TCP_CA_LOSS, TCP_CA_RECOVERY};

/// Retransmissions of one connection with a kept time: those of its first minutes, where there
/// are more.
const MOST_LOSSES: usize = 4096;

/// Segments that were retransmitted at once.
#[derive(Debug, Clone, Copy)]
pub(super) struct Retransmission {
    pub(super) time_ns: u64,
    kind: TcpEventKind,
    pub(super) segments: u64,
    /// First sequence number, and that after the last byte; `None`: not recorded.
    pub(super) range: Option<(u32, u32)>,
}

impl Retransmission {
    /// Returns whether a timer caused it, not duplicate ACKs.
    fn is_by_timer(&self) -> bool {
        self.kind != TcpEventKind::FastRetransmit
    }
}

/// A time in which retransmissions of one connection were lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LostAgain {
    /// When the first of them was sent, ns.
    pub first_ns: u64,
    /// When the last of them was sent, ns.
    pub last_ns: u64,
    /// When a later one passed, or was acknowledged, ns; `None`: none was.
    pub until_ns: Option<u64>,
}

/// A segment that was retransmitted until the end, and never acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StuckSegment {
    /// Its size, and that of all segments that were retransmitted since: the smallest.
    pub bytes: u64,
    /// How often it was retransmitted.
    pub again: u64,
    /// When it was retransmitted first, ns.
    pub since_ns: u64,
}

/// Events of one connection.
#[derive(Debug, Clone, Default)]
pub struct EventDigest {
    counts: [u64; TcpEventKind::ALL.len()],
    /// When segments were retransmitted that the receiver did not report to have had already, ns; at most
    /// [`MOST_LOSSES`].
    pub losses_ns: Vec<u64>,
    /// Retransmissions and their times; at most [`MOST_LOSSES`].
    retransmitted: Vec<Retransmission>,
    /// Intervals in state Loss, ns; an open one has no end.
    pub loss: Vec<(u64, Option<u64>)>,
    /// Times that fast recovery began.
    pub recoveries: u64,
    /// Time in fast recovery, of recoveries with a seen end, ns.
    pub recovery_ns: u64,
    recovery_since: Option<u64>,
    /// Time with a zero window, of openings with a seen end, ns.
    pub zero_window_ns: u64,
    zero_window_since: Option<u64>,
    /// Times that it ended at once, as by a reset.
    pub aborts: u64,
}

impl EventDigest {
    /// Adds one event of the connection; events come in the order of time.
    pub fn add(&mut self, event: &TcpEvent) {
        let TcpEvent {
            conn: _,
            time_ns,
            kind,
            old,
            new,
            segments,
            in_flight_bytes: _,
            seq,
            end_seq,
        } = *event;
        // A retransmission event may stand for several segments sent at once.
        let weight = match kind {
            TcpEventKind::FastRetransmit | TcpEventKind::TimeoutRetransmit => {
                u64::from(segments.unwrap_or(1).max(1))
            }
            _ => 1,
        };
        self.counts[kind as usize] += weight;
        self.aborts += u64::from(is_abort(kind, old, new));
        if kind.is_retransmission() && self.retransmitted.len() < MOST_LOSSES {
            self.retransmitted.push(Retransmission {
                time_ns,
                kind,
                segments: weight,
                range: seq.zip(end_seq),
            });
        }
        if kind.is_retransmission() && self.losses_ns.len() < MOST_LOSSES {
            self.losses_ns.push(time_ns);
        }
        match kind {
            TcpEventKind::CongestionState => self.congestion_state(time_ns, old, new),
            TcpEventKind::Spurious => self.take_back(segments.unwrap_or(1)),
            TcpEventKind::ZeroWindowOpen => self.zero_window_since = Some(time_ns),
            TcpEventKind::ZeroWindowClose => {
                if let Some(since) = self.zero_window_since.take() {
                    self.zero_window_ns += time_ns.saturating_sub(since);
                }
            }
            _ => {}
        }
    }

    /// Removes the last `segments` losses: the receiver already had what was retransmitted.
    fn take_back(&mut self, segments: u32) {
        if self.losses_ns.len() < MOST_LOSSES {
            let left = self.losses_ns.len().saturating_sub(segments as usize);
            self.losses_ns.truncate(left);
        }
    }

    /// Follows the congestion state: begins or ends an interval of recovery or loss.
    fn congestion_state(&mut self, time_ns: u64, old: Option<u8>, new: Option<u8>) {
        if new == Some(TCP_CA_RECOVERY) {
            self.recoveries += 1;
            self.recovery_since = Some(time_ns);
        } else if let Some(since) = self.recovery_since.take() {
            self.recovery_ns += time_ns.saturating_sub(since);
        }
        let open = matches!(self.loss.last(), Some((_, None)));
        if new == Some(TCP_CA_LOSS) {
            // Loss again while in Loss is a further timeout of the same stall.
            if !open {
                self.loss.push((time_ns, None));
            }
        } else if old == Some(TCP_CA_LOSS)
            && open
            && let Some(last) = self.loss.last_mut()
        {
            last.1 = Some(time_ns);
        }
    }

    /// Returns the segment that nothing acknowledged any more, if there is one: all later retransmissions are of it, or of
    /// segments behind it.
    pub fn stuck_segment(&self) -> Option<StuckSegment> {
        let is_before = |a: u32, b: u32| a.wrapping_sub(b).cast_signed() < 0;
        let (seq, _) = self.retransmitted.last()?.range?;
        let ranges = || {
            self.retransmitted
                .iter()
                .filter_map(|it| Some((it, it.range?)))
        };
        let first = ranges().position(|(_, range)| range.0 == seq)?;
        let since: Vec<_> = ranges().skip(first).collect();
        if since.iter().any(|(_, range)| is_before(range.0, seq)) {
            return None;
        }
        let size = |it: &Retransmission, (from, to): (u32, u32)| {
            u64::from(to.wrapping_sub(from)) / it.segments.max(1)
        };
        let own = || since.iter().filter(|(_, range)| range.0 == seq);
        Some(StuckSegment {
            bytes: since.iter().map(|(it, range)| size(it, *range)).min()?,
            again: own().count() as u64,
            since_ns: own().next()?.0.time_ns,
        })
    }

    /// Returns whether the receiver already had at least half of what was retransmitted at kept times.
    pub fn is_mostly_taken_back(&self) -> bool {
        let all = self.retransmitted.len();
        all > 0 && 2 * self.losses_ns.len() <= all
    }

    /// Returns the times in which nothing was acknowledged between retransmissions by timers. So they were lost, too, unless the
    /// connection is one of late ACKs ([`ConnectionSubject::is_mostly_late()`]).
    ///
    /// [`ConnectionSubject::is_mostly_late()`]: crate::connections::subject::ConnectionSubject::is_mostly_late
    pub fn lost_again(&self) -> Vec<LostAgain> {
        let is_after = |a: u32, b: u32| a.wrapping_sub(b).cast_signed() > 0;
        let mut found: Vec<LostAgain> = Vec::new();
        let mut open: Option<LostAgain> = None;
        for pair in self.retransmitted.windows(2) {
            let (before, next) = (pair[0], pair[1]);
            let seqs = before.range.zip(next.range);
            let is_same = seqs.is_some_and(|(before, next)| !is_after(next.0, before.0));
            if before.is_by_timer() && next.is_by_timer() && is_same {
                let lost = open.get_or_insert(LostAgain {
                    first_ns: before.time_ns,
                    last_ns: before.time_ns,
                    until_ns: None,
                });
                lost.last_ns = before.time_ns;
            } else if let Some(lost) = open.take() {
                found.push(self.end_lost(lost, before.time_ns));
            }
        }
        let last_ns = self.retransmitted.last().map(|it| it.time_ns);
        found.extend(open.zip(last_ns).map(|(lost, ns)| self.end_lost(lost, ns)));
        found
    }

    /// Ends such a time with the last retransmission: it passed, or an ACK of the other end did, which ended state Loss.
    fn end_lost(&self, lost: LostAgain, retransmitted_ns: u64) -> LostAgain {
        let is_within = |(since, end): &&(u64, Option<u64>)| {
            *since <= retransmitted_ns && end.is_none_or(|end| retransmitted_ns <= end)
        };
        let of_loss = self.loss.iter().find(is_within);
        LostAgain {
            until_ns: of_loss.map_or(Some(retransmitted_ns), |(_, end)| *end),
            ..lost
        }
    }

    /// Returns when timers expired, ns: tail-loss probes, and timeouts that began state Loss.
    pub fn timer_times_ns(&self) -> impl Iterator<Item = u64> {
        let is_probe = |it: &&Retransmission| it.kind == TcpEventKind::TailLossProbe;
        let probes = self.retransmitted.iter().filter(is_probe);
        let timeouts = self.loss.iter().map(|(since_ns, _)| *since_ns);
        probes.map(|it| it.time_ns).chain(timeouts)
    }

    /// Returns the retransmitted segments with their times.
    pub(super) fn retransmissions(&self) -> &[Retransmission] {
        &self.retransmitted
    }

    /// Returns how often `kind` happened (segments, for retransmissions).
    pub fn count(&self, kind: TcpEventKind) -> u64 {
        self.counts[kind as usize]
    }

    /// Returns how many segments were retransmitted, in this way, within `span` (ns, both ends included). Those without a
    /// kept time came last, and count.
    pub fn retransmitted_within(&self, kind: TcpEventKind, span: (u64, u64)) -> u64 {
        let outside = self
            .retransmitted
            .iter()
            .filter(|again| again.kind == kind && !(span.0..=span.1).contains(&again.time_ns));
        let outside: u64 = outside.map(|again| again.segments).sum();
        self.count(kind).saturating_sub(outside)
    }

    /// Returns whether the peer's window is zero after the last event.
    pub fn has_zero_window(&self) -> bool {
        self.zero_window_since.is_some()
    }

    /// Time with a zero window until `end_ns`, ns.
    pub fn zero_window_until_ns(&self, end_ns: u64) -> u64 {
        let open_ns = self
            .zero_window_since
            .map_or(0, |since| end_ns.saturating_sub(since));
        self.zero_window_ns + open_ns
    }
}

/// Returns whether an event ends a connection at once: by a reset, of either end.
fn is_abort(kind: TcpEventKind, old: Option<u8>, new: Option<u8>) -> bool {
    const TCP_ESTABLISHED: u8 = 1;
    const TCP_CLOSE: u8 = 7;
    const TCP_CLOSE_WAIT: u8 = 8;
    let was_open = matches!(old, Some(TCP_ESTABLISHED | TCP_CLOSE_WAIT));
    kind == TcpEventKind::State && was_open && new == Some(TCP_CLOSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ms: u64, kind: TcpEventKind, new: Option<u8>, seq: Option<u32>) -> TcpEvent {
        TcpEvent {
            conn: 1,
            time_ns: ms * 1_000_000,
            kind,
            old: new.map(|state| if state == 0 { TCP_CA_LOSS } else { 0 }),
            new,
            segments: seq.map(|_| 1),
            in_flight_bytes: None,
            seq,
            end_seq: seq.map(|seq| seq.wrapping_add(100)),
        }
    }

    /// Digests a tail-loss probe and two timeouts; the first timeout begins state Loss.
    fn lost(seqs: [u32; 3], more: &[TcpEvent]) -> Vec<(u64, u64, Option<u64>)> {
        use TcpEventKind::{CongestionState, TailLossProbe, TimeoutRetransmit};
        let mut digest = EventDigest::default();
        let all = [
            event(10, TailLossProbe, None, Some(seqs[0])),
            event(200, CongestionState, Some(TCP_CA_LOSS), None),
            event(200, TimeoutRetransmit, None, Some(seqs[1])),
            event(600, TimeoutRetransmit, None, Some(seqs[2])),
        ];
        for event in all.iter().chain(more) {
            digest.add(event);
        }
        let ms = |ns: u64| ns / 1_000_000;
        let lost = digest.lost_again().into_iter();
        lost.map(|it| (ms(it.first_ns), ms(it.last_ns), it.until_ns.map(ms)))
            .collect()
    }

    #[test]
    fn retransmissions_without_progress_were_lost() {
        let acked = event(620, TcpEventKind::CongestionState, Some(0), None);
        // the probe is of the last segment, the timeout of the first one; numbers wrap
        assert_eq!(
            lost([50, u32::MAX, u32::MAX], &[acked]),
            [(10, 200, Some(620))]
        );
        // each is of a later segment: those before were acknowledged
        assert_eq!(lost([50, 150, 250], &[]), []);
    }

    #[test]
    fn retransmissions_until_the_end_have_no_end() {
        assert_eq!(lost([50, 50, 50], &[]), [(10, 200, None)]);
    }
}
