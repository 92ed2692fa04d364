//! Readings of who used the CPUs and who waited for one, by process and by CPU. Between two
//! readings a counter is taken to have grown evenly.

use std::collections::HashMap;

use table::tables::{CpuSample, Preemption, ProcessSample};

use crate::kernel::WAKE_NS;

/// Counters over time, in its order.
#[derive(Debug)]
struct CounterSeries<const N: usize>(Vec<(u64, [u64; N])>);

impl<const N: usize> Default for CounterSeries<N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<const N: usize> CounterSeries<N> {
    /// The part of an interval that readings cover.
    fn covered_part(&self, from_ns: u64, to_ns: u64) -> Option<(u64, u64)> {
        let (first, last) = (self.0.first()?.0, self.0.last()?.0);
        let (from_ns, to_ns) = (from_ns.max(first), to_ns.min(last));
        (from_ns < to_ns).then_some((from_ns, to_ns))
    }

    /// Returns how much the counters grew in the covered part of an interval.
    fn counter_growth(&self, from_ns: u64, to_ns: u64) -> Option<[u64; N]> {
        let (from_ns, to_ns) = self.covered_part(from_ns, to_ns)?;
        let (start, end) = (self.value_at(from_ns)?, self.value_at(to_ns)?);
        Some(std::array::from_fn(|index| {
            end[index].saturating_sub(start[index])
        }))
    }

    /// Returns the counters at a time, interpolated; None after the last reading.
    fn value_at(&self, time_ns: u64) -> Option<[u64; N]> {
        let after = self.0.partition_point(|(at_ns, _)| *at_ns < time_ns);
        let (later_ns, later) = self.0.get(after)?;
        let Some((earlier_ns, earlier)) = self.0[..after].last() else {
            return Some(*later);
        };
        let part = (time_ns - earlier_ns) as f64 / (later_ns - earlier_ns).max(1) as f64;
        Some(std::array::from_fn(|index| {
            let growth = later[index].saturating_sub(earlier[index]);
            earlier[index] + (growth as f64 * part) as u64
        }))
    }

    /// Returns the time of the last reading before `time_ns`; `None` if there is none.
    fn reading_before(&self, time_ns: u64) -> Option<u64> {
        let after = self.0.partition_point(|(at_ns, _)| *at_ns < time_ns);
        Some(self.0[..after].last()?.0)
    }
}

/// Readings of one process.
#[derive(Debug, Default)]
struct ProcessSeries {
    last: Option<ProcessSample>,
    /// Waited by a thread, CPU time of all threads, threads that ran times time.
    sums: CounterSeries<3>,
}

/// CPU use of a process in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// The readings cover so much of it, ns.
    pub covered_ns: u64,
    /// In so much of that bytes moved, ns.
    pub moved_ns: u64,
    /// A thread that ran waited so long for a CPU beyond what wake-ups take, on average, ns: at
    /// most as long as it waited.
    pub waited_ns: u64,
    /// CPU time of all threads, ns.
    pub cpu_ns: u64,
    /// Number of threads that ran, times time, ns.
    pub threads_ns: u64,
    /// Of all threads, the time in which the CPU quota of their group stopped them, ns.
    pub quota_ns: u64,
}

/// Use of a CPU in an interval.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CpuUse {
    /// The readings cover so much of it, ns.
    pub covered_ns: u64,
    /// In threads, interrupts and softirqs, ns.
    pub used_ns: u64,
    /// In softirqs, ns.
    pub softirq_ns: u64,
    /// Taken by the hypervisor, ns.
    pub steal_ns: u64,
    /// CPU time of `ksoftirqd`, where it could be read, ns.
    pub ksoftirqd_ns: Option<u64>,
}

/// All readings.
#[derive(Debug, Default)]
pub struct CpuTimes {
    processes: HashMap<u32, ProcessSeries>,
    cpus: HashMap<u16, (CounterSeries<3>, CounterSeries<1>)>,
    /// Times in which a CPU quota stopped a thread, by process: end and length.
    quota: HashMap<u32, Vec<(u64, u64)>>,
}

impl ProcessSeries {
    /// Adds the growth since the last sample: run-queue delay, CPU time, time of running threads.
    fn add(&mut self, sample: &ProcessSample) {
        let Some(last) = &self.last else {
            self.last = Some(sample.clone());
            self.sums.0.push((sample.time_ns, [0; 3]));
            return;
        };
        if sample.time_ns <= last.time_ns {
            return;
        }
        let length_ns = sample.time_ns - last.time_ns;
        let threads = u64::from(sample.threads_ran);
        // A pid that is used again begins again; what passed in between is not known.
        let grown = |of: fn(&ProcessSample) -> u64| of(sample).saturating_sub(of(last));
        let wakes_ns = grown(|of| of.runs).saturating_mul(WAKE_NS);
        let waited_ns = grown(|of| of.runq_ns).saturating_sub(wakes_ns) / threads.max(1);
        let growth = [waited_ns, grown(|of| of.cpu_ns), threads * length_ns];
        let mut sums = self.sums.0.last().map_or([0; 3], |(_, sums)| *sums);
        sums.iter_mut()
            .zip(growth)
            .for_each(|(sum, more)| *sum += more);
        self.sums.0.push((sample.time_ns, sums));
        self.last = Some(sample.clone());
    }
}

impl CpuTimes {
    /// Adds a reading of a process.
    pub fn add_process(&mut self, sample: &ProcessSample) {
        self.processes.entry(sample.pid).or_default().add(sample);
    }

    /// Adds a time in which a thread could run and did not.
    pub fn add_preemption(&mut self, row: &Preemption) {
        if row.quota_used_up == Some(true) {
            let stops = self.quota.entry(row.pid).or_default();
            stops.push((row.end_ns, row.off_cpu_ns));
        }
    }

    /// Adds a reading of a CPU.
    pub fn add_cpu(&mut self, sample: &CpuSample) {
        let (ticks, ksoftirqd) = self.cpus.entry(sample.cpu).or_default();
        if ticks.0.last().is_some_and(|(at, _)| *at >= sample.time_ns) {
            return;
        }
        let used_ns = sample.busy_ns + sample.irq_ns + sample.softirq_ns;
        let times = [used_ns, sample.softirq_ns, sample.steal_ns];
        ticks.0.push((sample.time_ns, times));
        if let Some(ns) = sample.ksoftirqd_ns {
            ksoftirqd.0.push((sample.time_ns, [ns]));
        }
    }

    /// Returns the CPU use of a process in those parts of an interval in which bytes moved on a connection of
    /// its. A part that began long before goes back no further than the last reading.
    pub fn process(&self, pid: u32, life: (u64, u64), moved: &[(u64, u64)]) -> Option<ProcessUse> {
        let sums = &self.processes.get(&pid)?.sums;
        let (from_ns, to_ns) = sums.covered_part(life.0, life.1)?;
        let mut used = ProcessUse {
            covered_ns: to_ns - from_ns,
            quota_ns: self.quota_ns(pid, (from_ns, to_ns)),
            ..ProcessUse::default()
        };
        for (since_ns, until_ns) in moved {
            let since_ns = (*since_ns)
                .max(from_ns)
                .max(sums.reading_before(*until_ns).unwrap_or(0));
            let until_ns = (*until_ns).min(to_ns);
            if let Some([waited, cpu, threads]) = sums.counter_growth(since_ns, until_ns) {
                used.moved_ns += until_ns - since_ns;
                used.waited_ns += waited;
                used.cpu_ns += cpu;
                used.threads_ns += threads;
            }
        }
        Some(used)
    }

    /// Returns how long a CPU quota stopped the process, in this interval.
    fn quota_ns(&self, pid: u32, (from_ns, to_ns): (u64, u64)) -> u64 {
        let stops = self.quota.get(&pid).into_iter().flatten();
        let within = stops.filter(|(end_ns, _)| (from_ns..=to_ns).contains(end_ns));
        within.map(|(_, ns)| ns).sum()
    }

    /// Returns from when to when a process was read, ns.
    pub fn reading_period(&self, pid: u32) -> Option<(u64, u64)> {
        let readings = &self.processes.get(&pid)?.sums.0;
        Some((readings.first()?.0, readings.last()?.0))
    }

    /// Returns the use of a CPU in an interval.
    pub fn cpu(&self, cpu: u16, life: (u64, u64)) -> Option<CpuUse> {
        let (ticks, ksoftirqd) = self.cpus.get(&cpu)?;
        let (from_ns, to_ns) = ticks.covered_part(life.0, life.1)?;
        let [used_ns, softirq_ns, steal_ns] = ticks.counter_growth(from_ns, to_ns)?;
        Some(CpuUse {
            covered_ns: to_ns - from_ns,
            used_ns,
            softirq_ns,
            steal_ns,
            ksoftirqd_ns: ksoftirqd.counter_growth(from_ns, to_ns).map(|[ns]| ns),
        })
    }

    /// Returns the CPUs with readings.
    pub fn cpu_numbers(&self) -> impl Iterator<Item = u16> + '_ {
        self.cpus.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Makes a sample of a process that has waited this long for a CPU.
    fn process(time_ms: u64, runq_ms: u64, runs: u64, threads_ran: u32) -> ProcessSample {
        ProcessSample {
            pid: 7,
            time_ns: time_ms * MS,
            cpu_ns: runq_ms * MS,
            runq_ns: runq_ms * MS,
            runs,
            threads: 9,
            threads_ran,
        }
    }

    fn times(samples: &[ProcessSample]) -> CpuTimes {
        let mut times = CpuTimes::default();
        samples.iter().for_each(|sample| times.add_process(sample));
        times
    }

    #[test]
    fn run_queue_delay_excludes_wake_ups() {
        let times = times(&[
            process(1_000, 300, 10, 9),
            process(2_000, 800, 1_010, 1),
            process(3_000, 1_700, 3_010, 4),
        ]);
        let waited = |life: (u64, u64)| {
            let life = (life.0 * MS, life.1 * MS);
            let moved = [(0, 2_000 * MS), (0, 3_000 * MS)];
            let used = times.process(7, life, &moved);
            used.map(|used| (used.waited_ns / MS, used.covered_ns / MS))
        };
        // 500 ms less 1,000 wake-ups; 900 ms less 2,000, by four threads
        assert_eq!(waited((0, 2_000)), Some((450, 1_000)));
        assert_eq!(waited((0, 9_000)), Some((450 + 200, 2_000)));
        assert_eq!(waited((1_500, 2_500)), Some((225 + 100, 1_000)));
        assert_eq!(waited((3_000, 4_000)), None);
        assert_eq!(times.process(8, (0, u64::MAX), &[]), None);
    }

    #[test]
    fn an_idle_connection_waits_for_no_thread() {
        let rows = [0, 1_000, 2_000, 3_000].map(|ms| process(ms, ms / 2, 1, 1));
        let times = times(&rows);
        let waited = |moved: &[(u64, u64)]| {
            let moved: Vec<_> = moved.iter().map(|(a, b)| (a * MS, b * MS)).collect();
            let used = times.process(7, (0, 3_000 * MS), &moved);
            used.map(|used| used.waited_ns / MS)
        };
        assert_eq!(waited(&[]), Some(0));
        // samples without change are not stored: only the time since the last reading counts
        assert_eq!(waited(&[(0, 2_999)]), Some(499));
        assert_eq!(waited(&[(0, 999), (999, 1_999)]), Some(999));
    }

    #[test]
    fn reused_pid_does_not_decrease_counters() {
        let times = times(&[
            process(1_000, 900, 10, 1),
            process(2_000, 100, 10, 1),
            process(3_000, 200, 10, 1),
        ]);
        let life = (0, 9_000 * MS);
        let used = times.process(7, life, &[(0, 1_500 * MS), (0, 2_500 * MS)]);
        assert_eq!(used.map(|used| used.waited_ns / MS), Some(50));
    }

    #[test]
    fn unreadable_process_is_absent() {
        let mut times = CpuTimes::default();
        for (second, ksoftirqd_ns) in [(1, None), (2, None), (3, None)] {
            times.add_cpu(&CpuSample {
                cpu: 1,
                time_ns: second * 1_000 * MS,
                busy_ns: second * 500 * MS,
                irq_ns: 0,
                softirq_ns: second * 100 * MS,
                steal_ns: second * 10 * MS,
                idle_ns: 0,
                ksoftirqd_ns,
            });
        }
        let used = times.cpu(1, (1_500 * MS, 2_500 * MS)).expect("readings");
        assert_eq!((used.used_ns / MS, used.softirq_ns / MS), (600, 100));
        assert_eq!((used.steal_ns / MS, used.ksoftirqd_ns), (10, None));
        assert_eq!(times.cpu(0, (0, u64::MAX)), None);
    }
}
