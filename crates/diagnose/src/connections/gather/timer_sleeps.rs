//! Time in which threads slept on a timer: calls that only sleep, and waits that lasted as long as their limit. Of a thread with
//! very many sleeps, neighbours are kept as one run, so that memory has a bound.

use std::collections::HashMap;

use table::WaitObject;
use table::tables::Waits;

/// Runs that are kept of a thread at most: 1.5 MB. Up to so many sleeps, each is a run of its own.
const RUNS_MOST: usize = 1 << 16;

/// Sleeps of one thread, one after the other.
#[derive(Debug, Clone, Copy)]
struct SleepRun {
    from_ns: u64,
    until_ns: u64,
    /// Sum of these sleeps and of all before.
    sum_ns: u64,
}

/// Sleeps of all threads.
#[derive(Debug, Default)]
pub struct TimerSleeps {
    threads: HashMap<u32, Vec<SleepRun>>,
}

impl TimerSleeps {
    /// Adds rows of table `waits`.
    pub fn add(&mut self, rows: &Waits) {
        for row in 0..rows.end_ns.len() {
            let (start_ns, end_ns) = (rows.start_ns[row], rows.end_ns[row]);
            if is_sleep(rows, row) && start_ns < end_ns {
                let runs = self.threads.entry(rows.tid[row]).or_default();
                add_sleep(runs, start_ns, end_ns);
            }
        }
    }

    /// Returns how long a thread slept in an interval, ns. Within a run, sleeps count evenly.
    pub fn slept_ns(&self, tid: u32, (from_ns, until_ns): (u64, u64)) -> u64 {
        let Some(runs) = self.threads.get(&tid) else {
            return 0;
        };
        slept_until(runs, until_ns).saturating_sub(slept_until(runs, from_ns))
    }
}

/// Returns how long a thread had slept by then, ns.
fn slept_until(runs: &[SleepRun], ns: u64) -> u64 {
    let begun = runs.partition_point(|run| run.from_ns < ns);
    let Some(last) = begun.checked_sub(1).and_then(|at| runs.get(at)) else {
        return 0;
    };
    let before = begun.checked_sub(2).and_then(|at| runs.get(at));
    let before_ns = before.map_or(0, |run| run.sum_ns);
    let slept_ns = u128::from(last.sum_ns.saturating_sub(before_ns));
    let length_ns = u128::from((last.until_ns - last.from_ns).max(1));
    let within_ns = u128::from(ns.min(last.until_ns) - last.from_ns);
    let part_ns = u64::try_from(slept_ns * within_ns / length_ns);
    before_ns.saturating_add(part_ns.unwrap_or(u64::MAX))
}

/// Returns whether a thread slept until a timer ended its wait.
fn is_sleep(rows: &Waits, row: usize) -> bool {
    let lasted_ns = rows.end_ns[row].saturating_sub(rows.start_ns[row]);
    let is_over = |limit_ns: u64| limit_ns > 0 && lasted_ns >= limit_ns;
    rows.kind[row] == WaitObject::Sleep || rows.limit_ns[row].is_some_and(is_over)
}

/// Adds a sleep. A row may come after later ones.
fn add_sleep(runs: &mut Vec<SleepRun>, start_ns: u64, end_ns: u64) {
    if runs.len() == RUNS_MOST {
        join_neighbours(runs);
    }
    let later = runs.iter().rev().take_while(|run| run.from_ns > start_ns);
    let at = runs.len() - later.count();
    let before = at.checked_sub(1).and_then(|at| runs.get(at));
    let slept_ns = end_ns - start_ns;
    let run = SleepRun {
        from_ns: start_ns,
        until_ns: end_ns,
        sum_ns: before.map_or(0, |run| run.sum_ns),
    };
    runs.insert(at, run);
    runs[at..]
        .iter_mut()
        .for_each(|run| run.sum_ns = run.sum_ns.saturating_add(slept_ns));
}

/// Makes one run of each two.
fn join_neighbours(runs: &mut Vec<SleepRun>) {
    let joined = runs.chunks(2).filter_map(|pair| {
        let (first, last) = (pair.first()?, pair.last()?);
        Some(SleepRun {
            from_ns: first.from_ns,
            until_ns: last.until_ns.max(first.until_ns),
            sum_ns: last.sum_ns,
        })
    });
    *runs = joined.collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn sleeps_of_a_thread_count_within_an_interval() {
        let mut sleeps = TimerSleeps::default();
        let mut runs = Vec::new();
        for at in 0..10 {
            add_sleep(&mut runs, at * 10 * MS, (at * 10 + 8) * MS);
        }
        add_sleep(&mut runs, 500 * MS, 600 * MS);
        add_sleep(&mut runs, 300 * MS, 303 * MS);
        sleeps.threads.insert(7, runs);
        assert_eq!(sleeps.slept_ns(7, (0, 1_000 * MS)), 183 * MS);
        assert_eq!(sleeps.slept_ns(7, (250 * MS, 400 * MS)), 3 * MS);
        assert_eq!(sleeps.slept_ns(7, (0, 49 * MS)), 40 * MS);
        assert_eq!(sleeps.slept_ns(7, (8 * MS, 10 * MS)), 0);
        assert_eq!(sleeps.slept_ns(7, (550 * MS, 560 * MS)), 10 * MS);
        assert_eq!(sleeps.slept_ns(8, (0, 1_000 * MS)), 0);
    }

    #[test]
    fn very_many_sleeps_are_kept_in_few_runs() {
        let mut sleeps = TimerSleeps::default();
        let mut runs = Vec::new();
        let count = 3 * RUNS_MOST as u64;
        for at in 0..count {
            add_sleep(&mut runs, at * 10, at * 10 + 8);
        }
        assert!(runs.len() <= RUNS_MOST, "{}", runs.len());
        sleeps.threads.insert(7, runs);
        assert_eq!(sleeps.slept_ns(7, (0, count * 10)), count * 8);
    }
}
