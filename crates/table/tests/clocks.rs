//! The map of a clock against a simulated kernel with a known true time: frequencies, slews and
//! steps within the kernel's limits, read in windows of any width and asymmetry. Every stamp's true
//! time lies within its bound.

mod common;

use common::Random;
use proptest::prelude::*;
use whylat_table::clock::{ClockMap, Nature, Stamp};
use whylat_table::tables::ClockPair;

const PPB: i128 = 1_000_000_000;
/// The setting of the kernel may be this far from what it does: see `ROUNDING_PPB`.
const DITHER_PPB: u64 = 477;
const MAX_PPB: u64 = 500_000;

/// The reference by the hardware counter: a polygon, exact to 10^-9 ns.
struct Kernel {
    /// Where the rate changes: counter, reference in 10^-9 ns, rate from there.
    corners: Vec<(i64, i128, i64)>,
    /// Settings: from when, and whether a correction of the phase is under way.
    set_ppb: i64,
    slew_until_ns: i64,
    /// Steps of `CLOCK_REALTIME`: when, and by how much.
    steps: Vec<(i64, i64)>,
}

impl Kernel {
    /// Returns the monotonic clock when the counter has this value.
    fn monotonic_ns(&self, counter_ns: i64) -> i64 {
        let after = self
            .corners
            .partition_point(|corner| corner.0 <= counter_ns);
        let (from_ns, reference, rate_ppb) = self.corners[after - 1];
        let since = i128::from(counter_ns - from_ns) * (PPB + i128::from(rate_ppb));
        ((reference + since) / PPB) as i64
    }

    /// Returns the realtime clock when the counter has this value.
    fn realtime_ns(&self, counter_ns: i64) -> i64 {
        let stepped = self.steps.iter().filter(|(at_ns, _)| *at_ns <= counter_ns);
        let offset_ns: i64 = stepped.map(|(_, by_ns)| by_ns).sum();
        self.monotonic_ns(counter_ns) + 1_790_000_000_000_000_000 + offset_ns
    }

    /// Changes the rate of the monotonic clock from this time on.
    fn turn(&mut self, counter_ns: i64, rate_ppb: i64) {
        let (from_ns, reference, before_ppb) = *self.corners.last().expect("the first corner");
        let since = i128::from(counter_ns - from_ns) * (PPB + i128::from(before_ppb));
        self.corners.push((counter_ns, reference + since, rate_ppb));
    }

    /// Makes a pair of clocks as the kernel reads them, with random delays.
    fn read(
        &self,
        counter_ns: i64,
        realtime: bool,
        set: Option<bool>,
        random: &mut Random,
    ) -> ClockPair {
        let before_ns = counter_ns - random.below(20_000) as i64;
        let after_ns = counter_ns + random.below(20_000) as i64;
        let (before_ns, after_ns) = (self.monotonic_ns(before_ns), self.monotonic_ns(after_ns));
        let width_ns = (after_ns - before_ns) as u64;
        let slew_ppb = if counter_ns < self.slew_until_ns {
            MAX_PPB
        } else {
            0
        };
        ClockPair {
            monotonic_ns: before_ns as u64 + width_ns / 2,
            clock: if realtime {
                "realtime"
            } else {
                "monotonic_raw"
            }
            .to_owned(),
            other_ns: if realtime {
                self.realtime_ns(counter_ns)
            } else {
                counter_ns
            },
            error_ns: width_ns.div_ceil(2),
            set,
            steer_ppb: (!realtime).then_some(self.set_ppb),
            slew_ppb: (!realtime).then_some(slew_ppb),
        }
    }
}

/// Returns a random number between -most and most.
fn signed(most: u64, random: &mut Random) -> i64 {
    random.below(2 * most + 1) as i64 - most as i64
}

/// Returns random times in an interval, in order.
fn times(count: u64, interval: (i64, i64), random: &mut Random) -> Vec<i64> {
    let length = (interval.1 - interval.0) as u64;
    let mut times: Vec<i64> = (0..count)
        .map(|_| interval.0 + random.below(length) as i64)
        .collect();
    times.sort_unstable();
    times
}

/// Returns changes of the rate between two readings.
fn steer(kernel: &mut Kernel, interval: (i64, i64), random: &mut Random) {
    let dither = |random: &mut Random| signed(DITHER_PPB, random);
    if kernel.slew_until_ns < interval.0 {
        // a slew that was under way ended with the reading
        let rate_ppb = kernel.set_ppb + dither(random);
        kernel.turn(interval.0 - 20_000, rate_ppb);
    }
    match random.below(4) {
        // the multiplier moves without a new setting
        0 => {
            for at_ns in times(3, interval, random) {
                let slew = if at_ns < kernel.slew_until_ns {
                    signed(MAX_PPB, random)
                } else {
                    0
                };
                kernel.turn(at_ns, kernel.set_ppb + dither(random) + slew);
            }
        }
        // a daemon, or several, sets the frequency many times; slews go on or not
        1 => {
            let count = 1 + random.below(40);
            for at_ns in times(count, interval, random) {
                kernel.set_ppb = signed(MAX_PPB, random);
                kernel.turn(
                    at_ns,
                    kernel.set_ppb + dither(random) + signed(MAX_PPB, random),
                );
            }
            kernel.slew_until_ns = interval.1 + random.below(2_000_000_000) as i64;
        }
        // a slew that starts and ends unseen
        2 if kernel.slew_until_ns < interval.0 => {
            let at = times(2, interval, random);
            let slew_ppb = signed(MAX_PPB, random);
            kernel.turn(at[0], kernel.set_ppb + dither(random) + slew_ppb);
            kernel.turn(at[1], kernel.set_ppb + dither(random));
        }
        _ => kernel.turn(interval.0, kernel.set_ppb + dither(random)),
    }
}

/// Simulates a kernel with clocks that are set and adjusted; returns it with pairs and times to
/// convert.
fn simulate(random: &mut Random) -> (Kernel, Vec<ClockPair>, Vec<ClockPair>, Vec<i64>) {
    let start_ns = 1_000_000_000 + random.below(1 << 50) as i64;
    let mut kernel = Kernel {
        corners: vec![(0, 0, signed(DITHER_PPB, random))],
        set_ppb: 0,
        slew_until_ns: 0,
        steps: Vec::new(),
    };
    let (mut raw, mut real, mut polls) = (Vec::new(), Vec::new(), Vec::new());
    let knows = random.below(2) == 0;
    let (mut now_ns, mut late) = (start_ns, false);
    for _ in 0..2 + random.below(20) {
        let next_ns = now_ns + 100_000 + random.below(2_000_000_000) as i64;
        // between the windows of the readings, as the readings themselves are tried in the interval
        let interval = (now_ns + 20_000, next_ns - 20_000);
        steer(&mut kernel, interval, random);
        let steps = random.below(3).saturating_sub(1);
        for at_ns in times(steps, interval, random) {
            // where the kernel does not say it, only steps beyond the windows can be found
            let by_ns = if knows {
                signed(1 << random.below(40), random)
            } else {
                100_000 << random.below(20)
            };
            kernel.steps.push((at_ns, by_ns));
        }
        // the kernel may say it a moment late: after the next pair
        let is_late = knows && steps > 0 && random.below(4) == 0;
        let set = knows.then_some(late || (steps > 0 && !is_late));
        late = is_late;
        raw.push(kernel.read(next_ns, false, None, random));
        real.push(kernel.read(next_ns, true, set, random));
        polls.push(next_ns);
        now_ns = next_ns;
    }
    (kernel, raw, real, polls)
}

/// Returns whether the true time is within the stamp's error bound.
fn is_within(stamp: Stamp, true_ns: i64) -> bool {
    stamp.monotonic_ns.abs_diff(true_ns as u64) <= stamp.error_ns
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_true_time_is_always_within_the_bound(seed in 1u64..) {
        let random = &mut Random::new(seed);
        let (kernel, raw, real, polls) = simulate(random);
        let counter = ClockMap::new(Nature::Counter, &raw);
        let wall = ClockMap::new(Nature::Offset, &real);
        prop_assert_eq!(counter.gaps(), 0);
        for poll in polls.windows(2) {
            for counter_ns in times(20, (poll[0], poll[1]), random) {
                let true_ns = kernel.monotonic_ns(counter_ns);
                let stamp = counter.convert(counter_ns).expect("between two readings");
                prop_assert!(is_within(stamp, true_ns), "{stamp:?}, truly {true_ns}");
                let shown_ns = kernel.realtime_ns(counter_ns);
                if let Some(stamp) = wall.convert(shown_ns) {
                    prop_assert!(is_within(stamp, true_ns), "{stamp:?}, truly {true_ns}");
                }
                let taken = [poll[0] - 20_000, poll[1] + 20_000].map(|at| kernel.monotonic_ns(at) as u64);
                let stamp = wall.convert_within(shown_ns, taken[0]..=taken[1]);
                let stamp = stamp.expect("at most one step between two readings");
                prop_assert!(is_within(stamp, true_ns), "{stamp:?}, truly {true_ns}");
            }
        }
    }

    #[test]
    fn damaged_file_does_not_panic(
        rows in prop::collection::vec(any::<(u64, i64, u64, Option<bool>, Option<i64>, Option<u64>)>(), 0..20),
        stamps in prop::collection::vec(any::<(i64, u64, u64)>(), 20),
    ) {
        let pairs: Vec<ClockPair> = rows.into_iter().map(pair).collect();
        for nature in [Nature::Offset, Nature::Counter, Nature::Converted, Nature::Oscillator] {
            let map = ClockMap::new(nature, &pairs);
            prop_assert!(map.gaps() + map.unsteady() <= pairs.len());
            for (other_ns, from_ns, to_ns) in &stamps {
                map.convert(*other_ns);
                map.convert_within(*other_ns, *from_ns..=*to_ns);
            }
        }
    }
}

type Cells = (u64, i64, u64, Option<bool>, Option<i64>, Option<u64>);

/// Makes a pair of the realtime clock.
fn pair((monotonic_ns, other_ns, error_ns, set, steer_ppb, slew_ppb): Cells) -> ClockPair {
    ClockPair {
        monotonic_ns,
        clock: "realtime".to_owned(),
        other_ns,
        error_ns,
        set,
        steer_ppb,
        slew_ppb,
    }
}

/// Makes a pair of the realtime clock; `set` is true if the clock was set before.
fn wall(monotonic_ns: u64, other_ns: i64, set: bool) -> ClockPair {
    pair((monotonic_ns, other_ns, 20, Some(set), None, None))
}

/// Makes a pair of a clock that nobody sets, with this steering.
fn counter(monotonic_ns: u64, other_ns: i64, steer_ppb: i64) -> ClockPair {
    pair((monotonic_ns, other_ns, 20, None, Some(steer_ppb), Some(0)))
}

#[test]
fn unsteered_clock_has_narrow_bounds() {
    let map = ClockMap::new(
        Nature::Offset,
        &[
            wall(1_000_000, 0, false),
            wall(501_000_000, 500_000_003, false),
        ],
    );
    let stamp = map.convert(250_000_000).expect("between two readings");
    assert!(stamp.error_ns <= 24, "{stamp:?}");
    // 0.5 s of a multiplier that is 477 ppb off: 239 ns
    let map = ClockMap::new(
        Nature::Counter,
        &[
            counter(1_000_000, 0, 3_000),
            counter(501_000_000, 499_998_500, 3_000),
        ],
    );
    assert_eq!(map.unsteady(), 0);
    for other_ns in [0, 1, 250_000_000, 499_998_500] {
        let stamp = map.convert(other_ns).expect("between two readings");
        assert!(stamp.error_ns <= 20 + 239 + 3, "{stamp:?}");
    }
}

#[test]
fn a_changed_frequency_widens_the_bound() {
    // 1 ppm more at one end: anything may have happened between
    let map = ClockMap::new(
        Nature::Counter,
        &[
            counter(1_000_000, 0, 3_000),
            counter(501_000_000, 499_998_500, 4_000),
        ],
    );
    assert_eq!((map.unsteady(), map.gaps()), (1, 0));
    let stamp = map.convert(250_000_000).expect("between two readings");
    // ±1,500 ppm for a quarter of a second, from either side
    assert!((370_000..380_000).contains(&stamp.error_ns), "{stamp:?}");
    // the same settings at both ends, but the clock is 200 ns from where they lead
    let map = ClockMap::new(
        Nature::Counter,
        &[
            counter(1_000_000, 0, 0),
            counter(501_000_000, 499_999_000, 0),
        ],
    );
    assert_eq!(map.unsteady(), 1);
}

#[test]
fn bound_within_clock_step_is_the_step() {
    let hour_ns = 3_600_000_000_000;
    let pairs = [
        wall(1_000_000_000, 10_000_000_000_000, false),
        wall(2_000_000_000, 10_001_000_000_000, false),
        // back by an hour
        wall(3_000_000_000, 10_002_000_000_000 - hour_ns, true),
        wall(4_000_000_000, 10_003_000_000_000 - hour_ns, false),
    ];
    let map = ClockMap::new(Nature::Offset, &pairs);
    assert_eq!(map.gaps(), 1);
    let at = |other_ns| map.convert(other_ns);
    let narrow = at(10_000_500_000_000).expect("before the step");
    assert!(narrow.error_ns < 30 && narrow.monotonic_ns.abs_diff(1_500_000_000) < 3);
    for other_ns in [10_001_500_000_000, 10_001_500_000_000 - hour_ns] {
        let gap = at(other_ns).expect("in the gap");
        assert_eq!(gap.monotonic_ns, 2_500_000_000);
        assert_eq!(gap.error_ns, 500_000_021);
    }
    for never in [
        9_999_999_999_000,
        10_003_000_000_000,
        8_000_000_000_000,
        i64::MIN,
        i64::MAX,
    ] {
        assert_eq!(at(never), None, "{never}");
    }
}

#[test]
fn ambiguous_time_has_two_answers() {
    let pairs = [
        wall(1_000_000_000, 10_000_000_000, false),
        wall(2_000_000_000, 11_000_000_000, false),
        wall(2_100_000_000, 10_100_000_000, true),
        wall(3_000_000_000, 11_000_000_000, false),
    ];
    let map = ClockMap::new(Nature::Offset, &pairs);
    let both = map.convert(10_500_000_000).expect("shown twice");
    assert!(both.error_ns >= 500_000_000, "{both:?}");
    for (taken_ns, expected_ns) in [
        (1_000_000_000..=2_000_000_000, 1_500_000_000),
        (2_200_000_000..=3_000_000_000, 2_500_000_000),
    ] {
        let stamp = map
            .convert_within(10_500_000_000, taken_ns)
            .expect("shown then");
        assert!(
            stamp.error_ns < 30 && stamp.monotonic_ns.abs_diff(expected_ns) < 3,
            "{stamp:?}"
        );
    }
}

#[test]
fn bound_grows_beyond_readings() {
    let map = ClockMap::new(
        Nature::Counter,
        &[
            counter(1_000_000_000, 0, 0),
            counter(2_000_000_000, 1_000_000_000, 0),
        ],
    );
    let near = map.convert(1_000_001_000).expect("followed");
    let far = map.convert(1_100_000_000).expect("followed");
    assert!(
        near.error_ns < 200 && (10_000_000..12_000_000).contains(&far.error_ns),
        "{near:?} {far:?}"
    );
    let map = ClockMap::new(Nature::Offset, &[wall(1_000_000_000, 0, false)]);
    assert_eq!(map.convert(1_000), None);
    assert!(map.convert(0).is_some());
    assert_eq!(ClockMap::new(Nature::Offset, &[]).convert(0), None);
}

#[test]
fn pairs_out_of_order_are_counted() {
    let pairs = [
        wall(2_000, 10, false),
        wall(1_000, 20, false),
        wall(2_000, 30, false),
        wall(3_000, 1_010, false),
    ];
    let map = ClockMap::new(Nature::Offset, &pairs);
    assert_eq!((map.count_disordered(), map.gaps()), (2, 0));
}
