//! Error bound of a share: the half-width of its 95 % interval.
//!
//! * **Samples**: Wilson's score interval for a share of `n` random polls.
//! * **Chronograph**: the kernel adds whole jiffies. Each busy period is off by the difference
//!   of two uniform parts of a jiffy (variance 1/6 jiffy²), with no bias, so `n` periods are
//!   off by 1.96·√(n/6) jiffies; never less than one jiffy is claimed.
//! * **Ledger**: an interval begins and ends at a hook that runs a little after the kernel's own
//!   decision; that part has one sign and grows with the number of intervals. Where the end
//!   of a wait shows by a timer which wait it was (delayed ACK, retransmission timeout), the
//!   timer's jiffy adds ±1 jiffy a wait, of either sign, so it grows with the square root.

/// Two-sided 95 % quantile of the normal distribution.
const Z95: f64 = 1.96;

/// The most that a ledger hook lags behind the kernel's decision: from `tcp_push` to the end
/// of `tcp_sendmsg` (`sock_send_length`), or from the softirq's entry to `tcp_probe`; both run
/// in one call chain, on the order of a microsecond.
pub const EDGE_NS: u64 = 2_000;

/// Half-width of Wilson's score interval around `share` of `polls` (may be fractional: an
/// effective number), seen from `share`.
pub fn wilson_half_width(share: f64, polls: f64) -> f64 {
    if polls <= 0.0 {
        return 1.0;
    }
    let z2 = Z95 * Z95;
    let centre = (share + z2 / (2.0 * polls)) / (1.0 + z2 / polls);
    let spread = share * (1.0 - share) / polls + z2 / (4.0 * polls * polls);
    let half = Z95 * spread.sqrt() / (1.0 + z2 / polls);
    let (low, high) = ((centre - half).max(0.0), (centre + half).min(1.0));
    (high - share).max(share - low)
}

/// Returns the error bound of a time by the kernel's chronograph, after `periods` busy periods, ns.
pub fn chronograph_ns(periods: u64, jiffy_ns: u64) -> f64 {
    jiffy_ns as f64 * (Z95 * (periods as f64 / 6.0).sqrt()).max(1.0)
}

/// Returns the error bound of a time in the ledger, of `intervals`; a timer ended `timed` of them,
/// ns.
pub fn ledger_ns(intervals: u64, timed: u64, jiffy_ns: u64) -> f64 {
    // A uniform error of ±1 jiffy has variance 1/3 jiffy².
    let timer_ns = Z95 * (timed as f64 / 3.0).sqrt() * jiffy_ns as f64;
    (intervals.max(1) * EDGE_NS) as f64 + timer_ns
}

/// Returns a bound as a share of a life, at most 1.
pub fn as_share(bound_ns: f64, life_ns: u64) -> f64 {
    if life_ns == 0 {
        1.0
    } else {
        (bound_ns / life_ns as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wilson_agrees_with_published_values() {
        // 8 of 10: the 95 % score interval is 0.490 to 0.943 (Agresti and Coull, 1998).
        assert!((wilson_half_width(0.8, 10.0) - (0.8 - 0.490)).abs() < 0.001);
        // 0 of 20: 0 to 0.161.
        assert!((wilson_half_width(0.0, 20.0) - 0.161).abs() < 0.001);
        assert_eq!(wilson_half_width(0.5, 0.0), 1.0);
    }

    #[test]
    fn a_ledger_without_timers_is_exact_to_microseconds() {
        assert_eq!(ledger_ns(0, 0, 4_000_000), 2_000.0);
        assert_eq!(ledger_ns(457, 0, 4_000_000), 914_000.0);
        let timed_ns = ledger_ns(457, 457, 4_000_000);
        assert!((96e6..98e6).contains(&timed_ns), "{timed_ns}");
    }

    #[test]
    fn one_busy_period_is_off_by_a_jiffy() {
        assert_eq!(chronograph_ns(1, 4_000_000), 4_000_000.0);
        assert!((chronograph_ns(600, 4_000_000) - 78.4e6).abs() < 1e5);
        assert_eq!(as_share(4e6, 0), 1.0);
        assert_eq!(as_share(4e6, 1_000_000), 1.0);
    }
}
