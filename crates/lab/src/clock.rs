//! The clock of every recording.

use nix::time::{ClockId, clock_gettime};

/// Returns the time, ns of `CLOCK_MONOTONIC`: the time base of every recording.
pub fn now_ns() -> u64 {
    // clock_gettime fails only for a clock id that does not exist.
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
        let nanos = u64::try_from(time.tv_nsec()).unwrap_or(0);
        seconds * 1_000_000_000 + nanos
    })
}
