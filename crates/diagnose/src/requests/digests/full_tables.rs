//! Processes without a free descriptor while connections waited to be accepted, by readings of their listening sockets.

use std::collections::BTreeMap;
use std::rc::Rc;

use table::manifest::Header;
use table::tables::Listener;
use table::{Columns, Rows, TableConsumer, TableId};

use super::digest::RecordingDigest;
use crate::waits::NameTable;

/// Times at which a process had no free descriptor, and connections waited at one of its listening sockets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FullTable {
    /// The listening socket.
    conn: u64,
    /// Its address.
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
}

impl FullTable {
    /// Adds a reading of the socket for the process.
    fn add(&mut self, row: &Listener) {
        self.has_room |= row.descriptors_full == Some(false);
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

/// Full tables of descriptors, by process and socket.
#[derive(Debug, Default)]
pub struct FullTableDigest {
    tables: BTreeMap<(u32, u64), FullTable>,
}

impl RecordingDigest for FullTableDigest {
    fn new(_: &Header, _: &Rc<NameTable>) -> Self {
        Self::default()
    }
}

impl TableConsumer for FullTableDigest {
    fn is_reader_of(&self, table: TableId) -> bool {
        table == TableId::Listener
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        if let Rows::Listener(rows) = rows {
            (0..rows.len()).for_each(|row| self.add(&rows.row(row)));
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
            table.conn = row.conn;
        }
        table.add(row);
    }

    /// Returns the processes that had no free descriptor, with the sockets at which connections waited meanwhile.
    pub fn tables(&self) -> impl Iterator<Item = (u32, &FullTable)> {
        let full = self.tables.iter().filter(|(_, it)| it.readings > 0);
        full.map(|((pid, _), table)| (*pid, table))
    }

    /// Returns whether another process, with a free descriptor, accepts at the same socket.
    pub fn has_other_acceptor(&self, pid: u32, table: &FullTable) -> bool {
        let mut others = self.tables.iter();
        others.any(|((other, _), it)| *other != pid && it.conn == table.conn && it.has_room)
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
        let (pid, table) = digest.tables().next().expect("a full table");
        assert_eq!((pid, table.has_room), (7, true));
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
