//! Polls every network namespace. In: a visitor. Out: every TCP socket of the host handed to
//! it, and what the poll saw and could not see.
//!
//! A namespace's netlink socket keeps the namespace alive, so the sockets of namespaces that
//! no process uses any more are closed at the next refresh.

use std::collections::HashSet;

use super::dump::{BUFFER_LEN, DiagSocket, DumpCounts, DumpError, Extensions, States};
use super::message::SocketView;
use crate::clock::monotonic_ns;
use crate::netns::{self, Netns, NetnsError};

/// How often namespaces are searched for again: a scan of `/proc` costs about 2 µs a process.
const REFRESH_EVERY_NS: u64 = 5_000_000_000;

/// Says which namespaces are polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// All that can be found and entered.
    Host,
    /// Only that of the calling thread.
    Own,
}

/// Changes in the set of namespaces.
#[derive(Debug, Default)]
pub struct Refresh {
    /// Namespaces polled from now on.
    pub opened: Vec<u32>,
    /// Namespaces no longer polled, because nothing uses them.
    pub closed: Vec<u32>,
    /// Namespaces that exist and cannot be polled, with the cause.
    pub unreachable: Vec<(u32, String)>,
    /// Processes with namespaces that may not be read.
    pub denied_processes: u32,
}

/// Counts and rows of one poll.
#[derive(Debug, Default)]
pub struct PollReport {
    /// Sums over the namespaces.
    pub counts: DumpCounts,
    /// Namespaces polled in full.
    pub namespaces: u32,
    /// Namespaces with a failed dump; their sockets may be missing from this poll.
    pub failures: Vec<DumpError>,
    /// The search for namespaces, when this poll made one.
    pub refresh: Option<Refresh>,
}

/// Listening ports, by network namespace.
#[derive(Debug, Default)]
pub struct Listening {
    ports: HashSet<(u32, u16)>,
}

impl Listening {
    /// Returns whether a socket listens on `port` in namespace `netns`.
    pub fn contains(&self, netns: u32, port: u16) -> bool {
        self.ports.contains(&(netns, port))
    }
}

/// The netlink sockets of all namespaces.
#[derive(Debug)]
pub struct Poller {
    scope: Scope,
    sockets: Vec<DiagSocket>,
    buffer: Vec<u8>,
    refreshed_ns: u64,
}

impl Poller {
    /// Opens the netlink sockets. Fails when not even the caller's own namespace can be polled.
    pub fn open(scope: Scope) -> Result<(Self, Refresh), PollerError> {
        let own = Netns::current()?;
        let sockets = vec![DiagSocket::open(own.inode())?];
        let mut poller = Self {
            scope,
            sockets,
            buffer: vec![0; BUFFER_LEN],
            refreshed_ns: 0,
        };
        let mut refresh = poller.refresh()?;
        refresh.opened.push(own.inode());
        Ok((poller, refresh))
    }

    /// Returns the inode numbers of the polled namespaces.
    pub fn namespaces(&self) -> impl Iterator<Item = u32> {
        self.sockets.iter().map(DiagSocket::netns)
    }

    /// Looks for new and vanished namespaces now. [`Self::poll`] does so every 5 seconds.
    pub fn refresh(&mut self) -> Result<Refresh, NetnsError> {
        self.refreshed_ns = monotonic_ns();
        let mut refresh = Refresh::default();
        if self.scope == Scope::Own {
            return Ok(refresh);
        }
        let found = netns::discover()?;
        refresh.denied_processes = found.denied;
        self.sockets.retain(|socket| {
            let used = found.paths.contains_key(&socket.netns());
            if !used {
                refresh.closed.push(socket.netns());
            }
            used
        });
        for (inode, path) in &found.paths {
            if self.namespaces().any(|known| known == *inode) {
                continue;
            }
            match open_in(path) {
                Ok(socket) => {
                    refresh.opened.push(socket.netns());
                    self.sockets.push(socket);
                }
                Err(PollerError::Netns(error)) if error.is_gone() => {}
                Err(error) => refresh.unreachable.push((*inode, error.to_string())),
            }
        }
        Ok(refresh)
    }

    /// Calls `visit` once for each TCP socket of every namespace.
    pub fn poll(
        &mut self,
        extensions: Extensions,
        mut visit: impl FnMut(&SocketView),
    ) -> PollReport {
        let mut report = PollReport::default();
        if monotonic_ns().saturating_sub(self.refreshed_ns) >= REFRESH_EVERY_NS {
            // Without `/proc` the namespaces known so far are still polled.
            report.refresh = self.refresh().ok();
        }
        self.dump_all(States::Connections, extensions, &mut report, &mut visit);
        report
    }

    /// The listening ports of every namespace.
    pub fn listening(&mut self) -> Listening {
        let mut listening = Listening::default();
        let mut report = PollReport::default();
        let mut visit = |view: &SocketView| {
            listening.ports.insert((view.netns, view.local_port()));
        };
        self.dump_all(
            States::Listening,
            Extensions::default(),
            &mut report,
            &mut visit,
        );
        listening
    }

    /// Asks the kernel for the sockets of each namespace, and calls `visit` for each socket.
    fn dump_all(
        &mut self,
        states: States,
        extensions: Extensions,
        report: &mut PollReport,
        visit: &mut dyn FnMut(&SocketView),
    ) {
        for socket in &mut self.sockets {
            match socket.dump(states, extensions, &mut self.buffer, visit) {
                Ok(counts) => {
                    report.namespaces += 1;
                    report.counts.add(counts);
                }
                Err(error) => report.failures.push(error),
            }
        }
    }
}

/// Why polling could not start.
#[derive(Debug, thiserror::Error)]
pub enum PollerError {
    /// A namespace could not be found or entered.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// No netlink socket.
    #[error(transparent)]
    Dump(#[from] DumpError),
}

/// Opens a socket for requests inside a network namespace.
fn open_in(path: &std::path::Path) -> Result<DiagSocket, PollerError> {
    let netns = Netns::open(path)?;
    Ok(netns.run(|| DiagSocket::open(netns.inode()))??)
}
