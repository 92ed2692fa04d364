//! The CPU use of one process, as the sum over its threads.

use std::collections::HashMap;

use table::tables::ProcessSample;

use super::Schedstat;
use crate::clock::monotonic_ns;

/// The last reading of each thread of one process.
#[derive(Debug, Default)]
pub struct Threads {
    last: HashMap<u32, Schedstat>,
    /// Sums of threads that have ended, as they were last seen.
    ended: Schedstat,
}

impl Threads {
    /// Reads the CPU times of process `pid`; `None` if it is gone or may not be read. To be called
    /// with the same pid each time.
    pub fn read(&mut self, pid: u32) -> Option<ProcessSample> {
        let entries = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let tids = entries.flatten().filter_map(|entry| {
            let name = entry.file_name();
            name.to_str()?.parse().ok()
        });
        let read = |tid: u32| {
            let stat = Schedstat::read(&format!("/proc/{pid}/task/{tid}/schedstat"))?;
            Some((tid, stat))
        };
        let now: HashMap<u32, Schedstat> = tids.filter_map(read).collect();
        if now.is_empty() {
            return None;
        }
        Some(self.sum(pid, now))
    }

    /// Sums the threads of a process, with those that ended since the last sample.
    fn sum(&mut self, pid: u32, now: HashMap<u32, Schedstat>) -> ProcessSample {
        let mut sample = ProcessSample {
            pid,
            time_ns: monotonic_ns(),
            cpu_ns: 0,
            runq_ns: 0,
            runs: 0,
            threads: now.len() as u32,
            threads_ran: 0,
        };
        for (tid, last) in &self.last {
            // A counter that fell is that of another thread with the same id.
            if now.get(tid).is_none_or(|stat| stat.runs < last.runs) {
                self.ended.add(*last);
            }
        }
        for (tid, stat) in &now {
            // One that ran all the time was not scheduled again.
            let ran = |last: &Schedstat| (stat.runs, stat.cpu_ns) != (last.runs, last.cpu_ns);
            sample.threads_ran += u32::from(self.last.get(tid).is_none_or(ran));
        }
        let mut all = self.ended;
        now.values().for_each(|stat| all.add(*stat));
        (sample.cpu_ns, sample.runq_ns, sample.runs) = (all.cpu_ns, all.runq_ns, all.runs);
        self.last = now;
        sample
    }
}

impl Schedstat {
    /// Adds the times of another thread.
    fn add(&mut self, other: Self) {
        self.cpu_ns += other.cpu_ns;
        self.runq_ns += other.runq_ns;
        self.runs += other.runs;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes the times of a thread that ran this often.
    fn stat(runs: u64) -> Schedstat {
        Schedstat {
            cpu_ns: runs * 100,
            runq_ns: runs * 10,
            runs,
        }
    }

    #[test]
    fn threads_that_end_stay_in_the_sum() {
        let mut threads = Threads::default();
        let mut sum = |now: &[(u32, u64)]| {
            let now = now.iter().map(|(tid, runs)| (*tid, stat(*runs))).collect();
            let sample = threads.sum(7, now);
            (sample.runq_ns, sample.threads, sample.threads_ran)
        };
        assert_eq!(sum(&[(7, 5), (8, 3)]), (80, 2, 2));
        assert_eq!(sum(&[(7, 6)]), (90, 1, 1));
        assert_eq!(sum(&[(7, 6), (8, 2)]), (110, 2, 1));
        // the thread id is used again
        assert_eq!(sum(&[(7, 6), (8, 1)]), (120, 2, 1));
    }

    #[test]
    fn work_increases_cpu_time() {
        let pid = std::process::id();
        let mut threads = Threads::default();
        let first = threads.read(pid).unwrap();
        let mut later = first.clone();
        while later.cpu_ns < first.cpu_ns + 20_000_000 {
            std::hint::black_box((0..1000).sum::<u64>());
            later = threads.read(pid).unwrap();
        }
        assert!(later.runs > 0 && later.threads > 0 && later.threads_ran > 0);
        assert!(later.time_ns > first.time_ns);
    }

    #[test]
    fn a_process_that_is_gone_is_not_read() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(Threads::default().read(child.id()).is_none());
    }
}
