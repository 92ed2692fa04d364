//! Durations counted by size: log-linear buckets as in HdrHistogram (Gil Tene). Each doubling is cut
//! into 32 equal parts, so that the middle of a bucket is within 1/64 of every value in it. Doublings
//! that hold nothing take no memory: a group of waits needs about 2 kB.

/// Parts of a doubling, as a power of two.
const PART_BITS: u32 = 5;
/// Parts of a doubling.
const PARTS: usize = 1 << PART_BITS;

/// Largest relative error of a value that is read from a histogram: half of the widest bucket, by its
/// lower edge.
pub const RELATIVE_ERROR: f64 = 0.5 / PARTS as f64;

/// Counts of durations in ns.
#[derive(Debug, Clone, Default)]
pub struct Histogram {
    doublings: Vec<Option<Box<[u64; PARTS]>>>,
    count: u64,
    range: Option<(u64, u64)>,
}

/// Returns the bucket of a duration.
pub const fn bucket_of(ns: u64) -> usize {
    if ns < PARTS as u64 {
        return ns as usize;
    }
    let shift = ns.ilog2() - PART_BITS;
    (shift as usize + 1) * PARTS + ((ns >> shift) as usize - PARTS)
}

/// Returns the shortest duration of a bucket, ns.
pub const fn lower_edge(bucket: usize) -> u64 {
    if bucket < PARTS {
        return bucket as u64;
    }
    ((PARTS + bucket % PARTS) as u64) << (bucket / PARTS - 1)
}

impl Histogram {
    /// Adds one duration to its bucket.
    pub fn add(&mut self, ns: u64) {
        let bucket = bucket_of(ns);
        let doubling = bucket / PARTS;
        if doubling >= self.doublings.len() {
            self.doublings.resize(doubling + 1, None);
        }
        let parts = self.doublings[doubling].get_or_insert_with(|| Box::new([0; PARTS]));
        parts[bucket % PARTS] += 1;
        self.count += 1;
        let (min, max) = self.range.unwrap_or((ns, ns));
        self.range = Some((min.min(ns), max.max(ns)));
    }

    /// Returns the number of durations.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Returns the shortest and the longest duration, exact; `None` without any.
    pub fn range_ns(&self) -> Option<(u64, u64)> {
        self.range
    }

    /// Returns all buckets that are not empty, with their counts, the shortest first.
    pub fn buckets(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let present = |(doubling, parts): (usize, &'_ Option<Box<[u64; PARTS]>>)| {
            let counts = parts.as_deref().copied().unwrap_or([0; PARTS]);
            (0..PARTS).map(move |part| (doubling * PARTS + part, counts[part]))
        };
        let all = self.doublings.iter().enumerate().flat_map(present);
        all.filter(|(_, count)| *count > 0)
    }

    /// The duration below which `share` (0–1) of all lie, by the nearest rank; within
    /// [`RELATIVE_ERROR`]. `None` without any.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        self.part(0..usize::MAX).quantile_ns(share)
    }

    /// The durations in some of the buckets.
    pub fn part(&self, buckets: std::ops::Range<usize>) -> HistogramPart {
        let within = |(bucket, _): &(usize, u64)| buckets.contains(bucket);
        HistogramPart {
            buckets: self.buckets().filter(within).collect(),
            range: self.range,
        }
    }
}

/// Durations of some buckets of a histogram.
#[derive(Debug)]
pub struct HistogramPart {
    buckets: Vec<(usize, u64)>,
    range: Option<(u64, u64)>,
}

impl HistogramPart {
    /// Returns the number of durations in this part.
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// Returns the sum of the values, within [`RELATIVE_ERROR`].
    pub fn sum_ns(&self) -> u64 {
        let sums = self.buckets.iter();
        sums.map(|(bucket, count)| self.bucket_middle(*bucket).saturating_mul(*count))
            .fold(0, u64::saturating_add)
    }

    /// Returns a quantile of this part, ns, as [`Histogram::quantile_ns`].
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let rank = ((share * self.count() as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let found = self.buckets.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        found.map(|(bucket, _)| self.bucket_middle(*bucket))
    }

    /// The middle of a bucket, which lies within the least and the largest duration.
    fn bucket_middle(&self, bucket: usize) -> u64 {
        // The edge after the last bucket is 2^64, which wraps to 0.
        let (low, high) = (lower_edge(bucket), lower_edge(bucket + 1).wrapping_sub(1));
        let (min, max) = self.range.unwrap_or((low, high));
        (low + (high - low) / 2).clamp(min, max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_follow_each_other() {
        for index in 0..=bucket_of(u64::MAX) {
            assert_eq!(bucket_of(lower_edge(index)), index);
            if index > 0 {
                assert_eq!(bucket_of(lower_edge(index) - 1), index - 1);
            }
        }
    }

    #[test]
    fn the_last_bucket_has_a_middle() {
        let mut longest = Histogram::default();
        longest.add(u64::MAX);
        assert_eq!(longest.quantile_ns(0.5), Some(u64::MAX));
    }

    #[test]
    fn empty_histogram_has_no_quantile() {
        let none = Histogram::default();
        assert_eq!((none.quantile_ns(0.5), none.range_ns()), (None, None));
    }

    proptest! {
        #[test]
        fn quantiles_and_sums_keep_their_error(
            mut values in prop::collection::vec(0_u64..1 << 48, 1..300),
            scale in 0_u32..40,
            share in 0.0..1.0_f64,
        ) {
            values.iter_mut().for_each(|value| *value >>= scale);
            let mut histogram = Histogram::default();
            values.iter().for_each(|value| histogram.add(*value));
            values.sort_unstable();
            let near = |found: u64, exact: u64| {
                (found as f64 - exact as f64).abs() <= exact as f64 * RELATIVE_ERROR
            };
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            prop_assert!(near(histogram.quantile_ns(share).unwrap(), values[rank - 1]));
            prop_assert!(near(histogram.part(0..usize::MAX).sum_ns(), values.iter().sum()));
            prop_assert_eq!(histogram.range_ns(), Some((values[0], values[values.len() - 1])));
            prop_assert_eq!(histogram.buckets().map(|it| it.1).sum::<u64>(), histogram.count());
        }
    }
}
