//! Real clocks: readings of `CLOCK_REALTIME` and `CLOCK_MONOTONIC_RAW` interleaved with readings of the
//! reference. Converted, none may lie beyond its neighbours by more than its bound. This is the test
//! of NSight's section 6.1 (NSDI 2022), without a thread that polls the kernel's parameters.
//!
//! The long run: `cargo test --release -p whylat-probe --test clocks -- --ignored --nocapture`. With
//! `WHYLAT_TEST_MAY_SET_CLOCK=1`, which is for virtual machines that nobody else uses, a helper slews
//! and sets the machine's clock meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use table::clock::{BoundedSpan, ClockMap, Nature, Orders, Stamp};
use table::tables::ClockPair;
use whylat_probe::clock::{Clock, Clocks, monotonic_ns};

/// Readings of each clock between two pairs, in bursts with pauses between, as no core is to be burnt.
const BURSTS: usize = 20;
const BURST: usize = 5_000;
const PAUSE: Duration = Duration::from_millis(4);

/// Holds what was read in this order.
#[derive(Clone, Copy)]
struct Reading {
    before_ns: u64,
    realtime_ns: i64,
    counter_ns: i64,
    after_ns: u64,
}

/// Holds what came out of the conversion of one clock.
#[derive(Default)]
struct Outcome {
    orders: Orders,
    unanswered: u64,
    bounds_ns: Vec<u64>,
    gaps: usize,
    unsteady: usize,
}

impl Outcome {
    /// Converts readings taken between two pairs; each was taken between two readings of the reference.
    fn check(&mut self, map: &ClockMap, readings: &[Reading], other_ns: impl Fn(&Reading) -> i64) {
        self.gaps += map.gaps();
        self.unsteady += map.unsteady();
        let [first, .., last] = readings else { return };
        for (index, reading) in readings.iter().enumerate() {
            let taken = first.before_ns..=last.after_ns;
            let Some(stamp) = map.convert_within(other_ns(reading), taken) else {
                self.unanswered += 1;
                continue;
            };
            self.orders
                .count(BoundedSpan::between(exact(reading.before_ns), stamp));
            self.orders
                .count(BoundedSpan::between(stamp, exact(reading.after_ns)));
            if index % 1_009 == 0 {
                self.bounds_ns.push(stamp.error_ns);
            }
        }
    }

    /// Prints orders, gaps and error bounds of a clock.
    fn report(&mut self, clock: &str) {
        self.bounds_ns.sort_unstable();
        let at = |share: usize| self.bounds_ns[(self.bounds_ns.len() - 1) * share / 100];
        eprintln!(
            "{clock}: {:?}, {} unanswered, bound p50 {} ns, p99 {} ns, {} gaps, {} unsteady",
            self.orders,
            self.unanswered,
            at(50),
            at(99),
            self.gaps,
            self.unsteady
        );
    }
}

/// Makes a stamp that is exact to one nanosecond.
fn exact(monotonic_ns: u64) -> Stamp {
    Stamp {
        monotonic_ns,
        // a reading is cut to whole nanoseconds
        error_ns: 1,
    }
}

/// Adds readings of three clocks, one after the other.
fn burst(readings: &mut Vec<Reading>) {
    let mut before_ns = monotonic_ns();
    for _ in 0..BURST {
        let realtime_ns = Clock::Realtime.read_ns().expect("CLOCK_REALTIME");
        let counter_ns = Clock::MonotonicRaw.read_ns().expect("CLOCK_MONOTONIC_RAW");
        let after_ns = monotonic_ns();
        readings.push(Reading {
            before_ns,
            realtime_ns,
            counter_ns,
            after_ns,
        });
        before_ns = after_ns;
    }
}

/// Returns the pair of a clock; None if there is none.
fn pair_of(clock: Clock, pairs: &[ClockPair]) -> Option<ClockPair> {
    pairs
        .iter()
        .find(|pair| pair.clock == clock.name())
        .cloned()
}

/// Reads and converts both clocks until each has `most` readings.
fn prove(most: usize) -> [Outcome; 2] {
    let clocks = Clocks::open();
    let mut outcomes = <[Outcome; 2]>::default();
    let kinds = [
        (Clock::Realtime, Nature::Offset),
        (Clock::MonotonicRaw, Nature::Counter),
    ];
    let mut readings = Vec::with_capacity(BURST * BURSTS);
    let mut before = clocks.read(5);
    let mut done = 0;
    while done < most {
        readings.clear();
        for _ in 0..BURSTS {
            burst(&mut readings);
            std::thread::sleep(PAUSE);
        }
        let after = clocks.read(5);
        for ((clock, nature), outcome) in kinds.into_iter().zip(&mut outcomes) {
            // while a clock is being set there may be no pair
            let (Some(from), Some(to)) = (pair_of(clock, &before), pair_of(clock, &after)) else {
                continue;
            };
            let map = ClockMap::new(nature, [&from, &to]);
            outcome.check(&map, &readings, |reading| match clock {
                Clock::Realtime => reading.realtime_ns,
                _ => reading.counter_ns,
            });
        }
        done += readings.len();
        before = after;
    }
    outcomes
}

/// Demands that no order is impossible, and that nearly all are proved.
fn assert_proved(outcomes: [Outcome; 2], readings: u64, may_miss: bool) {
    for (mut outcome, clock) in outcomes.into_iter().zip(["realtime", "monotonic_raw"]) {
        outcome.report(clock);
        let Orders {
            proved,
            open,
            impossible,
        } = outcome.orders;
        assert_eq!(impossible, 0, "{clock}");
        assert_eq!(
            proved + open + 2 * outcome.unanswered,
            2 * readings,
            "{clock}"
        );
        assert!(may_miss || outcome.unanswered == 0, "{clock}");
    }
}

#[test]
fn a_million_readings_convert_in_order() {
    assert_proved(prove(1_000_000), 1_000_000, false);
}

#[test]
#[ignore = "ten seconds; sets the machine's clock if it may"]
fn ten_million_readings_convert_in_order() {
    let may_set = std::env::var_os("WHYLAT_TEST_MAY_SET_CLOCK").is_some();
    let (stop, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    let outcomes = std::thread::scope(|scope| {
        if may_set {
            scope.spawn(|| disturb(&stop, &changes));
        }
        let outcomes = prove(10_000_000);
        stop.store(true, Ordering::Relaxed);
        outcomes
    });
    let changes = changes.into_inner();
    eprintln!("{changes} changes of the clock");
    assert!(!may_set || changes >= 4_000, "only {changes} changes");
    // a clock set several times between two pairs may show what neither of them leads to
    assert_proved(outcomes, 10_000_000, may_set);
}

/// Shows the kernel something new of the clock, every 2 ms, until it shall stop: frequencies, slews and
/// phases within the kernel's limits, and steps of up to 50 µs.
fn disturb(stop: &AtomicBool, changes: &AtomicU64) {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    while !stop.load(Ordering::Relaxed) {
        // xorshift64
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        // SAFETY: `timex` is made of integers, for which zero is a value.
        let mut timex: libc::timex = unsafe { std::mem::zeroed() };
        let within = |most: i64| (random >> 16) as i64 % (2 * most + 1) - most;
        match random % 8 {
            0..=4 => {
                timex.modes = libc::ADJ_FREQUENCY;
                timex.freq = within(500 << 16);
            }
            5 => {
                timex.modes = libc::ADJ_OFFSET_SINGLESHOT;
                timex.offset = within(2_000);
            }
            6 => {
                timex.modes = libc::ADJ_OFFSET | libc::ADJ_STATUS | libc::ADJ_NANO;
                timex.status = libc::STA_PLL;
                timex.offset = within(100_000);
            }
            _ => {
                timex.modes = libc::ADJ_SETOFFSET | libc::ADJ_NANO;
                let by_ns = within(50_000);
                timex.time.tv_sec = by_ns.div_euclid(1_000_000_000);
                timex.time.tv_usec = by_ns.rem_euclid(1_000_000_000);
            }
        }
        // SAFETY: the kernel reads and writes one `timex`.
        if unsafe { libc::adjtimex(&raw mut timex) } >= 0 {
            changes.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
