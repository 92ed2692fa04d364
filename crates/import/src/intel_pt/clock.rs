//! The time of Intel PT: packets → time stamp counter → perf's clock.

/// Slip of a TSC packet past MTC packets that is taken for one: about 40 cycles in truth, and perf
/// allows this many.
const SLIP: u64 = 0x10000;
/// End of the count of a TSC packet.
const TSC_END: u64 = 1 << 56;

/// Converts the time stamp counter to perf's nanoseconds, by the factors that the kernel shows in
/// `struct perf_event_mmap_page`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct TimeConversion {
    pub(crate) shift: u32,
    pub(crate) mult: u64,
    pub(crate) zero: u64,
}

impl TimeConversion {
    /// Converts TSC ticks to nanoseconds of perf's clock, exactly as perf does: modulo 2^64.
    pub(crate) fn ns(self, tsc: u64) -> u64 {
        let whole = tsc.checked_shr(self.shift).unwrap_or(0);
        let rest = tsc ^ whole.checked_shl(self.shift).unwrap_or(0);
        let rest_ns = rest.wrapping_mul(self.mult).checked_shr(self.shift);
        self.zero
            .wrapping_add(whole.wrapping_mul(self.mult))
            .wrapping_add(rest_ns.unwrap_or(0))
    }
}

/// Ratios between the processor's clocks, which turn Intel PT's timing packets into time stamp counter ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ClockRatios {
    /// Bits of the crystal clock's counter that MTC packets leave out at the low end.
    pub(crate) mtc_shift: u32,
    /// Ticks of the time stamp counter in a tick of the crystal clock: numerator, denominator.
    pub(crate) tsc_ctc: (u32, u32),
    /// Ratio of the time stamp counter to the bus clock.
    pub(crate) max_non_turbo: u32,
}

/// The time stamp counter, followed through the packets.
#[derive(Debug, Clone, Default)]
pub(crate) struct PtClock {
    ratios: ClockRatios,
    /// A time near the first one, for its highest byte.
    reference: Option<u64>,
    now: u64,
    /// At the last TSC packet.
    pub(crate) tsc: u64,
    /// Crystal clock of the last TMA packet, its time, and how far it has got since.
    crystal: Option<CrystalClock>,
    /// Core cycles since a time.
    cycles: Option<(u64, u64)>,
    cbr: u8,
}

#[derive(Debug, Clone, Copy)]
struct CrystalClock {
    tsc: u64,
    ticks: u64,
    last_mtc: u32,
    /// MTC bits that the TMA packet did not have are still to be filled in.
    incomplete: bool,
}

impl PtClock {
    /// Begins a clock; `reference` 0 means that no time is known.
    pub(crate) fn new(ratios: ClockRatios, reference: u64) -> Self {
        Self {
            ratios,
            reference: Some(reference).filter(|reference| *reference != 0),
            ..Self::default()
        }
    }

    /// Returns the time stamp counter now; zero before the first TSC packet.
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Forgets the count of crystal ticks: some packets are missing.
    pub(crate) fn lose_crystal(&mut self) {
        self.crystal = None;
    }

    /// Adds the time of a TSC packet.
    pub(crate) fn tsc(&mut self, payload: u64) {
        self.crystal = None;
        if let Some(reference) = self.reference.take() {
            self.tsc = nearest_tsc(payload, reference);
            self.now = self.tsc;
        } else if self.now != 0 {
            self.tsc = payload | self.now & !(TSC_END - 1);
            if self.tsc >= self.now {
                self.now = self.tsc;
            } else if self.now - self.tsc >= SLIP {
                self.tsc = self.tsc.wrapping_add(TSC_END);
                self.now = self.tsc;
            }
        } else {
            (self.tsc, self.now) = (payload, payload);
        }
        self.cycles = Some((self.now, 0));
    }

    /// Takes the numbers of a TMA packet, which belongs to the TSC packet before.
    pub(crate) fn tma(&mut self, ctc: u16, fast: u16) {
        if self.ratios.tsc_ctc.1 == 0 {
            return;
        }
        let ctc = u32::from(ctc);
        let mask = 1_u32
            .checked_shl(self.ratios.mtc_shift)
            .map_or(0, |bit| bit - 1);
        let rest = self.ticks_to_tsc(u64::from(ctc & mask));
        let tsc = self.tsc.wrapping_sub(u64::from(fast)).wrapping_sub(rest);
        self.crystal = Some(CrystalClock {
            tsc,
            ticks: 0,
            last_mtc: ctc.checked_shr(self.ratios.mtc_shift).unwrap_or(0) & 0xff,
            incomplete: self.ratios.mtc_shift > 8,
        });
    }

    /// Applies an MTC packet; ignores one that seems to go back, as perf does.
    pub(crate) fn mtc(&mut self, payload: u8) {
        let shift = self.ratios.mtc_shift;
        let Some(mut crystal) = self.crystal else {
            return;
        };
        let mtc = u32::from(payload);
        if std::mem::take(&mut crystal.incomplete) {
            crystal.last_mtc = complete_mtc(crystal.last_mtc, mtc, shift);
        }
        let passed = match mtc > crystal.last_mtc {
            true => mtc - crystal.last_mtc,
            false => mtc + 256 - crystal.last_mtc,
        };
        crystal.ticks += u64::from(passed) << shift;
        crystal.last_mtc = mtc;
        self.crystal = Some(crystal);
        let now = crystal.tsc.wrapping_add(self.ticks_to_tsc(crystal.ticks));
        self.now = self.now.max(now);
        self.cycles = Some((self.now, 0));
    }

    /// Applies a CYC packet: `count` cycles at the core's frequency.
    pub(crate) fn cyc(&mut self, count: u64) {
        let Some((since, cycles)) = &mut self.cycles else {
            return;
        };
        *cycles = cycles.saturating_add(count);
        if self.cbr == 0 {
            return;
        }
        let ratio = f64::from(self.ratios.max_non_turbo) / f64::from(self.cbr);
        let now = since.saturating_add((*cycles as f64 * ratio) as u64);
        self.now = self.now.max(now);
    }

    /// Applies a CBR packet: the ratio of core and bus frequency.
    pub(crate) fn cbr(&mut self, cbr: u8) {
        self.cbr = cbr;
    }

    /// Converts ticks of the crystal clock to ticks of the TSC.
    fn ticks_to_tsc(&self, ticks: u64) -> u64 {
        let (numerator, denominator) = self.ratios.tsc_ctc;
        let (numerator, denominator) = (u64::from(numerator), u64::from(denominator));
        match denominator {
            0 => 0,
            _ => (ticks / denominator)
                .wrapping_mul(numerator)
                .wrapping_add((ticks % denominator) * numerator / denominator),
        }
    }
}

/// Completes seven bytes of a TSC to the value nearest to a reference.
fn nearest_tsc(payload: u64, reference: u64) -> u64 {
    let tsc = payload | reference & !(TSC_END - 1);
    if tsc < reference && reference - tsc > TSC_END / 2 {
        return tsc.wrapping_add(TSC_END);
    }
    if tsc > reference && tsc - reference > TSC_END / 2 {
        return tsc.wrapping_sub(TSC_END);
    }
    tsc
}

/// Completes the MTC value of a TMA packet, which has only 16 bits.
fn complete_mtc(last_mtc: u32, mtc: u32, shift: u32) -> u32 {
    let Some(missing) = 1_u32.checked_shl(16_u32.saturating_sub(shift)) else {
        return last_mtc;
    };
    let last_mtc = last_mtc | mtc & !(missing - 1);
    match last_mtc >= mtc {
        true => last_mtc.wrapping_sub(missing) & 0xff,
        false => last_mtc,
    }
}

#[cfg(test)]
mod tests {
    use super::{TimeConversion, nearest_tsc};

    #[test]
    fn time_conversion_wraps_as_in_the_kernel() {
        let conv = TimeConversion {
            shift: 31,
            mult: 1_789_569_706,
            zero: 18_446_744_041_015_200_657,
        };
        assert_eq!(conv.ns(0xbc_4cbe_fc32), 641_256_845_844);
    }

    #[test]
    fn the_highest_byte_comes_from_the_reference() {
        assert_eq!(nearest_tsc(5, (1 << 56) - 3), (1 << 56) + 5);
        assert_eq!(nearest_tsc((1 << 56) - 3, (1 << 56) + 5), (1 << 56) - 3);
        assert_eq!(nearest_tsc(7, 3), 7);
    }
}
