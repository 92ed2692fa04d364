//! Statistics without BPF (no root, no BTF): which of the polled sockets the recording concerns,
//! by owner, port or all, and what becomes of their samples.

use probe::inventory::KindsByFile;
use probe::processes::{SocketOwners, families, pids_by_comm, pids_of_uid};
use probe::tcp_stats::{
    ConnectionFacts, Extensions, Listening, Offer, Poller, PollerError, Refresh, SampleCounts,
    SampleFilter, Scope, Selection, connection_row,
};
use table::manifest::{Coverage, ProbeState, SocketKind};
use table::tables::{Connections, TcpSamples};
use table::{Chosen, Columns, Role};

use crate::Target;
use crate::sockets::Sockets;

/// Most files that one look for owners opens.
const MAX_FILES: u64 = 200_000;

/// The poller with its memory, and the choice of sockets.
pub(crate) struct Polls {
    poller: Poller,
    filter: SampleFilter,
    choice: Choice,
    unreachable: Vec<String>,
    failures: u64,
}

/// Chooses the sockets that are recorded.
struct Choice {
    selection: Selection,
    owners: SocketOwners,
    kinds: KindsByFile,
    listening: Listening,
    target: Target,
    command_pid: Option<u32>,
    uid: Option<u32>,
}

impl Polls {
    /// Opens the poller: root polls all network namespaces, others their own.
    pub(crate) fn open(target: &Target) -> Result<Self, PollerError> {
        let uid = nix::unistd::geteuid();
        let scope = if uid.is_root() {
            Scope::Host
        } else {
            Scope::Own
        };
        let (mut poller, refresh) = Poller::open(scope)?;
        let choice = Choice {
            selection: match target {
                Target::All if uid.is_root() => Selection::everything(),
                _ => Selection::default(),
            },
            owners: SocketOwners::default(),
            kinds: KindsByFile::default(),
            listening: poller.listening(),
            target: target.clone(),
            command_pid: None,
            uid: (!uid.is_root()).then(|| uid.as_raw()),
        };
        Ok(Self {
            poller,
            filter: SampleFilter::default(),
            choice,
            unreachable: unreachable(&refresh),
            failures: 0,
        })
    }

    /// Adds the started command to the recorded processes.
    pub(crate) fn set_command(&mut self, pid: u32) {
        self.choice.command_pid = Some(pid);
    }

    /// Visits every socket once; samples of the recorded ones go to `samples`, new
    /// sockets to `connections`.
    pub(crate) fn poll(
        &mut self,
        sockets: &mut Sockets,
        samples: &mut TcpSamples,
        connections: &mut Connections,
    ) {
        let Self {
            poller,
            filter,
            choice,
            ..
        } = self;
        choice.look_for_owners();
        let extensions = Extensions {
            memory: true,
            congestion: true,
        };
        let report = poller.poll(extensions, |view| {
            let offer = filter.visit(view, |view| choice.chooses(view, sockets, connections));
            if let Offer::Row(row) = offer {
                samples.push(row);
            }
        });
        filter.end_poll();
        self.failures += report.failures.len() as u64;
        if let Some(refresh) = &report.refresh {
            self.unreachable = unreachable(refresh);
        }
    }

    /// Returns whether a recent poll saw this socket.
    pub(crate) fn knows(&self, conn: u64) -> bool {
        self.filter.knows(conn)
    }

    /// Returns the number of sockets that recorded processes had at polls, by kind.
    pub(crate) fn sockets(&self) -> Vec<SocketKind> {
        self.choice.kinds.lines()
    }

    /// Returns how many samples were read, and how many were left out as unchanged.
    pub(crate) fn counts(&self) -> SampleCounts {
        self.filter.counts()
    }

    /// Returns the coverage line of polls: on, or which namespaces could not be polled.
    pub(crate) fn coverage(&self) -> Coverage {
        let state = match (&self.unreachable[..], self.failures) {
            ([], 0) => ProbeState::On,
            ([], failures) => fallback(format!("{failures} polls of a network namespace failed")),
            (some, _) => fallback(format!(
                "network namespaces not reachable: {}",
                some.join(", ")
            )),
        };
        Coverage {
            probe: "tcp_stats".to_owned(),
            state,
        }
    }
}

/// Makes the state of polls that miss some namespaces.
fn fallback(why: String) -> ProbeState {
    ProbeState::Fallback {
        which: "polls of the other network namespaces".to_owned(),
        why,
    }
}

/// Returns namespaces that cannot be entered, each with the reason.
fn unreachable(refresh: &Refresh) -> Vec<String> {
    refresh
        .unreachable
        .iter()
        .map(|(inode, why)| format!("{inode} ({why})"))
        .collect()
}

impl Choice {
    /// Finds the present socket files of recorded processes.
    fn look_for_owners(&mut self) {
        let pids = match &self.target {
            Target::Command(_) => families(self.command_pid),
            Target::Pids(pids) => families(pids.iter().copied()),
            Target::Comm(name) => pids_by_comm(name).unwrap_or_default(),
            Target::Port(port) => {
                self.selection.add_ports([*port]);
                Vec::new()
            }
            Target::Cgroup(_) => Vec::new(),
            Target::All => self.uid.map(pids_of_uid).unwrap_or_default(),
        };
        self.owners = SocketOwners::scan(pids, MAX_FILES);
        self.kinds.look(self.owners.descriptors.iter().copied());
        self.selection
            .set_inodes(self.owners.owners.keys().copied());
    }

    /// Returns whether to record a socket: it is the user's and the selection has it.
    fn chooses(
        &mut self,
        view: &probe::tcp_stats::SocketView<'_>,
        sockets: &mut Sockets,
        connections: &mut Connections,
    ) -> bool {
        let foreign = self.uid.is_some_and(|uid| uid != view.uid);
        if foreign || !self.selection.matches(view) {
            return false;
        }
        if !sockets.is_open(view.cookie) {
            let role = if self.listening.contains(view.netns, view.local_port()) {
                Role::Server
            } else {
                Role::Unknown
            };
            let facts = ConnectionFacts {
                role,
                chosen: Chosen::Target,
                opened_ns: None,
                pid: self.owners.owners.get(&view.inode).copied(),
                peer_conn: None,
            };
            sockets.update(connection_row(view, facts), connections);
        }
        true
    }
}
