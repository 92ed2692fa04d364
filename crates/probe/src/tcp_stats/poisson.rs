//! Random times of a Poisson process. In: a mean and a seed. Out: when to poll next.
//!
//! Exponential intervals have no memory, so the polls are independent of any rhythm of the
//! polled connection, and a poll that comes late changes nothing for the next one.

/// A small seeded generator (SplitMix64, Steele et al. 2014): the same seed gives the same
/// times, so that a run can be repeated. Not for secrets.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    /// A generator that starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// An exponentially distributed interval, nanoseconds, at least 1.
    pub fn exponential_ns(&mut self, mean_ns: u64) -> u64 {
        // 53 bits in (0, 1]: never zero, whose logarithm does not exist.
        let uniform = ((self.next_u64() >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        (-uniform.ln() * mean_ns as f64).max(1.0) as u64
    }
}

/// The times of a Poisson process.
#[derive(Debug, Clone)]
pub struct PoissonTimes {
    random: Random,
    mean_ns: u64,
    next_ns: u64,
}

impl PoissonTimes {
    /// Mean interval of polls unless the user gives another: SNAP's 500 ms.
    pub const DEFAULT_MEAN_NS: u64 = 500_000_000;

    /// Times from `start_ns` on, `mean_ns` apart on average.
    pub fn new(seed: u64, mean_ns: u64, start_ns: u64) -> Self {
        let mut random = Random::new(seed);
        let next_ns = start_ns.saturating_add(random.exponential_ns(mean_ns));
        Self {
            random,
            mean_ns,
            next_ns,
        }
    }

    /// The next time.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Whether the next time has come. If so, the one after it is drawn from `now_ns` on:
    /// times that were slept through are not made up for.
    pub fn is_due(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.next_ns;
        if due {
            self.next_ns = now_ns.saturating_add(self.random.exponential_ns(self.mean_ns));
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN_NS: u64 = 500_000_000;

    fn intervals(count: usize) -> Vec<f64> {
        let mut random = Random::new(7);
        (0..count)
            .map(|_| random.exponential_ns(MEAN_NS) as f64)
            .collect()
    }

    #[test]
    fn mean_and_spread_are_those_of_an_exponential() {
        let sample = intervals(200_000);
        let mean = sample.iter().sum::<f64>() / sample.len() as f64;
        let variance =
            sample.iter().map(|ns| (ns - mean).powi(2)).sum::<f64>() / sample.len() as f64;
        // Standard error of the mean is 0.22 %; the deviation equals the mean.
        assert!((mean / MEAN_NS as f64 - 1.0).abs() < 0.01, "mean {mean}");
        assert!(
            (variance.sqrt() / mean - 1.0).abs() < 0.02,
            "deviation {}",
            variance.sqrt()
        );
    }

    #[test]
    fn what_has_passed_does_not_matter() {
        let sample = intervals(200_000);
        let beyond = |from: f64| {
            let rest: Vec<f64> = sample
                .iter()
                .filter(|ns| **ns > from)
                .map(|ns| ns - from)
                .collect();
            rest.iter().sum::<f64>() / rest.len() as f64
        };
        for from in [0.5, 1.0, 2.0] {
            let rest = beyond(from * MEAN_NS as f64);
            assert!(
                (rest / MEAN_NS as f64 - 1.0).abs() < 0.03,
                "after {from} means: {rest}"
            );
        }
    }

    #[test]
    fn a_late_poll_is_made_once() {
        let mut times = PoissonTimes::new(1, MEAN_NS, 0);
        let first_ns = times.next_ns();
        assert!(!times.is_due(first_ns - 1));
        let late_ns = first_ns + 100 * MEAN_NS;
        assert!(times.is_due(late_ns));
        assert!(!times.is_due(late_ns));
        assert!(times.next_ns() > late_ns);
    }

    #[test]
    fn a_seed_repeats_its_times() {
        let draw = |seed| PoissonTimes::new(seed, MEAN_NS, 0).next_ns();
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }
}
