//! Whether slow waits go with small or with large values: slow and fast waits by value in, the cut that
//! separates them best out, or none.
//!
//! Of all cuts between two values that occurred, the one with the largest Youden's J counts (share of
//! the slow waits on one side less that of the fast ones; "Index for rating diagnostic tests", Cancer 3
//! (1950)). The best of many cuts looks better than it is (Miller and Siegmund, "Maximally selected chi
//! square statistics", Biometrics 38 (1982)). Therefore the chance of so uneven shares, by Fisher's
//! exact test, on either side (twice that of one), is multiplied by the number of all cuts that were
//! tested in the group, of all numbers together (Bonferroni), and has to be at most [`ERROR`].
//!
//! Among a million waits every trifle passes that test. Only what Cohen calls a large difference of two
//! shares is reported: h of 0.8 or more ("Statistical power analysis for the behavioral sciences", 2nd
//! edition, 1988, 6.2), as between 93 % and 60 %, or 16 % and 0 %.
//!
//! Waits that follow each other are not independent: what goes together here need not be cause and
//! effect.

use super::factor::{Factor, FactorCut, SideCounts};

/// Chance to report an association in a group that has none; as for populations.
const ERROR: f64 = 0.001;

/// A large difference of two shares.
const LARGE: f64 = 0.8;

/// On which side of the cut slow waits are more frequent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FactorSide {
    /// With small values.
    Low,
    /// With large ones.
    High,
}

/// Values that slow waits go with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Association {
    /// Values.
    pub side: FactorSide,
    /// The largest of the small values, or the least of the large ones.
    pub value: f64,
    /// Waits with such a value.
    pub with: SideCounts,
    /// At most so likely by chance, with all tested cuts counted in.
    pub chance: f64,
}

/// Returns the association of one number with slow waits, if there is one. `cuts`: of all numbers
/// of the group.
pub fn find_association(factor: &Factor, cuts: usize) -> Option<Association> {
    let known = factor.count_known();
    let difference =
        |cut: &FactorCut| share_of(cut.low.slow, known.slow) - share_of(cut.low.fast, known.fast);
    let best = factor.cuts().reduce(|best, cut| {
        match difference(&cut).abs() > difference(&best).abs() {
            true => cut,
            false => best,
        }
    })?;
    let (side, value, with) = if difference(&best) > 0.0 {
        (FactorSide::Low, best.low_most, best.low)
    } else {
        let high = SideCounts {
            slow: known.slow - best.low.slow,
            fast: known.fast - best.low.fast,
        };
        (FactorSide::High, best.high_least, high)
    };
    property_chance(with, known, cuts).map(|chance| Association {
        side,
        value,
        with,
        chance,
    })
}

/// Returns the chance of so uneven shares of those with a property; `None`: it is no small one, or they differ little.
/// `tests`: of all properties together.
pub fn property_chance(with: SideCounts, known: SideCounts, tests: usize) -> Option<f64> {
    let chance = (2.0 * tests as f64 * fisher_chance(with, known)).min(1.0);
    (chance <= ERROR && effect_size(with, known) >= LARGE).then_some(chance)
}

/// Returns whether there are enough waits to find any association.
pub fn is_enough(known: SideCounts, tests: usize) -> bool {
    let fast = 0;
    property_chance(SideCounts { fast, ..known }, known, tests.max(1)).is_some()
}

fn share_of(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

/// Returns Cohen's h of the shares of slow and of fast waits.
fn effect_size(with: SideCounts, known: SideCounts) -> f64 {
    let angle = |part, whole| 2.0 * share_of(part, whole).sqrt().asin();
    angle(with.slow, known.slow) - angle(with.fast, known.fast)
}

/// Returns the chance that so many waits with a value are slow, by Fisher's exact test, one-sided.
fn fisher_chance(with: SideCounts, known: SideCounts) -> f64 {
    let (all, slow) = (known.slow + known.fast, known.slow);
    let such = with.slow + with.fast;
    let most = such.min(slow);
    let mut term = (ln_choose(such, with.slow) + ln_choose(all - such, slow - with.slow)
        - ln_choose(all, slow))
    .exp();
    let mut sum = term;
    for hits in with.slow..most {
        let (more, others) = ((such - hits) * (slow - hits), all + hits + 1 - such - slow);
        let ratio = more as f64 / ((hits + 1) as f64 * others as f64);
        term *= ratio;
        sum += term;
        if ratio < 1.0 && term < sum * f64::EPSILON {
            break;
        }
    }
    sum
}

/// Returns the logarithm of the number of ways to choose `some` of `all`.
fn ln_choose(all: u64, some: u64) -> f64 {
    ln_factorial(all) - ln_factorial(some) - ln_factorial(all - some)
}

/// Returns ln(n!) by Stirling's series, with an error below 1e-10 from ten on (Abramowitz and Stegun, 6.1.41).
fn ln_factorial(number: u64) -> f64 {
    if number < 10 {
        return (2..=number).map(|factor| (factor as f64).ln()).sum();
    }
    let n = number as f64;
    n * n.ln() - n + 0.5 * (std::f64::consts::TAU * n).ln() + 1.0 / (12.0 * n)
        - 1.0 / (360.0 * n.powi(3))
        + 1.0 / (1_260.0 * n.powi(5))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    /// Makes counts of slow and fast waits.
    fn counts(slow: u64, fast: u64) -> SideCounts {
        SideCounts { slow, fast }
    }

    /// Fisher's own example, the lady tasting tea: 3 of 4 by chance in 17 of 70 cases.
    #[test]
    fn fisher_test_matches_published_example() {
        let near = |found: f64, exact: f64| assert!((found / exact - 1.0).abs() < 1e-9, "{found}");
        near(fisher_chance(counts(3, 1), counts(4, 4)), 17.0 / 70.0);
        near(fisher_chance(counts(4, 0), counts(4, 4)), 1.0 / 70.0);
        near(fisher_chance(counts(0, 4), counts(4, 4)), 1.0);
        near(fisher_chance(counts(0, 0), counts(20, 30)), 1.0);
        // C(60, 20) ways
        near(
            fisher_chance(counts(20, 0), counts(20, 40)),
            1.0 / 4_191_844_505_805_495.0,
        );
    }

    #[test]
    fn values_of_ten_and_more_have_the_factorials_of_the_product() {
        let exact: f64 = (2..=10).map(|factor| f64::from(factor).ln()).sum();
        assert!((ln_factorial(10) - exact).abs() < 1e-10);
        assert!((ln_factorial(11) - exact - 11_f64.ln()).abs() < 1e-10);
    }

    /// Makes a factor of values; true is a slow wait.
    fn factor(values: impl IntoIterator<Item = (f64, bool)>) -> Factor {
        let mut factor = Factor::default();
        values
            .into_iter()
            .for_each(|(value, is_slow)| factor.add(value, is_slow));
        factor
    }

    #[test]
    fn slow_waits_that_go_with_small_values_are_reported_with_the_cut_between() {
        // 47 of 50 slow ones after 64, 3 of 100 fast ones; the others after 1,400
        let slow = (0..50).map(|number| (if number < 47 { 64.0 } else { 1_400.0 }, true));
        let fast = (0..100).map(|number| (if number < 3 { 60.0 } else { 1_400.0 }, false));
        let found = find_association(&factor(slow.chain(fast)), 2).expect("an association");
        assert_eq!((found.side, found.value), (FactorSide::Low, 64.0));
        assert_eq!(found.with, counts(47, 3));
        assert!(found.chance < 1e-20);
    }

    #[test]
    fn slow_waits_that_go_with_large_values_are_reported_too() {
        let values = (0..60).map(|number| (f64::from(number), number >= 40));
        let found = find_association(&factor(values), 59).expect("an association");
        assert_eq!((found.side, found.value), (FactorSide::High, 40.0));
        assert_eq!(found.with, counts(20, 0));
    }

    #[test]
    fn chance_association_is_not_reported() {
        let five = |value, is_slow| (0..5).map(move |_| (value, is_slow));
        // 1 of 252 ways: with two sides and one cut 0.8 %
        assert_eq!(
            find_association(&factor(five(1.0, true).chain(five(9.0, false))), 1),
            None
        );
        assert_eq!(find_association(&Factor::default(), 0), None);
        assert_eq!(
            find_association(&factor(five(1.0, true).chain(five(1.0, false))), 0),
            None
        );
    }

    #[test]
    fn small_difference_is_not_reported() {
        // 55 % of the slow ones and 45 % of the fast ones, of 100,000 each
        let waits = |is_slow: bool, small: u32| {
            (0..100_000).map(move |number| (if number < small { 1.0 } else { 9.0 }, is_slow))
        };
        assert_eq!(
            find_association(&factor(waits(true, 55_000).chain(waits(false, 45_000))), 1),
            None
        );
    }

    proptest! {
        // The same values in every run: of random ones, one run in 25 has a chance below the bound.
        #![proptest_config(ProptestConfig {
            failure_persistence: None,
            rng_seed: RngSeed::Fixed(1),
            ..ProptestConfig::with_cases(4_000)
        })]

        /// Values that have nothing to do with how long a wait was: four of 4,000 may be reported by chance.
        #[test]
        fn labels_at_random_are_not_reported(
            values in prop::collection::vec((0.0_f64..1e4, 0_u8..100), 20..400),
            slow in 5_u8..95,
        ) {
            let factor = factor(values.iter().map(|(value, label)| (*value, *label < slow)));
            let found = find_association(&factor, factor.cut_count());
            prop_assert!(found.is_none_or(|found| found.chance > 1e-5), "{:?}", found);
        }
    }
}
