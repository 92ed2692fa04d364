//! Control groups of a process → names of its container and pod. In: `/proc/PID/cgroup`. Out: names in the files of the runtime,
//! each container's read once.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Instant;

use super::membership::ids_in;
use super::pod::{Pod, label};
use super::sandboxes::{Sandboxes, SilentRuntime, WorkloadAnswer};
use super::workload::Workload;
use super::{Container, containerd, docker, list_containers, storage};

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
    /// The runtime has still to answer for the labels of the pod: the workload may be another one.
    pub is_workload_open: bool,
}

/// Names of containers by their ids.
#[derive(Debug)]
pub struct ContainerNames {
    root: PathBuf,
    known: RefCell<HashMap<String, Option<ContainerPlace>>>,
    /// Containers with an open workload.
    open: RefCell<HashMap<String, Container>>,
    sandboxes: RefCell<Sandboxes>,
}

impl ContainerNames {
    /// Reads all present containers: the files may be closed to this thread later. `root` is `/`,
    /// except in tests.
    pub fn new(root: PathBuf) -> Self {
        let containers = list_containers(&root);
        let sandboxes = Sandboxes::new(&root, &containers);
        let names = Self {
            known: RefCell::default(),
            open: RefCell::default(),
            sandboxes: RefCell::new(sandboxes),
            root,
        };
        for container in containers {
            if !container.names.is_empty() || container.pod.is_some() {
                names.put(container);
            }
        }
        names
    }

    /// Keeps a container, and what is known of its workload.
    fn put(&self, container: Container) -> ContainerPlace {
        let mut sandboxes = self.sandboxes.borrow_mut();
        let answer = sandboxes.find_workload(&container);
        let (id, is_open) = (container.id.clone(), answer.is_open);
        let place = ContainerPlace::new(&container, answer);
        self.known
            .borrow_mut()
            .insert(id.clone(), Some(place.clone()));
        if is_open {
            self.open.borrow_mut().insert(id, container);
        }
        place
    }

    /// Takes the answers of runtimes that have come since; returns whether the workload of a container is known now.
    pub fn take_answers(&self, now: Instant) -> bool {
        if !self.sandboxes.borrow_mut().take_answers(now) {
            return false;
        }
        let open = std::mem::take(&mut *self.open.borrow_mut());
        let before = open.len();
        for container in open.into_values() {
            self.put(container);
        }
        self.open.borrow().len() < before
    }

    /// Returns a runtime that was asked in vain for labels of pods. `is_over`: an answer that has not come yet will not
    /// come.
    pub fn silent_runtime(&self, is_over: bool) -> Option<SilentRuntime> {
        self.sandboxes.borrow().silent_runtime(is_over)
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
                place.is_workload_open = false;
            }
            Some(place)
        })
    }

    /// Returns container and pod by the container's id; reads each id once.
    fn read(&self, id: &str) -> Option<ContainerPlace> {
        if let Some(place) = self.known.borrow().get(id) {
            return place.clone();
        }
        if self.known.borrow().len() >= MOST_KEPT {
            self.known.borrow_mut().clear();
            self.open.borrow_mut().clear();
        }
        let root = &self.root;
        let found = docker::find(root, id).or_else(|| storage::find(root, id));
        let found = found.or_else(|| containerd::find(root, id));
        let Some(found) = found.filter(|it| it.id == id) else {
            self.known.borrow_mut().insert(id.to_owned(), None);
            return None;
        };
        Some(self.put(found))
    }
}

impl ContainerPlace {
    /// Returns the container's name and its pod.
    fn new(container: &Container, answer: WorkloadAnswer) -> Self {
        let name = container.names.first();
        Self {
            // a container of a pod has a label as its name
            container: name
                .filter(|name| container.pod.is_none() || label(name).is_some())
                .cloned(),
            pod: container.pod.clone(),
            workload: answer.workload,
            is_workload_open: answer.is_open,
        }
    }
}
