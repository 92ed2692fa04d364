//! Counters of one direction, and kinds of segments with data.

use super::ledger::RetransmitKind;
use super::segment::Segment;
use super::sequence::Offset;

/// Kind of a segment's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passage {
    /// The first time.
    New,
    /// They passed before: retransmitted.
    Again(RetransmitKind),
    /// Later ones passed before: on another way, or lost before and retransmitted.
    Late(Option<RetransmitKind>),
    /// A keep-alive, or a probe of a closed window.
    Probe,
}

/// Counters of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub struct HalfCounts {
    /// Segments.
    pub segments: u32,
    /// Those with data.
    pub data_segments: u32,
    /// Bytes sent, all.
    pub bytes: u64,
    /// Bytes retransmitted.
    pub bytes_again: u64,
    /// Segments retransmitted.
    pub segments_again: u32,
    /// Retransmission timeouts.
    pub timeouts: u16,
    /// Duplicates that the receiver reported.
    pub duplicates: u32,
    /// Segments that came out of order.
    pub reordered: u32,
    /// Segments with a congestion mark.
    pub marked: u32,
    /// Bytes that the receiver had and the capture has not.
    pub unseen_bytes: u64,
    /// Longest run of bytes of a segment.
    pub largest_bytes: u32,
}

impl HalfCounts {
    /// Counts a segment with data.
    pub fn add(&mut self, segment: &Segment, passage: Passage, (first, end): (Offset, Offset)) {
        self.data_segments += 1;
        self.bytes += u64::from(segment.bytes);
        self.largest_bytes = self.largest_bytes.max(segment.bytes);
        let again = match passage {
            Passage::Again(kind) | Passage::Late(Some(kind)) => kind,
            Passage::Late(None) => {
                self.reordered += 1;
                return;
            }
            Passage::New | Passage::Probe => return,
        };
        self.segments_again += 1;
        self.bytes_again += (end - first).unsigned_abs();
        self.timeouts = self
            .timeouts
            .saturating_add(u16::from(again == RetransmitKind::Timeout));
    }
}
