//! CPU time and peak memory of this process.

use std::io;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

const STATUS: &str = "/proc/self/status";

/// CPU time and memory that this process used so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    /// CPU time of all its threads, user and system, nanoseconds.
    pub cpu_ns: u64,
    /// Peak resident memory, bytes.
    pub max_rss_bytes: u64,
    /// Resident memory now, bytes.
    pub rss_bytes: u64,
}

/// The usage was not readable.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// `getrusage` failed.
    #[error("cannot read this process's CPU time: {0}")]
    Cpu(io::Error),
    /// `/proc/self/status` is not readable or does not have a line.
    #[error("cannot read memory from {STATUS}: {0}\nhint: mount -t proc proc /proc")]
    Memory(io::Error),
}

impl Usage {
    /// Reads the usage now.
    pub fn read() -> Result<Self, UsageError> {
        let usage = getrusage(UsageWho::RUSAGE_SELF).map_err(|no| UsageError::Cpu(no.into()))?;
        let cpu_us = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
        // `ru_maxrss` keeps the peak of the program that this process was before `execve`
        // (`exec_mmap`), so the peak comes from the memory map itself.
        let status = std::fs::read_to_string(STATUS).map_err(UsageError::Memory)?;
        let bytes = |name: &str| {
            bytes_of(&status, name)
                .ok_or_else(|| UsageError::Memory(io::Error::other(format!("no {name} line"))))
        };
        Ok(Self {
            cpu_ns: cpu_us.max(0) as u64 * 1000,
            max_rss_bytes: bytes("VmHWM")?,
            rss_bytes: bytes("VmRSS")?,
        })
    }
}

/// Returns a value of `/proc/self/status`, in bytes; None without such a line.
fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let rest = |line: &'_ str| Some(line.strip_prefix(name)?.strip_prefix(':')?.to_owned());
    let line = status.lines().find_map(rest)?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_and_memory_are_measured() {
        const LEN: usize = 64 << 20;
        let before = Usage::read().unwrap();
        let block = std::hint::black_box(vec![1_u8; LEN]);
        let mut after = Usage::read().unwrap();
        while after.cpu_ns < before.cpu_ns + 20_000_000 {
            std::hint::black_box(block.iter().map(|byte| u64::from(*byte)).sum::<u64>());
            after = Usage::read().unwrap();
        }
        assert!(after.max_rss_bytes >= LEN as u64, "{after:?}");
    }

    #[test]
    fn status_lines_are_parsed() {
        assert_eq!(
            bytes_of("Name:\tx\nVmHWM:\t    2048 kB\n", "VmHWM"),
            Some(2048 * 1024)
        );
        assert_eq!(bytes_of("VmRSS:\t1 kB\n", "VmHWM"), None);
    }
}
