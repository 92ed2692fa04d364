//! Clocks and the host that keeps them. In: `clock_gettime`, devices and `/proc`. Out: the time in
//! nanoseconds, readings of two clocks together ([`Clocks`]), and what a recording's header
//! says of the host ([`Host`]).

mod host;
mod notice;
mod pairs;
mod perf;
mod ptp;
mod steering;

pub use host::{Host, HostError};
pub use pairs::{Clock, Clocks, read_pair};
pub use steering::clock_error_us;

use nix::time::{ClockId, clock_getres, clock_gettime};
use table::TableId;

use crate::interface::Probe;

const NS_PER_S: i64 = 1_000_000_000;

/// The probe of clocks.
pub(crate) struct ClockPairs;

impl Probe for ClockPairs {
    fn name(&self) -> &'static str {
        "clock"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::ClockPair)
    }
}

/// Returns the time of a clock, ns; `None` if the kernel does not have the clock.
pub fn read_ns(clock: ClockId) -> Option<i64> {
    let time = clock_gettime(clock).ok()?;
    Some(time.tv_sec() * NS_PER_S + time.tv_nsec())
}

/// Returns `CLOCK_MONOTONIC`, ns: the time base of every recording.
pub fn monotonic_ns() -> u64 {
    // CLOCK_MONOTONIC exists on every Linux and never reads below zero.
    read_ns(ClockId::CLOCK_MONOTONIC).map_or(0, |ns| ns.max(0) as u64)
}

/// Returns the CPU time of the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    // every kernel has this clock for the thread that asks
    read_ns(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(0, |ns| ns.max(0) as u64)
}

/// Length of the kernel's jiffy, nanoseconds: the coarse clocks advance once a tick, so their
/// resolution is the tick (`KTIME_LOW_RES` in `hrtimer_get_res`). `None`: not readable.
pub fn jiffy_ns() -> Option<u64> {
    let resolution = clock_getres(ClockId::CLOCK_MONOTONIC_COARSE).ok()?;
    u64::try_from(resolution.tv_sec() * NS_PER_S + resolution.tv_nsec())
        .ok()
        .filter(|ns| *ns > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_jiffy_divides_a_second() {
        let jiffy_ns = jiffy_ns().unwrap();
        let hz = 1_000_000_000 / jiffy_ns;
        assert!((100..=1000).contains(&hz), "HZ {hz}");
    }

    #[test]
    fn monotonic_time_advances() {
        let first_ns = monotonic_ns();
        assert!(monotonic_ns() >= first_ns && first_ns > 0);
    }
}
