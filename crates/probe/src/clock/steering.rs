//! Describes what the kernel was set to do with the rate of the reference. In: `adjtimex`, which changes
//! nothing here. Out: [`Steering`]. Source: kernel/time/ntp.c.

use nix::unistd::{SysconfVar, sysconf};

/// Parts per billion in one part per million of `timex.freq`, which has 16 bits of fraction.
const PPB_PER_PPM: i64 = 1_000;
const FREQ_SHIFT: u32 = 16;
/// Fastest slew of `adjtime`: `MAX_TICKADJ`, 500 µs in a second.
const ADJTIME_PPB: u64 = 500_000;
/// The phase-locked loop corrects 2^-(SHIFT_PLL + time constant) of the offset in a second.
const SHIFT_PLL: u32 = 2;
/// `MAXTC`, and 4 that the kernel adds where the offset is in microseconds.
const MAX_TIME_CONSTANT: i64 = 14;

/// How the kernel steers the reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Steering {
    /// Rate of the reference by the hardware's, less one: frequency and tick.
    pub(super) rate_ppb: i64,
    /// It may run faster or slower by this while a phase is corrected.
    pub(super) slew_ppb: u64,
}

impl Steering {
    /// Reads the present settings; `None`: the kernel does not report them.
    pub(super) fn read() -> Option<Self> {
        let timex = query(0)?;
        let pending_us = query(libc::ADJ_OFFSET_SS_READ)?.offset;
        let user_hz = sysconf(SysconfVar::CLK_TCK).ok().flatten()?;
        Some(Self {
            rate_ppb: frequency_ppb(timex.freq) + tick_ppb(timex.tick, user_hz),
            slew_ppb: phase_ppb(&timex) + if pending_us == 0 { 0 } else { ADJTIME_PPB },
        })
    }
}

/// Returns the largest error of the realtime clock, as its time daemon reports it, µs; `None`
/// without a daemon.
pub fn clock_error_us() -> Option<i64> {
    let timex = query(0)?;
    (timex.status & libc::STA_UNSYNC == 0).then_some(timex.maxerror)
}

/// Calls `adjtimex` in a mode that only reads.
fn query(modes: libc::c_uint) -> Option<libc::timex> {
    // SAFETY: `timex` is made of integers, for which zero is a value.
    let mut timex: libc::timex = unsafe { std::mem::zeroed() };
    timex.modes = modes;
    // SAFETY: the kernel writes one `timex` to it.
    (unsafe { libc::adjtimex(&raw mut timex) } >= 0).then_some(timex)
}

/// A frequency of `timex`, in ppb, rounded.
pub(super) fn frequency_ppb(freq: libc::c_long) -> i64 {
    let scaled = i128::from(freq) * i128::from(PPB_PER_PPM);
    ((scaled + (1 << (FREQ_SHIFT - 1))) >> FREQ_SHIFT) as i64
}

/// Returns the rate of the clock, ppb, by the length of its tick in µs.
fn tick_ppb(tick_us: libc::c_long, user_hz: libc::c_long) -> i64 {
    (tick_us * user_hz - 1_000_000) * PPB_PER_PPM
}

/// Rate at which the phase-locked loop takes off what remains of its offset. What it took off in this
/// second is not in that any more: of an offset that is divided by 2^n, 1 / (2^n - 1) of the rest.
fn phase_ppb(timex: &libc::timex) -> u64 {
    if timex.offset == 0 && timex.status & libc::STA_PLL == 0 {
        return 0;
    }
    let unit_ns = if timex.status & libc::STA_NANO == 0 {
        1_000
    } else {
        1
    };
    // it was cut to whole units
    let offset_ns = (timex.offset.unsigned_abs() + 1) * unit_ns;
    let constant = timex.constant.clamp(0, MAX_TIME_CONSTANT) as u32;
    offset_ns.div_ceil((1 << (SHIFT_PLL + constant)) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_in_ppb() {
        assert_eq!(frequency_ppb(500 << 16), 500_000);
        assert_eq!(frequency_ppb(-(1 << 16)), -1_000);
        assert_eq!(frequency_ppb(-65), -1);
        assert_eq!(tick_ppb(10_000, 100), 0);
        assert_eq!(tick_ppb(11_000, 100), 100_000_000);
    }

    #[test]
    fn phase_locked_loop_corrects_a_share_each_second() {
        let mut timex = query(0).unwrap();
        (timex.offset, timex.status, timex.constant) = (0, 0, 2);
        assert_eq!(phase_ppb(&timex), 0);
        // 100 µs after a sixteenth was just taken: it was 106.7 µs
        (timex.offset, timex.status) = (-100_000, libc::STA_PLL | libc::STA_NANO);
        assert_eq!(phase_ppb(&timex), 6_667);
        timex.status = libc::STA_PLL;
        assert_eq!(phase_ppb(&timex), 6_666_734);
    }

    #[test]
    fn this_kernel_has_settings() {
        let steering = Steering::read().unwrap();
        // the tick's limit and the frequency's
        assert!(steering.rate_ppb.abs() <= 100_500_000, "{steering:?}");
    }
}
