//! Decides which processes are a container's, by `/proc/PID/cgroup`: control groups have the container's id in their
//! name, whichever driver made them.
//!
//! ```text
//! cgroupfs    /docker/ID   /libpod_parent/libpod-ID   /default/ID   /kubepods/burstable/podUID/ID
//! systemd     /system.slice/docker-ID.scope   /machine.slice/libpod-ID.scope/container
//!             /kubepods.slice/…/cri-containerd-ID.scope   …/crio-ID.scope
//! ```

use std::path::Path;

use super::container::{Container, Runtime};
use super::files::{last_part, list_entries};
use super::pod::{pod_group, uid_of_group};

/// Names of the control groups of programs that look after a container, and are not in it.
const MONITORS: [&str; 2] = ["conmon-", "-conmon"];
/// Digits of the ids that all runtimes but bare containerd give.
const ID_DIGITS: usize = 64;

/// Says who is recorded for a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Members {
    /// Says who is in this control group of the v2 tree, now or later.
    Cgroup(String),
    /// These processes, and what they start: the container has no control group of its own in the v2 tree, so that what
    /// its runtime starts in it later (`docker exec`) is not known as its own.
    Processes(Vec<u32>),
}

impl Members {
    /// Returns the members of a container with this first process; `None` if that has ended.
    pub(super) fn find(root: &Path, container: &Container, pid: u32) -> Option<Self> {
        let id = container.id.as_str();
        if let Some(path) = read_groups(root, pid)?
            .v2
            .and_then(|path| cut_path_after(&path, id))
        {
            return Some(Self::Cgroup(path));
        }
        let is_in = |other: &u32| {
            let groups = read_groups(root, *other).unwrap_or_default();
            groups
                .paths()
                .any(|path| cut_path_after(path, id).is_some())
        };
        let mut processes: Vec<u32> = list_pids(root).filter(is_in).collect();
        processes.sort_unstable();
        if processes.is_empty() && container.runtime != Runtime::Docker {
            // one that was set to have no control group, which Docker has no way to show
            processes.push(pid);
        }
        (!processes.is_empty()).then_some(Self::Processes(processes))
    }

    /// Returns the members of a pod with these containers: its control group, if all share one.
    pub(super) fn find_pod(root: &Path, containers: &[Container]) -> Option<Self> {
        let path = |it: &Container| {
            let path = read_groups(root, it.pid?)?.v2?;
            let (group, _) =
                pod_group(&path).filter(|_| cut_path_after(&path, &it.id).is_some())?;
            Some(group.to_owned())
        };
        let mut paths: Vec<Option<String>> = containers.iter().map(path).collect();
        paths.dedup();
        if let [Some(path)] = paths.as_slice() {
            return Some(Self::Cgroup(path.clone()));
        }
        let is_in = |pid: &u32| {
            let groups = read_groups(root, *pid).unwrap_or_default();
            let is_one = |path: &String| {
                let mut containers = containers.iter();
                containers.any(|it| cut_path_after(path, &it.id).is_some())
            };
            groups.paths().any(is_one)
        };
        let mut processes: Vec<u32> = list_pids(root).filter(is_in).collect();
        processes.sort_unstable();
        (!processes.is_empty()).then_some(Self::Processes(processes))
    }
}

/// Returns whether a container's control groups name another pod than its runtime's file: one of them is wrong.
pub(super) fn is_of_another_pod(root: &Path, container: &Container) -> bool {
    let Some(uid) = container.pod.as_ref().and_then(|pod| pod.uid.as_deref()) else {
        return false;
    };
    let groups = container.pid.and_then(|pid| read_groups(root, pid));
    let groups = groups.unwrap_or_default();
    let mut uids = groups.paths().filter_map(|path| uid_of_group(path));
    uids.any(|of_group| of_group != uid)
}

/// Control groups of a process.
#[derive(Debug, Default)]
struct Groups {
    v2: Option<String>,
    /// Those that are in no v2 tree, or not in the part of it that this process has.
    v1: Vec<String>,
}

impl Groups {
    /// Returns all control group paths of a process: version 2 first, then version 1.
    fn paths(&self) -> impl Iterator<Item = &String> {
        self.v2.iter().chain(&self.v1)
    }
}

/// Returns the ids of containers in `/proc/PID/cgroup`, from the outermost to the innermost, each with the UID of its pod.
pub(super) fn ids_in(text: &str) -> Vec<(String, Option<String>)> {
    let groups = parse(text);
    let of_path = |path: &String| {
        let uid = uid_of_group(path);
        let ids = path.split('/').filter_map(id_in);
        let ids: Vec<_> = ids.map(|id| (id.to_owned(), uid.clone())).collect();
        ids
    };
    groups.paths().flat_map(of_path).collect()
}

/// Returns the control groups of a process; `None` if it has ended.
fn read_groups(root: &Path, pid: u32) -> Option<Groups> {
    let text = std::fs::read_to_string(root.join(format!("proc/{pid}/cgroup"))).ok()?;
    Some(parse(&text))
}

/// Reads `/proc/PID/cgroup`.
fn parse(text: &str) -> Groups {
    let mut groups = Groups::default();
    for line in text.lines() {
        match line.strip_prefix("0::") {
            // above the root of this control group namespace: `/../../podUID/ID`
            Some(path) if path.starts_with("/..") => groups.v1.push(path.to_owned()),
            Some(path) => groups.v2 = Some(path.to_owned()),
            None => groups
                .v1
                .extend(line.splitn(3, ':').nth(2).map(str::to_owned)),
        }
    }
    groups
}

/// Returns the start of a path of control groups down to the one that is named after this container.
fn cut_path_after(path: &str, id: &str) -> Option<String> {
    let mut end = 0;
    for part in path.split('/') {
        end += part.len() + 1;
        if is_named_after(part, id) {
            return Some(path[..end - 1].to_owned());
        }
    }
    None
}

/// Returns whether a part of a control group's path names this container.
fn is_named_after(part: &str, id: &str) -> bool {
    let name = part.trim_end_matches(".scope").trim_end_matches(".slice");
    let Some(before) = name.strip_suffix(id) else {
        return false;
    };
    let is_monitor = MONITORS.iter().any(|monitor| part.contains(monitor));
    // `:` where a runtime names groups for systemd and none runs
    (before.is_empty() || before.ends_with(['-', ':'])) && !is_monitor
}

/// Returns the id in the name of a control group, if it is one of 64 digits.
fn id_in(part: &str) -> Option<&str> {
    let name = part.trim_end_matches(".scope");
    let id = name.get(name.len().checked_sub(ID_DIGITS)?..)?;
    let is_id = id
        .bytes()
        .all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
    (is_id && is_named_after(part, id)).then_some(id)
}

/// Lists the containers that processes' control groups show, also those of runtimes with unreadable files.
pub(super) fn list(root: &Path) -> Vec<Container> {
    let mut found: Vec<Container> = Vec::new();
    for pid in list_pids(root) {
        let groups = read_groups(root, pid).unwrap_or_default();
        for id in groups
            .paths()
            .flat_map(|path| path.split('/'))
            .filter_map(id_in)
        {
            match found.iter_mut().find(|it| it.id == id) {
                // the first process has the least id, as long as those do not begin again
                Some(known) => known.pid = known.pid.min(Some(pid)),
                None => found.push(Container {
                    runtime: Runtime::Unknown,
                    id: id.to_owned(),
                    names: Vec::new(),
                    pod: None,
                    pid: Some(pid),
                    sandbox: None,
                    labels: None,
                }),
            }
        }
    }
    found
}

/// Returns all pids in `/proc`.
fn list_pids(root: &Path) -> impl Iterator<Item = u32> {
    let entries = list_entries(&root.join("proc"));
    entries
        .into_iter()
        .filter_map(|entry| last_part(&entry).parse().ok())
}
