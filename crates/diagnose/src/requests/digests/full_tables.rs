//! Processes without a free descriptor while connections waited to be accepted, by readings of their listening sockets. Some accept
//! them all the same, with a descriptor that they keep for this, and close them at once.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use table::manifest::Header;
use table::tables::{Calls, Listener, PacketDrops};
use table::{Columns, DropKind, Role, Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::rows::addresses::port;
use crate::waits::NameTable;

/// Process, and cookie of its listening socket.
pub type TableKey = (u32, u64);

/// Times at which a process had no free descriptor, and connections waited at one of its listening sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FullTable {
    /// Address of the listening socket.
    pub local: String,
    /// How many descriptors the process may have.
    pub limit: u32,
    /// Readings that found it so.
    pub readings: u64,
    /// From the first to the last of these, ns.
    pub time: (u64, u64),
    /// Time between two such readings in a row, ns.
    pub full_ns: u64,
    /// Time that connections waited in it, all together, ns: at least as many as waited at both readings.
    pub waited_ns: u64,
    /// Most connections that waited at a reading.
    pub most_waiting: u32,
    /// Whether a descriptor was free at a reading.
    pub has_room: bool,
    /// The last reading and how many waited, if it was such a one.
    last: Option<(u64, u32)>,
    /// From one reading without a free descriptor to the next, ns, whether or not connections waited.
    full_times: Vec<(u64, u64)>,
    /// The last reading, if it found none.
    last_full_ns: Option<u64>,
}

/// Connections that a process without a free descriptor accepted and closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedConnections {
    /// How many, in these times.
    pub count: u64,
    /// Times without a free descriptor in which it closed some, ns.
    pub full_ns: u64,
    /// From the first of these to the last, ns.
    pub time: (u64, u64),
}

impl FullTable {
    /// Adds the time since the last reading, if neither found a free descriptor.
    fn add_full_time(&mut self, row: &Listener) {
        let is_full = row.descriptors_full == Some(true);
        let before_ns = self.last_full_ns.take();
        self.last_full_ns = is_full.then_some(row.time_ns);
        if is_full {
            self.limit = row.descriptors_most.unwrap_or(self.limit);
            let time = before_ns.map(|before_ns| (before_ns, row.time_ns));
            self.full_times.extend(time);
        }
    }

    /// Adds a reading of the socket for the process.
    fn add(&mut self, row: &Listener) {
        self.has_room |= row.descriptors_full == Some(false);
        self.add_full_time(row);
        let is_full = row.descriptors_full == Some(true) && row.waiting > 0;
        if !is_full {
            self.last = None;
            return;
        }
        let (before_ns, before) = self.last.unwrap_or((row.time_ns, 0));
        let ns = row.time_ns.saturating_sub(before_ns);
        self.full_ns += ns;
        self.waited_ns += ns * u64::from(row.waiting.min(before));
        if self.readings == 0 {
            self.time.0 = row.time_ns;
        }
        self.time.1 = row.time_ns;
        self.readings += 1;
        self.limit = row.descriptors_most.unwrap_or(self.limit);
        self.most_waiting = self.most_waiting.max(row.waiting);
        self.last = Some((row.time_ns, row.waiting));
    }
}

/// Reason of a reset with which a process closes a socket that has unread data (`enum sk_rst_reason`).
const ABORT_ON_CLOSE: &str = "TCP_ABORT_ON_CLOSE";

/// Full tables of descriptors, by process and socket.
#[derive(Debug, Default)]
pub struct FullTableDigest {
    names: Rc<NameTable>,
    tables: BTreeMap<TableKey, FullTable>,
    /// When connections were closed with unread data.
    closed: HashMap<u64, u64>,
    /// Those of them from which something was read.
    read: HashSet<u64>,
}

impl RecordingDigest for FullTableDigest {
    fn new(_: &Header, names: &Rc<NameTable>) -> Self {
        Self {
            names: Rc::clone(names),
            ..Self::default()
        }
    }
}

impl TableConsumer for FullTableDigest {
    fn is_reader_of(&self, table: TableId) -> bool {
        matches!(
            table,
            TableId::Listener | TableId::PacketDrop | TableId::Call
        )
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::Listener(rows) => (0..rows.len()).for_each(|row| self.add(&rows.row(row))),
            Rows::PacketDrop(rows) => self.add_resets(rows),
            Rows::Call(rows) => self.add_calls(rows),
            _ => {}
        }
    }
}

impl FullTableDigest {
    /// Adds a reading of a listening socket.
    fn add(&mut self, row: &Listener) {
        let Some(pid) = row.pid.filter(|_| row.descriptors_full.is_some()) else {
            return;
        };
        let table = self.tables.entry((pid, row.conn)).or_default();
        if table.local.is_empty() {
            table.local.clone_from(&row.local);
        }
        table.add(row);
    }

    /// Adds resets of sockets that were closed with unread data.
    fn add_resets(&mut self, rows: &PacketDrops) {
        for row in 0..rows.time_ns.len() {
            let is_close = rows.kind[row] == DropKind::ResetSent
                && rows.reason[row].as_deref() == Some(ABORT_ON_CLOSE);
            if let Some(conn) = rows.conn[row].filter(|_| is_close) {
                self.closed.insert(conn, rows.time_ns[row]);
            }
        }
    }

    /// Notes from which of these sockets something was read.
    fn add_calls(&mut self, rows: &Calls) {
        for row in 0..rows.conn.len() {
            let is_read = !rows.is_send[row] && rows.result[row] > 0;
            if is_read && self.closed.contains_key(&rows.conn[row]) {
                self.read.insert(rows.conn[row]);
            }
        }
    }

    /// Returns the processes that had no free descriptor, and closed connections from which they had read nothing meanwhile.
    pub fn closers(&self) -> impl Iterator<Item = (u32, &FullTable, ClosedConnections)> {
        let full = self.tables.iter().filter(|(_, it)| it.full_ns == 0);
        full.filter_map(|((pid, _), table)| Some((*pid, table, self.closed_by(*pid, table)?)))
    }

    /// Returns the connections that a process closed while it had no free descriptor; `None`: none.
    fn closed_by(&self, pid: u32, table: &FullTable) -> Option<ClosedConnections> {
        let unread = self
            .closed
            .iter()
            .filter(|(conn, _)| !self.read.contains(conn));
        let own = unread.filter(|(conn, _)| {
            let row = self.names.row(**conn);
            row.is_some_and(|row| {
                row.role == Role::Server
                    && row.pid == Some(pid)
                    && port(&row.local) == port(&table.local)
            })
        });
        let times: Vec<u64> = own.map(|(_, ns)| *ns).collect();
        let count = |(from_ns, until_ns): &(u64, u64)| {
            let within = times
                .iter()
                .filter(|ns| (*from_ns..=*until_ns).contains(*ns));
            within.count() as u64
        };
        let full = table.full_times.iter().map(|time| (time, count(time)));
        let full: Vec<_> = full.filter(|(_, count)| *count > 0).collect();
        let (first, last) = (full.first()?, full.last()?);
        Some(ClosedConnections {
            count: full.iter().map(|(_, count)| count).sum(),
            full_ns: full.iter().map(|((from, until), _)| until - from).sum(),
            time: (first.0.0, last.0.1),
        })
    }

    /// Returns the processes that had no free descriptor, with the sockets at which connections waited meanwhile.
    pub fn tables(&self) -> impl Iterator<Item = (TableKey, &FullTable)> {
        let full = self.tables.iter().filter(|((pid, _), it)| {
            it.readings > 0 && (it.full_ns > 0 || self.closed_by(*pid, it).is_none())
        });
        full.map(|(key, table)| (*key, table))
    }

    /// Returns whether another process, with a free descriptor, accepts at the same socket.
    pub fn has_other_acceptor(&self, (pid, conn): TableKey) -> bool {
        let mut others = self.tables.iter();
        others.any(|((other, socket), it)| *other != pid && *socket == conn && it.has_room)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a reading of a socket of process 7: time, connections that wait, whether no descriptor is free.
    fn reading(time_ns: u64, waiting: u32, is_full: bool) -> Listener {
        Listener {
            conn: 9,
            time_ns,
            netns: 1,
            local: "10.0.0.1:80".to_owned(),
            pid: Some(7),
            listen_ns: None,
            closed_ns: None,
            waiting,
            waiting_max: 128,
            drops: 0,
            netns_listen_overflows: None,
            netns_syncookies_received: None,
            descriptors_most: Some(24),
            descriptors_full: Some(is_full),
        }
    }

    #[test]
    fn time_counts_between_two_full_readings_with_the_least_that_wait() {
        let mut digest = FullTableDigest::default();
        let readings = [
            reading(0, 2, false),
            reading(10, 3, true),
            reading(20, 5, true),
            reading(30, 4, true),
            reading(40, 4, false),
            reading(50, 0, true),
            reading(60, 1, true),
        ];
        readings.iter().for_each(|row| digest.add(row));
        let (key, table) = digest.tables().next().expect("a full table");
        assert_eq!((key, table.has_room), ((7, 9), true));
        assert_eq!((table.readings, table.full_ns), (4, 20));
        assert_eq!(table.waited_ns, 10 * 3 + 10 * 4);
        assert_eq!((table.time, table.most_waiting), ((10, 60), 5));
    }

    #[test]
    fn a_process_with_free_descriptors_is_not_listed() {
        let mut digest = FullTableDigest::default();
        digest.add(&reading(10, 3, false));
        digest.add(&reading(20, 0, true));
        assert_eq!(digest.tables().count(), 0);
    }
}
