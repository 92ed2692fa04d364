//! A container, and what runs it.

use std::fmt;

use super::pod::Pod;
use super::workload::PodLabels;

/// Digits of an id that are enough to distinguish containers, as `docker ps` shows it.
const SHORT_ID: usize = 12;

/// The runtime of a container.
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
    /// Returns the runtime's name as users write it.
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
    /// Its runtime.
    pub runtime: Runtime,
    /// Its whole id.
    pub id: String,
    /// Its names, the one that people use first; an id is all that some have.
    pub names: Vec<String>,
    /// Its pod, in Kubernetes.
    pub pod: Option<Pod>,
    /// Its first process; `None`: it does not run.
    pub pid: Option<u32>,
    /// Id of the sandbox of its pod, which may be its own.
    pub(super) sandbox: Option<String>,
    /// Labels of its pod, which the files of a sandbox have; `None`: not known.
    pub(super) labels: Option<PodLabels>,
}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = self.id.get(..SHORT_ID).unwrap_or(&self.id);
        let runtime = self.runtime.name();
        match (self.names.first(), &self.pod) {
            (Some(name), Some(pod)) => write!(f, "{pod}/{name} ({runtime}, {id})"),
            (Some(name), None) => write!(f, "{name} ({runtime}, {id})"),
            (None, Some(pod)) => write!(f, "sandbox of {pod} ({runtime}, {id})"),
            (None, None) => write!(f, "{id} ({runtime})"),
        }
    }
}
