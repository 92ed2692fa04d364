//! The processes that owned connections.

use std::collections::HashMap;

use table::tables::Process;

/// `/proc` has starts in steps of 10 ms (`USER_HZ`); the kernel's own are exact. No id is used again in that time.
const START_STEP_NS: u64 = 10_000_000;

/// Processes seen, by pid; a pid may have been used more than once.
#[derive(Debug, Default)]
pub struct Processes {
    by_pid: HashMap<u32, Vec<Process>>,
}

impl Processes {
    /// Adds the row of a process.
    pub fn add(&mut self, process: Process) {
        self.by_pid.entry(process.pid).or_default().push(process);
    }

    /// Returns all rows, in no order.
    pub fn rows(&self) -> impl Iterator<Item = &Process> {
        self.by_pid.values().flatten()
    }

    /// Returns when processes began with ids that others had before, the latest first.
    pub fn reused_ids(&self) -> Vec<(u64, u32)> {
        let mut reused = Vec::new();
        for (pid, uses) in &self.by_pid {
            let mut starts: Vec<u64> = uses.iter().filter_map(|it| it.started_ns).collect();
            starts.sort_unstable();
            starts.dedup_by(|later, start| *later - *start <= START_STEP_NS);
            reused.extend(starts.into_iter().skip(1).map(|ns| (ns, *pid)));
        }
        reused.sort_unstable_by(|a, b| b.cmp(a));
        reused
    }

    /// Returns the last row of a process id.
    pub fn latest(&self, pid: u32) -> Option<&Process> {
        let uses = self.by_pid.get(&pid)?.iter();
        uses.max_by_key(|process| process.time_ns)
    }

    /// Returns the name of the process that had `pid` last before `until_ns`. One that was gone at
    /// once had started when it was seen.
    pub fn comm(&self, pid: u32, until_ns: u64) -> Option<&str> {
        let uses = self.by_pid.get(&pid)?;
        let since_ns = |process: &Process| process.started_ns.unwrap_or(process.time_ns);
        let latest = uses
            .iter()
            .filter(|process| since_ns(process) <= until_ns)
            .max_by_key(|process| (since_ns(process), process.time_ns));
        latest.or(uses.first()).map(|process| process.comm.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: u32, started_ns: u64, comm: &str) -> Process {
        Process {
            pid,
            time_ns: started_ns + 1,
            started_ns: Some(started_ns),
            comm: comm.to_owned(),
            exe: None,
            cgroup: None,
            container: None,
            pod: None,
            pod_namespace: None,
            workload: None,
            workload_kind: None,
            workload_source: None,
            uid: None,
        }
    }

    #[test]
    fn a_reused_pid_belongs_to_the_process_of_that_time() {
        let mut processes = Processes::default();
        processes.add(process(7, 100, "old"));
        processes.add(process(7, 900, "new"));
        assert_eq!(processes.comm(7, 500), Some("old"));
        assert_eq!(processes.comm(7, 1_000), Some("new"));
        assert_eq!(processes.comm(8, 1_000), None);
    }

    /// A process that `/proc` showed first, and then a hook; later another one had its id.
    #[test]
    fn start_by_the_tick_is_no_other_use_of_an_id() {
        let mut processes = Processes::default();
        for started_ns in [5_000_000_000, 5_009_999_999, 5_000_000_000, 5_020_000_000] {
            processes.add(process(7, started_ns, "redis"));
        }
        assert_eq!(processes.reused_ids(), [(5_020_000_000, 7)]);
    }

    #[test]
    fn processes_that_were_gone_at_once_are_distinguished_by_when_they_were_seen() {
        let gone = |time_ns, comm| Process {
            time_ns,
            started_ns: None,
            ..process(7, 0, comm)
        };
        let mut processes = Processes::default();
        processes.add(gone(500, "first"));
        processes.add(process(7, 900, "lasting"));
        processes.add(gone(2_000, "last"));
        assert_eq!(processes.comm(7, 500), Some("first"));
        assert_eq!(processes.comm(7, 1_000), Some("lasting"));
        assert_eq!(processes.comm(7, 2_001), Some("last"));
        // written later than it was seen, as the first versions did
        assert_eq!(processes.comm(7, 400), Some("first"));
    }
}
