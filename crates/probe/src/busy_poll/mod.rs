//! `spins`: threads that ask what is ready without waiting for it. A clock on every CPU runs a BPF
//! program (`busy_poll.bpf.h`); here are the clocks, the list of calls that can be asked not to
//! wait, and its records as rows of table `spins`.

use std::io;
use std::os::fd::OwnedFd;

use table::manifest::{Coverage, ProbeState};
use table::tables::Spin;
use table::{Columns, TableId};

use crate::hooks::features::{Levels, SCHED_SWITCH};
use crate::hooks::{Detail, HooksError, KernelCounts, ProbeCount, ProbeOutput, on};
use crate::on_cpu_samples::OnCpuSamples;
use crate::perf_event;
use crate::registry::{Probe, Source, Support};
use crate::stacks::SampledAddress;
use crate::wire::types::{record_kind, spin_seen, syscall_timeout};
use crate::wire::{Wire, read};

// SAFETY: `spin_seen` is `repr(C)` and made of integers.
unsafe impl Wire for spin_seen {}

/// Looks at each CPU in a second: not a divisor of what programs and kernels do at round rates.
const LOOKS_PER_S: u64 = 99;

/// Time between two samples of a CPU.
pub(crate) const SAMPLE_NS: u64 = 1_000_000_000 / LOOKS_PER_S;

/// System calls that ask what is ready, by where they get the time to wait.
const TIMEOUTS: &[(syscall_timeout, &[libc::c_long])] = &[
    #[cfg(target_arch = "x86_64")]
    (syscall_timeout::TIMEOUT_MS_THIRD, &[libc::SYS_poll]),
    (
        syscall_timeout::TIMEOUT_MS_FOURTH,
        &[
            #[cfg(target_arch = "x86_64")]
            libc::SYS_epoll_wait,
            libc::SYS_epoll_pwait,
        ],
    ),
    (syscall_timeout::TIMEOUT_AT_THIRD, &[libc::SYS_ppoll]),
    (
        syscall_timeout::TIMEOUT_AT_FOURTH,
        &[libc::SYS_epoll_pwait2],
    ),
    (
        syscall_timeout::TIMEOUT_AT_FIFTH,
        &[
            #[cfg(target_arch = "x86_64")]
            libc::SYS_select,
            libc::SYS_pselect6,
        ],
    ),
];

/// Writes into the kernel side's table, by number, where each system call gets the time to wait.
pub(crate) fn name_timeouts(table: &mut [u8]) {
    for (timeout, numbers) in TIMEOUTS {
        for number in *numbers {
            let place = usize::try_from(*number).ok();
            if let Some(place) = place.and_then(|at| table.get_mut(at)) {
                *place = timeout.0 as u8;
            }
        }
    }
}

/// The probe of threads that ask what is ready without waiting for it.
pub(crate) struct BusyPolls;

impl Probe for BusyPolls {
    fn name(&self) -> &'static str {
        "spins"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::Spin)
    }

    fn detail(&self) -> Detail {
        Detail::Waits
    }

    fn is_on(&self, levels: Levels) -> bool {
        levels.waits
    }

    fn is_missed(&self) -> bool {
        true
    }

    fn source(&self) -> Source {
        Source::Records(&[(record_kind::RECORD_SPIN_SEEN, decode)])
    }

    fn count(&self, kernel: &KernelCounts<'_>) -> Result<ProbeCount, HooksError> {
        kernel.records(record_kind::RECORD_SPIN_SEEN)
    }

    fn coverage(&self, support: &Support<'_>) -> Vec<Coverage> {
        coverage_without_threads(self.name(), support)
    }
}

fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    let seen: spin_seen = read(body)?;
    output.rows.spins.push(row(&seen)?);
    output.spun.push(SampledAddress {
        callers: seen.stack,
        address: seen.ip,
    });
    Some(())
}

/// Returns why a probe is off that needs the clocks, if threads cannot be watched: the clocks are not opened then.
pub(crate) fn coverage_without_threads(probe: &str, support: &Support<'_>) -> Vec<Coverage> {
    let missing = support.features.unless_on(probe, &[SCHED_SWITCH]);
    missing.into_iter().collect()
}

/// Returns how the probes work that need the clocks, once these are opened, or why they could not be.
pub(crate) fn coverage(refused: Option<&io::Error>) -> [Coverage; 2] {
    [BusyPolls.name(), OnCpuSamples.name()].map(|probe| clock_coverage(probe, refused))
}

fn clock_coverage(probe: &str, refused: Option<&io::Error>) -> Coverage {
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

/// The row of a record.
fn row(seen: &spin_seen) -> Option<Spin> {
    let spin_seen {
        time_ns,
        ip: _,
        cookie,
        object,
        fd,
        syscall,
        tid,
        pid,
        stack,
        cpu,
        kind,
        pad: _,
    } = *seen;
    Some(Spin {
        time_ns,
        length_ns: SAMPLE_NS,
        tid,
        pid,
        kind: crate::waits::kind(kind)?,
        object: (object != 0).then_some(object),
        conn: (cookie != 0).then_some(cookie),
        fd: (fd >= 0).then_some(fd),
        syscall,
        stack: (stack != 0).then_some(stack),
        cpu,
    })
}

/// A clock on every CPU that is on; they do not run yet.
pub(crate) fn open_clocks() -> io::Result<Vec<OwnedFd>> {
    online_cpus()?.into_iter().map(open_clock).collect()
}

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

/// Numbers of the CPUs that are on.
pub(crate) fn online_cpus() -> io::Result<Vec<i32>> {
    let list = std::fs::read_to_string("/sys/devices/system/cpu/online")?;
    parse_list(list.trim()).ok_or_else(|| io::Error::other(format!("no list of CPUs: {list}")))
}

/// Numbers of a list such as `0-3,6`.
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

    #[test]
    fn every_system_call_has_a_place_in_the_table() {
        let mut table = [0; 512];
        name_timeouts(&mut table);
        let named: usize = TIMEOUTS.iter().map(|(_, numbers)| numbers.len()).sum();
        assert_eq!(table.iter().filter(|at| **at != 0).count(), named);
    }
}
