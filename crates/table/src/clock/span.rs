//! The time between two stamps that have bounds, and the order that it proves. A length below its own
//! bound is kept as it came out, negative ones too; an impossible order is counted, not corrected.

use super::Stamp;

/// The time from one stamp to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BoundedSpan {
    /// Length, nanoseconds; below zero when the second stamp came out earlier.
    pub length_ns: i64,
    /// Bound of the length's error, nanoseconds.
    pub error_ns: u64,
}

/// Possible orders of the ends of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The first came first, whatever the errors.
    Proved,
    /// Within the bound: either may have come first.
    Open,
    /// The second came first, whatever the errors: where that cannot be, a stamp or its bound is wrong.
    Reversed,
}

impl BoundedSpan {
    /// Makes the span from `first` to `second`.
    pub fn between(first: Stamp, second: Stamp) -> Self {
        let length_ns = i128::from(second.monotonic_ns) - i128::from(first.monotonic_ns);
        let least_ns = i128::from(i64::MIN);
        Self {
            // of stamps of one host this is never cut: 292 years
            length_ns: length_ns.clamp(least_ns, i128::from(i64::MAX)) as i64,
            error_ns: first.error_ns.saturating_add(second.error_ns),
        }
    }

    /// Returns which order of begin and end is certain, by the error bounds.
    pub fn order(self) -> Order {
        if self.length_ns.unsigned_abs() <= self.error_ns {
            Order::Open
        } else if self.length_ns > 0 {
            Order::Proved
        } else {
            Order::Reversed
        }
    }
}

/// Spans counted by what they prove of an order that must hold.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Orders {
    /// See [`Order::Proved`].
    pub proved: u64,
    /// See [`Order::Open`].
    pub open: u64,
    /// See [`Order::Reversed`]: impossible.
    pub impossible: u64,
}

impl Orders {
    /// Counts a span by its order.
    pub fn count(&mut self, span: BoundedSpan) {
        match span.order() {
            Order::Proved => self.proved += 1,
            Order::Open => self.open += 1,
            Order::Reversed => self.impossible += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a time with its error bound.
    fn stamp(monotonic_ns: u64, error_ns: u64) -> Stamp {
        Stamp {
            monotonic_ns,
            error_ns,
        }
    }

    #[test]
    fn short_spans_stay_as_they_are_and_impossible_ones_are_counted() {
        let mut orders = Orders::default();
        for (second_ns, length_ns, order) in [
            (1_031, 31, Order::Proved),
            (1_030, 30, Order::Open),
            (970, -30, Order::Open),
            (969, -31, Order::Reversed),
        ] {
            let span = BoundedSpan::between(stamp(1_000, 10), stamp(second_ns, 20));
            assert_eq!((span.length_ns, span.error_ns), (length_ns, 30));
            assert_eq!(span.order(), order);
            orders.count(span);
        }
        let expected = Orders {
            proved: 1,
            open: 2,
            impossible: 1,
        };
        assert_eq!(orders, expected);
    }

    #[test]
    fn the_ends_of_time_do_not_overflow() {
        let span = BoundedSpan::between(stamp(u64::MAX, u64::MAX), stamp(0, u64::MAX));
        assert_eq!((span.length_ns, span.error_ns), (i64::MIN, u64::MAX));
    }
}
