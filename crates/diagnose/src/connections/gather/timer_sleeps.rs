//! Time in which threads slept on a timer: calls that only sleep, and waits that lasted as long as their limit. Sleeps one
//! after the other are kept as one run, so that a thread that sleeps often takes little memory.

use std::collections::HashMap;

use table::WaitObject;
use table::tables::Waits;

/// Sleeps with a smaller gap between them are one run, ns.
const GAP_MOST_NS: u64 = 100_000_000;

/// Sleeps of one thread, one after the other.
#[derive(Debug, Clone, Copy)]
struct SleepRun {
    from_ns: u64,
    until_ns: u64,
    slept_ns: u64,
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
        let runs = self.threads.get(&tid).into_iter().flatten();
        let parts = runs.map(|run| {
            let within_ns = run
                .until_ns
                .min(until_ns)
                .saturating_sub(run.from_ns.max(from_ns));
            let whole_ns = (run.until_ns - run.from_ns).max(1);
            u128::from(run.slept_ns) * u128::from(within_ns) / u128::from(whole_ns)
        });
        u64::try_from(parts.sum::<u128>()).unwrap_or(u64::MAX)
    }
}

/// Returns whether a thread slept until a timer ended its wait.
fn is_sleep(rows: &Waits, row: usize) -> bool {
    let lasted_ns = rows.end_ns[row].saturating_sub(rows.start_ns[row]);
    let is_over = |limit_ns: u64| limit_ns > 0 && lasted_ns >= limit_ns;
    rows.kind[row] == WaitObject::Sleep || rows.limit_ns[row].is_some_and(is_over)
}

/// Adds a sleep to the run before it, if it follows closely; else begins a run.
fn add_sleep(runs: &mut Vec<SleepRun>, start_ns: u64, end_ns: u64) {
    let slept_ns = end_ns - start_ns;
    match runs.last_mut() {
        Some(last)
            if start_ns >= last.from_ns
                && start_ns <= last.until_ns.saturating_add(GAP_MOST_NS) =>
        {
            last.until_ns = last.until_ns.max(end_ns);
            last.slept_ns += slept_ns;
        }
        _ => runs.push(SleepRun {
            from_ns: start_ns,
            until_ns: end_ns,
            slept_ns,
        }),
    }
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
        assert_eq!(runs.len(), 2);
        sleeps.threads.insert(7, runs);
        assert_eq!(sleeps.slept_ns(7, (0, 1_000 * MS)), 180 * MS);
        assert_eq!(sleeps.slept_ns(7, (0, 49 * MS)), 40 * MS);
        assert_eq!(sleeps.slept_ns(7, (550 * MS, 560 * MS)), 10 * MS);
        assert_eq!(sleeps.slept_ns(8, (0, 1_000 * MS)), 0);
    }
}
