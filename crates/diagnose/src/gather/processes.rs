//! The processes that owned connections.

use std::collections::HashMap;

use table::tables::Process;

/// Processes seen, by pid; a pid may have been used more than once.
#[derive(Debug, Default)]
pub struct Processes {
    by_pid: HashMap<u32, Vec<Process>>,
}

impl Processes {
    /// Adds a row.
    pub fn add(&mut self, process: Process) {
        self.by_pid.entry(process.pid).or_default().push(process);
    }

    /// Command name of the process that used `pid` until `until_ns`: the last that had
    /// started by then.
    pub fn comm(&self, pid: u32, until_ns: u64) -> Option<&str> {
        let uses = self.by_pid.get(&pid)?;
        let started = |process: &&Process| process.started_ns.is_none_or(|at| at <= until_ns);
        let latest = uses
            .iter()
            .filter(started)
            .max_by_key(|process| (process.started_ns.unwrap_or(0), process.time_ns));
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
}
