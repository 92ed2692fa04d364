//! Finds slow messages: those above a quantile of the recent ones, found without keeping any of them.

/// Buckets of a power of two: a bucket is at most 0.8 % wide.
const PARTS: u64 = 128;
/// Up to 2^40 ns, 18 minutes.
const BUCKETS: usize = 40 * PARTS as usize;
/// When there are so many, each counts half from now on: what is slow changes with the load.
const RECENT: u32 = 65_536;
/// Durations between two computations of the quantile.
const THRESHOLD_EVERY: u32 = 64;

/// Durations, counted.
#[derive(Debug, Clone)]
pub(super) struct Durations {
    quantile: f64,
    counts: Vec<u32>,
    total: u32,
    /// First bucket above the quantile; `None`: there are not enough durations.
    slow_from: Option<usize>,
    until_threshold: u32,
}

impl Durations {
    /// Begins to count durations, to find those above this quantile.
    pub(super) fn new(quantile: f64) -> Self {
        Self {
            quantile,
            counts: vec![0; BUCKETS],
            total: 0,
            slow_from: None,
            until_threshold: 0,
        }
    }

    /// Counts a duration; returns whether it is above the quantile of those before.
    pub(super) fn add_duration(&mut self, duration_ns: u64) -> bool {
        let bucket = bucket_of(duration_ns);
        if self.until_threshold == 0 {
            self.slow_from = self.compute_threshold();
            self.until_threshold = THRESHOLD_EVERY.min(self.total.max(1));
        }
        self.until_threshold -= 1;
        self.counts[bucket] += 1;
        self.total += 1;
        if self.total >= RECENT {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
        self.slow_from.is_some_and(|slow_from| bucket >= slow_from)
    }

    /// Returns the bucket from which on durations are slow; `None`: too few durations.
    fn compute_threshold(&self) -> Option<usize> {
        let above = f64::from(self.total) * (1.0 - self.quantile);
        if above < 1.0 {
            return None;
        }
        let mut counted = 0;
        let upwards = self.counts.iter().enumerate().rev();
        for (bucket, count) in upwards {
            counted += count;
            if f64::from(counted) > above {
                return Some(bucket + 1);
            }
        }
        None
    }
}

/// Returns the bucket of a duration: below 256 ns each has its own.
fn bucket_of(duration_ns: u64) -> usize {
    let power = (duration_ns | PARTS).ilog2() - PARTS.ilog2();
    let part = duration_ns >> power;
    ((u64::from(power) * PARTS + part) as usize).min(BUCKETS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_in_a_hundred_is_slow() {
        let mut durations = Durations::new(0.99);
        let slow: Vec<u64> = (0..100_000u64)
            .map(|number| 10_000 + (number * 7_919) % 90_000)
            .filter(|duration_ns| durations.add_duration(*duration_ns))
            .collect();
        assert!((300..=1_100).contains(&slow.len()), "{}", slow.len());
        assert!(slow.iter().all(|duration_ns| *duration_ns > 90_000));
    }

    #[test]
    fn few_messages_make_none_slow() {
        let mut durations = Durations::new(0.99);
        assert!((0..100).all(|number| !durations.add_duration(number * 1_000_000)));
    }

    proptest! {
        #[test]
        fn buckets_are_in_order_and_narrow(a in 0u64..1 << 41, b in 0u64..1 << 41) {
            let (low, high) = (a.min(b), a.max(b));
            prop_assert!(bucket_of(low) <= bucket_of(high));
            if bucket_of(low) == bucket_of(high) && high < 1 << 40 {
                prop_assert!((high - low) * PARTS <= low.max(1), "{low} {high}");
            }
        }
    }
}
