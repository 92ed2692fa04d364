//! Latencies by histogram, and the spread of repetitions.

use lab::Random;

/// Buckets of a doubling: values are distinguished to 1 part in 128, at any size.
const SUB_BITS: u32 = 7;
const SUB: u64 = 1 << SUB_BITS;

/// Counts of values in buckets that grow with the value (HdrHistogram).
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum: u64,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            counts: vec![0; bucket_of(u64::MAX) + 1],
            total: 0,
            sum: 0,
            max: 0,
        }
    }
}

/// Returns the bucket of a value.
fn bucket_of(value: u64) -> usize {
    let high = value.max(1).ilog2();
    if high <= SUB_BITS {
        return value as usize;
    }
    let shift = high - SUB_BITS;
    ((u64::from(shift) << SUB_BITS) + (value >> shift)) as usize
}

/// Returns the largest value in a bucket.
fn bucket_max(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < 2 * SUB {
        return bucket;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    let mantissa = bucket - (shift << SUB_BITS);
    ((u128::from(mantissa) + 1) << shift).saturating_sub(1) as u64
}

impl Histogram {
    /// Adds a value.
    pub(super) fn record(&mut self, value: u64) {
        self.counts[bucket_of(value)] += 1;
        self.total += 1;
        self.sum += value;
        self.max = self.max.max(value);
    }

    /// Adds the values of another histogram.
    pub(super) fn add(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// Returns the value that a share of all do not exceed; `None` of none, and where too few lie beyond.
    pub(super) fn quantile(&self, share: f64) -> Option<u64> {
        if (self.total as f64) * (1.0 - share) < 1.0 {
            return None;
        }
        let rank = (share * self.total as f64).ceil() as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= rank
        });
        Some(bucket_max(found?).min(self.max))
    }

    /// Returns the mean; None without a value.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.total > 0).then(|| self.sum as f64 / self.total as f64)
    }
}

/// Returns the median; `None` without values.
pub(super) fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len().is_multiple_of(2) {
        f64::midpoint(sorted[middle - 1], upper)
    } else {
        upper
    })
}

/// Resamples of a bootstrap: bounds of 95 % are then the 50th of 2,000 from each end.
const RESAMPLES: usize = 2_000;

/// Returns the 95 % interval of the median by the percentile bootstrap (Efron); `None` of fewer
/// than three values.
pub(super) fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < 3 {
        return None;
    }
    // the same values give the same interval
    let mut random = Random::new(values.len() as u64);
    let mut resampled = || {
        let draw = |_| values[random.below(values.len() as u64) as usize];
        median(&(0..values.len()).map(draw).collect::<Vec<_>>())
    };
    let medians: Option<Vec<f64>> = (0..RESAMPLES).map(|_| resampled()).collect();
    interval(medians?)
}

/// Returns the middle 95 % of many draws.
pub(super) fn interval(mut draws: Vec<f64>) -> Option<(f64, f64)> {
    draws.sort_by(f64::total_cmp);
    let tail = draws.len() / 40;
    Some((*draws.get(tail)?, *draws.get(draws.len() - 1 - tail)?))
}

/// Returns a draw from the normal distribution of mean 0 and deviation 1 (Box and Muller).
pub(super) fn draw_normal(random: &mut Random) -> f64 {
    let radius = (2.0 * random.exponential()).sqrt();
    let angle = random.below(1 << 53) as f64 / (1_u64 << 53) as f64 * std::f64::consts::TAU;
    radius * angle.cos()
}

/// Returns least squares: the weights of columns that come nearest to `values`; `None` where rows do not distinguish them.
pub(super) fn least_squares(rows: &[Vec<f64>], values: &[f64]) -> Option<Vec<f64>> {
    let columns = rows.first()?.len();
    let mut normal = vec![vec![0.0; columns + 1]; columns];
    for (row, value) in rows.iter().zip(values) {
        for i in 0..columns {
            for j in 0..columns {
                normal[i][j] += row[i] * row[j];
            }
            normal[i][columns] += row[i] * value;
        }
    }
    for i in 0..columns {
        let pivot =
            (i..columns).max_by(|a, b| normal[*a][i].abs().total_cmp(&normal[*b][i].abs()))?;
        normal.swap(i, pivot);
        if normal[i][i].abs() < 1e-9 {
            return None;
        }
        let top = normal[i].clone();
        for (j, row) in normal.iter_mut().enumerate() {
            if j != i {
                let factor = row[i] / top[i];
                for (cell, above) in row.iter_mut().zip(&top) {
                    *cell -= factor * above;
                }
            }
        }
    }
    Some(
        (0..columns)
            .map(|i| normal[i][columns] / normal[i][i])
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bucket() {
        let mut values: Vec<u64> = (0..1000).collect();
        values.extend((0..64).flat_map(|bit| [1_u64 << bit, (1 << bit) - 1, (1 << bit) + 1]));
        values.push(u64::MAX);
        for value in values {
            let top = bucket_max(bucket_of(value));
            assert!(top >= value, "{value}: {top}");
            assert!(top - value <= value / SUB, "{value}: {top}");
            assert_eq!(bucket_of(top), bucket_of(value));
        }
    }

    #[test]
    fn quantiles_are_those_of_the_sorted_values() {
        let mut histogram = Histogram::default();
        (1..=100_000).for_each(|value| histogram.record(value));
        for (share, exact) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.999, 99_900.0)] {
            let estimate = histogram.quantile(share).unwrap() as f64;
            assert!((estimate / exact - 1.0).abs() < 0.01, "{share}: {estimate}");
        }
        assert_eq!(histogram.quantile(0.999_999), None);
        assert_eq!(histogram.mean(), Some(50_000.5));
        assert_eq!(Histogram::default().quantile(0.5), None);
    }

    #[test]
    fn the_interval_holds_the_median() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median_interval(&[1.0, 2.0]), None);
        let (low, high) = median_interval(&[1.0, 2.0, 3.0, 4.0, 100.0]).unwrap();
        assert!((1.0..=3.0).contains(&low) && (3.0..=100.0).contains(&high));
    }

    #[test]
    fn least_squares_finds_a_plane() {
        let rows: Vec<Vec<f64>> = (0..20)
            .map(|i| vec![1.0, f64::from(i), f64::from(i * i % 7)])
            .collect();
        let values: Vec<f64> = rows.iter().map(|row| 3.0 + 2.0 * row[1] - row[2]).collect();
        let found = least_squares(&rows, &values).unwrap();
        for (found, planted) in found.iter().zip([3.0, 2.0, -1.0]) {
            assert!((found - planted).abs() < 1e-6);
        }
        assert_eq!(
            least_squares(&[vec![1.0, 1.0], vec![2.0, 2.0]], &[1.0, 2.0]),
            None
        );
    }
}
