//! Sandboxes of pods → labels of the pods. In: containers that files name, and the answers of containerd's socket. Out: what is
//! known of a container's pod, each sandbox's read once.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::container::{Container, Runtime};
use super::pod::Pod;
use super::workload::{PodLabels, Workload};
use super::{cri, docker, storage};

/// Sandboxes that are kept; above, all are forgotten and read again.
const MOST_KEPT: usize = 4096;

/// Labels of pods by the ids of their sandboxes.
#[derive(Debug, Clone)]
pub(super) struct Sandboxes {
    /// Sockets that may be asked: those that exist and answered so far.
    sockets: Vec<PathBuf>,
    known: HashMap<String, Option<(Pod, PodLabels)>>,
}

impl Sandboxes {
    /// Knows those that are among these containers, or that containerd lists now.
    pub(super) fn new(root: &Path, containers: &[Container]) -> Self {
        let from_files = containers.iter().filter_map(from_file);
        let known = from_files.map(|(id, found)| (id, Some(found))).collect();
        let mut sandboxes = Self {
            sockets: cri::sockets(root),
            known,
        };
        let is_in_pod = |it: &Container| it.runtime == Runtime::Containerd && it.pod.is_some();
        if containers.iter().any(is_in_pod) {
            sandboxes.ask(None);
        }
        sandboxes
    }

    /// Returns the workload of a container's pod.
    pub(super) fn find_workload(&mut self, root: &Path, container: &Container) -> Option<Workload> {
        let pod = container.pod.as_ref()?;
        let sandbox = container.sandbox.as_deref();
        if let Some(id) = sandbox.filter(|id| !self.known.contains_key(*id)) {
            self.read(root, id, container.runtime);
        }
        let found = sandbox.and_then(|id| self.known.get(id)?.as_ref());
        // one that names another pod is not believed
        let found = found.filter(|(of_sandbox, _)| of_sandbox.is_same(pod));
        Workload::find(&pod.name, found.map(|(_, labels)| labels))
    }

    /// Reads a sandbox that began later.
    fn read(&mut self, root: &Path, id: &str, runtime: Runtime) {
        if self.known.len() >= MOST_KEPT {
            self.known.clear();
        }
        let found = match runtime {
            Runtime::Docker => docker::find(root, id),
            Runtime::CriO => storage::find(root, id),
            _ => None,
        };
        let found = found.and_then(|it| from_file(&it));
        let found = found.filter(|(of_file, _)| of_file == id).map(|it| it.1);
        self.known.insert(id.to_owned(), found);
        if runtime == Runtime::Containerd {
            self.ask(Some(id));
        }
    }

    /// Asks the sockets for all sandboxes, or for one.
    fn ask(&mut self, id: Option<&str>) {
        let known = &mut self.known;
        self.sockets.retain(|socket| {
            let Some(answer) = cri::list(socket, id) else {
                return false;
            };
            let wanted = answer.into_iter().take(MOST_KEPT);
            let wanted = wanted.filter(|it| id.is_none_or(|id| it.id == id));
            known.extend(wanted.map(|it| (it.id, Some((it.pod, it.labels)))));
            true
        });
    }
}

/// Returns the id, the pod and the labels of a sandbox, if the files of its runtime have them.
fn from_file(container: &Container) -> Option<(String, (Pod, PodLabels))> {
    let labels = container.labels.clone()?;
    Some((container.id.clone(), (container.pod.clone()?, labels)))
}
