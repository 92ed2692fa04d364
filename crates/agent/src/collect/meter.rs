//! The cost of the agent itself, and its losses. In: counters of the process and of the BPF programs. Out:
//! that part of a row of `fleet_coverage`.

use probe::hooks::{Hooks, HooksError, ProbeCounts};
use probe::self_cost::{BpfCost, BpfTimeSampler, Statistics, Usage};

use super::rows::{to_i64, us};

/// Counters since the agent began, as of some moment.
#[derive(Debug, Clone, Default)]
struct Reading {
    cpu_ns: u64,
    bpf: BpfCost,
    counts: ProbeCounts,
}

/// One interval's cost.
#[derive(Debug, Clone, Default)]
pub(super) struct IntervalCost {
    pub(super) cpu_us: i64,
    pub(super) bpf_us: Option<i64>,
    pub(super) rss_bytes: i64,
    pub(super) lost: i64,
    pub(super) polls: i64,
    /// Sockets that the last walk read or found unchanged, and those that rested.
    pub(super) polled: i64,
    pub(super) poll_interval_us: i64,
    pub(super) poll_gap_us: i64,
}

/// Reads the counters, and keeps what they were.
pub(super) struct Meter {
    bpf_time: Option<BpfTimeSampler>,
    before: Reading,
    /// For the rates: CPU time and when it was read.
    decided: (u64, u64),
    undecoded: u64,
    walks: Walks,
}

/// Walks of the present interval.
#[derive(Debug, Clone, Copy, Default)]
struct Walks {
    number: u64,
    visited: u64,
    read: u64,
    last_read: u64,
    /// Sum of the times between them, and the longest.
    between_ns: u64,
    gap_ns: u64,
    last_ns: u64,
}

impl Meter {
    /// Begins to measure the agent's own cost.
    pub(super) fn begin(
        hooks: &Hooks<'_>,
        statistics: Option<Statistics>,
        now_ns: u64,
    ) -> Result<Self, HooksError> {
        let bpf_time = hooks.run_time(now_ns, []);
        let mut meter = Self {
            // Without it the cost of the programs is not known; that is no reason not to watch.
            bpf_time: bpf_time.ok().map(|it| it.with_statistics(statistics)),
            before: Reading::default(),
            decided: (0, now_ns),
            undecoded: 0,
            walks: Walks::default(),
        };
        meter.before = meter.read(hooks)?;
        meter.decided.0 = meter.before.cpu_ns;
        Ok(meter)
    }

    /// Returns when [`tick`](Self::tick) has something to do.
    pub(super) fn next_ns(&self) -> Option<u64> {
        self.bpf_time.as_ref().map(BpfTimeSampler::next_ns)
    }

    /// Opens or closes the measurement of BPF run time, if it is time.
    pub(super) fn tick(&mut self, now_ns: u64) {
        if let Some(bpf_time) = &mut self.bpf_time {
            // An error leaves the window closed until its next turn.
            let _ = bpf_time.tick(now_ns);
        }
    }

    /// Counts records that the agent could not decode.
    pub(super) fn note_undecoded(&mut self, records: u64) {
        self.undecoded += records;
    }

    /// Notes a walk: how many sockets it visited, and how many of these it read or found unchanged.
    pub(super) fn note_walk(&mut self, begin_ns: u64, visited: u64, read: u64) {
        let walks = &mut self.walks;
        if walks.last_ns > 0 {
            let between_ns = begin_ns.saturating_sub(walks.last_ns);
            walks.number += 1;
            walks.between_ns += between_ns;
            walks.gap_ns = walks.gap_ns.max(between_ns);
        }
        walks.last_ns = begin_ns;
        walks.visited += visited;
        walks.read += read;
        walks.last_read = read;
    }

    /// Adds the time that a reading covered.
    pub(super) fn reading(&mut self, length_ns: u64) {
        self.walks.gap_ns = self.walks.gap_ns.max(length_ns);
    }

    /// Returns the share of one CPU that was used since the last call.
    pub(super) fn cpu_share(&mut self, now_ns: u64) -> f64 {
        let cpu_ns = Usage::read().map_or(self.decided.0, |usage| usage.cpu_ns);
        let (before_ns, since_ns) = std::mem::replace(&mut self.decided, (cpu_ns, now_ns));
        let wall_ns = now_ns.saturating_sub(since_ns).max(1);
        cpu_ns.saturating_sub(before_ns) as f64 / wall_ns as f64
    }

    /// Returns the cost of the interval that ends now, and the records that the kernel lost in it.
    pub(super) fn interval(
        &mut self,
        hooks: &Hooks<'_>,
        length_ns: u64,
    ) -> Result<IntervalCost, HooksError> {
        let now = self.read(hooks)?;
        let before = std::mem::replace(&mut self.before, now);
        let now = &self.before;
        let last_ns = self.walks.last_ns;
        let walks = std::mem::replace(
            &mut self.walks,
            Walks {
                last_ns,
                ..Walks::default()
            },
        );
        let undecoded = std::mem::take(&mut self.undecoded);
        let lost = now.counts.lost_to_watch() - before.counts.lost_to_watch() + undecoded;
        Ok(IntervalCost {
            cpu_us: us(now.cpu_ns.saturating_sub(before.cpu_ns)),
            bpf_us: bpf_share(&before.bpf, &now.bpf)
                .map(|share| us((share * length_ns as f64) as u64)),
            rss_bytes: Usage::read().map_or(0, |usage| to_i64(usage.rss_bytes)),
            lost: to_i64(lost),
            polls: to_i64(walks.read),
            polled: to_i64(walks.last_read),
            poll_interval_us: us(walks.mean_ns().unwrap_or(length_ns)),
            poll_gap_us: us(walks.gap_ns),
        })
    }

    /// Reads CPU time, BPF run time and counts of records.
    fn read(&self, hooks: &Hooks<'_>) -> Result<Reading, HooksError> {
        Ok(Reading {
            cpu_ns: Usage::read().map_or(self.before.cpu_ns, |usage| usage.cpu_ns),
            bpf: self
                .bpf_time
                .as_ref()
                .map(BpfTimeSampler::cost)
                .unwrap_or_default(),
            counts: hooks.counts()?,
        })
    }
}

impl Walks {
    /// Returns the mean time between two readings of a connection, ns; `None` without walks.
    fn mean_ns(&self) -> Option<u64> {
        let between_ns = self.between_ns.checked_div(self.number)?;
        let times = u128::from(self.visited.max(1));
        let mean_ns =
            u128::from(between_ns) * times / u128::from(self.read.clamp(1, self.visited.max(1)));
        u64::try_from(mean_ns).ok()
    }
}

/// Returns the share of one CPU that the BPF programs used between two readings.
fn bpf_share(before: &BpfCost, now: &BpfCost) -> Option<f64> {
    let within = BpfCost {
        sampled_ns: now.sampled_ns - before.sampled_ns,
        run_time_ns: now.run_time_ns - before.run_time_ns,
        ..*now
    };
    within.cpu_share().or_else(|| now.cpu_share())
}
