//! The recorded sockets and what is known of each: joins the two ends of connections within this host,
//! and notes which processes own them. In: rows as the kernel side gives them. Out: the same rows
//! completed, and rows of processes that are new.

use std::net::SocketAddr;

use probe::processes::{ObservedProcess, ProcessReader};
use probe::tcp_stats::{CookieMap, PeerIndex};
use table::Columns;
use table::manifest::{Coverage, ProbeState};
use table::tables::{Connection, Connections, Processes};

use crate::process_cache::{CachedProcess, ProcessCache};

/// The recorded sockets that are open.
#[derive(Default)]
pub(crate) struct Sockets {
    open: CookieMap<Connection>,
    peers: PeerIndex,
    /// `None` where `/proc` has other processes under the same ids.
    reader: Option<ProcessReader>,
    processes: ProcessCache,
    /// Number of things that another walk over open files would find out; see [`Sockets::take_unresolved`].
    unresolved: usize,
}

impl Sockets {
    /// Makes an empty list of sockets; without a reader, `/proc` has other processes under the same ids.
    pub(crate) fn new(reader: Option<ProcessReader>) -> Self {
        Self {
            reader,
            ..Self::default()
        }
    }

    /// Returns whether a socket with this cookie is recorded and open.
    pub(crate) fn is_open(&self, conn: u64) -> bool {
        self.open.contains_key(&conn)
    }

    /// Returns the number of things that another walk would find out: new sockets since the last call without a known owner
    /// or peer, and what [`Sockets::add_unresolved`] added.
    pub(crate) fn take_unresolved(&mut self) -> usize {
        std::mem::take(&mut self.unresolved)
    }

    /// Adds things that another walk would find out.
    pub(crate) fn add_unresolved(&mut self, count: usize) {
        self.unresolved += count;
    }

    /// Completes a row and adds it to `rows`, also a row of the other end if that is now joined.
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

    /// Returns whether a process is known, with the same program or a later one.
    pub(crate) fn knows(&self, seen: &ObservedProcess) -> bool {
        self.processes
            .get(seen.pid)
            .is_some_and(|known| known.is(seen))
    }

    /// Forgets closed sockets' addresses; called now and then.
    pub(crate) fn forget_closed(&mut self) {
        let open = &self.open;
        self.peers.retain(|conn| open.contains_key(&conn));
    }

    /// Forgets open sockets that `is_known` does not confirm, and returns them.
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

    /// Adds rows for processes that are new, or run another program.
    pub(crate) fn describe(&mut self, seen: &[ObservedProcess], rows: &mut Processes) {
        for seen in seen {
            if self.knows(seen) {
                self.processes.touch(seen.pid);
                continue;
            }
            let read = self.reader.as_ref().and_then(|reader| reader.read_as(seen));
            let row = read.unwrap_or_else(|| seen.row());
            let known = CachedProcess::from_row(&row, Some(seen.execs));
            let before = self.processes.get(seen.pid);
            if !before.is_some_and(|before| before.is_unchanged(&known)) {
                rows.push(row);
            }
            self.processes.insert(seen.pid, known);
        }
    }

    /// Adds rows again, with the workloads that runtimes have answered since. Calls to runtimes begin here, with the
    /// privileges of who calls.
    pub(crate) fn describe_workloads(&self, rows: &mut Processes) {
        let reader = self.reader.as_ref();
        let found = reader.map(ProcessReader::take_workloads);
        found.into_iter().flatten().for_each(|row| rows.push(row));
    }

    /// Returns how workloads of pods are seen, if a runtime does not answer. `is_over`: answers that have not come yet
    /// will not come.
    pub(crate) fn workload_coverage(&self, is_over: bool) -> Option<Coverage> {
        let silent = self.reader.as_ref()?.silent_runtime(is_over)?;
        Some(Coverage {
            probe: "workloads".to_owned(),
            state: ProbeState::Fallback {
                which: "of some pods only Deployments, by the names of pods".to_owned(),
                why: silent.to_string(),
            },
        })
    }

    /// Adds rows for new processes, by their pids alone.
    pub(crate) fn describe_pids(&mut self, pids: impl Iterator<Item = u32>, rows: &mut Processes) {
        for pid in pids {
            if self.processes.get(pid).is_some() {
                self.processes.touch(pid);
                continue;
            }
            let read = self.reader.as_ref().and_then(|reader| reader.read(pid));
            let known = read.as_ref().map(|row| CachedProcess::from_row(row, None));
            self.processes.insert(pid, known.unwrap_or_default());
            read.into_iter().for_each(|row| rows.push(row));
        }
    }
}

/// Returns local and remote address; None if one is not numeric.
fn parse_ends(row: &Connection) -> Option<(SocketAddr, SocketAddr)> {
    Some((row.local.parse().ok()?, row.remote.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Above every kernel's limit of process ids (`PID_MAX_LIMIT`, 4,194,304): a process that is gone.
    const GONE: u32 = 4_194_305;

    /// Makes a process that was seen 5 ns after its start.
    fn seen(pid: u32, started_ns: u64, execs: u32, comm: &str) -> ObservedProcess {
        ObservedProcess {
            time_ns: started_ns + 5,
            pid,
            started_ns,
            execs,
            comm: comm.to_owned(),
        }
    }

    /// Returns command names and starts of the rows for this process.
    fn describe(sockets: &mut Sockets, seen: ObservedProcess) -> Vec<(String, Option<u64>)> {
        let mut rows = Processes::default();
        sockets.describe(&[seen], &mut rows);
        rows.comm.into_iter().zip(rows.started_ns).collect()
    }

    #[test]
    fn a_pid_that_is_used_again_is_another_process() {
        let mut sockets = Sockets::new(Some(ProcessReader::new()));
        let first = || seen(GONE, 10, 1, "same");
        assert_eq!(
            describe(&mut sockets, first()),
            [("same".to_owned(), Some(10))]
        );
        assert_eq!(describe(&mut sockets, first()), []);
        let second = describe(&mut sockets, seen(GONE, 30, 1, "same"));
        assert_eq!(second, [("same".to_owned(), Some(30))]);
    }

    #[test]
    fn a_process_is_described_again_when_it_becomes_another_program() {
        let mut sockets = Sockets::new(Some(ProcessReader::new()));
        assert_eq!(describe(&mut sockets, seen(GONE, 30, 1, "sh")).len(), 1);
        let second = describe(&mut sockets, seen(GONE, 30, 2, "client"));
        assert_eq!(second, [("client".to_owned(), Some(30))]);
        // what sockets of before still say of it; a name that it took since; a program that looks the same
        assert_eq!(describe(&mut sockets, seen(GONE, 30, 1, "sh")), []);
        assert_eq!(describe(&mut sockets, seen(GONE, 30, 2, "worker 1")), []);
        assert_eq!(describe(&mut sockets, seen(GONE, 30, 3, "client")), []);
    }

    #[test]
    fn earlier_owner_of_a_pid_keeps_the_kernels_name() {
        let mut sockets = Sockets::new(Some(ProcessReader::new()));
        let own = std::process::id();
        let read = ProcessReader::new().read(own).expect("this process");
        let started_ns = read.started_ns.expect("its start");
        let mut rows = Processes::default();
        let earlier = seen(own, started_ns - 1_000_000_000, 1, "earlier");
        sockets.describe(
            &[earlier, seen(own, started_ns + 1, 1, &read.comm)],
            &mut rows,
        );
        assert_eq!(rows.comm, ["earlier", &read.comm]);
        assert_eq!(rows.exe, [None, read.exe]);
    }

    #[test]
    fn process_known_by_id_is_the_same_process() {
        let mut sockets = Sockets::new(Some(ProcessReader::new()));
        let own = std::process::id();
        let mut rows = Processes::default();
        sockets.describe_pids([own, GONE, own].into_iter(), &mut rows);
        assert_eq!(rows.pid, [own]);
        // the kernel's start, which is not cut to the tick
        let exact_ns = rows.started_ns[0].expect("its start") + 1_234_567;
        let seen = seen(own, exact_ns, 1, &rows.comm[0]);
        assert_eq!(describe(&mut sockets, seen.clone()), []);
        assert!(sockets.knows(&seen));
    }

    #[test]
    fn foreign_pid_namespace_gives_only_the_kernels_name() {
        let mut sockets = Sockets::new(None);
        let now_ns = probe::clock::monotonic_ns();
        let own = std::process::id();
        let named = describe(&mut sockets, seen(own, now_ns, 1, "kernels"));
        assert_eq!(named, [("kernels".to_owned(), Some(now_ns))]);
        let mut rows = Processes::default();
        sockets.describe_pids([own + 1].into_iter(), &mut rows);
        assert_eq!(rows.len(), 0);
    }
}
