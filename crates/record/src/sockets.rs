//! What is known of each recorded socket: joins the two ends of connections within this host,
//! and notes which processes own them. In: rows as the kernel side gives them. Out: the same rows
//! completed, and rows of processes met for the first time.

use std::collections::HashSet;
use std::net::SocketAddr;

use probe::clock::monotonic_ns;
use probe::processes::ProcessReader;
use probe::tcp_stats::{CookieMap, PeerIndex};
use table::Columns;
use table::tables::{Connection, Connections, Process, Processes};

/// The recorded sockets that are open.
#[derive(Default)]
pub(crate) struct Sockets {
    open: CookieMap<Connection>,
    peers: PeerIndex,
    reader: ProcessReader,
    known_pids: HashSet<u32>,
    unresolved: usize,
}

impl Sockets {
    /// Whether a socket with this cookie is recorded and open.
    pub(crate) fn is_open(&self, conn: u64) -> bool {
        self.open.contains_key(&conn)
    }

    /// Open sockets met since the last call whose owner or other end was not known then.
    pub(crate) fn take_unresolved(&mut self) -> usize {
        std::mem::take(&mut self.unresolved)
    }

    /// Takes a row; adds it, completed, to `rows`, with a new row of the other end when that
    /// becomes joined by it.
    pub(crate) fn update(&mut self, mut row: Connection, rows: &mut Connections) {
        let ends = parse_ends(&row);
        if let Some((local, remote)) = ends {
            if row.closed_ns.is_none() {
                self.peers.insert_socket(row.netns, local, remote, row.conn);
            }
            row.peer_conn = self.peers.peer(row.netns, local, remote, row.conn);
        }
        if row.pid.is_none() || row.peer_conn.is_none() {
            self.unresolved += 1;
        }
        if let Some(peer) = row.peer_conn.and_then(|peer| self.open.get_mut(&peer))
            && peer.peer_conn.is_none()
        {
            peer.peer_conn = Some(row.conn);
            rows.push(peer.clone());
        }
        if row.closed_ns.is_some() {
            self.open.remove(&row.conn);
        } else {
            self.open.insert(row.conn, row.clone());
        }
        rows.push(row);
    }

    /// Whether a process was met before.
    pub(crate) fn knows(&self, pid: u32) -> bool {
        self.known_pids.contains(&pid)
    }

    /// Forgets closed sockets' addresses; called now and then.
    pub(crate) fn forget_closed(&mut self) {
        let open = &self.open;
        self.peers.retain(|conn| open.contains_key(&conn));
    }

    /// Forgets the open sockets that are not known any more otherwise, and names them.
    pub(crate) fn forget_unless(&mut self, is_known: impl Fn(u64) -> bool) -> Vec<u64> {
        let gone: Vec<u64> = self
            .open
            .keys()
            .copied()
            .filter(|conn| !is_known(*conn))
            .collect();
        for conn in &gone {
            self.open.remove(conn);
        }
        gone
    }

    /// Forgets what these processes were.
    pub(crate) fn forget_processes(&mut self, pids: &[(u32, String)]) {
        for (pid, _) in pids {
            self.known_pids.remove(pid);
        }
    }

    /// Adds rows for those processes that were not met before. Of a process that is gone by now,
    /// `owners` still tells the command name that the kernel saw.
    pub(crate) fn describe_owners<'a>(
        &mut self,
        pids: impl Iterator<Item = &'a u32>,
        owners: &[(u32, String)],
        rows: &mut Processes,
    ) {
        for pid in pids {
            if !self.known_pids.insert(*pid) {
                continue;
            }
            let seen = owners.iter().find(|(owner, _)| owner == pid);
            if let Some(process) = self.reader.read(*pid) {
                rows.push(process);
            } else if let Some((_, comm)) = seen {
                rows.push(gone(*pid, comm));
            }
        }
    }
}

/// A process that only the kernel side met.
fn gone(pid: u32, comm: &str) -> Process {
    Process {
        pid,
        time_ns: monotonic_ns(),
        started_ns: None,
        comm: comm.to_owned(),
        exe: None,
        cgroup: None,
        uid: None,
    }
}

fn parse_ends(row: &Connection) -> Option<(SocketAddr, SocketAddr)> {
    Some((row.local.parse().ok()?, row.remote.parse().ok()?))
}
