//! The times of a CPU that were kept already: nothing is kept twice.

use std::collections::VecDeque;

/// Times that are remembered of a CPU, 128 KiB.
const MOST_INTERVALS: usize = 8_192;

/// Times that do not touch, in order. A time stays remembered after its events were overwritten: otherwise a second
/// window would call it unknown.
#[derive(Debug, Clone, Default)]
pub(super) struct CapturedIntervals {
    intervals: VecDeque<(u64, u64)>,
    /// Nothing before this time is new: the intervals of it are forgotten.
    forgotten_until_ns: u64,
}

impl CapturedIntervals {
    /// Adds an interval; returns the parts of it that were not captured before, in order.
    pub(super) fn add(&mut self, from_ns: u64, until_ns: u64) -> Vec<(u64, u64)> {
        let from_ns = from_ns.max(self.forgotten_until_ns);
        let (mut new, mut at_ns) = (Vec::new(), from_ns);
        if from_ns >= until_ns {
            return new;
        }
        let (mut whole_from, mut whole_until) = (from_ns, until_ns);
        let first = self
            .intervals
            .partition_point(|(_, until)| *until < from_ns);
        let last = self
            .intervals
            .partition_point(|(from, _)| *from <= until_ns);
        for (from, until) in self.intervals.range(first..last) {
            if at_ns < *from {
                new.push((at_ns, *from));
            }
            at_ns = at_ns.max(*until);
            whole_from = whole_from.min(*from);
            whole_until = whole_until.max(*until);
        }
        if at_ns < until_ns {
            new.push((at_ns, until_ns));
        }
        self.intervals.drain(first..last);
        self.intervals.insert(first, (whole_from, whole_until));
        self.forget_oldest(MOST_INTERVALS);
        new
    }

    /// Forgets all but the `most` latest intervals.
    fn forget_oldest(&mut self, most: usize) {
        while self.intervals.len() > most {
            if let Some((_, until)) = self.intervals.pop_front() {
                self.forgotten_until_ns = until;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn captured_instants_are_new_only_once(times in prop::collection::vec((0u64..200, 0u64..40), 1..30)) {
            let mut kept = CapturedIntervals::default();
            let mut covered = [false; 256];
            for (from, length) in times {
                let until = from + length;
                let mut expected = covered;
                expected[from as usize..until as usize].fill(true);
                for (from, until) in kept.add(from, until) {
                    for instant in &mut covered[from as usize..until as usize] {
                        prop_assert!(!*instant);
                        *instant = true;
                    }
                }
                prop_assert_eq!(covered, expected);
                let whole: Vec<_> = kept.intervals.iter().copied().collect();
                prop_assert!(whole.is_sorted_by(|a, b| a.1 < b.0));
            }
        }

        /// However few are remembered.
        #[test]
        fn captured_instants_are_never_new_again(times in prop::collection::vec((0u64..200, 0u64..40), 1..30), most in 1usize..4) {
            let mut kept = CapturedIntervals::default();
            let mut covered = [false; 256];
            for (from, length) in times {
                for (from, until) in kept.add(from, from + length) {
                    for instant in &mut covered[from as usize..until as usize] {
                        prop_assert!(!*instant);
                        *instant = true;
                    }
                }
                kept.forget_oldest(most);
            }
        }
    }
}
