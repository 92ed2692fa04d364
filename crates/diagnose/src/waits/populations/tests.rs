//! One population is never split, two are separated: drawn from known distributions.

use proptest::prelude::*;

use super::*;
use crate::kernel::LONGEST_JIFFY_NS;

const JIFFIES_NS: [u64; 4] = [1_000_000, 3_333_333, 4_000_000, LONGEST_JIFFY_NS];

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
struct Random(u64);

impl Random {
    /// Returns a uniform random number in (0, 1).
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Returns a normal random number, by Box and Muller.
    fn normal(&mut self) -> f64 {
        (-2.0 * self.unit().ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }
}

/// A population of one mode over the logarithm of its values.
#[derive(Debug, Clone, Copy)]
enum Population {
    Constant,
    /// From this share of the scale to the scale.
    Uniform(f64),
    Exponential,
    /// σ.
    Lognormal(f64),
    /// α.
    Pareto(f64),
    /// Shape k.
    Weibull(f64),
    /// Uniform over the logarithm, over so many decades: the hardest to distinguish from two modes.
    LogUniform(f64),
}

impl Population {
    /// Draws a duration of the population, as a multiple of its scale.
    fn draw(self, random: &mut Random) -> f64 {
        let unit = random.unit();
        match self {
            Self::Constant => 1.0,
            Self::Uniform(from) => from + (1.0 - from) * unit,
            Self::Exponential => -unit.ln(),
            Self::Lognormal(sigma) => (sigma * random.normal()).exp(),
            Self::Pareto(alpha) => unit.powf(-1.0 / alpha),
            Self::Weibull(shape) => (-unit.ln()).powf(1.0 / shape),
            Self::LogUniform(decades) => 10_f64.powf(decades * unit),
        }
    }
}

/// Generates populations of seven shapes, from constant to heavy-tailed.
fn populations() -> impl Strategy<Value = Population> {
    prop_oneof![
        Just(Population::Constant),
        (0.0..0.99).prop_map(Population::Uniform),
        Just(Population::Exponential),
        (0.01..1.5).prop_map(Population::Lognormal),
        (0.3..5.0).prop_map(Population::Pareto),
        (0.4..4.0).prop_map(Population::Weibull),
        (0.5..4.0).prop_map(Population::LogUniform),
    ]
}

/// How durations come to lie on the grid of jiffies.
#[derive(Debug, Clone, Copy)]
enum Grid {
    None,
    Up,
    Nearest,
    Down,
    /// Up, and then a late wake-up of up to a twentieth of a jiffy.
    Late,
}

/// Moves a duration to a multiple of the timer tick, as this grid does.
fn on_grid(grid: Grid, ns: f64, jiffy_ns: u64, random: &mut Random) -> u64 {
    let jiffy = jiffy_ns as f64;
    let jiffies = ns / jiffy;
    let on_grid = match grid {
        Grid::None => return ns as u64,
        Grid::Up => jiffies.ceil(),
        Grid::Nearest => jiffies.round().max(1.0),
        Grid::Down => jiffies.floor().max(1.0),
        Grid::Late => jiffies.ceil() + random.unit() / 20.0,
    };
    (on_grid * jiffy) as u64
}

fn grids() -> impl Strategy<Value = Grid> {
    use Grid::{Down, Late, Nearest, None, Up};
    prop::sample::select(vec![None, None, None, Up, Nearest, Down, Late])
}

/// Generates sizes from 20 to 100,000; small ones are as likely as large ones.
fn sizes() -> impl Strategy<Value = u64> {
    (20_f64.ln()..100_000_f64.ln()).prop_map(|size| size.exp() as u64)
}

/// Generates scales from 2 µs to 20 s, in ns.
fn scales() -> impl Strategy<Value = f64> {
    (2e3_f64.ln()..2e10_f64.ln()).prop_map(f64::exp)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(4_000) })]

    #[test]
    fn one_population_is_never_split(
        population in populations(),
        grid in grids(),
        jiffy_ns in prop::sample::select(JIFFIES_NS.to_vec()),
        size in sizes(),
        scale_ns in scales(),
        seed: u64,
    ) {
        let mut random = Random(seed);
        let mut histogram = Histogram::default();
        for _ in 0..size {
            let ns = population.draw(&mut random) * scale_ns;
            histogram.add(on_grid(grid, ns, jiffy_ns, &mut random));
        }
        prop_assert_eq!(find_boundary(&histogram, jiffy_ns).map(lower_edge), None);
    }

    /// The smaller population has 25 waits or more, 300 or more if either has about one
    /// to four jiffies; neither is wider than a factor of 1.5 around its middle (lognormal, σ up to 0.1).
    #[test]
    fn two_populations_are_separated(
        jiffy_ns in prop::sample::select(JIFFIES_NS.to_vec()),
        smaller in 25_u64..2_000,
        share in 0.01..0.5_f64,
        slow_is_smaller: bool,
        fast_ns in 5e3..4e7_f64,
        apart in (10_f64.ln()..400_f64.ln()).prop_map(f64::exp),
        sigmas in (0.0..0.1_f64, 0.0..0.1_f64),
        seed: u64,
    ) {
        let jiffies = |ns: f64| (0.6..6.0).contains(&(ns / jiffy_ns as f64));
        let has_jiffies = jiffies(fast_ns) || jiffies(fast_ns * apart);
        let smaller = if has_jiffies { smaller.max(300) } else { smaller };
        let larger = (smaller as f64 * (1.0 - share) / share) as u64;
        let (fast, slow) = if slow_is_smaller { (larger, smaller) } else { (smaller, larger) };
        let mut random = Random(seed);
        let mut draw = |sigma: f64| (sigma * random.normal()).exp();
        let mut histogram = Histogram::default();
        (0..fast).for_each(|_| histogram.add((fast_ns * draw(sigmas.0)) as u64));
        (0..slow).for_each(|_| histogram.add((fast_ns * apart * draw(sigmas.1)) as u64));
        let at = find_boundary(&histogram, jiffy_ns);
        prop_assert!(at.is_some(), "not separated");
        let at = at.unwrap();
        prop_assert_eq!(histogram.part(0..at).count(), fast);
        prop_assert_eq!(histogram.part(at..usize::MAX).count(), slow);
    }
}

/// Fast waits of about 937 µs and slow ones of about 200 ms, or of the 40 ms of Linux's delayed ACKs.
#[test]
fn the_waits_of_the_recipe_are_separated() {
    for (slow_ns, shares) in [(200e6, [0.01, 0.5, 0.99]), (40e6, [0.01, 0.3, 0.99])] {
        for share in shares {
            let mut random = Random(7);
            let mut histogram = Histogram::default();
            let slow = (2_000.0 * share) as u64;
            for wait in 0..2_000 {
                let middle_ns = if wait < slow { slow_ns } else { 937e3 };
                histogram.add((middle_ns * (0.15 * random.normal()).exp()) as u64);
            }
            let at = find_boundary(&histogram, 4_000_000).expect("two populations");
            assert_eq!(histogram.part(at..usize::MAX).count(), slow);
            assert!((1_500_000..100_000_000).contains(&lower_edge(at)), "{at}");
        }
    }
}

/// Wide populations overlap: what lies beyond the boundary is counted on the other side.
#[test]
fn wide_populations_are_separated_between_their_modes() {
    let mut random = Random(11);
    let mut histogram = Histogram::default();
    for wait in 0..10_000 {
        let middle_ns = if wait % 10 == 0 { 200e6 } else { 1e6 };
        histogram.add((middle_ns * (0.7 * random.normal()).exp()) as u64);
    }
    let at = find_boundary(&histogram, 4_000_000).expect("two populations");
    let slow = histogram.part(at..usize::MAX).count();
    assert!((990..=1_010).contains(&slow), "{slow}");
    assert!((5_000_000..80_000_000).contains(&lower_edge(at)), "{at}");
}

/// As those of a busy server's epoll set: two humps that run into each other, 300,000 waits.
#[test]
fn overlapping_modes_are_one_population() {
    let mut random = Random(5);
    let mut histogram = Histogram::default();
    for wait in 0..300_000 {
        let middle_ns = if wait % 5 == 0 { 24e3 } else { 6e3 };
        histogram.add((middle_ns * (0.45 * random.normal()).exp()) as u64);
    }
    assert_eq!(find_boundary(&histogram, 4_000_000).map(lower_edge), None);
}

/// Of three populations, the one that lies farthest from the others is distinguished.
#[test]
fn the_widest_gap_is_the_boundary() {
    let mut histogram = Histogram::default();
    for (ns, count) in [(1_060_000, 380), (3_100_000, 160), (199_500_000, 20)] {
        (0..count).for_each(|_| histogram.add(ns));
    }
    let at = find_boundary(&histogram, 4_000_000).expect("two populations");
    assert_eq!(histogram.part(at..usize::MAX).count(), 20);
}

/// The least sizes that the module's text promises.
#[test]
fn few_waits_are_enough() {
    let least = |fast_ns: u64, slow_ns: u64| {
        (1..1_000).find(|slow| {
            let mut histogram = Histogram::default();
            (0..1_000).for_each(|_| histogram.add(fast_ns));
            (0..*slow).for_each(|_| histogram.add(slow_ns));
            find_boundary(&histogram, 4_000_000).is_some()
        })
    };
    let pairs = [
        (100_000, 1_000_000),
        (1_000_000, 40_000_000),
        (1_000_000, 200_000_000),
    ];
    let found = pairs.map(|(fast_ns, slow_ns)| least(fast_ns, slow_ns));
    assert_eq!(found, [Some(7), Some(9), Some(6)]);
}
