//! The cost of whylat itself, from its beginning on.

use probe::self_cost::{BpfTimeSampler, Usage};
use table::manifest::Cost;

/// Measures what whylat uses.
pub(crate) struct OverheadMeter {
    started_ns: u64,
    /// CPU time that was used before that: to set up.
    start_cpu_ns: u64,
    /// `None`: there are no BPF programs, or the kernel does not count their time.
    bpf_time: Option<BpfTimeSampler>,
}

impl OverheadMeter {
    /// Begins to measure the recorder's own CPU time.
    pub(crate) fn begin(started_ns: u64) -> Self {
        Self {
            started_ns,
            start_cpu_ns: Usage::read().map_or(0, |usage| usage.cpu_ns),
            bpf_time: None,
        }
    }

    /// Adds the meter of these programs.
    pub(crate) fn with_programs(self, bpf_time: Option<BpfTimeSampler>) -> Self {
        Self { bpf_time, ..self }
    }

    /// Samples the run time of BPF programs, if that is due.
    pub(crate) fn tick(&mut self, now_ns: u64) {
        if let Some(bpf_time) = &mut self.bpf_time {
            // Without the run time the cost says so; that is no reason to stop.
            let _ = bpf_time.tick(now_ns);
        }
    }

    /// Returns the cost so far; `None`: the host does not count it.
    pub(crate) fn cost(&self, now_ns: u64) -> Option<Cost> {
        let usage = Usage::read().ok()?;
        let bpf = self.bpf_time.as_ref().map(BpfTimeSampler::cost);
        let bpf = bpf.unwrap_or_default();
        Some(Cost {
            wall_ns: now_ns.saturating_sub(self.started_ns),
            cpu_ns: usage.cpu_ns.saturating_sub(self.start_cpu_ns),
            start_cpu_ns: self.start_cpu_ns,
            max_rss_bytes: usage.max_rss_bytes,
            bpf_cpu_share: bpf.cpu_share(),
            bpf_sampled_ns: bpf.sampled_ns,
        })
    }
}
