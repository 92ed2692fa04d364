//! perf's clock, in which Intel PT and perf's own records are stamped, without a system call: the
//! CPU's counter, converted as the page that perf shares with user space says
//! (`struct perf_event_mmap_page`, include/uapi/linux/perf_event.h).

use std::sync::atomic::{Ordering, fence};

use memmap2::{MmapOptions, MmapRaw};

use crate::perf_event;

/// `cap_user_time_zero`, of the capabilities.
const CAP_USER_TIME_ZERO: u64 = 1 << 4;

/// The beginning of the page, up to what is used here.
#[repr(C)]
struct Page {
    version: u32,
    compat_version: u32,
    lock: u32,
    index: u32,
    offset: i64,
    time_enabled: u64,
    time_running: u64,
    capabilities: u64,
    pmc_width: u16,
    time_shift: u16,
    time_mult: u32,
    time_offset: u64,
    time_zero: u64,
}

/// From the CPU's counter to perf's nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Conversion {
    shift: u16,
    mult: u32,
    zero: u64,
}

impl Conversion {
    /// Returns the time of ticks by the formula of the kernel's header, modulo 2^64.
    fn ns(self, ticks: u64) -> u64 {
        let mult = u64::from(self.mult);
        let whole = ticks.checked_shr(self.shift.into()).unwrap_or(0);
        let mask = 1u64
            .checked_shl(self.shift.into())
            .unwrap_or(0)
            .wrapping_sub(1);
        let part = u128::from(ticks & mask) * u128::from(mult);
        let part = part.checked_shr(self.shift.into()).unwrap_or(0) as u64;
        self.zero
            .wrapping_add(whole.wrapping_mul(mult))
            .wrapping_add(part)
    }
}

/// Reads the clock of perf events.
#[derive(Debug)]
pub(super) struct PerfClock(MmapRaw);

impl PerfClock {
    /// Opens perf's clock; the error says why it cannot be read, and what helps.
    pub(super) fn open() -> Result<Self, (String, String)> {
        if !cfg!(target_arch = "x86_64") {
            return refuse(
                "read on x86-64 only",
                "record on x86-64 to compare times of Intel PT or perf",
            );
        }
        const PERF_COUNT_SW_DUMMY: u64 = 9;
        const DISABLED: u64 = 1;
        const EXCLUDE_KERNEL: u64 = 1 << 5;
        let attr = perf_event::Attr {
            kind: perf_event::SOFTWARE,
            config: PERF_COUNT_SW_DUMMY,
            flags: DISABLED | EXCLUDE_KERNEL,
            ..perf_event::Attr::default()
        };
        let (this_thread, every_cpu) = (0, -1);
        let event = perf_event::open(&attr, this_thread, every_cpu).map_err(|error| {
            let remedy = "allow perf: sysctl kernel.perf_event_paranoid=2, or run as root";
            (
                format!("cannot open an event of perf: {error}"),
                remedy.to_owned(),
            )
        })?;
        // the mapping, of whole pages, stays when the event is closed
        let page = MmapOptions::new()
            .len(size_of::<Page>())
            .map_raw_read_only(&event);
        let page = page.map_err(|error| {
            let remedy = "allow more memory: sysctl kernel.perf_event_mlock_kb, or run as root";
            (
                format!("cannot map perf's page: {error}"),
                remedy.to_owned(),
            )
        })?;
        let clock = Self(page);
        match clock.read_conversion() {
            Some(_) => Ok(clock),
            None => refuse(
                "the kernel does not say how the CPU's counter becomes perf's time \
                 (cap_user_time_zero is 0, as where the kernel does not trust that counter)",
                "see why the kernel does not trust the counter: dmesg | grep -i tsc",
            ),
        }
    }

    /// Returns perf's time now, ns; `None` if the kernel no longer shows it.
    pub(super) fn read(&self) -> Option<i64> {
        let ticks = ticks()?;
        i64::try_from(self.read_conversion()?.ns(ticks)).ok()
    }

    /// Reads the conversion from the kernel's page, again if it changes meanwhile.
    fn read_conversion(&self) -> Option<Conversion> {
        let page = self.0.as_ptr().cast::<Page>();
        loop {
            // SAFETY: the page is mapped as long as this clock lives, and is larger than `Page`; the
            // kernel may write at any moment, so each field is read as it is, once.
            let (before, capabilities, conversion, after) = unsafe {
                let before = (&raw const (*page).lock).read_volatile();
                fence(Ordering::Acquire);
                let capabilities = (&raw const (*page).capabilities).read_volatile();
                let conversion = Conversion {
                    shift: (&raw const (*page).time_shift).read_volatile(),
                    mult: (&raw const (*page).time_mult).read_volatile(),
                    zero: (&raw const (*page).time_zero).read_volatile(),
                };
                fence(Ordering::Acquire);
                (
                    before,
                    capabilities,
                    conversion,
                    (&raw const (*page).lock).read_volatile(),
                )
            };
            if before == after {
                return (capabilities & CAP_USER_TIME_ZERO != 0).then_some(conversion);
            }
        }
    }
}

/// Makes the refusal: why the clock cannot be read, and what helps.
fn refuse<T>(why: &str, remedy: &str) -> Result<T, (String, String)> {
    Err((why.to_owned(), remedy.to_owned()))
}

/// Returns the CPU's counter, read in the order of the program.
#[cfg(target_arch = "x86_64")]
fn ticks() -> Option<u64> {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 CPU has these instructions, and they touch no memory.
    Some(unsafe {
        _mm_lfence();
        let ticks = _rdtsc();
        _mm_lfence();
        ticks
    })
}

/// Returns None: this architecture has no counter that programs can read.
#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_convert_to_the_time_that_perf_prints() {
        let conversion = Conversion {
            shift: 31,
            mult: 1_789_569_706,
            zero: 18_446_744_041_015_200_657,
        };
        assert_eq!(conversion.ns(0xbc_4cbe_fc32), 641_256_845_844);
    }

    #[test]
    fn hostile_conversion_does_not_panic() {
        for shift in [0, 1, 32, 63, 64, u16::MAX] {
            let conversion = Conversion {
                shift,
                mult: u32::MAX,
                zero: u64::MAX,
            };
            conversion.ns(u64::MAX);
        }
    }

    #[test]
    fn perf_clock_advances_or_names_the_reason() {
        match PerfClock::open() {
            Ok(clock) => assert!(clock.read().unwrap() <= clock.read().unwrap()),
            Err((why, _)) => assert!(!why.is_empty()),
        }
    }
}
