//! `--container NAME|ID` → its processes. In: a name, an id or the begin of one, as the user knows it. Out: a control group,
//! or processes where the container has none of its own in the v2 tree.
//!
//! Nobody is asked: the files of the runtimes say which containers there are (one file a runtime here), and `/proc` says
//! which processes are theirs.

mod containerd;
mod docker;
mod membership;
mod storage;

use std::fmt;
use std::path::{Path, PathBuf};

pub use membership::Members;

/// Digits of an id that are enough to distinguish containers, as `docker ps` shows it.
const SHORT_ID: usize = 12;

/// Holds what runs a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runtime {
    /// Docker.
    Docker,
    /// Podman.
    Podman,
    /// containerd, by nerdctl, ctr or Kubernetes.
    Containerd,
    /// CRI-O.
    CriO,
    /// Its files cannot be read; a control group has its id.
    Unknown,
}

impl Runtime {
    /// As people write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Containerd => "containerd",
            Self::CriO => "CRI-O",
            Self::Unknown => "unknown runtime",
        }
    }
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    /// Holds what runs it.
    pub runtime: Runtime,
    /// Its whole id.
    pub id: String,
    /// Its names, the one that people use first; an id is all that some have.
    pub names: Vec<String>,
    /// Its first process; `None`: it does not run.
    pub pid: Option<u32>,
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id.get(..SHORT_ID).unwrap_or(&self.id);
        match self.names.first() {
            Some(name) => write!(f, "{name} ({}, {id})", self.runtime.name()),
            None => write!(f, "{id} ({})", self.runtime.name()),
        }
    }
}

/// Why there is no one container to record.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    /// Nothing fits.
    #[error(
        "no container has the name or id {wanted}\nhint: {}",
        those_that_run(known)
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
        listed(found)
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

fn listed(containers: &[Container]) -> String {
    let words: Vec<_> = containers.iter().map(Container::to_string).collect();
    words.join(", ")
}

fn those_that_run(known: &[Container]) -> String {
    match known {
        [] => "no running container of docker, podman, containerd or CRI-O was found; their files want root. \
               Others can be chosen by --cgroup"
            .to_owned(),
        known => format!("these run: {}", listed(known)),
    }
}

/// The running container of this name or id, and who its members are. `root` is `/`, but in tests.
///
/// # Errors
/// When there is not exactly one, or it does not run.
pub fn find_container(root: &Path, wanted: &str) -> Result<(Container, Members), ContainerError> {
    let found = choose(all(root), wanted)?;
    let members = found.pid.and_then(|pid| Members::find(root, &found, pid));
    match members {
        Some(members) => Ok((found, members)),
        None => Err(ContainerError::NotRunning(Box::new(found))),
    }
}

/// The container that is meant: its whole name or id, else the begin of its id; one that runs rather than one that does not.
fn choose(all: Vec<Container>, wanted: &str) -> Result<Container, ContainerError> {
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

/// All containers that some runtime's files, or a control group, report: each once.
fn all(root: &Path) -> Vec<Container> {
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
            Some(known) => known.pid = known.pid.or(container.pid),
            None => all.push(container),
        }
    }
    all.sort_by(|a, b| (a.runtime, &a.names, &a.id).cmp(&(b.runtime, &b.names, &b.id)));
    all
}

/// Folders that a pattern such as `run/user/*/containers` means below a root; `*` is any one name.
fn folders(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        found = match part {
            "*" => found.iter().flat_map(|dir| entries(dir)).collect(),
            part => found.iter().map(|dir| dir.join(part)).collect(),
        };
    }
    found.retain(|dir| dir.is_dir());
    found
}

/// Returns what is in a folder; nothing where it cannot be read.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// A file of JSON; `None` where it cannot be read, or is none.
fn json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The process with the id in a file, if it lives.
fn pid_in(root: &Path, file: &Path) -> Option<u32> {
    let pid = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    membership::lives(root, pid).then_some(pid)
}

/// Last part of a path, as text.
fn last(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests;
