//! The owners of connections, and their applications. In: process ids as the kernel side attributes them on
//! this host. Out: names, by the rules of the configuration.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use probe::processes::{ObservedProcess, ProcessReader, SilentRuntime};
use table::tables::Process;

use crate::ContainerIdentity;
use crate::apps::{Application, ApplicationRules, ConnectionFacts};

/// A process that owns connections.
#[derive(Debug, Clone)]
struct Owner {
    comm: String,
    command: Option<String>,
    cgroup: Option<String>,
    /// `NAMESPACE/NAME`.
    pod: Option<String>,
    /// The workload of its pod, which names it without a rule.
    workload: Option<Application>,
    identity: Option<Arc<ContainerIdentity>>,
    /// As the kernel side saw it.
    seen: ObservedProcess,
    is_used: bool,
}

/// Owners seen lately.
#[derive(Debug)]
pub(super) struct Owners {
    rules: ApplicationRules,
    /// `None` where `/proc` has other processes than the kernel side.
    reader: Option<ProcessReader>,
    known: HashMap<u32, Owner>,
}

impl Owners {
    /// Makes an empty table of owners; without a reader, `/proc` has other process ids than the kernel side.
    pub(super) fn new(rules: ApplicationRules, reader: Option<ProcessReader>) -> Self {
        Self {
            rules,
            reader,
            known: HashMap::new(),
        }
    }

    /// Replaces the rules that name applications.
    pub(super) fn set_rules(&mut self, rules: ApplicationRules) {
        self.rules = rules;
    }

    /// Reads the facts of a process that owns a connection, while the process exists.
    pub(super) fn note(&mut self, seen: &ObservedProcess) {
        if let Some(owner) = self.known.get_mut(&seen.pid)
            && owner.seen.started_ns == seen.started_ns
            && owner.seen.execs >= seen.execs
        {
            owner.is_used = true;
            return;
        }
        let owner = self.read(seen);
        self.known.insert(seen.pid, owner);
    }

    /// Takes the workloads of pods that runtimes have answered since; returns the process ids of their owners.
    pub(super) fn take_workloads(&mut self) -> HashSet<u32> {
        let rows = self.reader.as_ref().map(ProcessReader::take_workloads);
        self.place(&rows.unwrap_or_default())
    }

    /// Takes container, pod and workload from these rows of owners; returns their process ids.
    fn place(&mut self, rows: &[Process]) -> HashSet<u32> {
        let mut changed = HashSet::new();
        for row in rows {
            let owner = self.known.get_mut(&row.pid);
            let is_it = |it: &&mut Owner| Some(it.seen.started_ns) == row.started_ns;
            if let Some(owner) = owner.filter(is_it) {
                owner.place(row);
                changed.insert(row.pid);
            }
        }
        changed
    }

    /// Returns a runtime that was asked in vain for labels of pods.
    pub(super) fn silent_runtime(&self) -> Option<SilentRuntime> {
        self.reader.as_ref()?.silent_runtime(false)
    }

    /// Returns the command name of a process.
    pub(super) fn comm(&self, pid: u32) -> Option<&str> {
        self.known.get(&pid).map(|owner| owner.comm.as_str())
    }

    /// Returns the container of a process.
    pub(super) fn container(&self, pid: u32) -> Option<&Arc<ContainerIdentity>> {
        self.known.get(&pid)?.identity.as_ref()
    }

    /// Returns the application of a connection of this process; `listening_port` if it was accepted. Without a rule, that
    /// is the workload of its pod.
    pub(super) fn application(
        &self,
        pid: Option<u32>,
        listening_port: Option<u16>,
    ) -> Option<&Application> {
        let owner = pid.and_then(|pid| self.known.get(&pid));
        let identity = owner.and_then(|owner| owner.identity.as_deref());
        let workload = owner.and_then(|owner| owner.workload.as_ref());
        let found = self.rules.application(&ConnectionFacts {
            command: owner.and_then(|owner| owner.command.as_deref()),
            comm: owner.map(|owner| owner.comm.as_str()),
            cgroup: owner.and_then(|owner| owner.cgroup.as_deref()),
            pod: owner.and_then(|owner| owner.pod.as_deref()),
            workload: workload.map(|it| it.name.as_str()),
            container: identity.and_then(|it| it.name.as_deref()),
            listening_port,
        });
        found.or(workload)
    }

    /// Forgets owners that `is_owner` does not confirm, if they were not seen since the last call.
    pub(super) fn forget(&mut self, is_owner: impl Fn(u32) -> bool) {
        self.known
            .retain(|pid, owner| std::mem::take(&mut owner.is_used) || is_owner(*pid));
    }

    /// Reads the facts of a process. If it is gone or hidden, only the name from the kernel side is known.
    fn read(&self, seen: &ObservedProcess) -> Owner {
        let reader = self.reader.as_ref();
        let process = reader.and_then(|reader| reader.read_as(seen));
        let command = process.as_ref().and_then(|_| command_line(seen.pid));
        let process = process.unwrap_or_else(|| seen.row());
        let mut owner = Owner {
            comm: process.comm.clone(),
            command,
            cgroup: process.cgroup.clone(),
            pod: None,
            workload: None,
            identity: None,
            seen: seen.clone(),
            is_used: true,
        };
        owner.place(&process);
        owner
    }
}

impl Owner {
    /// Takes container, pod and workload from the row of the process.
    fn place(&mut self, process: &Process) {
        let identity = ContainerIdentity::from_process(process);
        self.pod = identity.as_ref().and_then(ContainerIdentity::pod_path);
        let workload = identity.as_ref().and_then(ContainerIdentity::workload_path);
        self.workload = workload.map(|name| Application {
            name,
            ..Application::default()
        });
        self.identity = identity.map(Arc::new);
    }
}

/// Joins arguments with blanks.
fn command_line(pid: u32) -> Option<String> {
    let bytes = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<_> = bytes
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(String::from_utf8_lossy)
        .collect();
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use table::{WorkloadKind, WorkloadSource};

    use super::*;

    /// Makes a reader of this host.
    fn reader() -> Option<ProcessReader> {
        Some(ProcessReader::new())
    }

    /// Makes a process that was seen.
    fn seen(pid: u32, comm: &str) -> ObservedProcess {
        let now_ns = probe::clock::monotonic_ns();
        ObservedProcess {
            time_ns: now_ns,
            pid,
            started_ns: now_ns,
            execs: 1,
            comm: comm.to_owned(),
        }
    }

    /// Compiles one rule, which must be right.
    fn rules(application: Application) -> ApplicationRules {
        ApplicationRules::new(&[application]).expect("rules")
    }

    #[test]
    fn this_process_is_named_by_its_command_line() {
        let own = std::process::id();
        let mut owners = Owners::new(
            rules(Application {
                name: "tests".to_owned(),
                command: Some("whylat_agent-[0-9a-f]+".to_owned()),
                ..Application::default()
            }),
            reader(),
        );
        assert!(
            owners.application(Some(own), None).is_none(),
            "not yet seen"
        );
        owners.note(&seen(own, "whatever"));
        let found = owners.application(Some(own), None).expect("named");
        assert_eq!(found.name, "tests");
        owners.forget(|_| false);
        assert!(owners.comm(own).is_some(), "seen a moment ago");
        owners.forget(|_| false);
        assert!(owners.comm(own).is_none());
    }

    #[test]
    fn later_answer_of_a_runtime_names_the_application_of_its_process_only() {
        let own = std::process::id();
        let mut owners = Owners::new(ApplicationRules::default(), reader());
        let seen = seen(own, "nginx");
        owners.note(&seen);
        let row = |started_ns| Process {
            started_ns: Some(started_ns),
            pod_namespace: Some("shop".to_owned()),
            pod: Some("web-6d4cf56db6-x2k8p".to_owned()),
            workload: Some("web".to_owned()),
            workload_kind: Some(WorkloadKind::Deployment),
            workload_source: Some(WorkloadSource::Labels),
            ..seen.row()
        };
        assert!(owners.place(&[row(seen.started_ns - 1)]).is_empty());
        assert!(owners.application(Some(own), None).is_none());
        assert_eq!(owners.place(&[row(seen.started_ns)]), HashSet::from([own]));
        let found = owners.application(Some(own), None).expect("named");
        assert_eq!(found.name, "shop/web");
    }

    #[test]
    fn process_of_another_pid_namespace_is_not_read() {
        let own = std::process::id();
        let mut owners = Owners::new(ApplicationRules::default(), None);
        owners.note(&seen(own, "other"));
        assert_eq!(owners.comm(own), Some("other"));
    }

    #[test]
    fn ended_process_keeps_its_name() {
        let mut owners = Owners::new(ApplicationRules::default(), reader());
        owners.note(&seen(u32::MAX, "curl"));
        assert_eq!(owners.comm(u32::MAX), Some("curl"));
    }

    #[test]
    fn reused_process_id_is_another_process() {
        let mut owners = Owners::new(ApplicationRules::default(), reader());
        let own = std::process::id();
        let before = ObservedProcess {
            started_ns: 1,
            ..seen(own, "before")
        };
        owners.note(&before);
        assert_eq!(owners.comm(own), Some("before"));
        owners.note(&seen(own, "now"));
        assert_ne!(owners.comm(own), Some("before"));
    }
}
