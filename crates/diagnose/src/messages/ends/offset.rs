//! Offset between the clocks of two hosts, from the messages themselves: none arrives before it was sent.
//! If the receiver's clock is θ ahead of the sender's, every message from here to there shows
//! `arrived − driven = way + θ ≥ θ`, and every one back shows `way − θ ≥ −θ`. So θ lies between the negative
//! of the least difference one way and the least difference the other way (Duda, Harrus, Haddad and Bernard,
//! "Estimating global time in distributed systems", ICDCS 1987). Half of what lies between is the error: half
//! of the quickest round trip, without the other end's own time.
//!
//! Clocks do not run alike for long. An interval over which no single θ is possible is cut in two.

use serde::Serialize;

/// One message that passed between the clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OffsetPair {
    /// When it happened, by the first clock.
    pub(super) at_ns: u64,
    /// Second clock less first, ns: at least θ if `forth`, at most θ otherwise.
    pub(super) difference_ns: i64,
    /// From the first clock's host to the second's.
    pub(super) forth: bool,
}

/// For a stretch of time, how far the second clock is ahead of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ClockOffset {
    /// Up to when it holds, by the first clock.
    pub until_ns: u64,
    /// The middle of what is possible, ns.
    pub offset_ns: i64,
    /// How far it may be from there, ns.
    pub error_ns: u64,
}

/// Returns the offsets for all times, in order; empty when messages went one way only. `pairs` are in order of time.
pub(super) fn estimate_offsets(pairs: &[OffsetPair]) -> Vec<ClockOffset> {
    let mut found = Vec::new();
    add(pairs, &mut found);
    if let Some(last) = found.last_mut() {
        last.until_ns = u64::MAX;
    }
    found
}

/// Adds offsets that satisfy all pairs; splits the pairs where one offset does not.
fn add(pairs: &[OffsetPair], found: &mut Vec<ClockOffset>) {
    let least = |forth: bool| {
        let pairs = pairs.iter().filter(move |pair| pair.forth == forth);
        pairs.map(|pair| pair.difference_ns)
    };
    let (Some(most_ns), Some(least_ns)) = (least(true).min(), least(false).max()) else {
        return;
    };
    if least_ns <= most_ns {
        found.push(ClockOffset {
            until_ns: pairs.last().map_or(0, |pair| pair.at_ns),
            offset_ns: i64::midpoint(least_ns, most_ns),
            error_ns: (most_ns.abs_diff(least_ns)).div_ceil(2),
        });
        return;
    }
    let (earlier, later) = pairs.split_at(pairs.len() / 2);
    add(earlier, found);
    add(later, found);
}

/// Returns the offset at a time.
pub(super) fn offset_at(offsets: &[ClockOffset], at_ns: u64) -> Option<ClockOffset> {
    let next = offsets.partition_point(|offset| offset.until_ns < at_ns);
    offsets.get(next).copied()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes pairs with this clock offset and these delays; true is the way forth.
    fn messages(offset_ns: i64, delays_ns: &[(u64, bool)]) -> Vec<OffsetPair> {
        let pairs = delays_ns.iter().zip(0..);
        let pairs = pairs.map(|((delay_ns, forth), at)| OffsetPair {
            at_ns: at * 1_000_000,
            difference_ns: match forth {
                true => offset_ns + delay_ns.cast_signed(),
                false => offset_ns - delay_ns.cast_signed(),
            },
            forth: *forth,
        });
        pairs.collect()
    }

    proptest! {
        #[test]
        fn the_true_offset_is_within_the_error(
            offset_ns in -1_000_000_000_000_i64..1_000_000_000_000,
            delays_ns in prop::collection::vec((0_u64..50_000_000, any::<bool>()), 0..200),
        ) {
            let pairs = messages(offset_ns, &delays_ns);
            let found = estimate_offsets(&pairs);
            let both = delays_ns.iter().any(|delay| delay.1) && delays_ns.iter().any(|delay| !delay.1);
            prop_assert_eq!(found.len(), usize::from(both));
            for offset in found {
                prop_assert!(offset.offset_ns.abs_diff(offset_ns) <= offset.error_ns);
                let quickest = |forth| delays_ns.iter().filter(|delay| delay.1 == forth).map(|delay| delay.0).min();
                let round_trip_ns = quickest(true).unwrap_or(0) + quickest(false).unwrap_or(0);
                prop_assert!(offset.error_ns <= round_trip_ns.div_ceil(2));
            }
        }

        /// One ahead by 50 µs a second more: where no one offset is possible there are several, and none
        /// is further from the truth than its error and what the clocks moved meanwhile.
        #[test]
        fn drifting_clock_has_several_offsets(delays_ns in prop::collection::vec(20_000_u64..90_000, 400)) {
            let drift_ns = |at_ns: u64| (at_ns / 20_000).cast_signed();
            let alternating: Vec<_> = delays_ns.iter().zip(0..).map(|(delay, at)| (*delay, at % 2 == 0)).collect();
            let mut pairs = messages(0, &alternating);
            for pair in &mut pairs {
                pair.at_ns *= 100;
                pair.difference_ns += drift_ns(pair.at_ns);
            }
            let found = estimate_offsets(&pairs);
            prop_assert!(found.len() > 1);
            let mut from_ns = 0;
            for pair in &pairs {
                let offset = offset_at(&found, pair.at_ns).expect("it covers all time");
                let moved_ns = drift_ns(offset.until_ns.min(pairs[399].at_ns) - from_ns.min(pair.at_ns));
                let off_ns = offset.offset_ns.abs_diff(drift_ns(pair.at_ns));
                prop_assert!(off_ns <= offset.error_ns + moved_ns.unsigned_abs());
                if pair.at_ns == offset.until_ns {
                    from_ns = pair.at_ns;
                }
            }
        }
    }

    #[test]
    fn messages_in_one_direction_show_nothing() {
        assert_eq!(
            estimate_offsets(&messages(5, &[(10, true), (20, true)])),
            []
        );
        assert_eq!(offset_at(&[], 0), None);
    }
}
