//! The intervals of polls and snapshots: as asked for, and longer where that would cost more than its share
//! of a CPU. In: CPU time that polls and snapshots took. Out: intervals.

/// Share of one CPU that polls may take: with snapshots and walks it stays below 3 %.
const POLLS_SHARE: f64 = 0.008;
/// Share of one CPU that snapshots may take: judging and handing over.
const SNAPSHOTS_SHARE: f64 = 0.012;
/// Polls between two snapshots, where nothing is in the way: enough to distinguish stages without the ledger.
const POLLS_A_SNAPSHOT: u64 = 4;
/// Polls are never closer than this: shorter intervals are below what the kernel's clocks (jiffies) resolve.
const LEAST_POLL_NS: u64 = 20_000_000;

/// Adapts the intervals to what polls and snapshots cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    asked_ns: u64,
    most_poll_ns: u64,
    poll_cost_ns: f64,
    snapshot_cost_ns: f64,
}

impl Pace {
    /// Begins with `asked_ns` between snapshots and at most `most_poll_ns` between polls.
    pub(crate) fn new(asked_ns: u64, most_poll_ns: u64) -> Self {
        Self {
            asked_ns: asked_ns.max(LEAST_POLL_NS),
            most_poll_ns,
            poll_cost_ns: 0.0,
            snapshot_cost_ns: 0.0,
        }
    }

    /// Adds the CPU time of a poll to the mean cost of polls.
    pub(crate) fn note_poll(&mut self, cpu_ns: u64) {
        follow(&mut self.poll_cost_ns, cpu_ns);
    }

    /// Adds the CPU time of a snapshot to the mean cost of snapshots.
    pub(crate) fn note_snapshot(&mut self, cpu_ns: u64) {
        follow(&mut self.snapshot_cost_ns, cpu_ns);
    }

    /// Returns the mean interval of polls, ns.
    pub(crate) fn poll_mean_ns(&self) -> u64 {
        let wanted_ns = (self.asked_ns / POLLS_A_SNAPSHOT).min(self.most_poll_ns);
        let least_ns = (self.poll_cost_ns / POLLS_SHARE) as u64;
        wanted_ns.max(least_ns).max(LEAST_POLL_NS)
    }

    /// Returns the interval of snapshots, ns.
    pub(crate) fn interval_ns(&self) -> u64 {
        self.asked_ns
            .max((self.snapshot_cost_ns / SNAPSHOTS_SHARE) as u64)
    }
}

/// Updates the mean cost; a higher cost counts at once, so that the budget holds.
fn follow(cost_ns: &mut f64, cpu_ns: u64) {
    let now_ns = cpu_ns as f64;
    *cost_ns = now_ns.max(*cost_ns * 0.75 + now_ns * 0.25);
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn cheap_snapshots_keep_the_asked_interval() {
        let mut pace = Pace::new(2 * S, S / 2);
        pace.note_poll(100_000);
        pace.note_snapshot(1_000_000);
        assert_eq!((pace.poll_mean_ns(), pace.interval_ns()), (S / 2, 2 * S));
        assert_eq!(Pace::new(S / 10, S / 2).poll_mean_ns(), S / 40);
    }

    #[test]
    fn costly_snapshots_are_rarer_within_their_share() {
        let mut pace = Pace::new(2 * S, S / 2);
        pace.note_poll(8_000_000);
        pace.note_snapshot(60_000_000);
        assert_eq!((pace.poll_mean_ns(), pace.interval_ns()), (S, 5 * S));
        // one cheap snapshot does not make up for it at once
        pace.note_snapshot(0);
        assert!(pace.interval_ns() > 3 * S);
    }
}
