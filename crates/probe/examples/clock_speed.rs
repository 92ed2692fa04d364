//! Describes what reading all clocks costs, and how narrow the pairs and the conversions between them are, at
//! the recorder's pace.
//!
//! `cargo run --release -p whylat-probe --example clock_speed`

use std::collections::BTreeMap;
use std::time::Duration;

use nix::time::ClockId;
use table::clock::{ClockMap, Nature};
use table::tables::ClockPair;
use whylat_probe::clock::{Clocks, read_ns};

/// As the recorder reads them.
const ATTEMPTS: u32 = 5;
const READINGS: u32 = 10_000;
/// Pairs at the recorder's mean pause.
const PAIRS: usize = 30;
const PAUSE: Duration = Duration::from_millis(500);

fn main() {
    let clocks = Clocks::open();
    for coverage in clocks.coverage() {
        println!("{:<22} {:?}", coverage.probe, coverage.state);
    }
    let cpu_ns = || read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).unwrap_or(0);
    let start_ns = cpu_ns();
    for _ in 0..READINGS {
        std::hint::black_box(clocks.read(ATTEMPTS));
    }
    let each_ns = (cpu_ns() - start_ns) / i64::from(READINGS);
    println!("\nall clocks, {ATTEMPTS} attempts each: {each_ns} ns of CPU a reading\n");
    let mut pairs: BTreeMap<String, Vec<ClockPair>> = BTreeMap::new();
    for _ in 0..PAIRS {
        for pair in clocks.read(ATTEMPTS) {
            pairs.entry(pair.clock.clone()).or_default().push(pair);
        }
        std::thread::sleep(PAUSE);
    }
    println!(
        "{:<16} {:>16} {:>16} {:>16}",
        "clock", "half window p50", "bound p50", "bound max"
    );
    for (clock, pairs) in &pairs {
        let half = median(pairs.iter().map(|pair| pair.error_ns).collect());
        let bounds = bounds(clock, pairs);
        let most = bounds.iter().max().copied().unwrap_or(0);
        println!(
            "{clock:<16} {half:>13} ns {:>13} ns {most:>13} ns",
            median(bounds)
        );
    }
}

/// Returns the error bounds of stamps spread evenly over the pairs, ns.
fn bounds(clock: &str, pairs: &[ClockPair]) -> Vec<u64> {
    let (Some(nature), [first, .., last]) = (Nature::from_name(clock), pairs) else {
        return Vec::new();
    };
    let map = ClockMap::new(nature, pairs);
    let span_ns = last.other_ns - first.other_ns;
    let stamps = (0..10_000).map(|part| first.other_ns + span_ns / 10_000 * part);
    stamps
        .filter_map(|stamp| Some(map.convert(stamp)?.error_ns))
        .collect()
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values.get(values.len() / 2).copied().unwrap_or(0)
}
