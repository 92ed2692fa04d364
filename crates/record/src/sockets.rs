//! What is known of each recorded socket: joins the two ends of connections within this host,
//! and notes which processes own them. In: rows as the kernel side gives them. Out: the same rows
//! completed, and rows of processes met for the first time.

use std::net::SocketAddr;

use probe::processes::{ProcessReader, Seen};
use probe::tcp_stats::{CookieMap, PeerIndex};
use table::Columns;
use table::tables::{Connection, Connections, Process, Processes};

use crate::met::{Known, Met};

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

    /// Whether a process was met before.
    pub(crate) fn knows(&self, seen: &Seen) -> bool {
        let known = self.met.get(seen.pid);
        known.is_some_and(|known| {
            known.started_ns == Some(seen.started_ns) && known.comm == seen.comm
        })
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
    pub(crate) fn forget_processes(&mut self, processes: &[Seen]) {
        for process in processes {
            self.met.forget(process.pid);
        }
    }

    /// Adds rows for those processes that were not met before, as what they are now.
    pub(crate) fn describe(&mut self, seen: &[Seen], rows: &mut Processes) {
        for seen in seen {
            if self.knows(seen) {
                self.met.meet_again(seen.pid);
                continue;
            }
            let read = self.read(seen.pid).filter(|read| seen.is(read));
            rows.push(Process {
                started_ns: Some(seen.started_ns),
                ..read.unwrap_or_else(|| seen.row())
            });
            let known = Known {
                started_ns: Some(seen.started_ns),
                comm: seen.comm.clone(),
            };
            self.met.meet(seen.pid, known);
        }
    }

    /// The same of those of which nothing is told but their ids.
    pub(crate) fn describe_pids(&mut self, pids: impl Iterator<Item = u32>, rows: &mut Processes) {
        for pid in pids {
            if self.met.get(pid).is_some() {
                self.met.meet_again(pid);
                continue;
            }
            let read = self.read(pid);
            let known = read.as_ref().map(|read| Known {
                started_ns: read.started_ns,
                comm: read.comm.clone(),
            });
            self.met.meet(pid, known.unwrap_or_default());
            read.into_iter().for_each(|read| rows.push(read));
        }
    }

    fn read(&self, pid: u32) -> Option<Process> {
        self.reader.as_ref()?.read(pid)
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

    fn seen(pid: u32, started_ns: u64, comm: &str) -> Seen {
        Seen {
            time_ns: started_ns + 5,
            pid,
            started_ns,
            comm: comm.to_owned(),
        }
    }

    /// Command names and starts of the rows that come of it.
    fn met(sockets: &mut Sockets, seen: Seen) -> Vec<(String, Option<u64>)> {
        let mut rows = Processes::default();
        sockets.describe(&[seen], &mut rows);
        rows.comm.into_iter().zip(rows.started_ns).collect()
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let mut sockets = Sockets::new(true);
        let first = || seen(GONE, 10, "same");
        assert_eq!(met(&mut sockets, first()), [("same".to_owned(), Some(10))]);
        assert_eq!(met(&mut sockets, first()), []);
        let second = met(&mut sockets, seen(GONE, 30, "same"));
        assert_eq!(second, [("same".to_owned(), Some(30))]);
        let renamed = met(&mut sockets, seen(GONE, 30, "other"));
        assert_eq!(renamed, [("other".to_owned(), Some(30))]);
    }

    #[test]
    fn what_proc_tells_is_taken_of_the_same_process_only() {
        let mut sockets = Sockets::new(true);
        let own = std::process::id();
        let read = sockets.read(own).expect("this process");
        let started_ns = read.started_ns.expect("its start");
        let mut rows = Processes::default();
        // as exact as the kernel has it: within the tick
        let seen = |started_ns| seen(own, started_ns, &read.comm);
        sockets.describe(&[seen(started_ns + 1_234_567)], &mut rows);
        // before this process began it was another one
        sockets.describe(&[seen(started_ns - 1_000_000_000)], &mut rows);
        assert_eq!(rows.started_ns[0], Some(started_ns + 1_234_567));
        let executables: Vec<bool> = rows.exe.iter().map(Option::is_some).collect();
        assert_eq!(executables, [true, false]);
    }

    #[test]
    fn those_of_which_only_the_id_is_told_are_described_once() {
        let mut sockets = Sockets::new(true);
        let own = std::process::id();
        let mut rows = Processes::default();
        sockets.describe_pids([own, GONE, own].into_iter(), &mut rows);
        assert_eq!(rows.pid, [own]);
    }

    #[test]
    fn where_ids_are_others_there_is_the_kernels_name_and_no_more() {
        let mut sockets = Sockets::new(false);
        let now_ns = probe::clock::monotonic_ns();
        let own = std::process::id();
        let named = met(&mut sockets, seen(own, now_ns, "kernels"));
        assert_eq!(named, [("kernels".to_owned(), Some(now_ns))]);
        let mut rows = Processes::default();
        sockets.describe_pids([own + 1].into_iter(), &mut rows);
        assert_eq!(rows.len(), 0);
    }
}
