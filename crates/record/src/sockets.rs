//! What is known of each recorded socket: joins the two ends of connections within this host,
//! and notes which processes own them. In: rows as the kernel side gives them. Out: the same rows
//! completed, and rows of processes met for the first time.

use std::collections::HashMap;
use std::net::SocketAddr;

use probe::processes::ProcessReader;
use probe::tcp_stats::{CookieMap, PeerIndex};
use table::Columns;
use table::tables::{Connection, Connections, Process, Processes};

use crate::met::{Known, Met};

/// Names of threads that are kept of a process; one with more is looked up again now and then.
const NAMES_KEPT: usize = 64;

/// The recorded sockets that are open.
#[derive(Default)]
pub(crate) struct Sockets {
    open: CookieMap<Connection>,
    peers: PeerIndex,
    /// `None` where `/proc` tells of other processes under the same ids.
    reader: Option<ProcessReader>,
    met: Met,
    unresolved: usize,
}

impl Sockets {
    /// `in_proc`: the ids of processes that it meets are those of `/proc` here.
    pub(crate) fn new(in_proc: bool) -> Self {
        Self {
            reader: in_proc.then(ProcessReader::new),
            ..Self::default()
        }
    }

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

    /// Whether a process was met before, under this name if one is told. A pid under another name may be another process
    /// by now: the kernel uses pids again.
    pub(crate) fn knows(&self, pid: u32, comm: Option<&str>) -> bool {
        let known = self.met.get(pid);
        known.is_some_and(|known| comm.is_none_or(|comm| known.comms.contains(comm)))
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
            self.met.forget(*pid);
        }
    }

    /// Adds rows for those processes that were not met before; `met` has pids with the times at which they were met. Of a
    /// process that is gone by now, `owners` still tells the command name that the kernel saw.
    pub(crate) fn describe_owners(
        &mut self,
        met: impl Iterator<Item = (u32, u64)>,
        owners: &[(u32, String)],
        rows: &mut Processes,
    ) {
        let told: HashMap<u32, &str> = owners.iter().map(|(pid, it)| (*pid, &**it)).collect();
        for (pid, time_ns) in met {
            let comm = told.get(&pid).copied();
            if self.knows(pid, comm) {
                self.met.meet_again(pid);
            } else {
                self.describe(pid, time_ns, comm, rows);
            }
        }
    }

    fn describe(&mut self, pid: u32, time_ns: u64, comm: Option<&str>, rows: &mut Processes) {
        // one that started later has the pid of the one that was met
        let is_it = |process: &Process| process.started_ns.is_none_or(|at| at <= time_ns);
        let reader = self.reader.as_ref();
        let found = reader.and_then(|reader| reader.read(pid)).filter(is_it);
        let started_ns = found.as_ref().and_then(|process| process.started_ns);
        let (known, is_new) = self.met.meet(pid);
        let is_same = !is_new && started_ns.is_some() && started_ns == known.started_ns;
        if !is_same {
            *known = Known {
                started_ns,
                ..Known::default()
            };
            let gone = comm.map(|comm| gone(pid, comm, time_ns));
            if let Some(process) = found.or(gone) {
                rows.push(process);
            }
        }
        if known.comms.len() >= NAMES_KEPT {
            known.comms.clear();
        }
        known.comms.extend(comm.map(str::to_owned));
    }
}

/// A process that only the kernel side met, at this time.
fn gone(pid: u32, comm: &str, time_ns: u64) -> Process {
    Process {
        pid,
        time_ns,
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Above every kernel's limit of process ids (`PID_MAX_LIMIT`, 4,194,304): a process that is gone.
    const GONE: u32 = 4_194_305;

    fn met(sockets: &mut Sockets, pid: u32, time_ns: u64, comm: &str) -> Vec<(String, u64, bool)> {
        let mut rows = Processes::default();
        let owners = [(pid, comm.to_owned())];
        sockets.describe_owners([(pid, time_ns)].into_iter(), &owners, &mut rows);
        let row = |index| {
            let row = rows.row(index);
            (row.comm, row.time_ns, row.started_ns.is_some())
        };
        (0..rows.len()).map(row).collect()
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let mut sockets = Sockets::default();
        let first = met(&mut sockets, GONE, 10, "first");
        assert_eq!(first, [("first".to_owned(), 10, false)]);
        assert_eq!(met(&mut sockets, GONE, 20, "first"), []);
        let second = met(&mut sockets, GONE, 30, "second");
        assert_eq!(second, [("second".to_owned(), 30, false)]);
    }

    #[test]
    fn threads_with_names_of_their_own_are_one_process() {
        let mut sockets = Sockets::new(true);
        let own = std::process::id();
        let now_ns = probe::clock::monotonic_ns();
        assert_eq!(met(&mut sockets, own, now_ns, "one").len(), 1);
        assert_eq!(met(&mut sockets, own, now_ns, "two"), []);
        assert_eq!(met(&mut sockets, own, now_ns, "two"), []);
        // met before this process began: it was another one
        assert_eq!(
            met(&mut sockets, own, 1, "old"),
            [("old".to_owned(), 1, false)]
        );
    }

    #[test]
    fn where_ids_are_others_there_is_the_kernels_name_and_no_more() {
        let mut sockets = Sockets::new(false);
        let now_ns = probe::clock::monotonic_ns();
        let named = met(&mut sockets, std::process::id(), now_ns, "kernels");
        assert_eq!(named, [("kernels".to_owned(), now_ns, false)]);
    }
}
