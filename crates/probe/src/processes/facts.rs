//! One process → a row of `processes`. In: `/proc/PID`. Out: what may be read of it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::path::Path;
use std::time::Instant;

use table::tables::Process;

use super::{ContainerNames, ContainerPlace, ObservedProcess, SilentRuntime};
use crate::clock::{Clock, monotonic_ns, read_pair};

/// Boot time and monotonic time are taken to be apart by the same amount until it changes by
/// more than this: the difference only grows while the host is suspended.
const SAME_OFFSET_NS: i64 = 1_000_000;

/// `/proc` counts in `USER_HZ`, which is 100 per second on every architecture that the kernel's
/// BPF supports (`include/uapi/asm-generic/param.h`).
pub const USER_TICK_NS: u64 = 10_000_000;

/// Attempts of the clock reading; it is made once per reader and refresh.
const ATTEMPTS: u32 = 8;

/// Processes that wait for the answer of a runtime; above, their workload is what the pod's name shows.
const MOST_OPEN: usize = 4096;

/// Reads processes, with start times on the recording's time axis.
#[derive(Debug)]
pub struct ProcessReader {
    suspended_ns: Cell<i64>,
    containers: ContainerNames,
    /// Last row of each process with an open workload, by process id.
    open: RefCell<HashMap<u32, OpenProcess>>,
}

/// A process in a container. Its runtime has still to answer for the workload.
#[derive(Debug)]
struct OpenProcess {
    row: Process,
    /// `/proc/PID/cgroup`.
    groups: String,
}

/// The row of a process, and its control groups if its workload is open.
struct ReadProcess {
    row: Process,
    open_groups: Option<String>,
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
            open: RefCell::default(),
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
        let is_it = |read: &ReadProcess| read.row.started_ns.is_none_or(|at_ns| at_ns <= latest_ns);
        let mut read = self.read_files(seen.pid)?;
        if !is_it(&read) {
            // or the host was suspended meanwhile, so that all that started since seem later than they are
            self.refresh();
            read = self.read_files(seen.pid)?;
        }
        if !is_it(&read) {
            return None;
        }
        read.row.started_ns = Some(seen.started_ns);
        Some(self.note_open(read))
    }

    /// Returns the row of process `pid`; `None` when there is no such process.
    pub fn read(&self, pid: u32) -> Option<Process> {
        let read = self.read_files(pid)?;
        Some(self.note_open(read))
    }

    /// Returns rows again, with the workloads that runtimes have answered since. All else in them is as it was, the time, too.
    pub fn take_workloads(&self) -> Vec<Process> {
        self.take_workloads_at(Instant::now())
    }

    /// The same, as of this time.
    fn take_workloads_at(&self, now: Instant) -> Vec<Process> {
        let mut rows = Vec::new();
        if self.containers.take_answers(now) {
            // starts are compared
            self.refresh();
            self.open.borrow_mut().retain(|_, open| {
                let place = self.containers.find(&open.groups);
                let Some(place) = place.filter(|it| !it.is_workload_open) else {
                    return true;
                };
                let mut row = open.row.clone();
                put_place(&mut row, place);
                if row != open.row && !self.is_used_again(&row) {
                    rows.push(row);
                }
                false
            });
        }
        rows
    }

    /// Returns a runtime that was asked in vain for labels of pods. `is_over`: an answer that has not come yet will not
    /// come.
    pub fn silent_runtime(&self, is_over: bool) -> Option<SilentRuntime> {
        self.containers.silent_runtime(is_over)
    }

    /// Keeps the row of a process if its workload is open; returns the row.
    fn note_open(&self, read: ReadProcess) -> Process {
        let ReadProcess { row, open_groups } = read;
        let mut open = self.open.borrow_mut();
        let Some(groups) = open_groups else {
            // it is another process, or has another place now
            open.remove(&row.pid);
            return row;
        };
        if open.len() >= MOST_OPEN {
            open.retain(|pid, _| Path::new(&format!("/proc/{pid}")).exists());
        }
        if open.len() < MOST_OPEN {
            let row = row.clone();
            open.insert(row.pid, OpenProcess { row, groups });
        }
        row
    }

    /// Reads process `pid` as of now; `None` when there is no such process.
    fn read_files(&self, pid: u32) -> Option<ReadProcess> {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let comm = stat.get(stat.find('(')? + 1..stat.rfind(')')?)?.to_owned();
        let exe = std::fs::read_link(format!("/proc/{pid}/exe")).ok();
        let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok();
        let mut row = Process {
            pid,
            time_ns: monotonic_ns(),
            started_ns: self.started_ns(&stat),
            comm,
            exe: exe.map(|path| path.to_string_lossy().into_owned()),
            cgroup: groups.as_deref().and_then(cgroup_path),
            container: None,
            pod: None,
            pod_namespace: None,
            workload_kind: None,
            workload_source: None,
            workload: None,
            uid: real_uid(pid),
        };
        let place = groups.as_deref().and_then(|it| self.containers.find(it));
        let is_open = place.as_ref().is_some_and(|it| it.is_workload_open);
        if let Some(place) = place {
            put_place(&mut row, place);
        }
        Some(ReadProcess {
            row,
            open_groups: groups.filter(|_| is_open),
        })
    }

    /// Returns whether the process id of a row has another process now.
    fn is_used_again(&self, row: &Process) -> bool {
        let stat = std::fs::read(format!("/proc/{}/stat", row.pid));
        let stat = stat.map(|it| String::from_utf8_lossy(&it).into_owned());
        let now_ns = stat.ok().and_then(|it| self.started_ns(&it));
        let starts = now_ns.zip(row.started_ns);
        starts.is_some_and(|(now_ns, of_row_ns)| now_ns > of_row_ns + USER_TICK_NS)
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

/// Puts container, pod and workload into the row of a process.
fn put_place(row: &mut Process, place: ContainerPlace) {
    let (namespace, pod) = place.pod.map(|pod| (pod.namespace, pod.name)).unzip();
    row.container = place.container;
    row.pod = pod;
    row.pod_namespace = namespace;
    row.workload_kind = place.workload.as_ref().map(|it| it.kind);
    row.workload_source = place.workload.as_ref().map(|it| it.source);
    row.workload = place.workload.map(|it| it.name);
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
    use std::os::unix::net::UnixListener;
    use std::os::unix::process::CommandExt;
    use std::process::Command;
    use std::time::Duration;

    use table::WorkloadSource;

    use super::super::containers::tests::{Host, serve_pod};
    use super::super::testing::{start_cat, stop};
    use super::*;

    /// Above every kernel's limit of process ids (`PID_MAX_LIMIT`, 4,194,304): a process that is gone.
    const GONE: u32 = 4_194_305;

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

    /// The runtime did not answer at first.
    #[test]
    fn workload_that_a_runtime_answers_later_is_in_another_row() {
        let (host, groups) = Host::with_pod("web-6d4cf56db6-x2k8p");
        // of a runtime that has ended
        let socket = host.path("run/containerd/containerd.sock");
        drop(UnixListener::bind(&socket).expect("bound"));
        let reader = ProcessReader {
            containers: ContainerNames::new(host.path("")),
            ..ProcessReader::new()
        };
        let own = std::process::id();
        // this process, one that had the id of its parent before, and one that is gone
        let parent = nix::unistd::getppid().as_raw().unsigned_abs();
        let read = reader.read(own).unwrap();
        let rows = [(own, None), (parent, Some(0)), (GONE, None)].map(|(pid, started_ns)| {
            let mut row = read.clone();
            row.pid = pid;
            row.started_ns = started_ns.or(row.started_ns);
            put_place(&mut row, reader.containers.find(&groups).unwrap());
            assert_eq!(row.workload_source, Some(WorkloadSource::PodName));
            let open_groups = Some(groups.clone());
            reader.note_open(ReadProcess { row, open_groups })
        });
        let now = Instant::now();
        assert_eq!(reader.take_workloads_at(now), []);
        assert!(reader.silent_runtime(false).is_some());
        std::fs::remove_file(&socket).unwrap();
        let labels = [("pod-template-hash", "6d4cf56db6")];
        let server = serve_pod(&socket, "web-6d4cf56db6-x2k8p", &labels);
        // after each pause
        let later = now + Duration::from_secs(3600);
        let mut found = loop {
            let found = reader.take_workloads_at(later);
            if !found.is_empty() {
                break found;
            }
            assert!(now.elapsed() < Duration::from_secs(120), "no answer");
            std::thread::yield_now();
        };
        server.join().unwrap();
        let [of_own, _, of_gone] = rows;
        let mut expected = [of_own, of_gone];
        for row in &mut expected {
            row.workload_source = Some(WorkloadSource::Labels);
        }
        found.sort_by_key(|row| row.pid);
        expected.sort_by_key(|row| row.pid);
        assert_eq!(found, expected);
        assert_eq!(reader.take_workloads_at(later), [], "once");
        assert_eq!(reader.silent_runtime(true), None);
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
