//! Podman and CRI-O, which keep containers by the same library (containers/storage): names in `DRIVER-containers/containers.json`
//! of its data, and of each that was started a folder `DRIVER-containers/ID/userdata` in its run folder, with `pidfile` and
//! `config.json` (OCI).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::container::{Container, Runtime};
use super::containerd::names;
use super::files::{entries, folders, json, last, pid_in};

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
const POD: &str = "io.kubernetes.pod.name";

pub(super) fn list(root: &Path) -> Vec<Container> {
    let runs: Vec<PathBuf> = of_drivers(root, &RUN);
    let mut found: BTreeMap<String, Container> = BTreeMap::new();
    for driver in of_drivers(root, &DATA) {
        let listed = json(&driver.join("containers.json")).unwrap_or_default();
        for entry in listed.as_array().into_iter().flatten() {
            let Some(id) = entry["id"].as_str() else {
                continue;
            };
            let names = entry["names"].as_array().into_iter().flatten();
            let names = names.filter_map(|name| name.as_str().map(str::to_owned));
            let container = read(root, &runs, id, names.collect());
            found.insert(id.to_owned(), container);
        }
    }
    // those with data that cannot be read, or lie elsewhere
    for run in runs.iter().flat_map(|run| entries(run)) {
        let id = last(&run);
        if run.join("userdata").is_dir() && !found.contains_key(&id) {
            let container = read(root, &runs, &id, Vec::new());
            found.insert(id, container);
        }
    }
    found.into_values().collect()
}

fn of_drivers(root: &Path, places: &[&str]) -> Vec<PathBuf> {
    let places = places.iter().flat_map(|place| folders(root, place));
    let mut drivers: Vec<PathBuf> = places.flat_map(|place| entries(&place)).collect();
    drivers.retain(|dir| last(dir).ends_with(CONTAINERS));
    drivers
}

fn read(root: &Path, runs: &[PathBuf], id: &str, own_names: Vec<String>) -> Container {
    let mut folders = runs.iter().map(|run| run.join(id).join("userdata"));
    let folder = folders.find(|folder| folder.is_dir()).unwrap_or_default();
    let config = json(&folder.join("config.json")).unwrap_or_default();
    let annotations = &config["annotations"];
    let is_of_cri_o = annotations[CRI_O].is_string();
    let mut all = names(annotations, &NAMES, POD);
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
        pid: pid_in(root, &folder.join("pidfile")),
    }
}
