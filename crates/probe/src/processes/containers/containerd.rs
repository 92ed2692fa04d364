//! containerd: a folder `…/io.containerd.runtime.v2.task/NAMESPACE/ID` for each container that runs, with its `init.pid`, and
//! its `config.json` (OCI). Its annotations have the names that nerdctl and Kubernetes gave it.

use std::path::Path;

use serde_json::Value;

use super::container::{Container, Runtime};
use super::files::{folders, json, last, pid_in};

/// Where the folders are: containerd's own, those of the one that Docker starts, of k3s and of MicroK8s.
const TASKS: [&str; 4] = [
    "run/containerd/io.containerd.runtime.v2.task/*/*",
    "run/docker/containerd/daemon/io.containerd.runtime.v2.task/*/*",
    "run/k3s/containerd/io.containerd.runtime.v2.task/*/*",
    "var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task/*/*",
];

/// containerd's namespace of Docker's containers.
const OF_DOCKER: &str = "moby";

/// Annotations with names, the one that people use first.
const NAMES: [&str; 2] = ["nerdctl/name", "io.kubernetes.cri.container-name"];
const POD: &str = "io.kubernetes.cri.sandbox-name";

pub(super) fn list(root: &Path) -> Vec<Container> {
    let tasks = TASKS.iter().flat_map(|tasks| folders(root, tasks));
    tasks.map(|task| read(root, &task)).collect()
}

fn read(root: &Path, task: &Path) -> Container {
    let config = json(&task.join("config.json")).unwrap_or_default();
    let is_of_docker = task
        .parent()
        .is_some_and(|parent| last(parent) == OF_DOCKER);
    Container {
        runtime: match is_of_docker {
            true => Runtime::Docker,
            false => Runtime::Containerd,
        },
        id: last(task),
        names: names(&config["annotations"], &NAMES, POD),
        pid: pid_in(root, &task.join("init.pid")),
    }
}

/// Names in annotations, and `POD/NAME` of a container in a pod: other pods may have its name, too.
pub(super) fn names(annotations: &Value, keys: &[&str], pod: &str) -> Vec<String> {
    let text = |key: &str| annotations[key].as_str().filter(|text| !text.is_empty());
    let mut names: Vec<String> = keys
        .iter()
        .filter_map(|key| text(key))
        .map(str::to_owned)
        .collect();
    if let (Some(name), Some(pod)) = (names.first(), text(pod)) {
        names.push(format!("{pod}/{name}"));
    }
    names
}
