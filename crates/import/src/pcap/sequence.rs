//! Sequence numbers as offsets in a stream: they wrap at 2³², offsets do not.

/// Gaps of a stream that are kept; of more, the first are taken for bytes that the capture lost.
const GAPS_MOST: usize = 256;

/// Offset in a stream; the first byte has 0. Bytes from before the capture have less.
pub type Offset = i64;

/// Converts sequence numbers of one direction.
#[derive(Debug, Clone, Copy)]
pub struct SequenceSpace {
    base: u32,
}

impl SequenceSpace {
    /// Starts with the sequence number of the byte at offset 0.
    pub fn new(base: u32) -> Self {
        Self { base }
    }

    /// Returns the offset nearest to `near` that has this sequence number.
    pub fn offset(self, seq: u32, near: Offset) -> Offset {
        let near_seq = self.seq(near);
        near + i64::from(seq.wrapping_sub(near_seq).cast_signed())
    }

    /// Returns the sequence number of an offset.
    pub fn seq(self, offset: Offset) -> u32 {
        self.base.wrapping_add(offset as u32)
    }
}

/// Bytes that did not pass though later ones did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// First byte.
    pub first: Offset,
    /// Byte after the last.
    pub end: Offset,
    /// When the gap was seen.
    pub since_ns: u64,
    /// IPv4's identification of the segment after it.
    pub ip_id: Option<u16>,
}

/// Gaps of a stream, the first one first.
#[derive(Debug, Clone, Default)]
pub struct GapList(Vec<Gap>);

impl GapList {
    /// Adds a gap behind all others. Returns the bytes that are given up because there are too many gaps.
    pub fn push(&mut self, gap: Gap) -> u64 {
        let given_up = match self.0.len() >= GAPS_MOST {
            true => self.0.remove(0),
            false => Gap {
                end: gap.first,
                ..gap
            },
        };
        self.0.push(gap);
        (given_up.end - given_up.first).unsigned_abs()
    }

    /// Returns the offset at which the first gap begins.
    pub fn first(&self) -> Option<Offset> {
        self.0.first().map(|gap| gap.first)
    }

    /// Removes these bytes from the gaps. Returns the first gap that they were in.
    pub fn fill(&mut self, first: Offset, end: Offset) -> Option<Gap> {
        let filled = self
            .0
            .iter()
            .copied()
            .find(|gap| gap.first < end && first < gap.end)?;
        let mut left = Vec::with_capacity(self.0.len() + 1);
        for gap in self.0.drain(..) {
            let before = Gap {
                end: gap.end.min(first),
                ..gap
            };
            let after = Gap {
                first: gap.first.max(end),
                ..gap
            };
            left.extend([before, after].into_iter().filter(|it| it.first < it.end));
        }
        left.truncate(GAPS_MOST);
        self.0 = left;
        Some(filled)
    }

    /// Removes all gaps before this offset; returns their bytes.
    pub fn close_before(&mut self, end: Offset) -> u64 {
        let mut closed = 0;
        self.0.retain_mut(|gap| {
            let until = gap.end.min(end).max(gap.first);
            closed += (until - gap.first).unsigned_abs();
            gap.first = until;
            gap.first < gap.end
        });
        closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a gap of these bytes.
    fn gap(first: Offset, end: Offset) -> Gap {
        Gap {
            first,
            end,
            since_ns: 0,
            ip_id: None,
        }
    }

    #[test]
    fn offsets_go_on_where_sequence_numbers_wrap() {
        let space = SequenceSpace::new(0xffff_fff0);
        assert_eq!(space.offset(0xffff_fff0, 0), 0);
        assert_eq!(space.offset(0x10, 0), 0x20);
        assert_eq!(space.offset(0xffff_ffe0, 0), -0x10);
        let far = 10 << 32;
        assert_eq!(space.offset(space.seq(far), far + 1_000_000_000), far);
        assert_eq!(space.offset(space.seq(far), far - 1_000_000_000), far);
    }

    #[test]
    fn gaps_are_filled_from_either_side_and_from_within() {
        let mut gaps = GapList::default();
        assert_eq!(gaps.push(gap(10, 20)), 0);
        assert_eq!(gaps.push(gap(30, 40)), 0);
        assert_eq!(gaps.fill(20, 30), None);
        assert_eq!(gaps.fill(12, 14), Some(gap(10, 20)));
        assert_eq!(gaps.0, [gap(10, 12), gap(14, 20), gap(30, 40)]);
        assert_eq!(gaps.fill(0, 35), Some(gap(10, 12)));
        assert_eq!(gaps.0, [gap(35, 40)]);
        assert_eq!(gaps.close_before(37), 2);
        assert_eq!(gaps.first(), Some(37));
        assert_eq!(gaps.close_before(100), 3);
        assert_eq!(gaps.first(), None);
    }

    #[test]
    fn too_many_gaps_are_given_up_from_the_first() {
        let mut gaps = GapList::default();
        let most = GAPS_MOST as i64;
        let given_up = (0..most + 3).map(|at| gaps.push(gap(at * 10, at * 10 + 7)));
        assert_eq!(given_up.sum::<u64>(), 3 * 7);
        assert_eq!(gaps.first(), Some(30));
    }
}
