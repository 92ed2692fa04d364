//! Clocks that interrupt each CPU: they run the BPF program that samples what is running for `busy_poll` and
//! `on_cpu_samples`.

use std::io;
use std::os::fd::OwnedFd;

use table::manifest::{Coverage, ProbeState};

use crate::interface::features::SCHED_SWITCH;
use crate::interface::{Support, on};
use crate::perf_event;

/// Looks at each CPU in a second: not a divisor of what programs and kernels do at round rates.
const LOOKS_PER_S: u64 = 99;

/// Time between two samples of a CPU.
pub(crate) const SAMPLE_NS: u64 = 1_000_000_000 / LOOKS_PER_S;

/// Returns why a probe is off that needs the clocks, if threads cannot be watched: the clocks are not opened then.
pub(crate) fn coverage_without_threads(probe: &str, support: &Support<'_>) -> Vec<Coverage> {
    let missing = support.features.unless_on(probe, &[SCHED_SWITCH]);
    missing.into_iter().collect()
}

/// Returns how a probe works that needs the clocks, once these are opened, or why they could not be.
pub(crate) fn clock_coverage(probe: &str, refused: Option<&io::Error>) -> Coverage {
    let Some(error) = refused else {
        return on(probe);
    };
    Coverage {
        probe: probe.to_owned(),
        state: ProbeState::Off {
            why: format!("perf_event_open: {error}"),
            remedy: "allow performance events: CAP_PERFMON, CONFIG_PERF_EVENTS".to_owned(),
        },
    }
}

/// Opens a clock on every online CPU; the clocks do not run yet.
pub(crate) fn open_clocks() -> io::Result<Vec<OwnedFd>> {
    online_cpus()?.into_iter().map(open_clock).collect()
}

/// Opens an event that fires by a timer on this CPU.
fn open_clock(cpu: i32) -> io::Result<OwnedFd> {
    const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
    const DISABLED: u64 = 1;
    const FREQ: u64 = 1 << 10;
    let attr = perf_event::Attr {
        kind: perf_event::SOFTWARE,
        config: PERF_COUNT_SW_CPU_CLOCK,
        sample_freq: LOOKS_PER_S,
        flags: DISABLED | FREQ,
        ..perf_event::Attr::default()
    };
    let every_process = -1;
    perf_event::open(&attr, every_process, cpu)
}

/// Returns the numbers of online CPUs.
pub(crate) fn online_cpus() -> io::Result<Vec<i32>> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    parse_list(list.trim()).ok_or_else(|| io::Error::other(format!("no list of CPUs: {list}")))
}

/// Returns the numbers of a list such as `0-3,6`.
fn parse_list(list: &str) -> Option<Vec<i32>> {
    let mut numbers = Vec::new();
    for range in list.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (i32, i32) = (first.parse().ok()?, last.parse().ok()?);
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_read() {
        assert_eq!(parse_list("0-3,6"), Some(vec![0, 1, 2, 3, 6]));
        assert_eq!(parse_list("0"), Some(vec![0]));
        assert_eq!(parse_list(""), None);
        assert_eq!(parse_list("0-x"), None);
    }
}
