//! Where page faults end: perf counts those that are done (`mm_account_fault()` in mm/memory.c), one event on each
//! CPU for those without input and output, and one for those with.

use std::io;
use std::os::fd::OwnedFd;

use crate::cpu_clocks::online_cpus;
use crate::perf_event;

/// `PERF_COUNT_SW_PAGE_FAULTS_MIN` and `PERF_COUNT_SW_PAGE_FAULTS_MAJ` (include/uapi/linux/perf_event.h).
const DONE: [u64; 2] = [5, 6];

/// Opens the events of all online CPUs; each event runs its program every time.
pub(super) fn open_ends() -> io::Result<Vec<OwnedFd>> {
    let cpus = online_cpus()?;
    let both = cpus
        .iter()
        .flat_map(|cpu| DONE.map(|counted| (*cpu, counted)));
    both.map(|(cpu, counted)| open_end(cpu, counted)).collect()
}

/// Opens a software event of this kind on a CPU; the event fires each time.
fn open_end(cpu: i32, counted: u64) -> io::Result<OwnedFd> {
    let attr = perf_event::Attr {
        kind: perf_event::SOFTWARE,
        config: counted,
        // without the flag for a frequency, a period
        sample_freq: 1,
        ..perf_event::Attr::default()
    };
    let every_process = -1;
    perf_event::open(&attr, every_process, cpu)
}
