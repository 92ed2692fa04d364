//! Describes what the CPUs did: `/proc/stat`, and the CPU time of each `ksoftirqd`.

use std::collections::HashMap;

use table::manifest::{Coverage, ProbeState};
use table::tables::CpuSample;

use super::Schedstat;
use crate::clock::monotonic_ns;
use crate::processes::{USER_TICK_NS, all_pids};

/// The CPUs of this host.
#[derive(Debug)]
pub struct Cpus {
    /// Pid of `ksoftirqd/N`, by N.
    ksoftirqd: HashMap<u16, u32>,
}

impl Default for Cpus {
    fn default() -> Self {
        Self::new()
    }
}

impl Cpus {
    /// Finds the ksoftirqd thread of each CPU.
    pub fn new() -> Self {
        let cpu_of = |pid: &u32| {
            let comm = std::fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
            comm.trim_end().strip_prefix("ksoftirqd/")?.parse().ok()
        };
        // a name can be had by anybody, a kernel thread has no arguments
        let kernel_thread = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline"));
            words.is_ok_and(|words| words.is_empty())
        };
        let threads = all_pids().into_iter().filter(kernel_thread);
        Self {
            ksoftirqd: threads
                .filter_map(|pid| Some((cpu_of(&pid)?, pid)))
                .collect(),
        }
    }

    /// Returns whether CPU times and run-queue delays can be read here.
    pub fn coverage(&self) -> Coverage {
        let state = if Schedstat::read("/proc/thread-self/schedstat").is_none() {
            ProbeState::Off {
                why: "the kernel does not count how long threads wait for a CPU".to_owned(),
                remedy: "use a kernel with CONFIG_SCHED_INFO".to_owned(),
            }
        } else if self.ksoftirqd.is_empty() {
            ProbeState::Fallback {
                which: "no time of ksoftirqd".to_owned(),
                why: "kernel threads are hidden here, as in a container".to_owned(),
            }
        } else {
            ProbeState::On
        };
        Coverage {
            probe: "cpu".to_owned(),
            state,
        }
    }

    /// Reads all CPUs that are online; none when `/proc/stat` is not readable.
    pub fn read(&self) -> Vec<CpuSample> {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        let time_ns = monotonic_ns();
        let rows = stat.lines().filter_map(|line| parse(line, time_ns));
        rows.map(|row| CpuSample {
            ksoftirqd_ns: self.ksoftirqd_ns(row.cpu),
            ..row
        })
        .collect()
    }

    /// Returns the CPU time of a CPU's ksoftirqd thread, in nanoseconds; None if unknown.
    fn ksoftirqd_ns(&self, cpu: u16) -> Option<u64> {
        let pid = self.ksoftirqd.get(&cpu)?;
        Schedstat::read(&format!("/proc/{pid}/schedstat")).map(|stat| stat.cpu_ns)
    }
}

/// Reads a line of `/proc/stat`: `cpuN user nice system idle iowait irq softirq steal …`.
fn parse(line: &str, time_ns: u64) -> Option<CpuSample> {
    let mut fields = line.split_ascii_whitespace();
    // without a number it is the sum of all
    let cpu = fields.next()?.strip_prefix("cpu")?.parse().ok()?;
    let ticks: Vec<u64> = fields.filter_map(|field| field.parse().ok()).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    Some(CpuSample {
        cpu,
        time_ns,
        busy_ns: (user + nice + system) * USER_TICK_NS,
        irq_ns: irq * USER_TICK_NS,
        softirq_ns: softirq * USER_TICK_NS,
        steal_ns: steal * USER_TICK_NS,
        idle_ns: (idle + iowait) * USER_TICK_NS,
        ksoftirqd_ns: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_line_of_proc_stat_is_parsed() {
        let row = parse("cpu3 1 2 3 40 5 6 7 8 0 0", 9).unwrap();
        assert_eq!(
            (row.cpu, row.time_ns, row.busy_ns),
            (3, 9, 6 * USER_TICK_NS)
        );
        assert_eq!(
            (row.irq_ns, row.softirq_ns),
            (6 * USER_TICK_NS, 7 * USER_TICK_NS)
        );
        assert_eq!(
            (row.steal_ns, row.idle_ns),
            (8 * USER_TICK_NS, 45 * USER_TICK_NS)
        );
    }

    #[test]
    fn total_line_is_no_cpu() {
        assert_eq!(parse("cpu  1 2 3 40 5 6 7 8 0 0", 9), None);
        assert_eq!(parse("intr 5 6", 9), None);
        assert_eq!(parse("cpu0 1 2 3", 9), None);
    }

    #[test]
    fn this_host_has_cpus() {
        let rows = Cpus::new().read();
        assert!(!rows.is_empty());
        assert!(rows.iter().all(|row| row.idle_ns + row.busy_ns > 0));
    }
}
