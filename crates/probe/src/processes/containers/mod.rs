//! `--container NAME|ID` → its processes. In: a name, an id or the start of one, as the user knows it. Out: a control group,
//! or processes where the container has none of its own in the v2 tree.
//!
//! The files of the runtimes say which containers there are (one file a runtime here), and `/proc` says which processes
//! are theirs. Only for the labels of pods, which containerd writes to no file, is it asked (`cri`).

mod container;
mod containerd;
mod cri;
mod docker;
mod files;
mod membership;
mod names;
mod pod;
mod runtime_socket;
mod sandboxes;
mod storage;
mod workload;

use std::path::Path;

pub use container::{Container, Runtime};
pub use cri::Silence;
pub use membership::Members;
pub use names::{ContainerNames, ContainerPlace};
pub use pod::{Pod, pod_uid};
pub use sandboxes::SilentRuntime;
pub use workload::Workload;

/// Why there is no one container to record.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    /// Nothing fits.
    #[error(
        "no container has the name or id {wanted}\nhint: {}",
        list_running_containers(known)
    )]
    NotFound {
        /// As given.
        wanted: String,
        /// All that run.
        known: Vec<Container>,
    },
    /// More than one fits.
    #[error(
        "{wanted} may be any of {} containers\nhint: give more of the id of one: {}",
        found.len(),
        join_names(found)
    )]
    Ambiguous {
        /// As given.
        wanted: String,
        /// Those that fit.
        found: Vec<Container>,
    },
    /// It is there and has no process.
    #[error("the container {0} does not run\nhint: start it first")]
    NotRunning(Box<Container>),
}

/// Returns the names of containers, with commas.
fn join_names(containers: &[Container]) -> String {
    let words: Vec<_> = containers.iter().map(Container::to_string).collect();
    words.join(", ")
}

/// Returns the text, if the user is not root.
fn wants_root(text: &str) -> &str {
    match nix::unistd::geteuid().is_root() {
        true => "",
        false => text,
    }
}

/// Returns the hint with the containers that run, or what else helps if none was found.
fn list_running_containers(known: &[Container]) -> String {
    match known {
        [] => format!(
            "no running container of docker, podman, containerd or CRI-O was found{}. Choose others by --cgroup",
            wants_root("; only root can read their files")
        ),
        known => format!("these run: {}", join_names(known)),
    }
}

/// Finds the running container with this name or id, and its processes. `root` is `/`, except in tests.
///
/// # Errors
/// When there is not exactly one, or it does not run.
pub fn find_container(root: &Path, wanted: &str) -> Result<(Container, Members), ContainerError> {
    let found = choose_container(list_containers(root), wanted)?;
    let members = found.pid.and_then(|pid| Members::find(root, &found, pid));
    match members {
        Some(members) => Ok((found, members)),
        None => Err(ContainerError::NotRunning(Box::new(found))),
    }
}

/// Returns the container that the user means, by its whole name or id, else by the start of its id. A running one comes
/// first.
fn choose_container(all: Vec<Container>, wanted: &str) -> Result<Container, ContainerError> {
    let fits: [&dyn Fn(&Container) -> bool; 2] = [
        &|it| it.id == wanted || it.names.iter().any(|name| name == wanted),
        &|it| !wanted.is_empty() && it.id.starts_with(wanted),
    ];
    for fits in fits {
        let mut found: Vec<_> = all.iter().filter(|it| fits(it)).cloned().collect();
        if found.iter().any(|it| it.pid.is_some()) {
            found.retain(|it| it.pid.is_some());
        }
        match found.len() {
            0 => {}
            1 => return Ok(found.remove(0)),
            _ => {
                return Err(ContainerError::Ambiguous {
                    wanted: wanted.to_owned(),
                    found,
                });
            }
        }
    }
    let mut known = all;
    known.retain(|it| it.pid.is_some());
    Err(ContainerError::NotFound {
        wanted: wanted.to_owned(),
        known,
    })
}

/// Why there is no one pod to record.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// None fits.
    #[error(
        "no pod with the name or UID {wanted} runs on this node\nhint: {}",
        list_running_pods(known)
    )]
    NotFound {
        /// As given.
        wanted: String,
        /// All that run.
        known: Vec<Pod>,
    },
    /// Several fit.
    #[error(
        "{wanted} may be any of {} pods\nhint: give NAMESPACE/NAME or the UID of one: {}",
        found.len(),
        join_pods(found)
    )]
    Ambiguous {
        /// As given.
        wanted: String,
        /// Those that fit.
        found: Vec<Pod>,
    },
}

/// Returns the names of pods with their uids, with commas.
fn join_pods(pods: &[Pod]) -> String {
    let words = pods.iter().map(|pod| match &pod.uid {
        Some(uid) => format!("{pod} ({uid})"),
        None => pod.to_string(),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the hint with the pods that run.
fn list_running_pods(known: &[Pod]) -> String {
    match known {
        [] => format!(
            "no pod was found in the files of containerd, CRI-O or docker{}. `kubectl get pod -o wide` says on which \
             node a pod runs",
            wants_root("; only root can read them")
        ),
        known => format!("these run: {}", join_pods(known)),
    }
}

/// Returns the running pod with this `NAMESPACE/NAME`, name or UID; its containers that run; and who its members are.
/// `root` is `/`, but in tests.
///
/// # Errors
/// When there is not exactly one that runs.
pub fn find_pod(root: &Path, wanted: &str) -> Result<(Pod, Vec<Container>, Members), PodError> {
    let mut containers = list_containers(root);
    containers.retain(|it| it.pid.is_some() && it.pod.is_some());
    let mut known: Vec<Pod> = containers.iter().filter_map(|it| it.pod.clone()).collect();
    known.sort();
    known.dedup();
    let uid = wanted.replace('-', "");
    let fits = |pod: &&Pod| {
        let is_named = match wanted.split_once('/') {
            Some((namespace, name)) => pod.namespace == namespace && pod.name == name,
            None => pod.name == wanted,
        };
        is_named || pod.uid.as_ref() == Some(&uid)
    };
    let mut found: Vec<Pod> = known.iter().filter(fits).cloned().collect();
    let pod = match found.len() {
        1 => found.remove(0),
        0 => {
            let wanted = wanted.to_owned();
            return Err(PodError::NotFound { wanted, known });
        }
        _ => {
            let wanted = wanted.to_owned();
            return Err(PodError::Ambiguous { wanted, found });
        }
    };
    containers.retain(|it| it.pod.as_ref() == Some(&pod));
    match Members::find_pod(root, &containers) {
        Some(members) => Ok((pod, containers, members)),
        None => Err(PodError::NotFound {
            wanted: wanted.to_owned(),
            known,
        }),
    }
}

/// Lists all containers that a runtime's files, or a control group, report: each once.
fn list_containers(root: &Path) -> Vec<Container> {
    let mut all: Vec<Container> = Vec::new();
    let found = [
        docker::list(root),
        storage::list(root),
        // docker's are here, too, without their names
        containerd::list(root),
        membership::list(root),
    ];
    for container in found.into_iter().flatten() {
        match all.iter_mut().find(|it| it.id == container.id) {
            Some(known) => {
                known.pid = known.pid.or(container.pid);
                known.pod = known.pod.take().or(container.pod);
            }
            None => all.push(container),
        }
    }
    for container in &mut all {
        if membership::is_of_another_pod(root, container) {
            container.pod = None;
            container.names.retain(|name| !name.contains('/'));
        }
    }
    all.sort_by(|a, b| (a.runtime, &a.names, &a.id).cmp(&(b.runtime, &b.names, &b.id)));
    all
}

#[cfg(test)]
pub(super) mod tests;
