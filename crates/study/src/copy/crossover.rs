//! From which message size on one way of sending beats another.

use super::csv::ResultRow;
use super::doc::format_bytes;
use super::stats::{draw_normal, interval};
use lab::Random;

/// Draws of the parametric bootstrap.
const DRAWS: usize = 2_000;
/// A 95 % interval of a normal distribution is so many deviations wide.
const WIDTH_95: f64 = 2.0 * 1.959_964;

/// Message size from which on one variant is faster than the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum CrossoverPoint {
    /// It wins at every measured size.
    Always,
    /// It does not win at the largest.
    Never,
    /// From this size on.
    At(f64),
}

/// A crossover and how sure it is.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Crossover {
    pub(super) place: CrossoverPoint,
    /// 95 % interval, in bytes; infinite: beyond the largest size. `None`: the results have no spread.
    pub(super) interval: Option<(f64, f64)>,
    /// Ratios of throughput by size.
    pub(super) ratios: Vec<(usize, f64)>,
    /// Smallest and largest size.
    range: (f64, f64),
}

/// Returns where `variant` crosses `base`, by throughput, at a number of threads; `None`: fewer than two sizes have both.
///
/// Medians are taken to vary as their intervals say, log-normally.
pub(super) fn find(
    rows: &[ResultRow],
    base: &str,
    variant: &str,
    threads: usize,
) -> Option<Crossover> {
    let of = |name: &str, size: usize| {
        let mut wanted = rows.iter();
        wanted.find(|row| row.variant == name && row.size == size && row.threads == threads)
    };
    let mut sizes: Vec<usize> = rows.iter().map(|row| row.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut points = Vec::new();
    let mut has_spread = true;
    for size in sizes {
        let Some((own, other)) = of(variant, size).zip(of(base, size)) else {
            continue;
        };
        let Some((own_gbps, other_gbps)) = own.get("throughput").zip(other.get("throughput"))
        else {
            continue;
        };
        let deviation = |row: &ResultRow| {
            row.bounds("throughput")
                .map(|(low, high)| (high / low).ln() / WIDTH_95)
        };
        has_spread &= deviation(own).is_some() && deviation(other).is_some();
        let spread = deviation(own)
            .unwrap_or(0.0)
            .hypot(deviation(other).unwrap_or(0.0));
        points.push((size, (own_gbps / other_gbps).ln(), spread));
    }
    let range = (points.first()?.0 as f64, points.last()?.0 as f64);
    if points.len() < 2 {
        return None;
    }
    let place = find_crossover(points.iter().map(|(size, ratio, _)| (*size, *ratio)));
    let mut random = Random::new(1);
    let mut draw = || {
        let drawn = points
            .iter()
            .map(|(size, ratio, spread)| (*size, ratio + spread * draw_normal(&mut random)));
        match find_crossover(drawn) {
            CrossoverPoint::Always => range.0,
            CrossoverPoint::Never => f64::INFINITY,
            CrossoverPoint::At(size) => size,
        }
    };
    let draws: Vec<f64> = (0..DRAWS).map(|_| draw()).collect();
    Some(Crossover {
        place,
        interval: interval(draws).filter(|_| has_spread),
        ratios: points
            .iter()
            .map(|(size, ratio, _)| (*size, ratio.exp()))
            .collect(),
        range,
    })
}

/// Finds where a variant begins to win: between the last size at which it loses and the next.
fn find_crossover(points: impl Iterator<Item = (usize, f64)>) -> CrossoverPoint {
    let mut place = CrossoverPoint::Always;
    let mut last: Option<(usize, f64)> = None;
    for (size, ratio) in points {
        if ratio < 0.0 {
            place = CrossoverPoint::Never;
        } else if let (CrossoverPoint::Never, Some((before, lost))) = (place, last) {
            let part = lost / (lost - ratio);
            let (from, to) = ((before as f64).ln(), (size as f64).ln());
            place = CrossoverPoint::At((from + part * (to - from)).exp());
        }
        last = Some((size, ratio));
    }
    place
}

impl Crossover {
    /// Returns the crossover in words.
    pub(super) fn to_text(&self) -> String {
        let place = match self.place {
            CrossoverPoint::Always => {
                format!("ahead at every size from {} on", format_bytes(self.range.0))
            }
            CrossoverPoint::Never => "none within the measured range".to_owned(),
            CrossoverPoint::At(size) => format!("at {}", format_bytes(size.round())),
        };
        let Some((low, high)) = self.interval else {
            return place + " (the results have no spread)";
        };
        let name = |size: f64| {
            if size.is_infinite() {
                "none".to_owned()
            } else if size <= self.range.0 {
                format!("at or below {}", format_bytes(size))
            } else {
                format_bytes(size.round())
            }
        };
        if low == high {
            format!("{place} (95 %: all resamples alike)")
        } else {
            format!("{place} (95 %: {} to {})", name(low), name(high))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::csv;
    use super::*;

    /// Makes rows in which the second variant has these values.
    fn rows(a2: [f64; 3], spread: f64) -> Vec<ResultRow> {
        let mut text = String::from("Impl,size,thread,throughput,throughput_lo,throughput_hi\n");
        for (place, size) in [64, 256, 1024].into_iter().enumerate() {
            for (name, gbps) in [("A1", 1.0), ("A2", a2[place])] {
                let (low, high) = (gbps / (1.0 + spread), gbps * (1.0 + spread));
                text += &format!("{name},{size},1,{gbps},{low},{high}\n");
            }
        }
        csv::read("f", &text).unwrap()
    }

    #[test]
    fn crossover_lies_between_two_sizes() {
        let exact = find(&rows([0.5, 0.5, 2.0], 1e-6), "A1", "A2", 1).unwrap();
        // halfway between the logarithms of 256 and 1024
        let CrossoverPoint::At(size) = exact.place else {
            panic!("{exact:?}")
        };
        assert!((size - 512.0).abs() < 1.0);
        let (low, high) = exact.interval.unwrap();
        assert!((low - 512.0).abs() < 1.0 && (high - 512.0).abs() < 1.0);
        let never = find(&rows([2.0, 2.0, 0.5], 1e-6), "A1", "A2", 1).unwrap();
        assert_eq!(never.place, CrossoverPoint::Never);
        assert!(never.to_text().contains("none within the measured range"));
        assert_eq!(
            find(&rows([1.1, 1.2, 1.3], 1e-6), "A1", "A2", 1)
                .unwrap()
                .place,
            CrossoverPoint::Always
        );
        assert_eq!(find(&rows([1.0; 3], 0.0), "A1", "A2", 2), None);
    }

    #[test]
    fn noise_widens_the_interval() {
        let noisy = find(&rows([0.97, 0.99, 1.02], 0.2), "A1", "A2", 1).unwrap();
        let (low, high) = noisy.interval.unwrap();
        assert!(low <= 64.0 && high.is_infinite(), "{noisy:?}");
    }
}
