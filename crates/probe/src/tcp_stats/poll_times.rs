//! Random times of polls. In: a mean and a seed. Out: when to poll next.
//!
//! Intervals are independent, and uniform between half the mean and one and a half. As with a Poisson
//! process the share of polls that find something is an estimate without bias, whatever the rhythm of
//! what they look at (the separation rule of Baccelli, Machiraju, Veitch and Bolot, "The Role of PASTA in
//! Network Measurement", SIGCOMM 2006). Unlike there, no interval is so long that a short connection is
//! never seen: of Poisson polls with a mean of 500 ms, one connection of two seconds in fifty meets none.

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

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a random interval of 0.5 to 1.5 times `mean_ns`, at least 1 ns.
    pub fn interval_ns(&mut self, mean_ns: u64) -> u64 {
        let part = (u128::from(self.next_u64()) * u128::from(mean_ns)) >> 64;
        // less than `mean_ns`
        (mean_ns / 2).saturating_add(part as u64).max(1)
    }
}

/// The times of polls.
#[derive(Debug, Clone)]
pub struct PollTimes {
    random: Random,
    mean_ns: u64,
    next_ns: u64,
}

impl PollTimes {
    /// Begins times from `start_ns` on, `mean_ns` apart on average.
    pub fn new(seed: u64, mean_ns: u64, start_ns: u64) -> Self {
        let mut random = Random::new(seed);
        let next_ns = start_ns.saturating_add(random.interval_ns(mean_ns));
        Self {
            random,
            mean_ns,
            next_ns,
        }
    }

    /// Returns the next time, ns.
    pub fn next_ns(&self) -> u64 {
        self.next_ns
    }

    /// Returns whether the next time has come. If so, the one after it is drawn from `now_ns` on: times that were
    /// slept through are not made up for.
    pub fn is_due(&mut self, now_ns: u64) -> bool {
        let due = now_ns >= self.next_ns;
        if due {
            self.next_ns = now_ns.saturating_add(self.random.interval_ns(self.mean_ns));
        }
        due
    }

    /// Draws the next time again, from `now_ns` on, if times are to be further apart: `least_ns` on average.
    pub fn lengthen(&mut self, least_ns: u64, now_ns: u64) {
        if least_ns > self.mean_ns {
            self.next_ns = now_ns.saturating_add(self.random.interval_ns(least_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEAN_NS: u64 = 500_000_000;

    #[test]
    fn longer_interval_is_drawn_once() {
        let mut times = PollTimes::new(5, MEAN_NS, 0);
        let next_ns = times.next_ns();
        times.lengthen(MEAN_NS, 0);
        assert_eq!(times.next_ns(), next_ns, "it is no longer");
        times.lengthen(4 * MEAN_NS, 0);
        let next_ns = times.next_ns();
        assert!((2 * MEAN_NS..6 * MEAN_NS).contains(&next_ns), "{next_ns}");
        assert!(times.is_due(next_ns));
        let interval_ns = times.next_ns() - next_ns;
        assert!((MEAN_NS / 2..MEAN_NS * 3 / 2).contains(&interval_ns));
    }

    #[test]
    fn intervals_are_uniform_around_the_mean() {
        const COUNT: usize = 200_000;
        let mut random = Random::new(7);
        let mut tenths = [0_usize; 10];
        let mut sum_ns = 0;
        for _ in 0..COUNT {
            let ns = random.interval_ns(MEAN_NS);
            assert!((MEAN_NS / 2..MEAN_NS * 3 / 2).contains(&ns), "{ns}");
            tenths[((ns - MEAN_NS / 2) * 10 / MEAN_NS) as usize] += 1;
            sum_ns += ns;
        }
        // Standard error of the mean is 0.06 %, of a tenth 0.7 %.
        let mean = sum_ns as f64 / COUNT as f64;
        assert!((mean / MEAN_NS as f64 - 1.0).abs() < 0.003, "mean {mean}");
        for tenth in tenths {
            assert!(tenth.abs_diff(COUNT / 10) < COUNT / 10 / 25, "{tenths:?}");
        }
    }

    /// The polled thing is on for 30 % of a period as long as the mean interval: in step, if the polls were
    /// regular.
    #[test]
    fn periodic_load_does_not_bias_the_polls() {
        const COUNT: usize = 100_000;
        for phase_ns in [0, MEAN_NS / 3, MEAN_NS / 2] {
            let mut times = PollTimes::new(3, MEAN_NS, phase_ns);
            let mut on = 0;
            for _ in 0..COUNT {
                let now_ns = times.next_ns();
                assert!(times.is_due(now_ns));
                on += usize::from(now_ns % MEAN_NS < MEAN_NS * 3 / 10);
            }
            let share = on as f64 / COUNT as f64;
            assert!((share - 0.3).abs() < 0.006, "{share}");
        }
    }

    #[test]
    fn a_late_poll_is_made_once() {
        let mut times = PollTimes::new(1, MEAN_NS, 0);
        let first_ns = times.next_ns();
        assert!(!times.is_due(first_ns - 1));
        let late_ns = first_ns + 100 * MEAN_NS;
        assert!(times.is_due(late_ns));
        assert!(!times.is_due(late_ns));
        assert!(times.next_ns() > late_ns);
    }

    #[test]
    fn a_seed_repeats_its_times() {
        let draw = |seed| PollTimes::new(seed, MEAN_NS, 0).next_ns();
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }
}
