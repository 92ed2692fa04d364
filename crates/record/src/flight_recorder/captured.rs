//! The times of a CPU that were kept already: nothing is kept twice.

/// Times that do not touch, in order.
#[derive(Debug, Clone, Default)]
pub(super) struct CapturedIntervals(Vec<(u64, u64)>);

impl CapturedIntervals {
    /// Adds a time. Returns the parts of it that are new, in order.
    pub(super) fn add(&mut self, from_ns: u64, until_ns: u64) -> Vec<(u64, u64)> {
        let (mut new, mut at_ns) = (Vec::new(), from_ns);
        let (mut whole_from, mut whole_until) = (from_ns, until_ns);
        let first = self.0.partition_point(|(_, until)| *until < from_ns);
        let last = self.0.partition_point(|(from, _)| *from <= until_ns);
        for (from, until) in &self.0[first..last.max(first)] {
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
        if from_ns < until_ns {
            self.0
                .splice(first..last.max(first), [(whole_from, whole_until)]);
        }
        new
    }

    /// Forgets what ended before a time.
    pub(super) fn forget_before(&mut self, time_ns: u64) {
        let gone = self.0.partition_point(|(_, until)| *until < time_ns);
        self.0.drain(..gone);
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
                prop_assert!(kept.0.is_sorted_by(|a, b| a.1 < b.0));
            }
        }
    }
}
