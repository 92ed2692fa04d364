//! The day's clock over the kernel's own. In: readings of both. Out: the time of day of each reading, and
//! where an interval ends.
//!
//! What a time daemon slews, it slews in both clocks alike, so that their distance only changes when the clock
//! of the day is set. Then the interval ends at once: the next begins where that clock says, and both have their
//! lengths.

use table::fleet::BIN_NS;

/// A clock that is set by less than this is ignored: a thousandth of a bin, as nothing is finer than bins.
const STEP_NS: u64 = BIN_NS.cast_unsigned() / 1_000;

/// One interval of the day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct IntervalSpan {
    /// Its start, `CLOCK_REALTIME`.
    pub(super) begin_ns: i64,
    /// The next whole one begins here.
    pub(super) boundary_ns: i64,
    /// `CLOCK_REALTIME` less `CLOCK_MONOTONIC`.
    offset_ns: i64,
}

/// How an interval ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// At its boundary.
    Whole,
    /// Earlier or later: the clock was set, or the agent did not run for longer than an interval.
    Cut,
}

/// Readings of both clocks at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ClockReading {
    /// `CLOCK_MONOTONIC`.
    pub(super) monotonic_ns: u64,
    /// `CLOCK_REALTIME`.
    pub(super) realtime_ns: i64,
    /// How far from each other the two moments may be.
    pub(super) error_ns: u64,
}

impl ClockReading {
    /// Returns realtime minus monotonic clock, in nanoseconds.
    fn offset_ns(self) -> i64 {
        self.realtime_ns - self.monotonic_ns.cast_signed()
    }
}

impl IntervalSpan {
    /// Returns the interval that begins now, and ends at a multiple of `interval_ns`. Lengths are
    /// in microseconds, so that it begins with one.
    pub(super) fn beginning(now: ClockReading, interval_ns: i64) -> Self {
        let begin_ns = now.realtime_ns.div_euclid(1_000) * 1_000;
        Self::at(begin_ns, now, interval_ns)
    }

    /// Returns the interval that starts at `begin_ns`, by this reading of the clocks.
    fn at(begin_ns: i64, now: ClockReading, interval_ns: i64) -> Self {
        Self {
            begin_ns,
            boundary_ns: (begin_ns.div_euclid(interval_ns) + 1) * interval_ns,
            offset_ns: now.offset_ns(),
        }
    }

    /// Returns the interval after this one.
    pub(super) fn next(&self, end: End, now: ClockReading, interval_ns: i64) -> Self {
        match end {
            End::Whole => Self::at(self.boundary_ns, now, interval_ns),
            End::Cut => Self::beginning(now, interval_ns),
        }
    }

    /// Converts a time of the kernel's clock to the time of day.
    pub(super) fn wall_ns(&self, monotonic_ns: u64) -> i64 {
        monotonic_ns.cast_signed() + self.offset_ns
    }

    /// Converts a time of day to the kernel's clock.
    pub(super) fn monotonic_ns(&self, wall_ns: i64) -> u64 {
        (wall_ns - self.offset_ns).max(0).cast_unsigned()
    }

    /// Returns the hour in which the interval begins, since 1970.
    pub(super) fn begin_hour(&self) -> i64 {
        self.begin_ns.div_euclid(3_600_000_000_000)
    }

    /// Returns how the interval has ended; `None`: it has not.
    pub(super) fn end(&self, now: ClockReading) -> Option<End> {
        let moved_ns = (now.offset_ns() - self.offset_ns).unsigned_abs();
        let is_set = moved_ns > STEP_NS + now.error_ns;
        let late_ns = self.wall_ns(now.monotonic_ns) - self.boundary_ns;
        match late_ns {
            _ if is_set => Some(End::Cut),
            late if late >= self.boundary_ns - self.begin_ns => Some(End::Cut),
            0.. => Some(End::Whole),
            _ => None,
        }
    }

    /// Returns the length of the interval that ended like this, ns.
    pub(super) fn length_ns(&self, end: End, now: ClockReading) -> i64 {
        let until_ns = match end {
            End::Whole => self.boundary_ns,
            End::Cut => self.wall_ns(now.monotonic_ns),
        };
        (until_ns - self.begin_ns).max(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MINUTE_NS: i64 = 60_000_000_000;
    const OFFSET_NS: i64 = 1_790_000_000_000_000_000;

    /// Makes a reading of the clocks; `set_ns` is how much the realtime clock was set.
    fn at(monotonic_ns: i64, set_ns: i64) -> ClockReading {
        ClockReading {
            monotonic_ns: monotonic_ns.cast_unsigned(),
            realtime_ns: monotonic_ns + OFFSET_NS + set_ns,
            error_ns: 1_000,
        }
    }

    #[test]
    fn whole_minutes_follow_each_other() {
        let mut now = at(5_000_000_000, 0);
        let mut span = IntervalSpan::beginning(now, MINUTE_NS);
        assert_eq!(span.begin_ns, now.realtime_ns);
        for _ in 0..5 {
            assert_eq!(span.end(now), None);
            let monotonic_ns = span.monotonic_ns(span.boundary_ns).cast_signed() + 3_000_000;
            now = at(monotonic_ns, 0);
            assert_eq!(span.end(now), Some(End::Whole));
            let next = span.next(End::Whole, now, MINUTE_NS);
            assert_eq!(
                next.begin_ns,
                span.begin_ns + span.length_ns(End::Whole, now)
            );
            assert_eq!(next.begin_ns % MINUTE_NS, 0);
            span = next;
        }
    }

    #[test]
    fn difference_far_below_a_bin_is_no_clock_step() {
        let span = IntervalSpan::beginning(at(0, 0), MINUTE_NS);
        assert_eq!(span.end(at(20_000_000_000, 1_900_000)), None);
        assert_eq!(span.end(at(20_000_000_000, -1_900_000)), None);
        assert_eq!(span.end(at(20_000_000_000, 2_100_000)), Some(End::Cut));
        let late = at(130_000_000_000, 0);
        assert_eq!(
            span.end(late),
            Some(End::Cut),
            "the agent did not run for two minutes"
        );
    }

    proptest! {
        #[test]
        fn a_clock_that_is_set_makes_no_negative_length(
            elapsed_ns in 0..MINUTE_NS,
            set_ns in -7_200_000_000_000_i64..7_200_000_000_000,
        ) {
            let begin = at(1_000_000_000_000, 0);
            let span = IntervalSpan::beginning(begin, MINUTE_NS);
            let now = at(1_000_000_000_000 + elapsed_ns, set_ns);
            if let Some(end) = span.end(now) {
                let length_ns = span.length_ns(end, now);
                prop_assert!((0..=MINUTE_NS).contains(&length_ns));
                let next = span.next(end, now, MINUTE_NS);
                prop_assert!(next.boundary_ns > next.begin_ns);
                prop_assert_eq!(next.boundary_ns % MINUTE_NS, 0);
                if end == End::Cut {
                    prop_assert_eq!(length_ns, elapsed_ns);
                    prop_assert_eq!(next.begin_ns, now.realtime_ns / 1_000 * 1_000);
                }
            }
        }
    }
}
