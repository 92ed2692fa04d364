//! Processes without a free descriptor while connections waited to be accepted, by readings of their listening sockets.
//! Some accept them all the same, with a descriptor that they keep for this, and close them at once.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use table::manifest::Header;
use table::tables::{Calls, Listener, PacketDrops};
use table::{Columns, DropKind, Role, Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::rows::addresses::is_at;
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
    /// From the first to the last of the readings in a row without a free descriptor, ns, whether or not connections waited.
    full_times: Vec<(u64, u64)>,
    /// The last reading found none.
    was_full: bool,
}

/// Connections that a process without a free descriptor accepted and closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedConnections {
    /// How many.
    pub count: u64,
    /// From the first to the last of those between which no reading found a free descriptor, ns, all such times together.
    pub closing_ns: u64,
    /// From the first to the last of all, ns.
    pub time: (u64, u64),
}

impl ClosedConnections {
    /// Makes the sum of closes, in the order of time: when each was, and in which of the times without a free descriptor.
    fn new(closes: &[(u64, usize)]) -> Option<Self> {
        let of_one_time = closes.chunk_by(|one, next| one.1 == next.1);
        let lengths = of_one_time.filter_map(|it| Some(it.last()?.0 - it.first()?.0));
        Some(Self {
            count: closes.len() as u64,
            closing_ns: lengths.sum(),
            time: (closes.first()?.0, closes.last()?.0),
        })
    }
}

impl FullTable {
    /// Adds a reading to the times without a free descriptor.
    fn add_full_time(&mut self, row: &Listener) {
        let is_full = row.descriptors_full == Some(true);
        let was_full = std::mem::replace(&mut self.was_full, is_full);
        if !is_full {
            return;
        }
        self.limit = row.descriptors_most.unwrap_or(self.limit);
        match self.full_times.last_mut().filter(|_| was_full) {
            Some(time) => time.1 = row.time_ns,
            None => self.full_times.push((row.time_ns, row.time_ns)),
        }
    }

    /// Returns the number of the time without a free descriptor in which an event was.
    fn full_time_at(&self, ns: u64) -> Option<usize> {
        let number = self.full_times.partition_point(|time| time.1 < ns);
        let time = self.full_times.get(number)?;
        (time.0 <= ns).then_some(number)
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

/// Reasons of a reset where a process closed a socket, and data was unread, or came later (`enum sk_rst_reason`).
const CLOSE_REASONS: [&str; 2] = ["TCP_ABORT_ON_CLOSE", "TCP_ABORT_ON_DATA"];

/// Full tables of descriptors, by process and socket.
#[derive(Debug, Default)]
pub struct FullTableDigest {
    names: Rc<NameTable>,
    tables: BTreeMap<TableKey, FullTable>,
    /// When connections were reset that a process had closed.
    closed: HashMap<u64, u64>,
    /// Those of them from which something was read.
    read: HashSet<u64>,
    /// The others, by table.
    unread: OnceCell<BTreeMap<TableKey, ClosedConnections>>,
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

    /// Adds resets of sockets that a process had closed.
    fn add_resets(&mut self, rows: &PacketDrops) {
        for row in 0..rows.time_ns.len() {
            let is_close = rows.kind[row] == DropKind::ResetSent
                && rows.reason[row]
                    .as_deref()
                    .is_some_and(|it| CLOSE_REASONS.contains(&it));
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
    pub fn closers(&self) -> impl Iterator<Item = (TableKey, &FullTable, ClosedConnections)> {
        let full = self.tables.iter().filter(|(_, it)| it.full_ns == 0);
        full.filter_map(|(key, table)| Some((*key, table, *self.unread().get(key)?)))
    }

    /// Returns the connections that processes closed unread while they had no free descriptor, by table.
    fn unread(&self) -> &BTreeMap<TableKey, ClosedConnections> {
        self.unread.get_or_init(|| {
            let mut closes: BTreeMap<TableKey, Vec<(u64, usize)>> = BTreeMap::new();
            let unread = self.closed.iter();
            for (conn, ns) in unread.filter(|(conn, _)| !self.read.contains(conn)) {
                if let Some((key, time)) = self.table_of(*conn, *ns) {
                    closes.entry(key).or_default().push((*ns, time));
                }
            }
            let sums = closes.into_iter().filter_map(|(key, mut closes)| {
                closes.sort_unstable();
                Some((key, ClosedConnections::new(&closes)?))
            });
            sums.collect()
        })
    }

    /// Returns the table of the process that accepted a connection, and the time without a free descriptor in which an event was.
    fn table_of(&self, conn: u64, ns: u64) -> Option<(TableKey, usize)> {
        let row = self.names.row(conn)?;
        let pid = row.pid.filter(|_| row.role == Role::Server)?;
        let of_process = self.tables.range((pid, 0)..=(pid, u64::MAX));
        let mut own = of_process.filter(|(_, it)| is_at(&row.local, &it.local));
        own.find_map(|(key, table)| Some((*key, table.full_time_at(ns)?)))
    }

    /// Returns the processes that had no free descriptor, with the sockets at which connections waited meanwhile.
    pub fn tables(&self) -> impl Iterator<Item = (TableKey, &FullTable)> {
        let full = self.tables.iter().filter(|(key, it)| {
            it.readings > 0 && (it.full_ns > 0 || !self.unread().contains_key(key))
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

    #[test]
    fn closes_count_in_times_without_a_free_descriptor() {
        let mut digest = FullTableDigest::default();
        let readings = [(10, true), (20, true), (30, false), (40, true), (50, true)];
        readings
            .iter()
            .for_each(|(ns, is_full)| digest.add(&reading(*ns, 0, *is_full)));
        let table = &digest.tables[&(7, 9)];
        assert_eq!(table.full_times, [(10, 20), (40, 50)]);
        let at = |ns: u64| Some((ns, table.full_time_at(ns)?));
        let closes: Vec<_> = [12, 18, 25, 41, 60].into_iter().filter_map(at).collect();
        let sums = ClosedConnections::new(&closes).expect("closes");
        assert_eq!((sums.count, sums.closing_ns, sums.time), (3, 6, (12, 41)));
    }
}
