//! Retransmissions and the packets that this host dropped: a segment was dropped here if a dropped one of its connection
//! has bytes of it.

use std::collections::{BTreeMap, HashMap};

use table::TcpEventKind;
use table::tables::{PacketDrop, TcpEvent};

use super::report::{RetransmissionCauses, RetransmittedBy};

/// A dropped segment.
#[derive(Debug, Clone)]
struct DroppedSegment {
    time_ns: u64,
    seq: u32,
    end_seq: u32,
    reason: Option<String>,
    place: Option<String>,
}

/// The kernel's count of a connection's retransmitted segments, from its first reading to the last.
#[derive(Debug)]
struct CountedSegments {
    /// Time and value, as of the last one.
    first: (u64, u32),
    last: (u64, u32),
    /// Segments that events show, in that time.
    shown: u64,
}

impl CountedSegments {
    /// Returns how many segments no event shows. The kernel counts those, too, that it could not send
    /// (`__tcp_retransmit_skb()`), and does not run a program inside itself. At either end of the time, one may be
    /// counted here though its event is outside.
    fn unseen(&self) -> u64 {
        let counted = self.last.1.saturating_sub(self.first.1);
        u64::from(counted).saturating_sub(self.shown)
    }
}

/// Dropped segments of recorded connections, by the connection that sent them.
#[derive(Debug, Default)]
pub(super) struct SegmentJoin {
    dropped: HashMap<u64, Vec<DroppedSegment>>,
    counted: HashMap<u64, CountedSegments>,
    by: BTreeMap<(Option<String>, Option<String>), u64>,
    not_here: u64,
    unknown: u64,
}

impl SegmentJoin {
    /// Adds a dropped packet of the connection that sent it.
    pub(super) fn add_drop(&mut self, conn: u64, row: &PacketDrop) {
        let (Some(seq), Some(end_seq)) = (row.seq, row.end_seq) else {
            return;
        };
        self.dropped.entry(conn).or_default().push(DroppedSegment {
            time_ns: row.time_ns,
            seq,
            end_seq,
            reason: row.reason.clone(),
            place: row.place.clone(),
        });
    }

    /// Adds the kernel's count of a connection, before its events.
    pub(super) fn add_reading(&mut self, conn: u64, time_ns: u64, segments: u32) {
        let reading = (time_ns, segments);
        let counted = self.counted.entry(conn).or_insert(CountedSegments {
            first: reading,
            last: reading,
            shown: 0,
        });
        counted.first = counted.first.min(reading);
        counted.last = counted.last.max(reading);
    }

    /// Adds a retransmitted segment; `is_whole`: all drops of recorded connections are known.
    pub(super) fn add_event(&mut self, event: &TcpEvent, is_whole: bool) {
        if !is_retransmission(event.kind) {
            return;
        }
        let segments = u64::from(event.segments.unwrap_or(1).max(1));
        if let Some(counted) = self.counted.get_mut(&event.conn)
            && (counted.first.0..=counted.last.0).contains(&event.time_ns)
        {
            counted.shown += segments;
        }
        let Some(range) = event.seq.zip(event.end_seq) else {
            self.unknown += segments;
            return;
        };
        let dropped = self.dropped.get(&event.conn).into_iter().flatten();
        let mut dropped = dropped.filter(|it| it.time_ns < event.time_ns);
        match dropped.rfind(|it| overlaps(range, (it.seq, it.end_seq))) {
            Some(it) => {
                let by = (it.reason.clone(), it.place.clone());
                *self.by.entry(by).or_default() += segments;
            }
            None if is_whole => self.not_here += segments,
            None => self.unknown += segments,
        }
    }

    /// Returns the causes of retransmissions; `None`: nothing was retransmitted.
    pub(super) fn finish(self) -> Option<RetransmissionCauses> {
        let unseen: u64 = self.counted.values().map(CountedSegments::unseen).sum();
        let mut by: Vec<RetransmittedBy> = self
            .by
            .into_iter()
            .map(|((reason, place), segments)| RetransmittedBy {
                reason,
                place,
                segments,
            })
            .collect();
        by.sort_by_key(|it| std::cmp::Reverse(it.segments));
        let dropped_here = by.iter().map(|it| it.segments).sum();
        let causes = RetransmissionCauses {
            dropped_here,
            not_dropped_here: self.not_here,
            unknown: self.unknown + unseen,
            by,
        };
        (dropped_here + causes.not_dropped_here + causes.unknown > 0).then_some(causes)
    }
}

/// Returns whether the event is a retransmission, also of a SYN.
fn is_retransmission(kind: TcpEventKind) -> bool {
    kind.is_retransmission() || kind == TcpEventKind::SynRetransmit
}

/// Returns whether two ranges of sequence numbers have a byte in common. Both are far shorter than
/// half the circle.
pub(crate) fn overlaps((seq, end): (u32, u32), (other, other_end): (u32, u32)) -> bool {
    let before = |a: u32, b: u32| a.wrapping_sub(b).cast_signed() < 0;
    before(seq, other_end) && before(other, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A segment that was retransmitted when its timer ended.
    fn retransmission(time_ns: u64) -> TcpEvent {
        TcpEvent {
            conn: 1,
            time_ns,
            kind: TcpEventKind::TimeoutRetransmit,
            old: None,
            new: None,
            segments: Some(1),
            in_flight_bytes: Some(1000),
            seq: Some(10),
            end_seq: Some(20),
        }
    }

    /// The kernel ran no program for one of three, and one was before the first reading.
    #[test]
    fn segments_without_an_event_are_unknown() {
        let mut join = SegmentJoin::default();
        join.add_reading(1, 5_000, 1);
        join.add_reading(1, 9_000, 4);
        for time_ns in [1_000, 6_000, 7_000] {
            join.add_event(&retransmission(time_ns), true);
        }
        let causes = join.finish().expect("retransmissions");
        assert_eq!((causes.not_dropped_here, causes.unknown), (3, 1));
    }

    #[test]
    fn ranges_overlap_by_a_byte() {
        assert!(overlaps((10, 20), (19, 30)));
        assert!(!overlaps((10, 20), (20, 30)));
        // across the end of the circle
        assert!(overlaps((u32::MAX - 3, 5), (2, 9)));
        assert!(!overlaps((u32::MAX - 3, 2), (2, 9)));
        // an ACK without bytes has none in common
        assert!(!overlaps((10, 20), (10, 10)));
    }
}
