//! Control groups of a process → names of its container and pod. In: `/proc/PID/cgroup`. Out: names in the files of the runtime,
//! each container's read once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use super::membership::ids_in;
use super::pod::{Pod, label};
use super::sandboxes::Sandboxes;
use super::workload::Workload;
use super::{Container, all, containerd, docker, storage};

/// Containers that are kept. Above, all are forgotten and read again: a node has some hundred pods (the kubelet's
/// `maxPods` is 110).
const MOST_KEPT: usize = 4096;

/// Where a process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerPlace {
    /// Name of its container; `None`: it has none, as the sandbox of a pod.
    pub container: Option<String>,
    /// Pod of its container.
    pub pod: Option<Pod>,
    /// Workload of its pod.
    pub workload: Option<Workload>,
}

/// Names of containers by their ids.
#[derive(Debug, Clone)]
pub struct ContainerNames {
    root: PathBuf,
    known: RefCell<HashMap<String, Option<ContainerPlace>>>,
    sandboxes: RefCell<Sandboxes>,
}

impl ContainerNames {
    /// Reads all present containers: the files may be closed to this thread later. `root` is `/`,
    /// except in tests.
    pub fn new(root: PathBuf) -> Self {
        let containers = all(&root);
        let mut sandboxes = Sandboxes::new(&root, &containers);
        let named = containers.into_iter();
        let named = named.filter(|it| !it.names.is_empty() || it.pod.is_some());
        let known = named.map(|it| {
            let workload = sandboxes.find_workload(&root, &it);
            let id = it.id.clone();
            (id, Some(ContainerPlace::from_container(it, workload)))
        });
        Self {
            known: RefCell::new(known.collect()),
            sandboxes: RefCell::new(sandboxes),
            root,
        }
    }

    /// Returns where a process with these control groups runs; `None`: in no container, or its files cannot be read.
    pub fn find(&self, groups: &str) -> Option<ContainerPlace> {
        let mut ids = ids_in(groups).into_iter();
        ids.find_map(|(id, uid)| {
            let mut place = self.read(&id)?;
            let is_of_another = place.pod.as_ref().is_some_and(|pod| {
                let own = pod.uid.as_ref().zip(uid.as_ref());
                own.is_some_and(|(own, of_group)| own != of_group)
            });
            if is_of_another {
                place.pod = None;
                place.workload = None;
            }
            Some(place)
        })
    }

    /// Returns container and pod by the container's id; reads each id once.
    fn read(&self, id: &str) -> Option<ContainerPlace> {
        let mut known = self.known.borrow_mut();
        if let Some(place) = known.get(id) {
            return place.clone();
        }
        if known.len() >= MOST_KEPT {
            known.clear();
        }
        let root = &self.root;
        let found = docker::find(root, id).or_else(|| storage::find(root, id));
        let found = found.or_else(|| containerd::find(root, id));
        let place = found.map(|it| {
            let workload = self.sandboxes.borrow_mut().find_workload(root, &it);
            ContainerPlace::from_container(it, workload)
        });
        known.insert(id.to_owned(), place.clone());
        place
    }
}

impl ContainerPlace {
    /// Returns the container's name and its pod.
    fn from_container(container: Container, workload: Option<Workload>) -> Self {
        let mut names = container.names.into_iter();
        let name = names.next();
        Self {
            // a container of a pod has a label as its name
            container: name.filter(|name| container.pod.is_none() || label(name).is_some()),
            pod: container.pod,
            workload,
        }
    }
}
