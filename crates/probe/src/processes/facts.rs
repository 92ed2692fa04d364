//! One process → a row of `processes`. In: `/proc/PID`. Out: what may be read of it.

use std::cell::Cell;

use table::tables::Process;

use super::{ContainerNames, ObservedProcess};
use crate::clock::{Clock, monotonic_ns, read_pair};

/// Boot time and monotonic time are taken to be apart by the same amount until it changes by
/// more than this: the difference only grows while the host is suspended.
const SAME_OFFSET_NS: i64 = 1_000_000;

/// `/proc` counts in `USER_HZ`, which is 100 per second on every architecture that the kernel's
/// BPF supports (`include/uapi/asm-generic/param.h`).
pub const USER_TICK_NS: u64 = 10_000_000;

/// Attempts of the clock reading; it is made once per reader and refresh.
const ATTEMPTS: u32 = 8;

/// Reads processes, with start times on the recording's time axis.
#[derive(Debug, Clone)]
pub struct ProcessReader {
    suspended_ns: Cell<i64>,
    containers: ContainerNames,
}

impl Default for ProcessReader {
    fn default() -> Self {
        Self::new()
    }
}

impl ProcessReader {
    /// Makes a reader of `/proc` of this host.
    pub fn new() -> Self {
        let reader = Self {
            suspended_ns: Cell::new(0),
            containers: ContainerNames::new("/".into()),
        };
        reader.refresh();
        reader
    }

    /// Reads again how long the host was suspended since boot. A start time read later than a
    /// suspend comes out too early by its length if the process started before it.
    fn refresh(&self) {
        let Some(pair) = read_pair(Clock::Boottime, ATTEMPTS) else {
            return;
        };
        let suspended_ns = pair.other_ns - pair.monotonic_ns as i64;
        // A start time distinguishes two uses of one pid, so it must not vary with the reading.
        if (suspended_ns - self.suspended_ns.get()).abs() > SAME_OFFSET_NS {
            self.suspended_ns.set(suspended_ns);
        }
    }

    /// Reads the row of a process that the kernel reported; `None` if it has ended.
    pub fn read_as(&self, seen: &ObservedProcess) -> Option<Process> {
        // who uses the id again started later
        let latest_ns = seen.started_ns.saturating_add(USER_TICK_NS);
        let is_it = |read: &Process| read.started_ns.is_none_or(|at_ns| at_ns <= latest_ns);
        let mut read = self.read(seen.pid)?;
        if !is_it(&read) {
            // or the host was suspended meanwhile, so that all that started since seem later than they are
            self.refresh();
            read = self.read(seen.pid)?;
        }
        let is_it = is_it(&read);
        read.started_ns = Some(seen.started_ns);
        is_it.then_some(read)
    }

    /// Returns the row of process `pid`; `None` when there is no such process.
    pub fn read(&self, pid: u32) -> Option<Process> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let comm = stat.get(stat.find('(')? + 1..stat.rfind(')')?)?.to_owned();
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok();
        let place = groups.as_deref().and_then(|it| self.containers.find(it));
        let (container, pod, workload) =
            place.map_or_else(Default::default, |it| (it.container, it.pod, it.workload));
        let (namespace, pod) = pod.map(|pod| (pod.namespace, pod.name)).unzip();
        Some(Process {
            pid,
            time_ns: monotonic_ns(),
            started_ns: self.started_ns(&stat),
            comm,
            exe: exe.map(|path| path.to_string_lossy().into_owned()),
            cgroup: groups.as_deref().and_then(cgroup_path),
            container,
            pod,
            pod_namespace: namespace,
            workload_kind: workload.as_ref().map(|it| it.kind),
            workload_source: workload.as_ref().map(|it| it.source),
            workload: workload.map(|it| it.name),
            uid: real_uid(pid),
        })
    }

    /// Returns the start of the process, `CLOCK_MONOTONIC` ns, in steps of 10 ms.
    fn started_ns(&self, stat: &str) -> Option<u64> {
        let ticks: u64 = after_comm(stat)?
            .split_ascii_whitespace()
            .nth(19)?
            .parse()
            .ok()?;
        // Field 22 is `start_boottime`, which goes on while the host is suspended.
        let boot_ns = i64::try_from(ticks.checked_mul(USER_TICK_NS)?).ok()?;
        Some((boot_ns - self.suspended_ns.get()).max(0) as u64)
    }
}

/// Returns the fields of `/proc/PID/stat` behind the command name, which may hold any character.
pub(super) fn after_comm(stat: &str) -> Option<&str> {
    stat.get(stat.rfind(')')? + 1..)
}

/// Returns the path in the cgroup v2 tree: the line `0::PATH`.
fn cgroup_path(groups: &str) -> Option<String> {
    let mut lines = groups.lines();
    let path = lines.find_map(|line| line.strip_prefix("0::"));
    path.map(str::to_owned)
}

/// Returns the real user id of a process.
pub(super) fn real_uid(pid: u32) -> Option<u32> {
    status_field(pid, "Uid:")?
        .split_ascii_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Returns the rest of a line of `/proc/PID/status`.
pub(super) fn status_field(pid: u32, name: &str) -> Option<String> {
    // The command name need not be UTF-8.
    let status = std::fs::read(format!("/proc/{pid}/status")).ok()?;
    let status = String::from_utf8_lossy(&status);
    status
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .map(|rest| rest.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{start_cat, stop};
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn this_process_is_read() {
        let row = ProcessReader::new().read(std::process::id()).unwrap();
        let exe = std::env::current_exe().unwrap();
        assert_eq!(row.exe.as_deref(), exe.to_str());
        assert_eq!(row.uid, Some(nix::unistd::getuid().as_raw()));
        assert!(row.started_ns.unwrap() < monotonic_ns());
        assert!(row.cgroup.unwrap().starts_with('/'));
    }

    #[test]
    fn a_start_time_lies_between_the_readings_around_it() {
        let before_ns = monotonic_ns();
        let child = start_cat(&mut Command::new("cat"));
        let pid = child.id();
        let after_ns = monotonic_ns();
        let reader = ProcessReader::new();
        let started_ns = reader.read(pid).unwrap().started_ns.unwrap();
        assert!(
            started_ns + USER_TICK_NS >= before_ns && started_ns <= after_ns,
            "{started_ns}"
        );
        assert_eq!(
            ProcessReader::new().read(pid).unwrap().started_ns,
            Some(started_ns)
        );
        stop(child);
        assert_eq!(reader.read(pid), None);
    }

    /// Makes a process that was seen now and started at this time.
    fn seen(pid: u32, started_ns: u64) -> ObservedProcess {
        ObservedProcess {
            time_ns: monotonic_ns(),
            pid,
            started_ns,
            execs: 1,
            comm: "test".to_owned(),
        }
    }

    #[test]
    fn rows_are_of_the_observed_process() {
        let reader = ProcessReader::new();
        let own = std::process::id();
        let started_ns = reader.read(own).unwrap().started_ns.unwrap();
        // as exact as the kernel has it
        let exact_ns = started_ns + USER_TICK_NS / 2;
        let read = reader.read_as(&seen(own, exact_ns)).unwrap();
        assert_eq!(read.started_ns, Some(exact_ns));
        // it had the id before this process
        let before = seen(own, started_ns - 2 * USER_TICK_NS);
        assert_eq!(reader.read_as(&before), None);
    }

    #[test]
    fn a_suspend_since_the_last_reading_is_seen() {
        let own = std::process::id();
        let started_ns = ProcessReader::new().read(own).unwrap().started_ns.unwrap();
        let reader = ProcessReader::new();
        reader
            .suspended_ns
            .set(reader.suspended_ns.get() - 3_600_000_000_000);
        assert!(reader.read_as(&seen(own, started_ns)).is_some());
    }

    #[test]
    fn command_names_with_parentheses_do_not_confuse() {
        let dir = tempfile::tempdir().unwrap();
        let odd = dir.path().join("a) S (1 b");
        std::os::unix::fs::symlink("/bin/cat", &odd).unwrap();
        let child = start_cat(Command::new(&odd).arg0("cat"));
        let row = ProcessReader::new().read(child.id()).unwrap();
        assert_eq!(row.comm, "a) S (1 b");
        assert!(row.started_ns.is_some());
        stop(child);
    }
}
