//! Reads the CPU use of the processes that own recorded sockets, and of the CPUs.

use std::collections::HashMap;

use probe::clock::{monotonic_ns, thread_cpu_ns};
use probe::cpu::{Cpus, Threads};
use table::Columns;
use table::manifest::Coverage;
use table::tables::{CpuSamples, ProcessSamples};

use crate::collector::WalkShare;

/// The processes that are read.
#[derive(Default)]
pub(crate) struct CpuUse {
    processes: HashMap<u32, Threads>,
    cpus: Cpus,
    next_ns: u64,
}

impl CpuUse {
    /// Returns the coverage of CPU times on this host.
    pub(crate) fn coverage(&self) -> Coverage {
        self.cpus.coverage()
    }

    /// Reads a process, now and from now on.
    pub(crate) fn watch(&mut self, pid: u32, rows: &mut ProcessSamples) {
        if !self.processes.contains_key(&pid) {
            self.read(pid, Threads::default(), rows);
        }
    }

    /// Reads all CPU times, unless the last reading was too recent for its cost. Calls `between`
    /// after each reading.
    pub(crate) fn read_if_due(
        &mut self,
        share: WalkShare,
        between: impl Fn(),
        processes: &mut ProcessSamples,
        cpus: &mut CpuSamples,
    ) {
        let now_ns = monotonic_ns();
        if now_ns < self.next_ns {
            return;
        }
        let before_ns = thread_cpu_ns();
        self.read_all(between, processes, cpus);
        let took_ns = thread_cpu_ns().saturating_sub(before_ns);
        self.next_ns = monotonic_ns().saturating_add(share.pause_ns(took_ns));
    }

    /// Reads the CPU times of all processes and CPUs.
    pub(crate) fn read_all(
        &mut self,
        between: impl Fn(),
        processes: &mut ProcessSamples,
        cpus: &mut CpuSamples,
    ) {
        for (pid, threads) in std::mem::take(&mut self.processes) {
            self.read(pid, threads, processes);
            between();
        }
        for row in self.cpus.read() {
            cpus.push(row);
        }
    }

    /// Adds the row of a process and its threads; forgets a process that is gone.
    fn read(&mut self, pid: u32, mut threads: Threads, rows: &mut ProcessSamples) {
        if let Some(row) = threads.read(pid) {
            rows.push(row);
            self.processes.insert(pid, threads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_follows_that_bounds_the_cost() {
        let (mut processes, mut cpus) = <(ProcessSamples, CpuSamples)>::default();
        let mut using = CpuUse::default();
        using.watch(std::process::id(), &mut processes);
        assert_eq!(processes.len(), 1);
        let seldom = WalkShare {
            pause_factor: u64::MAX / 2,
        };
        using.read_if_due(seldom, || (), &mut processes, &mut cpus);
        assert_eq!(processes.len(), 2);
        using.read_if_due(seldom, || (), &mut processes, &mut cpus);
        assert_eq!(processes.len(), 2);
        using.read_all(|| (), &mut processes, &mut cpus);
        assert_eq!(processes.len(), 3);
    }
}
