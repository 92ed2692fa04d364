//! Waits of requests within their event loops, by what ended them: a loop that is never idle shows no timer, and then others of
//! the process say how long one lasts.

use std::collections::BTreeMap;

use crate::histogram::bucket_of;

/// Lengths of sleeps: number and sum, by the bucket of a histogram.
#[derive(Debug, Clone, Default)]
struct SleepLengths(BTreeMap<usize, (u64, u64)>);

impl SleepLengths {
    fn add(&mut self, ns: u64) {
        let (count, sum_ns) = self.0.entry(bucket_of(ns)).or_default();
        *count += 1;
        *sum_ns = sum_ns.saturating_add(ns);
    }

    /// Returns the mean of sleeps with lengths in this range, ns; `None` without any.
    fn mean_ns(&self, (least_ns, most_ns): (u64, u64)) -> Option<u64> {
        let fitting = self
            .0
            .range(bucket_of(least_ns)..=bucket_of(most_ns.max(least_ns)));
        let sums = fitting.fold((0, 0_u64), |sums, (_, it)| {
            (sums.0 + it.0, sums.1.saturating_add(it.1))
        });
        sums.1.checked_div(sums.0)
    }
}

/// Waits of requests within the loops of one process.
#[derive(Debug, Clone, Default)]
pub struct SleepCounts {
    timers: u64,
    others: u64,
    /// Sleeps after which the loop's wait ended.
    seen: SleepLengths,
    /// Sleeps with a timer that the loop's waits announced.
    due: SleepLengths,
}

impl SleepCounts {
    /// Counts a wait: for a timer of this length, or for something unknown (`None`).
    pub fn add(&mut self, timer_ns: Option<u64>) {
        match timer_ns {
            Some(ns) => {
                self.timers += 1;
                self.seen.add(ns);
            }
            None => self.others += 1,
        }
    }

    /// Counts a wait for a timer with a length that is not known well.
    pub fn add_due(&mut self, ns: u64) {
        self.timers += 1;
        self.due.add(ns);
    }

    /// Returns whether most of the waits were for timers.
    pub fn are_timers(&self) -> bool {
        self.timers > self.others
    }

    /// Returns the mean of timers in the first of these ranges that has any, ns.
    pub fn mean_ns(&self, ranges_ns: &[(u64, u64)]) -> Option<u64> {
        ranges_ns.iter().find_map(|range| {
            let means = [&self.seen, &self.due].map(|it| it.mean_ns(*range));
            let mean_ns = means.into_iter().flatten().next()?;
            Some(mean_ns.clamp(range.0, range.1.max(range.0)))
        })
    }
}
