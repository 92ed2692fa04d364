//! Container and pod of a process, for who reads findings. In: its control group and the names in the files of the runtime. Out:
//! facts for attributes of OpenTelemetry.

use probe::processes::{Workload, pod_uid};
use table::tables::Process;

use crate::apps::container_of;

/// Container of a process, and its pod. What is not known is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerIdentity {
    /// Id that the runtime gave it.
    pub id: Option<String>,
    /// Name; of a pod's container that in the pod's specification.
    pub name: Option<String>,
    /// Runtime, where the name of the control group has it.
    pub runtime: Option<&'static str>,
    /// Namespace and name of the pod.
    pub pod: Option<(String, String)>,
    /// UID of the pod, as its control group has it.
    pub pod_uid: Option<String>,
    /// Workload of the pod.
    pub workload: Option<Workload>,
}

/// Begins of the names of control groups that runtimes make by systemd, and the runtime's name in the semantic conventions.
const SCOPES: [(&str, &str); 4] = [
    ("cri-containerd-", "containerd"),
    ("crio-", "cri-o"),
    ("docker-", "docker"),
    ("libpod-", "podman"),
];

impl ContainerIdentity {
    /// Returns the container of a process; `None`: it is in none that is known.
    pub fn from_process(process: &Process) -> Option<Self> {
        let cgroup = process.cgroup.as_deref().unwrap_or_default();
        let id = container_of(cgroup).map(str::to_owned);
        let pod = process.pod_namespace.clone().zip(process.pod.clone());
        if id.is_none() && pod.is_none() && process.container.is_none() {
            return None;
        }
        Some(Self {
            runtime: runtime_of(cgroup),
            pod_uid: pod.as_ref().and_then(|_| pod_uid(cgroup)),
            name: process.container.clone(),
            workload: workload_of(process),
            id,
            pod,
        })
    }

    /// Returns `NAMESPACE/NAME` of the pod.
    pub fn pod_path(&self) -> Option<String> {
        let (namespace, name) = self.pod.as_ref()?;
        Some(format!("{namespace}/{name}"))
    }

    /// Returns `NAMESPACE/NAME` of the workload.
    pub fn workload_path(&self) -> Option<String> {
        let (namespace, _) = self.pod.as_ref()?;
        Some(format!("{namespace}/{}", self.workload.as_ref()?.name))
    }
}

fn workload_of(process: &Process) -> Option<Workload> {
    Some(Workload {
        kind: process.workload_kind?,
        name: process.workload.clone()?,
        source: process.workload_source?,
    })
}

/// Returns the runtime that named a control group by systemd's scheme; `None` for other schemes.
fn runtime_of(cgroup: &str) -> Option<&'static str> {
    let mut parts = cgroup.rsplit('/').filter(|part| part.ends_with(".scope"));
    parts.find_map(|part| {
        let found = SCOPES.iter().find(|(begin, _)| part.starts_with(begin));
        found.map(|(_, runtime)| *runtime)
    })
}

#[cfg(test)]
mod tests {
    use probe::processes::ObservedProcess;
    use table::{WorkloadKind, WorkloadSource};

    use super::*;

    const ID: &str = "4f1c0a8a7f6d5e4c3b2a19081726354433221100ffeeddccbbaa998877665544";

    /// Makes a process in a control group, perhaps of a pod.
    fn process(cgroup: &str, pod: Option<&str>) -> Process {
        Process {
            cgroup: Some(cgroup.to_owned()),
            pod: pod.map(str::to_owned),
            pod_namespace: pod.map(|_| "shop".to_owned()),
            container: pod.map(|_| "redis".to_owned()),
            workload: pod.map(|_| "cache".to_owned()),
            workload_kind: pod.map(|_| WorkloadKind::StatefulSet),
            workload_source: pod.map(|_| WorkloadSource::Labels),
            ..seen_process()
        }
    }

    /// A process that only the kernel side knows.
    fn seen_process() -> Process {
        let seen = ObservedProcess {
            time_ns: 1,
            pid: 7,
            started_ns: 1,
            execs: 1,
            comm: "redis-server".to_owned(),
        };
        seen.row()
    }

    #[test]
    fn control_group_names_container_runtime_and_pod() {
        let group = format!(
            "/kubepods.slice/kubepods-pod7d3c1f2e_5a64_4b1c_9c37_0f1e2d3c4b5a.slice/cri-containerd-{ID}.scope"
        );
        let found = ContainerIdentity::from_process(&process(&group, Some("cache-0")));
        let expected = ContainerIdentity {
            id: Some(ID.to_owned()),
            name: Some("redis".to_owned()),
            runtime: Some("containerd"),
            pod: Some(("shop".to_owned(), "cache-0".to_owned())),
            pod_uid: Some("7d3c1f2e-5a64-4b1c-9c37-0f1e2d3c4b5a".to_owned()),
            workload: Some(Workload {
                kind: WorkloadKind::StatefulSet,
                name: "cache".to_owned(),
                source: WorkloadSource::Labels,
            }),
        };
        assert_eq!(
            expected.workload_path().as_deref(),
            Some("shop/cache"),
            "as rules have it"
        );
        assert_eq!(found, Some(expected));
        // cgroupfs names no runtime
        let old = ContainerIdentity::from_process(&process(&format!("/docker/{ID}"), None));
        let expected = ContainerIdentity {
            id: Some(ID.to_owned()),
            ..ContainerIdentity::default()
        };
        assert_eq!(old, Some(expected));
        let none = ContainerIdentity::from_process(&process("/system.slice/x.service", None));
        assert_eq!(none, None);
    }
}
