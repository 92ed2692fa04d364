//! Name servers that each process waited for: how long, how often in vain, and on how many sockets.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use table::manifest::Header;
use table::tables::DnsWaits;
use table::{Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::waits::NameTable;

/// Waits for one name server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServerWaits {
    /// Waits that an answer ended.
    pub answered: u64,
    /// Time of these, ns.
    pub answered_ns: u64,
    /// The longest of these, ns.
    pub answered_most_ns: u64,
    /// Waits that ended without an answer.
    pub unanswered: u64,
    /// Time of these, ns.
    pub unanswered_ns: u64,
    /// Waits after which the socket had an error: nobody listens there, or it cannot be reached.
    pub errors: u64,
}

/// Name servers of one process.
#[derive(Debug, Clone, Default)]
pub struct ProcessServers {
    /// By address.
    pub servers: BTreeMap<String, ServerWaits>,
    /// Sockets that threads waited on. glibc opens one for each name that it tries, and for each server that it asks.
    pub sockets: u64,
}

/// Name servers by process.
#[derive(Debug, Default)]
pub struct NameServerDigest {
    processes: HashMap<u32, ProcessServers>,
    /// The socket that each thread waited on last.
    latest: HashMap<u32, u64>,
}

impl RecordingDigest for NameServerDigest {
    fn new(_: &Header, _: &Rc<NameTable>) -> Self {
        Self::default()
    }
}

impl TableConsumer for NameServerDigest {
    fn is_reader_of(&self, table: TableId) -> bool {
        table == TableId::DnsWait
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        if let Rows::DnsWait(rows) = rows {
            (0..rows.end_ns.len()).for_each(|row| self.add(rows, row));
        }
    }
}

impl NameServerDigest {
    /// Adds one DNS wait to the sums of its process and name server.
    fn add(&mut self, rows: &DnsWaits, row: usize) {
        let (start_ns, end_ns) = (rows.start_ns[row], rows.end_ns[row]);
        let ns = end_ns.saturating_sub(start_ns);
        let process = self.processes.entry(rows.pid[row]).or_default();
        let server = process.servers.entry(rows.server[row].clone()).or_default();
        if rows.answered[row] {
            server.answered += 1;
            server.answered_ns += ns;
            server.answered_most_ns = server.answered_most_ns.max(ns);
        } else {
            server.unanswered += 1;
            server.unanswered_ns += ns;
        }
        server.errors += u64::from(rows.errno[row].is_some());
        let before = self.latest.insert(rows.tid[row], rows.socket[row]);
        process.sockets += u64::from(before != Some(rows.socket[row]));
    }

    /// Returns the name servers of a process; `None`: it waited for none that is known.
    pub fn process(&self, pid: u32) -> Option<&ProcessServers> {
        self.processes.get(&pid)
    }
}

impl ProcessServers {
    /// Returns the server that took the most time, and its waits.
    pub fn slowest_server(&self) -> Option<(&str, ServerWaits)> {
        let time_ns = |it: &ServerWaits| it.answered_ns + it.unanswered_ns;
        let slowest = self.servers.iter().max_by_key(|(_, it)| time_ns(it));
        slowest.map(|(server, waits)| (server.as_str(), *waits))
    }

    /// Returns the waits for all servers.
    pub fn total(&self) -> ServerWaits {
        let mut all = ServerWaits::default();
        for it in self.servers.values() {
            all.answered += it.answered;
            all.answered_ns += it.answered_ns;
            all.answered_most_ns = all.answered_most_ns.max(it.answered_most_ns);
            all.unanswered += it.unanswered;
            all.unanswered_ns += it.unanswered_ns;
            all.errors += it.errors;
        }
        all
    }
}
