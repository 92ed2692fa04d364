//! Containers in which recorded processes ran. In: rows of `processes`. Out: a list for reports and live views.

use std::fmt;

use serde::Serialize;
use table::{WorkloadKind, WorkloadSource};

use super::Process;

/// Containers that are listed. More than a node has in general: the kubelet's `maxPods` is 110.
const MOST_CONTAINERS: usize = 1000;
/// Processes that are listed of each.
const MOST_PROCESSES: usize = 100;

/// The workload of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PodWorkload {
    /// Its kind.
    pub kind: WorkloadKind,
    /// Its name, in the namespace of the pod.
    pub name: String,
    /// The facts that show it.
    pub source: WorkloadSource,
}

impl PodWorkload {
    fn from_row(row: &table::tables::Process) -> Option<Self> {
        Some(Self {
            kind: row.workload_kind?,
            name: row.workload.clone()?,
            source: row.workload_source?,
        })
    }
}

/// `Deployment web`; a name that shows less than labels do is mentioned.
impl fmt::Display for PodWorkload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = match self.source {
            WorkloadSource::Labels => "",
            WorkloadSource::PodName => ", by the pod's name",
            WorkloadSource::JobName => ", by the Job's name",
        };
        write!(f, "{} {}{source}", self.kind, self.name)
    }
}

/// A container with its processes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContainerProcesses {
    /// Namespace of its pod. Absent: in no pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of its pod. Absent: in no pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Its name. Absent: it has none, as the sandbox of a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// Workload of its pod. Absent: in no pod, or nothing on the node shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<PodWorkload>,
    /// Its processes that were seen, by process id.
    pub processes: Vec<Process>,
    /// Processes that are not listed, because there are too many. Absent: all are.
    #[serde(skip_serializing_if = "super::is_zero")]
    pub processes_not_listed: u64,
}

impl ContainerProcesses {
    /// Groups processes by container, in order of names; those in no container are left out.
    pub(crate) fn group<'a>(rows: impl Iterator<Item = &'a table::tables::Process>) -> Vec<Self> {
        let named = rows.filter(|row| row.container.is_some() || row.pod.is_some());
        let key = |row: &&table::tables::Process| {
            let place = (
                row.pod_namespace.clone(),
                row.pod.clone(),
                row.container.clone(),
            );
            (place, row.pid, row.time_ns)
        };
        let mut named: Vec<_> = named.collect();
        named.sort_by_cached_key(key);
        let mut groups: Vec<Self> = Vec::new();
        for row in named {
            let is_of = |it: &Self| {
                it.namespace == row.pod_namespace
                    && it.pod == row.pod
                    && it.container == row.container
            };
            if !groups.last().is_some_and(is_of) {
                groups.push(Self {
                    namespace: row.pod_namespace.clone(),
                    pod: row.pod.clone(),
                    container: row.container.clone(),
                    workload: None,
                    processes: Vec::new(),
                    processes_not_listed: 0,
                });
            }
            if let Some(group) = groups.last_mut() {
                group.add(row);
            }
        }
        groups.truncate(MOST_CONTAINERS);
        groups
    }

    /// Adds a row of a process; a later one has its name after an exec, or a workload that a runtime answered since.
    fn add(&mut self, row: &table::tables::Process) {
        self.workload = PodWorkload::from_row(row);
        let comm = Some(row.comm.clone());
        let last = self.processes.last_mut();
        if let Some(last) = last.filter(|it| it.pid == Some(row.pid)) {
            last.comm = comm;
        } else if self.processes.len() < MOST_PROCESSES {
            let pid = Some(row.pid);
            self.processes.push(Process { pid, comm });
        } else {
            self.processes_not_listed += 1;
        }
    }
}

/// `NAMESPACE/POD/CONTAINER`, as far as there are names, and the workload.
impl fmt::Display for ContainerProcesses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [&self.namespace, &self.pod, &self.container];
        let parts: Vec<&str> = parts.into_iter().flatten().map(String::as_str).collect();
        write!(f, "{}", parts.join("/"))?;
        match &self.workload {
            Some(workload) => write!(f, " ({workload})"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a process row: its container, pod and unit.
    fn row(pid: u32, place: [Option<&str>; 3]) -> table::tables::Process {
        let [pod_namespace, pod, container] = place.map(|name| name.map(str::to_owned));
        table::tables::Process {
            pid,
            time_ns: u64::from(pid),
            started_ns: None,
            comm: format!("c{pid}"),
            exe: None,
            cgroup: None,
            container,
            pod,
            pod_namespace,
            workload: None,
            workload_kind: None,
            workload_source: None,
            uid: None,
        }
    }

    #[test]
    fn workload_is_shown_with_its_source() {
        let of = |name: &str, kind, source| table::tables::Process {
            workload: Some(name.to_owned()),
            workload_kind: Some(kind),
            workload_source: Some(source),
            ..row(3, [Some("shop"), Some("p"), Some("c")])
        };
        for (row, expected) in [
            (
                of("web", WorkloadKind::Deployment, WorkloadSource::Labels),
                "shop/p/c (Deployment web)",
            ),
            (
                of("web", WorkloadKind::Deployment, WorkloadSource::PodName),
                "shop/p/c (Deployment web, by the pod's name)",
            ),
            (
                of("backup", WorkloadKind::CronJob, WorkloadSource::JobName),
                "shop/p/c (CronJob backup, by the Job's name)",
            ),
        ] {
            let groups = ContainerProcesses::group([row].iter());
            assert_eq!(groups[0].to_string(), expected);
        }
    }

    #[test]
    fn later_row_has_the_workload_that_a_runtime_answered() {
        let place = [Some("shop"), Some("p"), Some("c")];
        let by_name = table::tables::Process {
            workload: Some("web".to_owned()),
            workload_kind: Some(WorkloadKind::Deployment),
            workload_source: Some(WorkloadSource::PodName),
            ..row(3, place)
        };
        let by_labels = table::tables::Process {
            workload_source: Some(WorkloadSource::Labels),
            ..by_name.clone()
        };
        for (answered, expected) in [
            (by_labels, "shop/p/c (Deployment web)"),
            // another controller's pod
            (row(3, place), "shop/p/c"),
        ] {
            let groups = ContainerProcesses::group([&by_name, &answered].into_iter());
            assert_eq!(groups[0].to_string(), expected);
        }
    }

    #[test]
    fn processes_are_listed_by_container() {
        let redis = [Some("shop"), Some("cache-0"), Some("redis")];
        let mut rows = vec![
            row(9, redis),
            row(3, redis),
            row(4, [None; 3]),
            row(5, [None, None, Some("web")]),
            row(6, [Some("shop"), Some("cache-0"), None]),
        ];
        let later = table::tables::Process {
            time_ns: 10,
            comm: "exec".to_owned(),
            ..row(3, redis)
        };
        rows.insert(0, later);
        let groups = ContainerProcesses::group(rows.iter());
        let text = |it: &ContainerProcesses| {
            let titles: Vec<_> = it.processes.iter().map(Process::title).collect();
            format!("{it}: {}", titles.join(" "))
        };
        let found: Vec<_> = groups.iter().map(text).collect();
        assert_eq!(
            found,
            [
                "web: c5[5]",
                "shop/cache-0: c6[6]",
                "shop/cache-0/redis: exec[3] c9[9]"
            ]
        );
        let many: Vec<_> = (0..103).map(|pid| row(pid, redis)).collect();
        let groups = ContainerProcesses::group(many.iter());
        assert_eq!(
            (groups[0].processes.len(), groups[0].processes_not_listed),
            (100, 3)
        );
    }
}
