//! CPUs and who waits for them: where a role runs, what its threads got, and work that is nothing but
//! CPU time.

use std::io::{self, Read};
use std::time::Duration;

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use serde::Serialize;

use crate::error::LabError;

const HINT_AFFINITY: &str = "report this";

/// Holds the CPU time and run-queue delay of a thread since it began, as the scheduler counts them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct ThreadCpu {
    /// Time on a CPU.
    pub cpu_ns: u64,
    /// Time runnable without one.
    pub runq_ns: u64,
    /// Times that it was given one.
    pub runs: u64,
}

impl ThreadCpu {
    /// Reads the CPU times of the calling thread; `None` if the kernel does not count them.
    pub(crate) fn read_own() -> Option<Self> {
        Self::from_directory("/proc/thread-self")
    }

    /// Reads the CPU times of the thread with this directory in `/proc`.
    pub(crate) fn from_directory(directory: &str) -> Option<Self> {
        let text = std::fs::read_to_string(format!("{directory}/schedstat")).ok()?;
        let mut fields = text.split_ascii_whitespace().map(str::parse);
        let mut next = || fields.next()?.ok();
        Some(ThreadCpu {
            cpu_ns: next()?,
            runq_ns: next()?,
            runs: next()?,
        })
    }
}

/// Returns the numbers of the CPUs that the calling thread may use, in order.
///
/// # Errors
/// When the kernel does not answer.
pub fn allowed_cpus() -> Result<Vec<usize>, LabError> {
    let allowed = sched_getaffinity(Pid::from_raw(0))
        .map_err(|why| LabError::os("read", "the CPUs that may be used", why, HINT_AFFINITY))?;
    let numbers = (0..CpuSet::count()).filter(|cpu| allowed.is_set(*cpu) == Ok(true));
    Ok(numbers.collect())
}

/// Lets the calling thread, and those that it starts, run only on this CPU.
///
/// # Errors
/// When the CPU is none of those that may be used.
pub fn pin_thread(cpu: usize) -> Result<(), LabError> {
    let mut only = CpuSet::new();
    only.set(cpu)
        .and_then(|()| sched_setaffinity(Pid::from_raw(0), &only))
        .map_err(|why| LabError::os("stay on", format!("CPU {cpu}"), why, HINT_AFFINITY))
}

/// Gives the calling thread real-time priority, if it may.
pub(crate) fn before_all_others() {
    let parameters = libc::sched_param { sched_priority: 1 };
    // SAFETY: the parameters live through the call; thread 0 is the calling one.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
}

/// Uses `us` microseconds of CPU time in the calling thread.
pub(crate) fn burn_us(us: u64) {
    let cpu_time =
        || clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::MAX, Duration::from);
    if us == 0 {
        return;
    }
    let end = cpu_time().saturating_add(Duration::from_micros(us));
    while cpu_time() < end {}
}

/// Waits until stdin is closed.
pub(crate) fn wait_for_end() {
    let mut rest = Vec::new();
    // Any end of stdin is the end.
    let _ = io::stdin().lock().read_to_end(&mut rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burnt_time_is_cpu_time() {
        let before = ThreadCpu::read_own().unwrap();
        burn_us(20_000);
        let after = ThreadCpu::read_own().unwrap();
        assert!(after.cpu_ns - before.cpu_ns >= 20_000_000, "{after:?}");
    }

    #[test]
    fn pinned_thread_stays_on_its_cpu() {
        let last = *allowed_cpus().unwrap().last().unwrap();
        let pinned = std::thread::spawn(move || pin_thread(last).and_then(|()| allowed_cpus()));
        assert_eq!(pinned.join().unwrap().unwrap(), [last]);
    }
}
