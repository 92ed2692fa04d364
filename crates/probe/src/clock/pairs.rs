//! Two clocks read together. In: the reference `CLOCK_MONOTONIC` and another clock. Out: rows
//! of `clock_pairs` with the bound of their error.
//!
//! The other clock is read between two readings of the reference. The true reference time of
//! that reading lies within the window, so its middle is wrong by at most half of it. Of
//! several attempts the narrowest window is kept: the others were interrupted.

use nix::time::ClockId;
use table::tables::ClockPair;

use super::{monotonic_ns, read_ns};

/// A clock that is read against the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Wall-clock time; steps and is slewed.
    Realtime,
    /// As the reference, but counts suspended time.
    Boottime,
    /// The hardware's own rate, not slewed.
    MonotonicRaw,
}

impl Clock {
    /// Every clock.
    pub const ALL: [Self; 3] = [Self::Realtime, Self::Boottime, Self::MonotonicRaw];

    /// Name in `clock_pairs.clock`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Realtime => "realtime",
            Self::Boottime => "boottime",
            Self::MonotonicRaw => "monotonic_raw",
        }
    }

    fn id(self) -> ClockId {
        match self {
            Self::Realtime => ClockId::CLOCK_REALTIME,
            Self::Boottime => ClockId::CLOCK_BOOTTIME,
            Self::MonotonicRaw => ClockId::CLOCK_MONOTONIC_RAW,
        }
    }
}

/// The narrowest of `attempts` sandwiched readings of `clock`; `None` when the kernel lacks
/// the clock or no attempt was asked for.
pub fn read_pair(clock: Clock, attempts: u32) -> Option<ClockPair> {
    let mut narrowest: Option<(u64, u64, i64)> = None;
    for _ in 0..attempts {
        let before_ns = monotonic_ns();
        let other_ns = read_ns(clock.id())?;
        let after_ns = monotonic_ns();
        let width_ns = after_ns.saturating_sub(before_ns);
        if narrowest.is_none_or(|(least_ns, ..)| width_ns < least_ns) {
            narrowest = Some((width_ns, before_ns, other_ns));
        }
    }
    let (width_ns, before_ns, other_ns) = narrowest?;
    // Half of an odd width is rounded up: the bound must hold for either side.
    let error_ns = width_ns.div_ceil(2);
    Some(ClockPair {
        monotonic_ns: before_ns + width_ns / 2,
        clock: clock.name().to_owned(),
        other_ns,
        error_ns,
    })
}

/// One pair for every clock that the kernel has.
pub fn read_pairs(attempts: u32) -> Vec<ClockPair> {
    Clock::ALL
        .iter()
        .filter_map(|clock| read_pair(*clock, attempts))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_agree_with_an_independent_reading_within_their_bounds() {
        let pairs = read_pairs(50);
        assert_eq!(pairs.len(), 3);
        for pair in &pairs {
            assert!(pair.error_ns < 1_000_000, "{pair:?}");
        }
        // Boot time and the reference differ by the time suspended, which does not change
        // while this test runs: two pairs give the same difference within their bounds.
        let offset = |pair: &ClockPair| pair.other_ns - pair.monotonic_ns as i64;
        let second = read_pair(Clock::Boottime, 50).unwrap();
        let apart_ns = (offset(&pairs[1]) - offset(&second)).unsigned_abs();
        assert!(
            apart_ns <= pairs[1].error_ns + second.error_ns,
            "{apart_ns} ns apart"
        );
    }

    #[test]
    fn no_attempt_is_no_pair() {
        assert_eq!(read_pair(Clock::Realtime, 0), None);
    }
}
