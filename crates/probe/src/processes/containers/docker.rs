//! Docker: `/var/lib/docker/containers/ID/config.v2.json` has id, name and first process of each container.

use std::path::{Path, PathBuf};

use super::container::{Container, Runtime};
use super::files::{entries, folders, json, lives};

/// Where Docker keeps its data unless it is configured otherwise; the second as a snap.
const DATA: [&str; 2] = ["var/lib/docker", "var/snap/docker/common/var-lib-docker"];
/// The file with another place, as `data-root`.
const SETTINGS: &str = "etc/docker/daemon.json";

pub(super) fn list(root: &Path) -> Vec<Container> {
    let setting = json(&root.join(SETTINGS));
    let setting =
        setting.and_then(|settings| settings.get("data-root")?.as_str().map(str::to_owned));
    let setting = setting.map(|path| root.join(path.trim_start_matches('/')));
    let places = DATA.iter().flat_map(|data| folders(root, data));
    let places: Vec<PathBuf> = places.chain(setting).collect();
    let containers = places
        .iter()
        .flat_map(|data| entries(&data.join("containers")));
    containers.filter_map(|dir| read(root, &dir)).collect()
}

fn read(root: &Path, dir: &Path) -> Option<Container> {
    let config = json(&dir.join("config.v2.json"))?;
    let name = config["Name"].as_str().unwrap_or_default();
    let pid = config["State"]["Pid"].as_u64().unwrap_or(0);
    let pid = u32::try_from(pid).ok().filter(|pid| *pid != 0);
    Some(Container {
        runtime: Runtime::Docker,
        id: config["ID"].as_str()?.to_owned(),
        names: vec![name.trim_start_matches('/').to_owned()],
        pid: pid.filter(|pid| lives(root, *pid)),
    })
}
