//! For how long programs were recorded: the base of short stalls (`report/severity.rs`).

use std::collections::HashMap;

use crate::connections::case::Case;
use crate::connections::gather::Evidence;
use crate::connections::subject::ConnectionSubject;

/// From when to when, `CLOCK_MONOTONIC` ns.
type Period = (u64, u64);

/// For each process, from when to when it or one of its connections was seen.
#[derive(Debug, Default)]
pub struct ProgramTimes {
    processes: HashMap<u32, Period>,
}

impl ProgramTimes {
    /// Collects when each process was recorded, by its samples and its connections.
    pub fn new(evidence: &Evidence, subjects: &[ConnectionSubject]) -> Self {
        let mut processes = HashMap::new();
        for subject in subjects {
            let Some(pid) = find_pid(subject) else {
                continue;
            };
            let life = subject.life();
            let period = processes.entry(pid).or_insert_with(|| {
                let read = evidence.cpu.reading_period(pid);
                read.and_then(|read| clip_period(read, evidence.span))
                    .map_or(life, |read| join_periods(read, life))
            });
            *period = join_periods(*period, life);
        }
        Self { processes }
    }

    /// Returns for how long the program of these connections was recorded, ns. Processes that ran one after the other count
    /// from the first to the last; those that ran at one time count each.
    pub fn sum_ns<'a>(&self, cases: impl Iterator<Item = &'a Case<'a>>) -> u64 {
        let mut periods: HashMap<Option<u32>, Period> = HashMap::new();
        for case in cases {
            let pid = find_pid(case.own);
            let known = pid.and_then(|pid| self.processes.get(&pid));
            let period = known.copied().unwrap_or_else(|| case.own.life());
            let all = periods.entry(pid).or_insert(period);
            *all = join_periods(*all, period);
        }
        let each_ns = periods
            .values()
            .map(|(from_ns, until_ns)| until_ns - from_ns);
        let each_ns = each_ns.sum();
        let whole = periods.into_values().reduce(join_periods);
        whole.map_or(0, |(from_ns, until_ns)| (until_ns - from_ns).max(each_ns))
    }
}

fn find_pid(subject: &ConnectionSubject) -> Option<u32> {
    subject.identity()?.pid
}

/// Returns the period from the earlier begin to the later end.
fn join_periods(one: Period, other: Period) -> Period {
    (one.0.min(other.0), one.1.max(other.1))
}

/// Returns the part of a period that is within another; None if they do not overlap.
fn clip_period(period: Period, within: Period) -> Option<Period> {
    let (from_ns, until_ns) = (period.0.max(within.0), period.1.min(within.1));
    (from_ns < until_ns).then_some((from_ns, until_ns))
}
