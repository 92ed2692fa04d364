//! Clocks of network adapters, `/dev/ptp*`, in which hardware stamps are taken. In: what the device
//! knows of itself and the system's clocks (include/uapi/linux/ptp_clock.h). Out: windows of
//! `CLOCK_REALTIME` in which the device was read. Three ways, the best that works: the device's own
//! cross stamp, stamps taken around the bus access alone, stamps around the whole call.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

use super::steering::frequency_ppb;

const NS_PER_S: i64 = 1_000_000_000;
/// `PTP_MAX_SAMPLES`.
const MAX_SAMPLES: usize = 25;
/// Readings in one call; the narrowest is kept: each is an access to the bus of a microsecond.
const SAMPLES: usize = 5;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Time {
    sec: i64,
    nsec: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Default)]
struct Precise {
    device: Time,
    realtime: Time,
    monotonic_raw: Time,
    reserved: [u32; 4],
}

#[repr(C)]
struct ExtendedOffset {
    samples: u32,
    reserved: [u32; 3],
    /// System, device, system.
    stamps: [[Time; 3]; MAX_SAMPLES],
}

#[repr(C)]
struct Simple {
    samples: u32,
    reserved: [u32; 3],
    /// System, device, system, device, …, system.
    stamps: [Time; 2 * MAX_SAMPLES + 1],
}

mod ioctls {
    use super::{ExtendedOffset, Precise, Simple};

    nix::ioctl_readwrite!(precise, b'=', 8, Precise);
    nix::ioctl_readwrite!(extended, b'=', 9, ExtendedOffset);
    nix::ioctl_write_ptr!(simple, b'=', 5, Simple);
}

/// How a device is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReadMethod {
    /// `PTP_SYS_OFFSET_PRECISE`.
    Precise,
    /// `PTP_SYS_OFFSET_EXTENDED`.
    ExtendedOffset,
    /// `PTP_SYS_OFFSET`.
    Simple,
}

impl ReadMethod {
    const ALL: [Self; 3] = [Self::Precise, Self::ExtendedOffset, Self::Simple];

    /// Returns the kernel's name of the method.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Precise => "PTP_SYS_OFFSET_PRECISE",
            Self::ExtendedOffset => "PTP_SYS_OFFSET_EXTENDED",
            Self::Simple => "PTP_SYS_OFFSET",
        }
    }
}

/// A reading of the device, `device_ns` of its own clock, between two times of `CLOCK_REALTIME`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DeviceReading {
    pub(super) before_ns: i64,
    pub(super) device_ns: i64,
    pub(super) after_ns: i64,
}

/// A clock of a network adapter.
#[derive(Debug)]
pub(super) struct PtpClock {
    /// `ptp0`.
    pub(super) name: String,
    /// How it is read, and why in no better way.
    pub(super) method: ReadMethod,
    pub(super) why: Option<String>,
    file: File,
}

impl PtpClock {
    /// Opens every PTP device of this host; the error says why one cannot be read.
    pub(super) fn find() -> Vec<(String, io::Result<Self>)> {
        let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.filter(|name| is_device(name)).collect();
        names.sort();
        let open = |name: String| (name.clone(), Self::open(name));
        names.into_iter().map(open).collect()
    }

    /// Opens `/dev/NAME`, and finds the best method that its driver supports.
    fn open(name: String) -> io::Result<Self> {
        let file = File::open(format!("/dev/{name}"))?;
        let mut why = None;
        let mut last = None;
        for method in ReadMethod::ALL {
            match read(&file, method) {
                Ok(_) => {
                    return Ok(Self {
                        name,
                        method,
                        why,
                        file,
                    });
                }
                Err(error) => {
                    why = Some(format!("{}: {error}", method.name()));
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| io::Error::other("no method to read it")))
    }

    /// Reads the device's clock once.
    pub(super) fn read(&self) -> io::Result<DeviceReading> {
        read(&self.file, self.method)
    }

    /// Returns by how much the clock's frequency is adjusted, ppb; `None` if the driver does not
    /// report it.
    pub(super) fn frequency_ppb(&self) -> Option<i64> {
        // FD_TO_CLOCKID (include/linux/posix-timers.h): dynamic clocks are descriptors
        let clock = (!self.file.as_raw_fd() << 3) | 3;
        // SAFETY: `timex` is made of integers, for which zero is a value.
        let mut timex: libc::timex = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes one `timex` to it; the clock is of an open descriptor.
        let state = unsafe { libc::clock_adjtime(clock, &raw mut timex) };
        (state >= 0).then(|| frequency_ppb(timex.freq))
    }
}

/// Returns whether a name is `ptp` and a number.
fn is_device(name: &str) -> bool {
    name.strip_prefix("ptp")
        .is_some_and(|number| number.parse::<u32>().is_ok())
}

/// Reads the device's clock once, by this method.
fn read(file: &File, method: ReadMethod) -> io::Result<DeviceReading> {
    let fd = file.as_raw_fd();
    let narrowest = match method {
        ReadMethod::Precise => {
            let mut pair = Precise::default();
            // SAFETY: the structure is the one that this request reads and writes.
            unsafe { ioctls::precise(fd, &raw mut pair) }?;
            bracket_reading(pair.realtime, pair.device, pair.realtime)
        }
        ReadMethod::ExtendedOffset => {
            let mut samples = ExtendedOffset {
                samples: SAMPLES as u32,
                reserved: [0; 3],
                stamps: [[Time::default(); 3]; MAX_SAMPLES],
            };
            // SAFETY: as above.
            unsafe { ioctls::extended(fd, &raw mut samples) }?;
            let stamps = &samples.stamps[..SAMPLES];
            narrowest_reading(
                stamps
                    .iter()
                    .map(|[before, device, after]| (*before, *device, *after)),
            )
        }
        ReadMethod::Simple => {
            let mut samples = Simple {
                samples: SAMPLES as u32,
                reserved: [0; 3],
                stamps: [Time::default(); 2 * MAX_SAMPLES + 1],
            };
            // SAFETY: as above; the kernel writes its answer to the structure, though the request's
            // number says that it only reads.
            unsafe { ioctls::simple(fd, (&raw mut samples).cast_const()) }?;
            let stamps = &samples.stamps[..=2 * SAMPLES];
            narrowest_reading(
                stamps
                    .windows(3)
                    .step_by(2)
                    .map(|three| (three[0], three[1], three[2])),
            )
        }
    };
    narrowest.ok_or_else(|| io::Error::other("the device gave no reading in order"))
}

/// Returns the sample with the shortest time between its two readings of the host's clock.
fn narrowest_reading(samples: impl Iterator<Item = (Time, Time, Time)>) -> Option<DeviceReading> {
    let readings =
        samples.filter_map(|(before, device, after)| bracket_reading(before, device, after));
    readings.min_by_key(|reading| reading.after_ns - reading.before_ns)
}

/// Returns the reading between two stamps; `None`: the clock was set between them, or they are no times.
fn bracket_reading(before: Time, device: Time, after: Time) -> Option<DeviceReading> {
    let (before_ns, after_ns) = (before.ns()?, after.ns()?);
    (before_ns <= after_ns).then_some(DeviceReading {
        before_ns,
        device_ns: device.ns()?,
        after_ns,
    })
}

impl Time {
    /// Returns nanoseconds; None if they overflow.
    fn ns(self) -> Option<i64> {
        self.sec
            .checked_mul(NS_PER_S)?
            .checked_add(i64::from(self.nsec))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a time of the device from nanoseconds.
    fn time(ns: i64) -> Time {
        Time {
            sec: ns / NS_PER_S,
            nsec: (ns % NS_PER_S) as u32,
            reserved: 0,
        }
    }

    #[test]
    fn the_narrowest_reading_in_order_is_kept() {
        let samples = [(1_000, 7, 3_000), (4_000, 8, 4_500), (9_000, 9, 8_000)];
        let samples =
            samples.map(|(before, device, after)| (time(before), time(device), time(after)));
        let expected = DeviceReading {
            before_ns: 4_000,
            device_ns: 8,
            after_ns: 4_500,
        };
        assert_eq!(narrowest_reading(samples.into_iter()), Some(expected));
        let far = Time {
            sec: i64::MAX,
            nsec: 0,
            reserved: 0,
        };
        assert_eq!(bracket_reading(far, far, far), None);
    }

    #[test]
    fn devices_are_known_by_name() {
        assert!(is_device("ptp0") && is_device("ptp12"));
        assert!(!is_device("ptp") && !is_device("ptp_kvm") && !is_device("ptmx"));
    }

    #[test]
    fn structures_are_as_long_as_the_kernels() {
        assert_eq!(size_of::<Precise>(), 64);
        assert_eq!(size_of::<ExtendedOffset>(), 16 + 25 * 48);
        assert_eq!(size_of::<Simple>(), 16 + 51 * 16);
    }

    #[test]
    fn devices_of_this_host_are_read_or_say_why_not() {
        for (name, clock) in PtpClock::find() {
            match clock {
                Ok(clock) => assert!(clock.read().is_ok(), "{name}"),
                Err(error) => assert!(!error.to_string().is_empty(), "{name}"),
            }
        }
    }
}
