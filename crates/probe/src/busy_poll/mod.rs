//! `spins`: threads that ask what is ready without waiting for it. A clock on every CPU (`cpu_clocks.rs`) runs a BPF
//! program (`busy_poll.bpf.h`); here are the list of calls that can be asked not to wait, and its records as rows of table
//! `spins`.

use table::manifest::Coverage;
use table::tables::Spin;
use table::{Columns, TableId};

use crate::cpu_clocks::{SAMPLE_NS, coverage_without_threads};
use crate::interface::features::Levels;
use crate::interface::{
    Detail, HooksError, KernelCounts, Probe, ProbeCount, ProbeOutput, Source, Support,
};
use crate::stacks::SampledAddress;
use crate::wire::types::{record_kind, spin_seen, syscall_timeout};
use crate::wire::{Wire, read};

// SAFETY: `spin_seen` is `repr(C)` and made of integers.
unsafe impl Wire for spin_seen {}

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

    fn needs_bpf(&self) -> bool {
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

/// Adds the row of one record; None if the record is too short.
fn decode(output: &mut ProbeOutput, body: &[u8]) -> Option<()> {
    let seen: spin_seen = read(body)?;
    output.rows.spins.push(make_row(&seen)?);
    output.spun.push(SampledAddress {
        callers: seen.stack,
        address: seen.ip,
    });
    Some(())
}

/// Makes the row of a record; `None` if an enum's value is unknown.
fn make_row(seen: &spin_seen) -> Option<Spin> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_system_call_has_a_place_in_the_table() {
        let mut table = [0; 512];
        name_timeouts(&mut table);
        let named: usize = TIMEOUTS.iter().map(|(_, numbers)| numbers.len()).sum();
        assert_eq!(table.iter().filter(|at| **at != 0).count(), named);
    }
}
