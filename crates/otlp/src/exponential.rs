//! Durations in exponential buckets, as OpenTelemetry's data model has them: bucket `i` of scale `s` holds values above
//! `2^(i/2^s)` and up to `2^((i+1)/2^s)`. The scale falls when values lie so far apart that there would be too many buckets.

use std::collections::BTreeMap;

use crate::proto::{Buckets, ExponentialPoint};

/// Buckets from the least to the largest value, at most: as OpenTelemetry's own SDKs have it.
const BUCKETS_MOST: i64 = 160;

/// Scale with which a histogram begins, the finest of the data model.
const SCALE_FIRST: i32 = 20;

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// Counts of durations.
#[derive(Debug, Clone)]
pub struct DurationHistogram {
    scale: i32,
    counts: BTreeMap<i64, u64>,
    zero: u64,
    count: u64,
    sum_ns: u128,
    range_ns: Option<(u64, u64)>,
}

impl Default for DurationHistogram {
    fn default() -> Self {
        Self {
            scale: SCALE_FIRST,
            counts: BTreeMap::new(),
            zero: 0,
            count: 0,
            sum_ns: 0,
            range_ns: None,
        }
    }
}

impl DurationHistogram {
    /// Adds a duration to its bucket, ns.
    pub fn add(&mut self, ns: u64) {
        self.count += 1;
        self.sum_ns += u128::from(ns);
        let (min, max) = self.range_ns.unwrap_or((ns, ns));
        self.range_ns = Some((min.min(ns), max.max(ns)));
        if ns == 0 {
            self.zero += 1;
            return;
        }
        *self.counts.entry(bucket(ns, self.scale)).or_default() += 1;
        while self.width() > BUCKETS_MOST {
            self.halve();
        }
    }

    /// Returns the number of durations, and their sum in seconds.
    pub fn totals(&self) -> (u64, f64) {
        (self.count, self.sum_ns as f64 / SECOND_NS)
    }

    /// Returns how many durations are at most `2^exponent` s.
    pub fn count_to(&self, exponent: i32) -> u64 {
        // a scale below 0 would need durations that are 2^160 apart
        let first_above = i64::from(exponent) << self.scale.max(0);
        let below = self.counts.range(..first_above).map(|(_, count)| count);
        self.zero + below.sum::<u64>()
    }

    /// Returns the histogram of durations since an earlier state. Its least and largest value are
    /// not known.
    pub fn since(&self, earlier: &Self) -> Self {
        let mut earlier = earlier.clone();
        while earlier.scale > self.scale {
            earlier.halve();
        }
        let mut counts = self.counts.clone();
        for (index, count) in earlier.counts {
            if let Some(now) = counts.get_mut(&index) {
                *now = now.saturating_sub(count);
            }
        }
        counts.retain(|_, count| *count > 0);
        Self {
            scale: self.scale,
            counts,
            zero: self.zero.saturating_sub(earlier.zero),
            count: self.count.saturating_sub(earlier.count),
            sum_ns: self.sum_ns.saturating_sub(earlier.sum_ns),
            range_ns: None,
        }
    }

    /// Returns the buckets from the least to the largest value.
    fn width(&self) -> i64 {
        let first = self.counts.first_key_value().map_or(0, |(index, _)| *index);
        let last = self.counts.last_key_value().map_or(0, |(index, _)| *index);
        last - first + 1
    }

    /// Joins each two neighbouring buckets into one.
    fn halve(&mut self) {
        self.scale -= 1;
        let mut halved = BTreeMap::new();
        for (index, count) in &self.counts {
            *halved.entry(index >> 1).or_default() += count;
        }
        self.counts = halved;
    }

    /// Returns the data point, without times and attributes.
    pub fn point(&self) -> ExponentialPoint {
        let seconds = |ns: u64| ns as f64 / SECOND_NS;
        let first = self.counts.first_key_value().map_or(0, |(index, _)| *index);
        let indices = first
            ..first
                + if self.counts.is_empty() {
                    0
                } else {
                    self.width()
                };
        let counts = indices.map(|index| self.counts.get(&index).copied().unwrap_or(0));
        ExponentialPoint {
            count: self.count,
            sum: Some(self.sum_ns as f64 / SECOND_NS),
            scale: self.scale,
            zero_count: self.zero,
            positive: Some(Buckets {
                offset: i32::try_from(first).unwrap_or_default(),
                bucket_counts: counts.collect(),
            }),
            min: self.range_ns.map(|it| seconds(it.0)),
            max: self.range_ns.map(|it| seconds(it.1)),
            ..ExponentialPoint::default()
        }
    }
}

/// Returns the bucket of a duration in seconds. Near an edge it may be the one beside, which the data model allows.
fn bucket(ns: u64, scale: i32) -> i64 {
    let parts = f64::from(scale).exp2();
    ((ns as f64 / SECOND_NS).log2() * parts).ceil() as i64 - 1
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Makes a histogram of these values.
    fn histogram_of(values: &[u64]) -> DurationHistogram {
        let mut histogram = DurationHistogram::default();
        values.iter().for_each(|ns| histogram.add(*ns));
        histogram
    }

    /// Returns the edges of a bucket, s.
    fn edges(index: i64, scale: i32) -> (f64, f64) {
        let edge = |index: i64| (index as f64 / f64::from(scale).exp2()).exp2();
        (edge(index), edge(index + 1))
    }

    #[test]
    fn nothing_and_zero_have_no_bucket() {
        assert_eq!(histogram_of(&[]).point().positive, Some(Buckets::default()));
        let zero = histogram_of(&[0, 0]).point();
        assert_eq!((zero.zero_count, zero.count), (2, 2));
        assert_eq!(zero.positive, Some(Buckets::default()));
    }

    #[test]
    fn powers_of_two_belong_to_the_bucket_below() {
        assert_eq!(bucket(1_000_000_000, 0), -1);
        assert_eq!(bucket(2_000_000_000, 0), 0);
        assert_eq!(bucket(2_000_000_001, 0), 1);
        assert_eq!(bucket(4_000_000_000, 1), 3);
    }

    #[test]
    fn growth_and_the_rest_add_up() {
        let before = histogram_of(&[0, 1_000, 1_000_000, 2_000_000_000]);
        let mut after = before.clone();
        [0, 1, 1_000_000, 1_000_000, 5_000_000_000]
            .iter()
            .for_each(|ns| after.add(*ns));
        let growth = after.since(&before);
        assert_eq!(growth.totals().0, 5);
        assert!((growth.totals().1 - 5.002_000_001).abs() < 1e-9);
        let point = growth.point();
        let buckets = point.positive.expect("buckets");
        assert_eq!(buckets.bucket_counts.iter().sum::<u64>(), 4);
        assert_eq!((point.zero_count, point.min, point.max), (1, None, None));
        assert_eq!(before.since(&before).totals(), (0, 0.0));
    }

    #[test]
    fn counts_up_to_a_power_of_two_are_those_of_the_durations() {
        let histogram = histogram_of(&[0, 250_000_000, 500_000_000, 500_000_001, 3_000_000_000]);
        assert_eq!(histogram.count_to(-3), 1);
        assert_eq!(histogram.count_to(-2), 2);
        assert_eq!(histogram.count_to(-1), 3);
        assert_eq!(histogram.count_to(1), 4);
        assert_eq!(histogram.count_to(2), 5);
    }

    proptest! {
        #[test]
        fn each_value_lies_in_its_bucket(
            mut values in prop::collection::vec(1_u64..1 << 45, 1..300), shift in 0_u32..40,
        ) {
            values.iter_mut().for_each(|ns| *ns = (*ns >> shift).max(1));
            let histogram = histogram_of(&values);
            let point = histogram.point();
            let buckets = point.positive.clone().unwrap_or_default();
            prop_assert!(buckets.bucket_counts.len() as i64 <= BUCKETS_MOST);
            prop_assert_eq!(buckets.bucket_counts.iter().sum::<u64>(), values.len() as u64);
            let mut expected = BTreeMap::new();
            for ns in &values {
                let index = bucket(*ns, SCALE_FIRST) >> (SCALE_FIRST - point.scale);
                *expected.entry(index).or_default() += 1;
                let (low, high) = edges(index, point.scale);
                let seconds = *ns as f64 / SECOND_NS;
                prop_assert!(low * (1.0 - 1e-9) <= seconds && seconds <= high * (1.0 + 1e-9));
            }
            prop_assert_eq!(&histogram.counts, &expected);
        }
    }
}
