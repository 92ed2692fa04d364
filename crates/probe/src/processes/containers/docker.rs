//! Docker: `/var/lib/docker/containers/ID/config.v2.json` has id, name and first process of each container.

use std::path::{Path, PathBuf};

use super::container::{Container, Runtime};
use super::containerd::known_name;
use super::files::{is_alive, is_folder, list_entries, match_folders, read_json, read_settings};
use super::pod::KUBELET;
use super::workload::PodLabels;

/// Where Docker keeps its data unless it is configured otherwise; the second as a snap.
const DATA: [&str; 2] = ["var/lib/docker", "var/snap/docker/common/var-lib-docker"];
/// The file with another place, as `data-root`.
const SETTINGS: &str = "etc/docker/daemon.json";

/// cri-dockerd's name of a container, a label.
const NAME_IN_POD: &str = "io.kubernetes.container.name";
/// cri-dockerd's kind of a container, a label; a sandbox has the labels of its pod, too.
const KIND: (&str, &str) = ("io.kubernetes.docker.type", "podsandbox");
/// Id of the sandbox, a label of a pod's other containers.
const SANDBOX: &str = "io.kubernetes.sandbox.id";

/// Returns all containers of Docker that run.
pub(super) fn list(root: &Path) -> Vec<Container> {
    let containers = data(root);
    let containers = containers.iter().flat_map(|data| list_entries(data));
    let containers = containers.filter(|dir| is_folder(dir));
    containers.filter_map(|dir| read(root, &dir)).collect()
}

/// Returns the container with this id.
pub(super) fn find(root: &Path, id: &str) -> Option<Container> {
    let dirs = data(root).into_iter().map(|data| data.join(id));
    let mut dirs = dirs.filter(|dir| is_folder(dir));
    let found = dirs.find_map(|dir| read(root, &dir))?;
    (found.id == id).then_some(found)
}

/// Returns the folders of Docker's containers.
fn data(root: &Path) -> Vec<PathBuf> {
    let setting = read_settings(&root.join(SETTINGS));
    let setting =
        setting.and_then(|settings| settings.get("data-root")?.as_str().map(str::to_owned));
    let setting = setting.map(|path| root.join(path.trim_start_matches('/')));
    let places = DATA.iter().flat_map(|data| match_folders(root, data));
    let places = places.chain(setting);
    places.map(|data| data.join("containers")).collect()
}

/// Reads name, pod and pid of a container from its configuration; None if it has none.
fn read(root: &Path, dir: &Path) -> Option<Container> {
    let config = read_json(&dir.join("config.v2.json"))?;
    let name = config["Name"].as_str().unwrap_or_default();
    let pid = config["State"]["Pid"].as_u64().unwrap_or(0);
    let pid = u32::try_from(pid).ok().filter(|pid| *pid != 0);
    let labels = &config["Config"]["Labels"];
    let in_pod = labels[NAME_IN_POD].as_str().and_then(known_name);
    let own = known_name(name.trim_start_matches('/'));
    let id = config["ID"].as_str()?;
    let is_sandbox = labels[KIND.0] == KIND.1;
    let sandbox = match is_sandbox {
        true => Some(id),
        false => labels[SANDBOX].as_str(),
    };
    Some(Container {
        runtime: Runtime::Docker,
        id: id.to_owned(),
        sandbox: sandbox.map(str::to_owned),
        labels: is_sandbox.then(|| PodLabels::read(labels)).flatten(),
        names: in_pod.into_iter().chain(own).collect(),
        pod: KUBELET.read(labels),
        pid: pid.filter(|pid| is_alive(root, *pid)),
    })
}
