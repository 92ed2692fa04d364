//! Describes what a recording's header says of the host. In: `/proc` and `/sys`. Out: [`Host`].

use std::io;

use nix::time::ClockId;

use super::{jiffy_ns, monotonic_ns, read_ns};

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
const HOSTNAME: &str = "/proc/sys/kernel/hostname";
const RELEASE: &str = "/proc/sys/kernel/osrelease";
const VERSION: &str = "/proc/sys/kernel/version";
const ONLINE_CPUS: &str = "/sys/devices/system/cpu/online";
const CLOCKSOURCE: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";

/// A fact without which a recording cannot be interpreted was not readable.
#[derive(Debug, thiserror::Error)]
#[error("cannot read {path}: {source}\nhint: mount -t proc proc /proc")]
pub struct HostError {
    /// The file.
    pub path: &'static str,
    /// Cause.
    pub source: io::Error,
}

/// The recorded host, as of now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// Host name.
    pub host: String,
    /// Kernel's boot id: socket cookies are unique within it.
    pub boot_id: String,
    /// Kernel release and version.
    pub kernel: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Kernel clock source; empty when the kernel does not say.
    pub clocksource: String,
    /// `CLOCK_MONOTONIC` now.
    pub now_ns: u64,
    /// `CLOCK_REALTIME` now.
    pub now_realtime_ns: u64,
    /// Length of a jiffy; `None`: not readable.
    pub jiffy_ns: Option<u64>,
}

impl Host {
    /// Reads name, kernel, CPUs and clock source of this host.
    pub fn read() -> Result<Self, HostError> {
        Ok(Self {
            host: line(HOSTNAME)?,
            boot_id: line(BOOT_ID)?,
            kernel: format!("{} {}", line(RELEASE)?, line(VERSION)?),
            cpus: online_cpus(),
            // Absent on some virtual platforms; the recording is usable without it.
            clocksource: line(CLOCKSOURCE).unwrap_or_default(),
            now_ns: monotonic_ns(),
            now_realtime_ns: read_ns(ClockId::CLOCK_REALTIME).map_or(0, |ns| ns.max(0) as u64),
            jiffy_ns: jiffy_ns(),
        })
    }

    /// Returns the same host as of another time of `CLOCK_MONOTONIC`.
    #[must_use]
    pub fn at(self, now_ns: u64) -> Self {
        let after_ns = now_ns.wrapping_sub(self.now_ns);
        Self {
            now_ns,
            now_realtime_ns: self.now_realtime_ns.wrapping_add(after_ns),
            ..self
        }
    }
}

/// Reads a file of one line, without the line's end.
fn line(path: &'static str) -> Result<String, HostError> {
    let text = std::fs::read_to_string(path).map_err(|source| HostError { path, source })?;
    Ok(text.trim().to_owned())
}

/// Returns the number of online CPUs, also those outside of this process's affinity.
fn online_cpus() -> u32 {
    let ranges = std::fs::read_to_string(ONLINE_CPUS).unwrap_or_default();
    match count_ranges(ranges.trim()) {
        Some(count) if count > 0 => count,
        _ => std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
    }
}

/// Returns how many numbers a list has: 5 for `0-3,5`.
fn count_ranges(ranges: &str) -> Option<u32> {
    let mut count: u32 = 0;
    for range in ranges.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        count = count.checked_add(last.checked_sub(first)?.checked_add(1)?)?;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_ranges_are_counted() {
        assert_eq!(count_ranges("0"), Some(1));
        assert_eq!(count_ranges("0-3,5,8-9"), Some(7));
        assert_eq!(count_ranges("3-1"), None);
        assert_eq!(count_ranges(""), None);
        assert_eq!(count_ranges("0-4294967295"), None);
    }

    #[test]
    fn properties_of_this_host_are_read() {
        let host = Host::read().unwrap();
        assert_eq!(host.boot_id.len(), 36);
        assert!(host.cpus >= 1 && !host.kernel.trim().is_empty() && !host.host.is_empty());
        assert_eq!(
            host,
            Host {
                now_ns: host.now_ns,
                now_realtime_ns: host.now_realtime_ns,
                ..Host::read().unwrap()
            }
        );
    }
}
