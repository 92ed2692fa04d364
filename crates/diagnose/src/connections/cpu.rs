//! The CPUs of one connection: how long its process waited for one, and what
//! those did on which its calls ended.

use crate::connections::gather::calls::CallDigest;
use crate::connections::gather::cpu::{CpuTimes, CpuUse, ProcessUse};
use crate::connections::gather::{ConnectionDigest, Evidence};
use crate::connections::stages::StageTimes;

/// The CPUs of one connection: waits of its process, and use of those where its calls ended.
#[derive(Debug, Default)]
pub struct CpuObservation {
    /// Its process in the time in which bytes moved; `None` without two readings in its life.
    pub process: Option<ProcessUse>,
    /// The CPUs where its calls ended, by how many ended there; `None` without such calls.
    pub home: Option<CpuUse>,
    /// The CPU on which most calls ended.
    pub home_cpu: Option<u16>,
    /// The most that any `ksoftirqd` worked in its life, ns.
    pub most_ksoftirqd_ns: u64,
}

/// Collects CPU readings that concern one connection: its process, its CPUs, quotas.
pub fn evidence(
    evidence: &Evidence,
    gathered: &ConnectionDigest,
    calls: Option<&CallDigest>,
    judged: &StageTimes,
) -> CpuObservation {
    let times = &evidence.cpu;
    let identity = gathered.identity.as_ref();
    let pid = identity.and_then(|identity| identity.pid);
    let life = judged_span(evidence, gathered, judged);
    let cpus = calls.map_or(&[][..], |calls| &calls.cpus);
    let worked = times
        .cpu_numbers()
        .filter_map(|cpu| times.cpu(cpu, life)?.ksoftirqd_ns);
    CpuObservation {
        process: pid.and_then(|pid| times.process(pid, life, &gathered.samples.moved)),
        home: mean_cpu_use(times, cpus, life),
        home_cpu: cpus
            .iter()
            .max_by_key(|(_, calls)| *calls)
            .map(|(cpu, _)| *cpu),
        most_ksoftirqd_ns: worked.max().unwrap_or(0),
    }
}

/// Returns begin and end of the time in which the connection is judged, ns.
fn judged_span(
    evidence: &Evidence,
    gathered: &ConnectionDigest,
    judged: &StageTimes,
) -> (u64, u64) {
    let closed_ns = gathered
        .identity
        .as_ref()
        .and_then(|identity| identity.closed_ns);
    let read_ns = judged.ledger.as_ref().map(|ledger| ledger.time_ns);
    let sampled_ns = gathered.samples.last.as_ref().map(|last| last.time_ns);
    let end_ns = closed_ns.max(read_ns).max(sampled_ns).unwrap_or(0);
    let end_ns = end_ns.min(evidence.span.1);
    (end_ns.saturating_sub(judged.life_ns), end_ns)
}

/// The mean of the CPUs on which calls ended, weighted by their number. A part that one of them
/// does not report, is not reported.
fn mean_cpu_use(times: &CpuTimes, cpus: &[(u16, u64)], life: (u64, u64)) -> Option<CpuUse> {
    let all: u64 = cpus.iter().map(|(_, calls)| calls).sum();
    let mut home = CpuUse {
        ksoftirqd_ns: Some(0),
        ..CpuUse::default()
    };
    for (cpu, calls) in cpus {
        let used = times.cpu(*cpu, life)?;
        let part = |ns: u64| (u128::from(ns) * u128::from(*calls) / u128::from(all)) as u64;
        home.covered_ns += part(used.covered_ns);
        home.used_ns += part(used.used_ns);
        home.softirq_ns += part(used.softirq_ns);
        home.steal_ns += part(used.steal_ns);
        let sum = |(sum, ns)| sum + part(ns);
        home.ksoftirqd_ns = home.ksoftirqd_ns.zip(used.ksoftirqd_ns).map(sum);
    }
    (home.covered_ns > 0).then_some(home)
}

impl ProcessUse {
    /// Returns how many threads ran, on average.
    pub fn threads(&self) -> Option<f64> {
        (self.threads_ns > 0).then(|| self.threads_ns as f64 / self.moved_ns as f64)
    }
}

impl CpuUse {
    /// Returns a time as a share of the time that the readings cover.
    pub fn share(&self, ns: u64) -> f64 {
        (ns as f64 / self.covered_ns.max(1) as f64).min(1.0)
    }

    /// Returns the share of time in which the CPU was not idle.
    pub fn used_share(&self) -> f64 {
        self.share(self.used_ns)
    }
}
