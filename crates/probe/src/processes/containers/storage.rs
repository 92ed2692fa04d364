//! Podman and CRI-O, which keep containers by the same library (containers/storage): names in
//! `DRIVER-containers/containers.json` of its data, and of each that was started a folder
//! `DRIVER-containers/ID/userdata` in its run folder, with `pidfile` and `config.json` (OCI).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::container::{Container, Runtime};
use super::containerd::{known_name, names};
use super::files::{is_folder, last_part, list_entries, match_folders, pid_in, read_json};
use super::pod::KUBELET;
use super::workload::PodLabels;

/// Data and run folders: root's, and those of users who run Podman without root.
const DATA: [&str; 3] = [
    "var/lib/containers/storage",
    "home/*/.local/share/containers/storage",
    "root/.local/share/containers/storage",
];
const RUN: [&str; 3] = [
    "run/containers/storage",
    "run/user/*/containers",
    "tmp/*/containers",
];
/// Ending of the folder of a storage driver: `overlay-containers`, `vfs-containers`.
const CONTAINERS: &str = "-containers";

/// Annotations that CRI-O writes.
const CRI_O: &str = "io.kubernetes.cri-o.Name";
const NAMES: [&str; 2] = ["io.kubernetes.container.name", CRI_O];
/// Kind, sandbox, and labels as JSON, which are the pod's in a sandbox.
const KIND: (&str, &str) = ("io.kubernetes.cri-o.ContainerType", "sandbox");
const SANDBOX: &str = "io.kubernetes.cri-o.SandboxID";
const LABELS: &str = "io.kubernetes.cri-o.Labels";

/// Returns all containers of CRI-O and Podman.
pub(super) fn list(root: &Path) -> Vec<Container> {
    let runs: Vec<PathBuf> = list_driver_folders(root, &RUN);
    let mut found: BTreeMap<String, Container> = BTreeMap::new();
    for driver in list_driver_folders(root, &DATA) {
        let listed = read_json(&driver.join("containers.json")).unwrap_or_default();
        for entry in listed.as_array().into_iter().flatten() {
            let Some(id) = entry["id"].as_str() else {
                continue;
            };
            let container = read(root, &runs, id, read_library_names(entry));
            found.insert(id.to_owned(), container);
        }
    }
    // those with data that cannot be read, or lie elsewhere
    for run in runs.iter().flat_map(|run| list_entries(run)) {
        let id = last_part(&run);
        if is_folder(&run.join("userdata")) && !found.contains_key(&id) {
            let container = read(root, &runs, &id, Vec::new());
            found.insert(id, container);
        }
    }
    found.into_values().collect()
}

/// Returns the container with this id, if it runs.
pub(super) fn find(root: &Path, id: &str) -> Option<Container> {
    let runs: Vec<PathBuf> = list_driver_folders(root, &RUN);
    let mut userdata = runs.iter().map(|run| run.join(id).join("userdata"));
    if !userdata.any(|folder| is_folder(&folder)) {
        return None;
    }
    let listed = list_driver_folders(root, &DATA).into_iter();
    let listed = listed.filter_map(|driver| read_json(&driver.join("containers.json")));
    let names = listed.flat_map(|listed| {
        let entries = listed.as_array().into_iter().flatten();
        let mut entries = entries.filter(|entry| entry["id"] == id);
        entries.next().map(read_library_names).unwrap_or_default()
    });
    Some(read(root, &runs, id, names.collect()))
}

/// Names that the library keeps of a container.
fn read_library_names(entry: &Value) -> Vec<String> {
    let names = entry["names"].as_array().into_iter().flatten();
    names
        .filter_map(|name| known_name(name.as_str()?))
        .collect()
}

/// Returns the folders of containers, one for each storage driver.
fn list_driver_folders(root: &Path, places: &[&str]) -> Vec<PathBuf> {
    let places = places.iter().flat_map(|place| match_folders(root, place));
    let mut drivers: Vec<PathBuf> = places.flat_map(|place| list_entries(&place)).collect();
    drivers.retain(|dir| last_part(dir).ends_with(CONTAINERS));
    drivers
}

/// Reads name, pod and pid of a container from its annotations and pid file.
fn read(root: &Path, runs: &[PathBuf], id: &str, own_names: Vec<String>) -> Container {
    let mut folders = runs.iter().map(|run| run.join(id).join("userdata"));
    let folder = folders.find(|folder| is_folder(folder)).unwrap_or_default();
    let config = read_json(&folder.join("config.json")).unwrap_or_default();
    let annotations = &config["annotations"];
    let is_of_cri_o = annotations[CRI_O].is_string();
    // users run no pods of Kubernetes, and may write what they like
    let is_of_root = folder.starts_with(root.join(RUN[0]));
    let pod = is_of_root.then(|| KUBELET.read(annotations)).flatten();
    let is_sandbox = is_of_root && annotations[KIND.0] == KIND.1;
    let labels = is_sandbox.then(|| annotations[LABELS].as_str()).flatten();
    let labels = labels.and_then(|it| PodLabels::read(&serde_json::from_str(it).ok()?));
    let sandbox = annotations[SANDBOX].as_str();
    let mut all = names(annotations, &NAMES, &KUBELET);
    all.extend(own_names);
    let mut seen = Vec::new();
    all.retain(|name| {
        !seen.contains(name) && {
            seen.push(name.clone());
            true
        }
    });
    Container {
        runtime: match is_of_cri_o {
            true => Runtime::CriO,
            false => Runtime::Podman,
        },
        id: id.to_owned(),
        names: all,
        sandbox: sandbox.filter(|_| pod.is_some()).map(str::to_owned),
        labels,
        pod,
        pid: pid_in(root, &folder.join("pidfile")),
    }
}
