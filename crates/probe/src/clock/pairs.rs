//! Two clocks read together. In: the reference `CLOCK_MONOTONIC` and another clock. Out: rows
//! of `clock_pairs` with the bound of their error, and which clocks could be read.
//!
//! The other clock is read between two readings of the reference. The true reference time of
//! that reading lies within the window, so its middle is wrong by at most half of it. Of
//! several attempts the narrowest window is kept: the others were interrupted.

use nix::time::ClockId;
use table::manifest::{Coverage, ProbeState};
use table::tables::ClockPair;

use super::notice::SetNotice;
use super::perf::PerfClock;
use super::ptp::{DeviceReading, PtpClock, ReadMethod};
use super::steering::Steering;
use super::{monotonic_ns, read_ns};

/// A clock was set while it was read: it is read again, but not for ever.
const MAX_SETS: u32 = 3;
const PPB: i128 = 1_000_000_000;

/// A clock of the kernel that is read against the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// Wall-clock time; steps and is slewed.
    Realtime,
    /// As the reference, but counts suspended time.
    Boottime,
    /// The hardware's own rate, not slewed.
    MonotonicRaw,
}

impl Clock {
    /// Returns the clock's name in `clock_pairs.clock`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Realtime => "realtime",
            Self::Boottime => "boottime",
            Self::MonotonicRaw => "monotonic_raw",
        }
    }

    /// Returns the time of the clock, ns; `None` if the kernel does not have it.
    pub fn read_ns(self) -> Option<i64> {
        read_ns(match self {
            Self::Realtime => ClockId::CLOCK_REALTIME,
            Self::Boottime => ClockId::CLOCK_BOOTTIME,
            Self::MonotonicRaw => ClockId::CLOCK_MONOTONIC_RAW,
        })
    }
}

/// The narrowest of `attempts` readings between two of the kernel of `clock`; `None` when the kernel does not have
/// the clock or no attempt was asked for.
pub fn read_pair(clock: Clock, attempts: u32) -> Option<ClockPair> {
    read_narrowest_pair(clock.name(), attempts, || clock.read_ns())
}

/// Reads another clock between two readings of the monotonic one; returns the narrowest of several
/// attempts.
fn read_narrowest_pair(
    name: &str,
    attempts: u32,
    read: impl Fn() -> Option<i64>,
) -> Option<ClockPair> {
    let mut narrowest: Option<(u64, u64, i64)> = None;
    for _ in 0..attempts {
        let before_ns = monotonic_ns();
        let other_ns = read()?;
        let after_ns = monotonic_ns();
        let width_ns = after_ns.saturating_sub(before_ns);
        if narrowest.is_none_or(|(least_ns, ..)| width_ns < least_ns) {
            narrowest = Some((width_ns, before_ns, other_ns));
        }
    }
    let (width_ns, before_ns, other_ns) = narrowest?;
    Some(make_pair(name, (before_ns, before_ns + width_ns), other_ns))
}

/// Half of an odd width is rounded up: the bound must hold for either side.
fn make_pair(name: &str, (before_ns, after_ns): (u64, u64), other_ns: i64) -> ClockPair {
    let width_ns = after_ns.saturating_sub(before_ns);
    ClockPair {
        monotonic_ns: before_ns + width_ns / 2,
        clock: name.to_owned(),
        other_ns,
        error_ns: width_ns.div_ceil(2),
        set: None,
        steer_ppb: None,
        slew_ppb: None,
    }
}

/// Every clock of this host that can be read.
#[derive(Debug)]
pub struct Clocks {
    notice: Option<SetNotice>,
    perf: Option<PerfClock>,
    devices: Vec<PtpClock>,
    coverage: Vec<Coverage>,
}

impl Default for Clocks {
    fn default() -> Self {
        Self::open()
    }
}

impl Clocks {
    /// Finds out which clocks this host has.
    pub fn open() -> Self {
        let kernel = [Clock::Realtime, Clock::Boottime, Clock::MonotonicRaw];
        let mut coverage: Vec<Coverage> = kernel.into_iter().map(kernel_coverage).collect();
        let perf = PerfClock::open();
        let state = match &perf {
            Ok(_) => ProbeState::On,
            Err((why, remedy)) => off_state(why, remedy),
        };
        coverage.push(clock_coverage("perf", state));
        let found = PtpClock::find();
        if found.is_empty() {
            let why = "no network adapter here has a clock of its own (/dev/ptp*)";
            coverage.push(clock_coverage("ptp", off_state(why, "")));
        }
        coverage.extend(
            found
                .iter()
                .map(|(name, clock)| device_coverage(name, clock)),
        );
        Self {
            notice: SetNotice::open(),
            perf: perf.ok(),
            devices: found
                .into_iter()
                .filter_map(|(_, clock)| clock.ok())
                .collect(),
            coverage,
        }
    }

    /// Returns which clocks are read and how, and which are not and why.
    pub fn coverage(&self) -> &[Coverage] {
        &self.coverage
    }

    /// Reads a pair of every clock: the narrowest of `attempts`.
    pub fn read(&self, attempts: u32) -> Vec<ClockPair> {
        let mut pairs = Vec::with_capacity(4 + self.devices.len());
        let realtime = self.read_realtime(attempts);
        let counter = read_pair(Clock::MonotonicRaw, attempts);
        let perf = self.perf.as_ref();
        let perf = perf.and_then(|perf| read_narrowest_pair("perf", attempts, || perf.read()));
        // after the pairs: what is set now shows in the rate at the next tick
        let steering = Steering::read();
        let with_steering = |pair: ClockPair| add_steering(pair, steering, Some(0));
        pairs.extend(counter.map(with_steering));
        pairs.extend(perf.map(with_steering));
        if let Some(realtime) = &realtime {
            let devices = self.devices.iter();
            pairs.extend(devices.filter_map(|device| read_device(device, realtime, steering)));
        }
        pairs.extend(realtime);
        pairs.extend(read_pair(Clock::Boottime, attempts));
        pairs
    }

    /// Reads the realtime clock, and whether it was set since the last pair.
    fn read_realtime(&self, attempts: u32) -> Option<ClockPair> {
        let mut was_set = false;
        for _ in 0..MAX_SETS {
            let mut pair = read_pair(Clock::Realtime, attempts)?;
            let Some(notice) = &self.notice else {
                return Some(pair);
            };
            let is_set = notice.was_set();
            was_set |= is_set;
            pair.set = Some(was_set);
            if !is_set {
                return Some(pair);
            }
        }
        // it is being set all the time: this pair belongs to no time
        None
    }
}

/// A pair with the kernel's settings of the reference, and of the clock itself.
fn add_steering(pair: ClockPair, reference: Option<Steering>, own_ppb: Option<i64>) -> ClockPair {
    let steer_ppb = reference.zip(own_ppb).map(|(reference, own_ppb)| {
        let by = PPB + i128::from(own_ppb);
        let ratio = (PPB + i128::from(reference.rate_ppb)) * PPB / by.max(1);
        i64::try_from(ratio - PPB).unwrap_or(i64::MAX)
    });
    ClockPair {
        steer_ppb,
        slew_ppb: reference.map(|reference| reference.slew_ppb),
        ..pair
    }
}

/// Reads a pair of a PTP clock, by way of the realtime clock.
fn read_device(
    device: &PtpClock,
    realtime: &ClockPair,
    steering: Option<Steering>,
) -> Option<ClockPair> {
    let before_ns = monotonic_ns();
    let seen = device.read().ok()?;
    let after_ns = monotonic_ns();
    let window = bound_reference(seen, realtime, (before_ns, after_ns));
    let pair = make_pair(&device.name, window, seen.device_ns);
    Some(add_steering(pair, steering, device.frequency_ppb()))
}

/// Returns the interval in which the reference clock was read: between the wall-clock stamps if they lie within the
/// call, else the whole call, because the wall clock was set meanwhile.
fn bound_reference(seen: DeviceReading, realtime: &ClockPair, call_ns: (u64, u64)) -> (u64, u64) {
    let offset_ns = i128::from(realtime.other_ns) - i128::from(realtime.monotonic_ns);
    let error_ns = i128::from(realtime.error_ns);
    let earliest_ns = i128::from(seen.before_ns) - offset_ns - error_ns;
    let latest_ns = i128::from(seen.after_ns) - offset_ns + error_ns;
    let call = (i128::from(call_ns.0), i128::from(call_ns.1));
    if earliest_ns + error_ns < call.0 - error_ns || latest_ns - error_ns > call.1 + error_ns {
        return call_ns;
    }
    let earliest_ns = earliest_ns.max(call.0);
    (
        earliest_ns as u64,
        latest_ns.clamp(earliest_ns, call.1.max(earliest_ns)) as u64,
    )
}

/// Returns the line of coverage for a clock.
fn clock_coverage(clock: &str, state: ProbeState) -> Coverage {
    Coverage {
        probe: format!("clock.{clock}"),
        state,
    }
}

/// Makes the state of a clock that cannot be read: why, and what helps.
fn off_state(why: &str, remedy: &str) -> ProbeState {
    ProbeState::Off {
        why: why.to_owned(),
        remedy: remedy.to_owned(),
    }
}

/// Returns whether the kernel has this clock, as a line of coverage.
fn kernel_coverage(clock: Clock) -> Coverage {
    let state = match clock.read_ns() {
        Some(_) => ProbeState::On,
        None => off_state("this kernel does not have it", ""),
    };
    clock_coverage(clock.name(), state)
}

/// Returns by which method a PTP clock is read, or why it is not, as a line of coverage.
fn device_coverage(name: &str, clock: &std::io::Result<PtpClock>) -> Coverage {
    let state = match clock {
        Ok(PtpClock {
            method: ReadMethod::Precise,
            ..
        }) => ProbeState::On,
        Ok(PtpClock { method, why, .. }) => ProbeState::Fallback {
            which: method.name().to_owned(),
            why: why.clone().unwrap_or_default(),
        },
        Err(error) => {
            let remedy = match error.kind() {
                std::io::ErrorKind::PermissionDenied => "run as root: sudo whylat …",
                _ => "",
            };
            off_state(&format!("cannot read /dev/{name}: {error}"), remedy)
        }
    };
    clock_coverage(name, state)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_agree_with_an_independent_reading_within_their_bounds() {
        // Boot time and the reference differ by the time suspended, which does not change
        // while this test runs: two pairs give the same difference within their bounds.
        let offset = |pair: &ClockPair| pair.other_ns - pair.monotonic_ns as i64;
        let [first, second] = [(); 2].map(|()| read_pair(Clock::Boottime, 50).unwrap());
        let apart_ns = (offset(&first) - offset(&second)).unsigned_abs();
        assert!(
            apart_ns <= first.error_ns + second.error_ns,
            "{apart_ns} ns apart"
        );
    }

    #[test]
    fn zero_attempts_give_no_pair() {
        assert_eq!(read_pair(Clock::Realtime, 0), None);
    }

    #[test]
    fn every_clock_is_read_or_says_why_not() {
        let clocks = Clocks::open();
        let pairs = clocks.read(50);
        for coverage in clocks.coverage() {
            let name = coverage.probe.strip_prefix("clock.").unwrap();
            let is_read = pairs.iter().any(|pair| pair.clock == name);
            let is_on = !matches!(coverage.state, ProbeState::Off { .. });
            assert_eq!(is_read, is_on, "{coverage:?}");
        }
        for pair in &pairs {
            assert!(pair.error_ns < 1_000_000, "{pair:?}");
        }
        let named = |name| pairs.iter().find(|pair| pair.clock == name).unwrap();
        assert_eq!(named("realtime").set, Some(false));
        assert!(named("monotonic_raw").steer_ppb.is_some());
    }

    #[test]
    fn a_device_is_placed_by_the_wall_clock_unless_that_was_set() {
        let realtime = make_pair("realtime", (990, 1_010), 5_000_000);
        let seen = |before_ns| DeviceReading {
            before_ns,
            device_ns: 7,
            after_ns: before_ns + 100,
        };
        let call = (2_000, 4_000);
        assert_eq!(
            bound_reference(seen(5_001_500), &realtime, call),
            (2_490, 2_610)
        );
        assert_eq!(
            bound_reference(seen(5_001_005), &realtime, call),
            (2_000, 2_115)
        );
        assert_eq!(bound_reference(seen(9_000_000), &realtime, call), call);
    }

    #[test]
    fn clocks_have_equal_steering() {
        let reference = Steering {
            rate_ppb: 500_000,
            slew_ppb: 3,
        };
        let row = |own_ppb| add_steering(make_pair("ptp0", (0, 2), 1), Some(reference), own_ppb);
        assert_eq!(row(Some(0)).steer_ppb, Some(500_000));
        // 1.0005 / 1.0005, and 1.0005 / 0.9995
        assert_eq!(row(Some(500_000)).steer_ppb, Some(0));
        assert_eq!(row(Some(-500_000)).steer_ppb, Some(1_000_500));
        assert_eq!((row(None).steer_ppb, row(None).slew_ppb), (None, Some(3)));
    }
}
