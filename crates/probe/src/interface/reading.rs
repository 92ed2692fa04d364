//! Readings of watched sockets, and the calls that they count.

use table::tables::{TcpSample, TcpStage};

/// Number of classes of calls, by their bytes (`call_class()` in `watch.bpf.h`).
pub const CALL_CLASSES: usize = 6;

/// `CALL_COUNT_SHIFT` of `watch.h`.
const COUNT_SHIFT: u32 = 40;

/// One reading of a watched socket.
#[derive(Debug, Clone)]
pub struct SocketReading {
    /// Before this nothing had happened since the reading before, `CLOCK_MONOTONIC` ns; 0: not known.
    pub since_ns: u64,
    /// Its statistics.
    pub sample: TcpSample,
    /// Its ledger; `None` where none is kept, or it was being changed at this moment.
    pub stages: Option<TcpStage>,
    /// Its calls so far.
    pub calls: CallSummary,
}

/// Calls on a socket since it is watched, as the kernel packs them; only differences can be read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallSummary {
    pub(crate) writes: [u64; CALL_CLASSES],
    pub(crate) reads: [u64; CALL_CLASSES],
}

/// Calls in one direction that moved bytes, between two readings.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Bytes that they moved.
    pub bytes: u64,
    /// How many of at most 64, 512, 4,096, 32,768 and 262,144 bytes, and of more.
    pub by_class: [u64; CALL_CLASSES],
}

impl CallCounts {
    /// Moves `known` on to another reading of the same counters. One that is the older of both says nothing: the
    /// difference of two readings, taken either way, is less than half of what the numbers hold.
    fn advance(known: &mut [u64; CALL_CLASSES], other: &[u64; CALL_CLASSES]) -> Self {
        let mut counts = Self::default();
        for class in 0..CALL_CLASSES {
            let difference = other[class].wrapping_sub(known[class]);
            if difference.cast_signed() < 0 {
                continue;
            }
            known[class] = other[class];
            counts.by_class[class] = difference >> COUNT_SHIFT;
            counts.bytes += difference & ((1 << COUNT_SHIFT) - 1);
        }
        counts
    }

    /// Returns how many in all.
    pub fn calls(&self) -> u64 {
        self.by_class.iter().sum()
    }

    /// Adds the counts of other calls.
    pub fn add(&mut self, other: &Self) {
        self.bytes += other.bytes;
        for (sum, calls) in self.by_class.iter_mut().zip(other.by_class) {
            *sum += calls;
        }
    }
}

impl CallSummary {
    /// Moves on to another reading: send and receive calls between both. Readings of two CPUs may come in another
    /// order than that in which they were taken; what an older one counted is counted already.
    pub fn advance(&mut self, other: &Self) -> [CallCounts; 2] {
        [
            CallCounts::advance(&mut self.writes, &other.writes),
            CallCounts::advance(&mut self.reads, &other.reads),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Packs counts of calls as `call_count()` does in the kernel.
    fn pack(calls: &[(usize, u64)]) -> [u64; CALL_CLASSES] {
        let mut packed = [0_u64; CALL_CLASSES];
        for (class, bytes) in calls {
            packed[*class] = packed[*class].wrapping_add((1 << COUNT_SHIFT) + bytes);
        }
        packed
    }

    proptest! {
        #[test]
        fn differences_are_exact_whatever_came_before(
            before in any::<[u64; CALL_CLASSES]>(),
            calls in proptest::collection::vec((0..CALL_CLASSES, 1_u64..1 << 30), 0..500),
        ) {
            let mut after = before;
            for (sum, packed) in after.iter_mut().zip(pack(&calls)) {
                *sum = sum.wrapping_add(packed);
            }
            let summary = |writes| CallSummary { writes, ..CallSummary::default() };
            let mut known = summary(before);
            let [counts, _] = known.advance(&summary(after));
            prop_assert_eq!(counts.calls(), calls.len() as u64);
            prop_assert_eq!(counts.bytes, calls.iter().map(|(_, bytes)| bytes).sum::<u64>());
            for class in 0..CALL_CLASSES {
                let expected = calls.iter().filter(|(of, _)| *of == class).count();
                prop_assert_eq!(counts.by_class[class], expected as u64);
            }
            // the older one comes again
            let again = known.advance(&summary(before));
            prop_assert_eq!(again, <[CallCounts; 2]>::default());
            prop_assert_eq!(known, summary(after));
        }
    }
}
