//! containerd: a folder `…/io.containerd.runtime.v2.task/NAMESPACE/ID` for each container that runs, with its
//! `init.pid`, and its `config.json` (OCI). Its annotations have the names that nerdctl and Kubernetes gave it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::container::{Container, Runtime};
use super::files::{is_folder, last_part, list_entries, match_folders, pid_in, read_json};
use super::pod::{CONTAINERD, PodKeys, label};

/// Where the folders of its namespaces are: containerd's own, those of the one that Docker starts, of k3s and of MicroK8s.
const TASKS: [&str; 4] = [
    "run/containerd/io.containerd.runtime.v2.task/*",
    "run/docker/containerd/daemon/io.containerd.runtime.v2.task/*",
    "run/k3s/containerd/io.containerd.runtime.v2.task/*",
    "var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task/*",
];

/// containerd's namespace of Docker's containers.
const OF_DOCKER: &str = "moby";

/// Bytes of the longest name: those of a file's (`NAME_MAX`), which runtimes make of names.
const LONGEST_NAME: usize = 255;

/// Annotation with the id of the sandbox.
const SANDBOX: &str = "io.kubernetes.cri.sandbox-id";

/// Annotations with names, the one that people use first.
const NAMES: [&str; 2] = ["nerdctl/name", "io.kubernetes.cri.container-name"];

/// Returns all containers that containerd runs.
pub(super) fn list(root: &Path) -> Vec<Container> {
    let tasks = namespaces(root).flat_map(|namespace| list_entries(&namespace));
    let tasks = tasks.filter(|task| is_folder(task));
    tasks.map(|task| read(root, &task)).collect()
}

/// Returns the container with this id.
pub(super) fn find(root: &Path, id: &str) -> Option<Container> {
    let tasks = namespaces(root).map(|namespace| namespace.join(id));
    let mut tasks = tasks.filter(|task| is_folder(task));
    tasks.next().map(|task| read(root, &task))
}

/// Returns the folders of containerd's own namespaces.
fn namespaces(root: &Path) -> impl Iterator<Item = PathBuf> {
    TASKS.iter().flat_map(|tasks| match_folders(root, tasks))
}

/// Reads name, pod and pid of a container from its task's folder.
fn read(root: &Path, task: &Path) -> Container {
    let config = read_json(&task.join("config.json")).unwrap_or_default();
    let annotations = &config["annotations"];
    let is_of_docker = task
        .parent()
        .is_some_and(|parent| last_part(parent) == OF_DOCKER);
    Container {
        runtime: match is_of_docker {
            true => Runtime::Docker,
            false => Runtime::Containerd,
        },
        id: last_part(task),
        sandbox: annotations[SANDBOX].as_str().map(str::to_owned),
        // in no file: its socket has them
        labels: None,
        names: names(annotations, &NAMES, &CONTAINERD),
        pod: CONTAINERD.read(annotations),
        pid: pid_in(root, &task.join("init.pid")),
    }
}

/// Returns the names in annotations; with its pod, too, because other pods may have the same name.
pub(super) fn names(annotations: &Value, keys: &[&str], pod: &PodKeys) -> Vec<String> {
    let text = |key: &&str| annotations[*key].as_str().and_then(known_name);
    let mut names: Vec<String> = keys.iter().filter_map(text).collect();
    let Some(name) = names.first().and_then(|name| label(name)) else {
        return names;
    };
    let short = pod.name(annotations).map(|pod| format!("{pod}/{name}"));
    let long = pod.read(annotations).map(|pod| format!("{pod}/{name}"));
    names.extend(short.into_iter().chain(long));
    names
}

/// Returns a valid name of a container; `None` for other text, which may disturb a terminal.
pub(super) fn known_name(text: &str) -> Option<String> {
    let is_name = (1..=LONGEST_NAME).contains(&text.len()) && !text.contains(char::is_control);
    is_name.then(|| text.to_owned())
}
