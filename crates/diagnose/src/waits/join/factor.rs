//! Slow and fast waits by a number that went before them (a size, a count, the value of a counter): one
//! value at a time in; out, how many of each lie on either side of every cut between two values.
//!
//! Values are counted in cells, 32 to a doubling, of either sign; of each cell the least and the
//! largest value are kept, so that a cut names values that occurred.

use std::collections::BTreeMap;

/// Bits of a double below those that select its cell: 12 of sign and exponent and 5 of the fraction remain.
const CELL_SHIFT: u32 = 64 - 12 - 5;

/// Numbers of waits: slow ones, fast ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SideCounts {
    /// Slow ones.
    pub slow: u64,
    /// Fast ones.
    pub fast: u64,
}

impl SideCounts {
    /// Counts a slow or a fast wait.
    pub fn add(&mut self, is_slow: bool) {
        if is_slow {
            self.slow += 1;
        } else {
            self.fast += 1;
        }
    }

    /// Returns the sum of both counts.
    pub fn plus(self, other: Self) -> Self {
        Self {
            slow: self.slow + other.slow,
            fast: self.fast + other.fast,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
struct FactorCell {
    counts: SideCounts,
    least: f64,
    most: f64,
}

/// Waits by value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Factor {
    cells: BTreeMap<u32, FactorCell>,
    known: SideCounts,
}

/// A place between two values that occurred.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FactorCut {
    /// Waits with a value of `low_most` or less.
    pub low: SideCounts,
    /// The largest value below the cut.
    pub low_most: f64,
    /// The least value above it.
    pub high_least: f64,
}

/// Returns the cell of a number; cells have the order of the numbers.
fn cell_of(value: f64) -> u32 {
    // 0.0 and -0.0 are one value.
    let bits = (value + 0.0).to_bits();
    let ordered = if value < 0.0 { !bits } else { bits | 1 << 63 };
    (ordered >> CELL_SHIFT) as u32
}

impl Factor {
    /// Counts a wait with its value; NaN counts as unknown.
    pub fn add(&mut self, value: f64, is_slow: bool) {
        if value.is_nan() {
            return;
        }
        self.known.add(is_slow);
        let cell = self.cells.entry(cell_of(value)).or_insert(FactorCell {
            counts: SideCounts::default(),
            least: value,
            most: value,
        });
        cell.counts.add(is_slow);
        cell.least = cell.least.min(value);
        cell.most = cell.most.max(value);
    }

    /// Waits with a known value.
    pub fn count_known(&self) -> SideCounts {
        self.known
    }

    /// Returns the number of cuts between the values.
    pub fn cut_count(&self) -> usize {
        self.cells.len().saturating_sub(1)
    }

    /// Every cut, in the order of the values.
    pub fn cuts(&self) -> impl Iterator<Item = FactorCut> + '_ {
        let next = self.cells.values().skip(1);
        let mut low = SideCounts::default();
        self.cells.values().zip(next).map(move |(below, above)| {
            low = low.plus(below.counts);
            FactorCut {
                low,
                low_most: below.most,
                high_least: above.least,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn cuts_count_what_lies_below_them(
            values in prop::collection::vec((-1e6_f64..1e6, any::<bool>()), 0..200),
        ) {
            let mut factor = Factor::default();
            values.iter().for_each(|(value, is_slow)| factor.add(*value, *is_slow));
            prop_assert_eq!(factor.cuts().count(), factor.cut_count());
            for cut in factor.cuts() {
                let mut low = SideCounts::default();
                let below = values.iter().filter(|(value, _)| *value <= cut.low_most);
                below.for_each(|(_, is_slow)| low.add(*is_slow));
                prop_assert_eq!(cut.low, low);
                prop_assert!(cut.low_most < cut.high_least);
                let between = values.iter().any(|(value, _)| cut.low_most < *value && *value < cut.high_least);
                prop_assert!(!between);
            }
        }

        #[test]
        fn whole_numbers_below_64_have_cells_of_their_own(a in -63_i8..64, b in -63_i8..64) {
            prop_assert_eq!(cell_of(a.into()).cmp(&cell_of(b.into())), a.cmp(&b));
        }
    }

    #[test]
    fn nan_is_unknown() {
        let mut factor = Factor::default();
        factor.add(f64::NAN, true);
        assert_eq!(
            (factor.count_known(), factor.cut_count()),
            (SideCounts::default(), 0)
        );
    }
}
