//! How fast a clock can run: the range of its rate between two readings, from what the kernel was
//! set to do with the reference, and the kernel's own limits where that says too little.
//!
//! A rate is the reference's per the clock's, less one, in parts per billion: as the reference
//! advances `δ`, the clock advances `Δ`, and `δ = Δ · (1 + rate)`.

use crate::tables::ClockPair;

/// One, in the unit of a rate.
pub(super) const PPB: i128 = 1_000_000_000;

/// Most that the kernel lets `adjtimex` change the frequency: `MAXFREQ` (include/linux/timex.h).
const MAX_FREQUENCY_PPB: i128 = 500_000;

/// Most that `adjtime` slews by: `MAX_TICKADJ`, 500 µs in a second (kernel/time/ntp.c).
const MAX_ADJTIME_PPB: i128 = 500_000;

/// Most by which a clock source is ever corrected: 11 %, `clocksource_max_adjustment`
/// (kernel/time/clocksource.c). The tick, which some daemons slew with, has a limit of 10 %
/// (`ADJ_TICK` in `ntp_validate_timex`).
const MAX_ADJUSTMENT_PPB: i128 = 110_000_000;

/// The kernel's rate is a whole multiplier of at least 2^21: `clocks_calc_mult_shift`
/// (kernel/time/clocksource.c) takes the largest that lasts 600 s without an overflow, which is that
/// for every counter of up to 7.1 GHz. `timekeeping_adjust` alternates between two neighbours to hit a
/// rate between them: this is how far they are apart, rounded up.
const ROUNDING_PPB: i128 = 477;

/// Accuracy that a network adapter's oscillator must have: IEEE 802.3, ±100 ppm (e.g. 22.2.2.1).
const OSCILLATOR_PPB: i128 = 100_000;

/// Kinds of clocks, which say how it can depart from the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nature {
    /// Made of the reference by adding a number, which changes when the clock is set: the kernel
    /// slews both alike (`tk_core` has one multiplier). `CLOCK_REALTIME`, and `CLOCK_BOOTTIME`,
    /// which is set by a suspension.
    Offset,
    /// The hardware counter that the reference is made of, before it is steered; never set.
    /// `CLOCK_MONOTONIC_RAW`.
    Counter,
    /// The same counter by another conversion to nanoseconds, rounded differently: perf's clock.
    Converted,
    /// A clock with an oscillator of its own that may be set: a network adapter's.
    Oscillator,
}

impl Nature {
    /// Returns the nature of a clock by its name in `clock_pairs.clock`; `None`: unknown.
    pub fn from_name(clock: &str) -> Option<Self> {
        match clock {
            "realtime" | "boottime" => Some(Self::Offset),
            "monotonic_raw" => Some(Self::Counter),
            "perf" => Some(Self::Converted),
            name if name.starts_with("ptp") => Some(Self::Oscillator),
            _ => None,
        }
    }

    /// Returns whether the clock can be set.
    pub(super) fn can_step(self) -> bool {
        matches!(self, Self::Offset | Self::Oscillator)
    }

    /// Returns how far the clock's own rate may differ from the counter's, ppb.
    fn own_ppb(self) -> i128 {
        match self {
            Self::Offset => 0,
            Self::Counter => ROUNDING_PPB,
            // the conversion of each is rounded, too
            Self::Converted => 3 * ROUNDING_PPB,
            Self::Oscillator => ROUNDING_PPB + OSCILLATOR_PPB,
        }
    }

    /// The rate between two readings if nobody changed the setting of the kernel; `None` when it was
    /// changed meanwhile, or is not known.
    pub(super) fn steady(self, from: &ClockPair, to: &ClockPair) -> Option<Rates> {
        if self == Self::Offset {
            return Some(Rates::around(0, 0));
        }
        let set_ppb = from.steer_ppb.filter(|set| to.steer_ppb == Some(*set))?;
        let slew_ppb = from.slew_ppb?.max(to.slew_ppb?);
        // one more: the setting is rounded to whole ppb
        let apart_ppb = i128::from(slew_ppb) + self.own_ppb() + 1;
        Some(Rates::around(i128::from(set_ppb), apart_ppb)).filter(|rates| rates.is_possible())
    }

    /// The rate, whatever a time daemon set meanwhile, the tick left alone.
    pub(super) fn steered(self, from: &ClockPair, to: &ClockPair) -> Option<Rates> {
        if self == Self::Offset {
            return None;
        }
        let set = [from.steer_ppb?, to.steer_ppb?].map(i128::from);
        let slew_ppb = from.slew_ppb?.max(to.slew_ppb?);
        // from one limit of the frequency to the other is twice the limit
        let apart_ppb =
            2 * MAX_FREQUENCY_PPB + MAX_ADJTIME_PPB + i128::from(slew_ppb) + self.own_ppb() + 1;
        let least_ppb = set[0].min(set[1]) - apart_ppb;
        let most_ppb = set[0].max(set[1]) + apart_ppb;
        Some(Rates {
            least_ppb,
            most_ppb,
        })
        .filter(|rates| rates.is_possible())
    }

    /// Returns the range that the rate of a clock cannot leave, however it is adjusted.
    pub(super) fn limit(self) -> Rates {
        match self {
            Self::Offset => Rates::around(0, 0),
            _ => Rates::around(0, MAX_ADJUSTMENT_PPB + self.own_ppb()),
        }
    }
}

/// A range of rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rates {
    least_ppb: i128,
    most_ppb: i128,
}

impl Rates {
    /// Returns rates at most `apart_ppb` from `rate_ppb`, in parts per billion.
    fn around(rate_ppb: i128, apart_ppb: i128) -> Self {
        Self {
            least_ppb: rate_ppb - apart_ppb,
            most_ppb: rate_ppb + apart_ppb,
        }
    }

    /// Returns whether a kernel could run at all of these rates; else the file is damaged.
    fn is_possible(&self) -> bool {
        let limit_ppb = PPB / 4;
        self.least_ppb >= -limit_ppb && self.most_ppb <= limit_ppb
    }

    /// Returns least and most ns of the reference while the clock advances by `other_ns`. Each
    /// reading was cut to whole nanoseconds.
    pub(super) fn reference_ns(&self, other_ns: i128) -> (i128, i128) {
        let least = (other_ns - 1).max(0) * (PPB + self.least_ppb);
        let most = (other_ns + 1) * (PPB + self.most_ppb);
        (least.div_euclid(PPB), ceil_div(most, PPB))
    }

    /// Returns the most ns of the clock while the reference advances by `reference_ns`.
    pub(super) fn most_other_ns(&self, reference_ns: i128) -> i128 {
        ceil_div(reference_ns * PPB, PPB + self.least_ppb) + 1
    }
}

/// Divides and rounds up.
fn ceil_div(dividend: i128, divisor: i128) -> i128 {
    -(-dividend).div_euclid(divisor)
}
