//! Sandboxes of pods → labels of the pods. In: containers that files name, and the answers of containerd's socket. Out: what is
//! known of a container's pod, each sandbox's read once.
//!
//! The first call waits for its answer, so it is made before anything is captured. Later calls are made by a thread that
//! lives as long as they take: who drains rings does not wait for a runtime. The thread has the privileges that its
//! maker has then.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use super::container::{Container, Runtime};
use super::cri::Silence;
use super::pod::Pod;
use super::runtime_socket::{CallAnswer, FIRST_PAUSE, LONGEST_PAUSE, RuntimeSocket, SandboxCall};
use super::workload::{PodLabels, Workload};
use super::{cri, docker, storage};

/// Sandboxes that are kept; above, all are forgotten and read again.
const MOST_KEPT: usize = 4096;

/// Labels of pods by the ids of their sandboxes.
#[derive(Debug)]
pub(super) struct Sandboxes {
    root: PathBuf,
    sockets: Vec<RuntimeSocket>,
    /// When sockets of runtimes that began later are searched for, if sandboxes want one.
    next_search: Instant,
    known: HashMap<String, Option<(Pod, PodLabels)>>,
    /// Sandboxes without labels yet.
    wanted: HashMap<String, WantedSandbox>,
    /// Makes calls.
    thread: Option<JoinHandle<Vec<CallAnswer>>>,
}

/// A sandbox without labels yet.
#[derive(Debug)]
struct WantedSandbox {
    /// Numbers of the sockets that have not answered for it.
    sockets: Vec<usize>,
    /// All have answered without it, and are asked once more from then on: a runtime lists a sandbox after its process
    /// has started, which may be known here before.
    again: Option<Instant>,
}

/// Holds the workload of a container's pod, as far as files and answers show it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct WorkloadAnswer {
    pub(super) workload: Option<Workload>,
    /// A runtime has still to answer: this is what the pod's name shows.
    pub(super) is_open: bool,
}

/// A runtime that has not answered for sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SilentRuntime {
    /// Its socket.
    pub socket: PathBuf,
    /// Why.
    pub silence: Silence,
}

/// `PATH does not answer`, `only root may open PATH`.
impl fmt::Display for SilentRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let socket = self.socket.display();
        match self.silence {
            Silence::NoAnswer => write!(f, "{socket} does not answer"),
            Silence::NotPermitted => write!(f, "only root may open {socket}"),
        }
    }
}

impl Sandboxes {
    /// Knows those that are among these containers, or that containerd lists now.
    pub(super) fn new(root: &Path, containers: &[Container]) -> Self {
        let from_files = containers.iter().filter_map(from_file);
        let known = from_files.map(|(id, found)| (id, Some(found))).collect();
        let mut sandboxes = Self {
            root: root.to_owned(),
            sockets: Vec::new(),
            next_search: Instant::now(),
            known,
            wanted: HashMap::new(),
            thread: None,
        };
        sandboxes.find_sockets(Instant::now());
        let is_in_pod = |it: &Container| it.runtime == Runtime::Containerd && it.pod.is_some();
        if containers.iter().any(is_in_pod) {
            let calls: Vec<_> = sandboxes.sockets.iter().enumerate().map(list_all).collect();
            for answer in calls.into_iter().map(SandboxCall::make) {
                sandboxes.take_answer(answer, Instant::now());
            }
        }
        sandboxes
    }

    /// Returns what is known of the workload of a container's pod. If that is nothing, the sandbox is asked for.
    pub(super) fn find_workload(&mut self, container: &Container) -> WorkloadAnswer {
        let Some(pod) = container.pod.as_ref() else {
            return WorkloadAnswer {
                workload: None,
                is_open: false,
            };
        };
        let sandbox = container.sandbox.as_deref();
        let is_read = |id: &&str| self.known.contains_key(*id) || self.wanted.contains_key(*id);
        if let Some(id) = sandbox.filter(|id| !is_read(id)) {
            self.read(id, container.runtime);
        }
        let found = sandbox.and_then(|id| self.known.get(id)?.as_ref());
        // one that names another pod is not believed
        let found = found.filter(|(of_sandbox, _)| of_sandbox.is_same(pod));
        WorkloadAnswer {
            workload: Workload::find(&pod.name, found.map(|(_, labels)| labels)),
            is_open: sandbox.is_some_and(|id| self.wanted.contains_key(id)),
        }
    }

    /// Adds sockets that exist now: a runtime may have begun later than whylat.
    fn find_sockets(&mut self, now: Instant) {
        self.next_search = now + LONGEST_PAUSE;
        for path in cri::sockets(&self.root) {
            if self.sockets.iter().all(|it| it.path() != path) {
                let number = self.sockets.len();
                let wanted = self.wanted.values_mut();
                wanted.for_each(|it| it.sockets.push(number));
                self.sockets.push(RuntimeSocket::new(path));
            }
        }
    }

    /// Reads a sandbox that began later, or takes note that it is to be asked for.
    fn read(&mut self, id: &str, runtime: Runtime) {
        if self.known.len() >= MOST_KEPT {
            self.known.clear();
        }
        if runtime == Runtime::Containerd && self.wanted.len() < MOST_KEPT {
            let sockets = (0..self.sockets.len()).collect();
            let wanted = WantedSandbox {
                sockets,
                again: None,
            };
            self.wanted.insert(id.to_owned(), wanted);
            return;
        }
        let found = match runtime {
            Runtime::Docker => docker::find(&self.root, id),
            Runtime::CriO => storage::find(&self.root, id),
            _ => None,
        };
        let found = found.and_then(|it| from_file(&it));
        let found = found.filter(|(of_file, _)| of_file == id).map(|it| it.1);
        self.known.insert(id.to_owned(), found);
    }

    /// Takes the answers that have come, and makes the calls that are due; returns whether more is known now.
    pub(super) fn take_answers(&mut self, now: Instant) -> bool {
        if self.wanted.is_empty() && self.thread.is_none() {
            return false;
        }
        let mut is_more = false;
        if self.thread.as_ref().is_some_and(JoinHandle::is_finished) {
            match self.thread.take().map(JoinHandle::join) {
                Some(Ok(answers)) => {
                    for answer in answers {
                        is_more |= self.take_answer(answer, now);
                    }
                }
                _ => self.note_silence(now),
            }
        }
        if self.thread.is_none() {
            if now >= self.next_search {
                self.find_sockets(now);
            }
            self.start_calls(now);
        }
        is_more
    }

    /// Makes the calls that are due.
    fn start_calls(&mut self, now: Instant) {
        let mut calls = Vec::new();
        for (socket, it) in self.sockets.iter().enumerate() {
            if now < it.due() {
                continue;
            }
            let wanted = self.wanted.iter().filter(|(_, wanted)| {
                wanted.sockets.contains(&socket) && wanted.again.is_none_or(|at| now >= at)
            });
            let ids: Vec<_> = wanted.map(|(id, _)| id.clone()).collect();
            if !ids.is_empty() {
                let path = it.path().to_owned();
                calls.push(SandboxCall { socket, path, ids });
            }
        }
        if calls.is_empty() {
            return;
        }
        let make = move || calls.into_iter().map(SandboxCall::make).collect();
        let thread = thread::Builder::new().name("runtime-call".to_owned());
        self.thread = thread.spawn(make).ok();
        if self.thread.is_none() {
            self.note_silence(now);
        }
    }

    /// Takes note that no socket was asked, as if none had answered.
    fn note_silence(&mut self, now: Instant) {
        for socket in &mut self.sockets {
            socket.note(Some(Silence::NoAnswer), now);
        }
    }

    /// Takes the answer to a call; returns whether more is known now.
    fn take_answer(&mut self, (call, answer): CallAnswer, now: Instant) -> bool {
        self.sockets[call.socket].note(answer.as_ref().err().copied(), now);
        let Ok(answer) = answer else {
            return false;
        };
        let wanted_before = self.wanted.len();
        for it in answer.into_iter().take(MOST_KEPT) {
            let is_wanted = self.wanted.remove(&it.id).is_some();
            if is_wanted || call.ids.is_empty() {
                self.known.insert(it.id, Some((it.pod, it.labels)));
            }
        }
        for id in call.ids {
            self.note_absence(id, call.socket, now);
        }
        self.wanted.len() < wanted_before
    }

    /// Takes note that a socket has answered for a sandbox; if it is still wanted, it was not in the answer.
    fn note_absence(&mut self, id: String, socket: usize, now: Instant) {
        let Some(wanted) = self.wanted.get_mut(&id) else {
            return;
        };
        wanted.sockets.retain(|it| *it != socket);
        if !wanted.sockets.is_empty() {
            return;
        }
        if wanted.again.is_none() {
            wanted.again = Some(now + FIRST_PAUSE);
            wanted.sockets = (0..self.sockets.len()).collect();
        } else {
            self.wanted.remove(&id);
            self.known.insert(id, None);
        }
    }

    /// Returns the first runtime that was asked in vain for sandboxes that are wanted. `is_over`: an answer that has not come
    /// yet will not come, so that one which is about to be asked counts, too.
    pub(super) fn silent_runtime(&self, is_over: bool) -> Option<SilentRuntime> {
        let mut sockets = self.sockets.iter().enumerate();
        sockets.find_map(|(number, it)| {
            let silence = it.silence().or(is_over.then_some(Silence::NoAnswer))?;
            self.is_wanted(number).then(|| SilentRuntime {
                socket: it.path().to_owned(),
                silence,
            })
        })
    }

    /// Returns whether a socket has to answer for a sandbox; one that is asked for once more is not expected to be there.
    fn is_wanted(&self, socket: usize) -> bool {
        let mut wanted = self.wanted.values();
        wanted.any(|it| it.again.is_none() && it.sockets.contains(&socket))
    }
}

/// Makes the call that lists all sandboxes.
fn list_all((socket, it): (usize, &RuntimeSocket)) -> SandboxCall {
    SandboxCall {
        socket,
        path: it.path().to_owned(),
        ids: Vec::new(),
    }
}

/// Returns the id, the pod and the labels of a sandbox, if the files of its runtime have them.
fn from_file(container: &Container) -> Option<(String, (Pod, PodLabels))> {
    let labels = container.labels.clone()?;
    Some((container.id.clone(), (container.pod.clone()?, labels)))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixListener;
    use std::time::Duration;

    use super::super::cri::tests::{response, sandbox, serve_once};
    use super::*;

    const SOCKET: &str = "run/containerd/containerd.sock";
    const NAME: &str = "web-6d4cf56db6-x2k8p";
    const LABEL: (&str, &str) = ("pod-template-hash", "6d4cf56db6");
    /// The workload that the pod's name alone shows, and the one that labels show.
    const BY_NAME: &str = "Deployment web, pod_name";
    const BY_LABELS: &str = "Deployment web, labels";

    /// Makes a container of the pod [`NAME`] with this id of its sandbox.
    fn container(sandbox: &str) -> Container {
        let uid = "7d3c1f2e-5a64-4b1c-9c37-0f1e2d3c4b5a";
        Container {
            runtime: Runtime::Containerd,
            id: format!("{sandbox}0"),
            names: vec!["web".to_owned()],
            pod: Pod::from_names("shop", NAME, Some(uid)),
            pid: Some(1),
            sandbox: Some(sandbox.to_owned()),
            labels: None,
        }
    }

    /// A host with a folder for the socket, and what is known of it.
    fn host() -> (tempfile::TempDir, PathBuf) {
        let root = tempfile::tempdir().expect("a directory");
        let socket = root.path().join(SOCKET);
        fs::create_dir_all(socket.parent().expect("a folder")).expect("made");
        (root, socket)
    }

    fn answer(ids: &[&str]) -> Vec<u8> {
        response(ids.iter().map(|id| sandbox(id, NAME, &[LABEL])).collect())
    }

    /// `KIND NAME, SOURCE`, and `?` while the runtime has to answer.
    fn found(sandboxes: &mut Sandboxes, id: &str) -> String {
        let found = sandboxes.find_workload(&container(id));
        let workload = found
            .workload
            .map(|it| format!("{} {}, {}", it.kind, it.name, it.source));
        workload.unwrap_or_default() + if found.is_open { "?" } else { "" }
    }

    /// Makes the calls that are due, and takes their answers; returns whether more is known.
    fn finish_calls(sandboxes: &mut Sandboxes, now: Instant) -> bool {
        let mut is_more = sandboxes.take_answers(now);
        while sandboxes.thread.is_some() {
            thread::yield_now();
            is_more |= sandboxes.take_answers(now);
        }
        is_more
    }

    /// The same beside a runtime that answers once, with these sandboxes.
    fn finish_calls_to(
        socket: &Path,
        ids: &[&str],
        sandboxes: &mut Sandboxes,
        now: Instant,
    ) -> bool {
        let _ = fs::remove_file(socket);
        let server = serve_once(socket, answer(ids), Some("0"));
        let is_more = finish_calls(sandboxes, now);
        server.join().expect("served");
        is_more
    }

    #[test]
    fn sandboxes_that_begin_later_are_asked_for_without_a_wait() {
        let (root, socket) = host();
        let server = serve_once(&socket, answer(&["a"]), Some("0"));
        let mut sandboxes = Sandboxes::new(root.path(), &[container("a")]);
        server.join().expect("served");
        assert_eq!(found(&mut sandboxes, "a"), BY_LABELS);
        let now = Instant::now();
        // one, by its id; then several at once
        for later in [vec!["b"], vec!["c", "d"]] {
            for id in &later {
                assert_eq!(found(&mut sandboxes, id), format!("{BY_NAME}?"));
            }
            let unanswered = sandboxes.silent_runtime(true).expect("one");
            assert_eq!(unanswered.socket, socket);
            assert_eq!(sandboxes.silent_runtime(false), None, "not asked yet");
            assert!(finish_calls_to(&socket, &later, &mut sandboxes, now));
            for id in &later {
                assert_eq!(found(&mut sandboxes, id), BY_LABELS, "{id}");
            }
            assert_eq!(sandboxes.silent_runtime(true), None);
        }
        assert!(!finish_calls(&mut sandboxes, now), "nothing is open");
    }

    #[test]
    fn sandbox_that_is_not_listed_yet_is_asked_for_once_more() {
        let (root, socket) = host();
        drop(UnixListener::bind(&socket).expect("bound"));
        let mut sandboxes = Sandboxes::new(root.path(), &[]);
        let (open, now) = (format!("{BY_NAME}?"), Instant::now());
        assert_eq!(
            [found(&mut sandboxes, "a"), found(&mut sandboxes, "b")],
            [&*open; 2]
        );
        assert!(!finish_calls_to(&socket, &["other"], &mut sandboxes, now));
        assert_eq!(
            [found(&mut sandboxes, "a"), found(&mut sandboxes, "b")],
            [&*open; 2]
        );
        assert_eq!(sandboxes.silent_runtime(true), None, "it has answered");
        assert!(!finish_calls(&mut sandboxes, now), "not yet");
        let later = now + FIRST_PAUSE;
        assert!(finish_calls_to(&socket, &["a"], &mut sandboxes, later));
        assert_eq!(found(&mut sandboxes, "a"), BY_LABELS);
        assert_eq!(found(&mut sandboxes, "b"), BY_NAME);
        assert!(
            !finish_calls(&mut sandboxes, later + FIRST_PAUSE),
            "not a third time"
        );
    }

    #[test]
    fn runtime_without_an_answer_is_asked_again_after_a_pause() {
        let (root, socket) = host();
        // nobody accepts: of a runtime that has ended
        drop(UnixListener::bind(&socket).expect("bound"));
        let mut sandboxes = Sandboxes::new(root.path(), &[container("a")]);
        assert_eq!(found(&mut sandboxes, "a"), format!("{BY_NAME}?"));
        let silent = sandboxes.silent_runtime(false);
        let text = silent.as_ref().expect("one").to_string();
        assert_eq!(text, format!("{} does not answer", socket.display()));
        let due = sandboxes.sockets[0].due();
        let early = due - Duration::from_nanos(1);
        assert!(!finish_calls(&mut sandboxes, early));
        assert_eq!(sandboxes.sockets[0].due(), due, "not asked");
        assert!(!finish_calls(&mut sandboxes, due));
        assert_eq!(sandboxes.silent_runtime(false), silent);
        // it begins again
        let due = sandboxes.sockets[0].due();
        assert!(finish_calls_to(&socket, &["a"], &mut sandboxes, due));
        assert_eq!(found(&mut sandboxes, "a"), BY_LABELS);
        assert_eq!(sandboxes.silent_runtime(false), None);
    }

    #[test]
    fn socket_of_a_runtime_that_begins_later_is_found() {
        let (root, socket) = host();
        let mut sandboxes = Sandboxes::new(root.path(), &[container("a")]);
        assert_eq!(found(&mut sandboxes, "a"), format!("{BY_NAME}?"));
        assert_eq!(sandboxes.silent_runtime(true), None, "nobody to answer");
        let later = sandboxes.next_search;
        assert!(finish_calls_to(&socket, &["a"], &mut sandboxes, later));
        assert_eq!(found(&mut sandboxes, "a"), BY_LABELS);
    }

    #[test]
    fn each_socket_is_asked_until_one_knows_the_sandbox() {
        let (root, first) = host();
        let second = root.path().join("run/k3s/containerd/containerd.sock");
        fs::create_dir_all(second.parent().expect("a folder")).expect("made");
        // what is left of a runtime that was removed
        drop(UnixListener::bind(&first).expect("bound"));
        let server = serve_once(&second, answer(&["a"]), Some("0"));
        let mut sandboxes = Sandboxes::new(root.path(), &[container("a")]);
        server.join().expect("served");
        assert_eq!(found(&mut sandboxes, "a"), BY_LABELS);
        // silent, but not for a pod
        assert_eq!(sandboxes.silent_runtime(false), None);
    }
}
