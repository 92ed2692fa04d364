//! When a timer was due: a loop waits until its next timer at most, in whole milliseconds.
//!
//! Of such a range, the end counts: so long a loop waits that is idle, and a timer of whole milliseconds is due then.

/// Unit of the time limits of waits.
const LIMIT_UNIT_NS: u64 = 1_000_000;

/// Times between which a timer was due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueRange {
    least_ns: u64,
    most_ns: u64,
}

impl DueRange {
    /// Returns when the timer of a wait with a time limit may have been due: most loops round up.
    pub fn of_limit(until_ns: u64) -> Self {
        Self {
            least_ns: until_ns.saturating_sub(LIMIT_UNIT_NS),
            most_ns: until_ns,
        }
    }

    /// Returns the range of a wait of Go's scheduler, which rounds down, and waits for a unit at least (`netpoll` in
    /// `runtime/netpoll_epoll.go`).
    pub fn of_scheduler(start_ns: u64, until_ns: u64) -> Self {
        let is_least = until_ns.saturating_sub(start_ns) <= LIMIT_UNIT_NS;
        Self {
            least_ns: if is_least { start_ns } else { until_ns },
            most_ns: until_ns.saturating_add(LIMIT_UNIT_NS),
        }
    }

    /// Returns the range of a timer that had begun before two waits. This is the range of the later one.
    ///
    /// If the earlier wait could have lasted longer, the timer of the later one began after it. If it could not, a timer
    /// ended before this one.
    #[must_use]
    pub fn and_earlier(self, earlier: Self) -> Self {
        if earlier.least_ns > self.most_ns {
            return earlier;
        }
        if earlier.most_ns < self.least_ns {
            return self;
        }
        Self {
            least_ns: self.least_ns.max(earlier.least_ns),
            most_ns: self.most_ns.min(earlier.most_ns),
        }
    }

    /// Returns whether another range lies within this one.
    pub fn contains(&self, other: &Self) -> bool {
        self.least_ns <= other.least_ns && other.most_ns <= self.most_ns
    }

    /// Returns the time at which the timer was due at the earliest.
    pub fn least_ns(&self) -> u64 {
        self.least_ns
    }

    /// Returns whether the timer was certainly due by `ns`.
    pub fn is_over_by(&self, ns: u64) -> bool {
        self.most_ns < ns
    }

    /// Returns whether the timer may have been due by `ns`.
    pub fn may_be_until(&self, ns: u64) -> bool {
        self.least_ns <= ns
    }

    /// Returns the end of the range, if the timer may have been due by `ns`; no later than that.
    pub fn end_until(&self, ns: u64) -> Option<u64> {
        self.may_be_until(ns).then_some(self.most_ns.min(ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn several_waits_narrow_the_due_time() {
        let later = DueRange::of_limit(10 * MS);
        let both = later.and_earlier(DueRange::of_limit(9 * MS + 200_000));
        assert_eq!(both.end_until(20 * MS), Some(9 * MS + 200_000));
        assert_eq!(both.end_until(8 * MS), None);
        assert!(later.contains(&both) && !both.contains(&later));
    }

    #[test]
    fn longest_possible_wait_decides_due_time() {
        let (soon, late) = (DueRange::of_limit(4 * MS), DueRange::of_limit(10 * MS));
        assert_eq!(soon.and_earlier(late), late);
        assert_eq!(late.and_earlier(soon), late);
    }

    #[test]
    fn scheduler_may_round_a_timer_down_by_one_ms() {
        let due = DueRange::of_scheduler(2 * MS, 6 * MS);
        assert_eq!(due.end_until(20 * MS), Some(7 * MS));
        let due = DueRange::of_scheduler(2 * MS, 3 * MS);
        assert_eq!(due.end_until(20 * MS), Some(4 * MS));
    }
}
