//! Fast and slow waits: a histogram in, two populations with the boundary between them out, or none.
//!
//! The question is not whether two bell curves fit better than one (they do for every skewed or
//! heavy-tailed population), but whether the density over the logarithm of the duration has more than
//! one mode. Between two modes lies a valley, so three intervals A < B < C are compared. If the density
//! has one mode, then B is on average at least as dense as A (mode above B), or as C (mode below B), or
//! as one of them (mode within B); Dümbgen and Walther, "Multiscale inference about a density", Annals
//! of Statistics 36 (2008), build on the same comparison of neighbours. Each of the two comparisons is a
//! test of a binomial share: of the waits in A and B, at most `|A| / (|A| + |B|)` fall into A. Its
//! error is bounded by Hoeffding ("Probability inequalities for sums of bounded random variables",
//! JASA 58 (1963), Theorem 1), which is exact for an empty B. One mode is refused only where both
//! comparisons refuse it (intersection-union: Berger, Technometrics 24 (1982)), and each is held to
//! [`ERROR`] over the number of all comparisons that can be made (Bonferroni). So the error holds for
//! every number of waits and for every population with one mode: no width or least size is tuned.
//!
//! Among a million waits the test sees every dent. Two populations are reported only where they are
//! resolved by the convention of mass spectrometry: the valley is no higher than a tenth of either peak
//! (IUPAC Gold Book, "resolution (10 per cent valley definition)").
//!
//! Timers put waits on a grid of jiffies. What is seen at `k` jiffies was somewhere less than a jiffy
//! from there; therefore A and C count as a jiffy wider at both ends, and B as a jiffy narrower, unless
//! they lie below the first jiffy, where such a grid has nothing. The first jiffy itself may hold all
//! that is shorter, down to [`SHORTEST_NS`].
//!
//! Of several valleys the one with the widest gap, in which nothing or least lies, gives the boundary:
//! of waits of 1, 3 and 200 ms, those of 200 ms are the slow ones.
//!
//! Promised: a population of one mode over the logarithm of its durations (constant, uniform,
//! exponential, lognormal, Pareto, …), of any size, as it is or rounded to jiffies, is split in at
//! most one of 1,000 cases; in practice in none, as both bounds are generous (none of 60,000 with 20 to
//! 100,000 waits). Two narrow populations ten or more times apart are separated from 25 waits of the
//! smaller one on (all of 700,000 drawn ones; of twelve waits, 97 of 100), and from six to nine, if these
//! fall into one cell. A population of one to four jiffies may need about a hundred, as the first jiffy
//! may hold all that is shorter.

use std::ops::Range;
use std::sync::LazyLock;

use crate::histogram::{Histogram, bucket_of, lower_edge};

/// Chance to split one population: a report that names a thousand objects has one wrong split at most,
/// on average.
const ERROR: f64 = 0.001;

/// The 10 per cent valley definition.
const VALLEY: f64 = 0.1;

/// A thread that yields its CPU is seldom back sooner: two context switches take 1 µs and more (Li, Ding and
/// Shen, "Quantifying the cost of context switch", 2007). What is shorter is not distinguished.
const SHORTEST_NS: u64 = 1 << 10;
/// No wait is longer: 19.5 hours.
const LONGEST_NS: u64 = 1 << 46;
/// Cells of the comparison: four a doubling, with edges of buckets.
pub const BUCKETS_A_CELL: usize = 8;
const FIRST: usize = bucket_of(SHORTEST_NS) / BUCKETS_A_CELL;
const CELLS: usize = bucket_of(LONGEST_NS) / BUCKETS_A_CELL - FIRST;
/// Widths of A and C, in cells: from a narrow mode to one that spans a factor of 256.
const WIDTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];

/// Comparisons that can be made: every B, with every A on its left and every C on its right.
const COMPARISONS: f64 = (CELLS * (CELLS - 1) / 2 * 2 * WIDTHS.len()) as f64;

/// Logarithms of the edges of all cells.
static EDGES: LazyLock<Vec<f64>> = LazyLock::new(|| {
    (0..=CELLS)
        .map(|cell| (cell_edge(cell) as f64).ln())
        .collect()
});

/// Returns the shortest duration of a cell, in nanoseconds.
const fn cell_edge(cell: usize) -> u64 {
    lower_edge((FIRST + cell) * BUCKETS_A_CELL)
}

/// Returns where fast waits end: the bucket of the histogram with which slow ones begin. `None`: one population, or too
/// few waits to decide. `jiffy_ns`: the kernel's.
pub fn find_boundary(histogram: &Histogram, jiffy_ns: u64) -> Option<usize> {
    let cells = DurationCells::from_histogram(histogram, jiffy_ns);
    let (low, high) = cells.widest_gap()?;
    let middle = ((EDGES[low] + EDGES[high]) / 2.0).exp();
    Some(bucket_of(middle as u64))
}

/// So many waits of the smaller one of two populations are separated in 97 of 100 cases, if these are so many times apart:
/// see above.
pub const ENOUGH: u64 = 12;
const TIMES_APART: u64 = 10;

/// Returns the bucket from which on there are a few waits that are too few for a population: at most eleven, each at least
/// ten times as long as all others. To be asked only where [`find_boundary`] is none.
pub fn few_boundary(histogram: &Histogram) -> Option<usize> {
    let filled: Vec<(usize, u64)> = histogram.buckets().collect();
    let mut above = 0;
    let mut widest: Option<(usize, f64)> = None;
    for pair in filled.windows(2).rev() {
        let ((below, _), (bucket, count)) = (pair[0], pair[1]);
        above += count;
        if above >= ENOUGH {
            break;
        }
        let (least_ns, most_ns) = (lower_edge(bucket), lower_edge(below + 1).max(1));
        let times = least_ns as f64 / most_ns as f64;
        if least_ns >= TIMES_APART * most_ns && widest.is_none_or(|(_, known)| times > known) {
            widest = Some((bucket, times));
        }
    }
    widest.map(|(bucket, _)| bucket)
}

/// A histogram as the comparisons see it.
struct DurationCells {
    /// Waits below each edge.
    below: [u64; CELLS + 1],
    jiffy_ns: u64,
}

impl DurationCells {
    /// Sums the histogram into cells, for the search for populations.
    fn from_histogram(histogram: &Histogram, jiffy_ns: u64) -> Self {
        let mut below = [0; CELLS + 1];
        for (bucket, count) in histogram.buckets() {
            let cell = (bucket / BUCKETS_A_CELL).saturating_sub(FIRST);
            below[cell.min(CELLS - 1) + 1] += count;
        }
        for cell in 0..CELLS {
            below[cell + 1] += below[cell];
        }
        Self { below, jiffy_ns }
    }

    /// Returns the waits of these cells.
    fn count(&self, cells: &Range<usize>) -> u64 {
        self.below[cells.end] - self.below[cells.start]
    }

    /// The widest place from which the waits in `cells` can have come: width of a mode.
    fn widest_range(&self, cells: &Range<usize>) -> f64 {
        let (low, high) = (cell_edge(cells.start), cell_edge(cells.end));
        if high <= self.jiffy_ns {
            return EDGES[cells.end] - EDGES[cells.start];
        }
        let low = low.saturating_sub(self.jiffy_ns).max(SHORTEST_NS);
        ((high + self.jiffy_ns) as f64 / low as f64).ln()
    }

    /// The narrowest place to which the waits in `cells` are confined: width of a valley.
    fn narrowest_range(&self, cells: &Range<usize>) -> Option<f64> {
        let (low, high) = (cell_edge(cells.start), cell_edge(cells.end));
        if high <= self.jiffy_ns {
            return Some(EDGES[cells.end] - EDGES[cells.start]);
        }
        let low = if low < self.jiffy_ns {
            low
        } else {
            low + self.jiffy_ns
        };
        let high = high - self.jiffy_ns;
        (high > low).then(|| (high as f64 / low as f64).ln())
    }

    /// First and last edge of the gap between two modes; of several, the widest. `None`: there is no
    /// interval that clearly is less dense than something on its left and something on its right.
    fn widest_gap(&self) -> Option<(usize, usize)> {
        // The outermost cells hold also what lies beyond them: their width is not known.
        let first = (1..CELLS).find(|cell| self.below[*cell + 1] > self.below[1])?;
        let last = (first..CELLS - 1).rfind(|cell| self.count(&(*cell..*cell + 1)) > 0)?;
        let enough = (ERROR / COMPARISONS).ln();
        let mut widest: Option<((usize, usize), f64)> = None;
        for start in first + 1..=last {
            for end in start + 1..=last {
                let error = self.log_error(&(start..end), (first, last));
                if error > enough {
                    continue;
                }
                let gap = self.emptiest_run(start..end);
                let wider = widest.is_none_or(|(known, known_error)| {
                    let (width, known) = (gap.1 - gap.0, known.1 - known.0);
                    width > known || width == known && error < known_error
                });
                if wider {
                    widest = Some((gap, error));
                }
            }
        }
        widest.map(|(gap, _)| gap)
    }

    /// Logarithm of a bound on the chance of these counts if there is one mode.
    fn log_error(&self, valley: &Range<usize>, (first, last): (usize, usize)) -> f64 {
        let Some(width) = self.narrowest_range(valley) else {
            return 0.0;
        };
        let within = self.count(valley);
        let least = |modes: &mut dyn Iterator<Item = Range<usize>>| {
            let tests = modes.map(|mode| {
                let (inside, mode_width) = (self.count(&mode), self.widest_range(&mode));
                if within as f64 / width > VALLEY * inside as f64 / mode_width {
                    return 0.0;
                }
                log_tail(inside, within, mode_width, width)
            });
            tests.fold(0.0, f64::min)
        };
        let left = WIDTHS
            .iter()
            .take_while(|wide| first + **wide <= valley.start);
        let left = least(&mut left.map(|wide| valley.start - wide..valley.start));
        if left == 0.0 {
            return 0.0;
        }
        let right = WIDTHS
            .iter()
            .take_while(|wide| valley.end + **wide <= last + 1);
        left.max(least(&mut right.map(|wide| valley.end..valley.end + wide)))
    }

    /// The longest run of the least dense cells of a valley, as its first and last edge.
    fn emptiest_run(&self, valley: Range<usize>) -> (usize, usize) {
        let density =
            |cell: usize| self.count(&(cell..cell + 1)) as f64 / (EDGES[cell + 1] - EDGES[cell]);
        let least = valley.clone().map(density).fold(f64::INFINITY, f64::min);
        let mut longest = (valley.start, valley.start);
        let mut begun = valley.start;
        for cell in valley {
            if density(cell) > least {
                begun = cell + 1;
            } else if cell + 1 - begun > longest.1 - longest.0 {
                longest = (begun, cell + 1);
            }
        }
        longest
    }
}

/// Hoeffding's bound, as a logarithm, on the chance that of `inside + outside` waits at least `inside`
/// fall into a place that is no denser than the other. Widths are logarithms.
fn log_tail(inside: u64, outside: u64, inside_width: f64, outside_width: f64) -> f64 {
    let (inside, outside) = (inside as f64, outside as f64);
    let all = inside + outside;
    let expected = inside_width / (inside_width + outside_width);
    if inside <= expected * all {
        return 0.0;
    }
    let of_outside = if outside > 0.0 {
        outside * (outside / all / (1.0 - expected)).ln()
    } else {
        0.0
    };
    -(inside * (inside / all / expected).ln() + of_outside)
}

#[cfg(test)]
mod tests;
