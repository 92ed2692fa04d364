//! All watched connections. In: what was drained from the kernel. Out: connections that have closed, with
//! readings near problems, and the state of those that live.

use std::collections::HashSet;

use probe::hooks::ProbeOutput;
use probe::tcp_stats::CookieMap;
use probe::watch::SocketReading;
use table::{Columns, tables};

use super::connection::{Connection, ContextSample};
use super::owners::Owners;
use super::rows::{self, conn_id};
use super::timeline::IntervalSpan;

/// A connection that has closed.
#[derive(Debug)]
pub(super) struct ClosedConnection {
    pub(super) cookie: u64,
    pub(super) connection: Connection,
}

/// Problems, readings near them and closed connections that one drain of the rings brought.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Readings near problems, by `conn_id`.
    pub(super) near: Vec<(i64, ContextSample)>,
    /// Time with a problem, by cookie.
    pub(super) problems: Vec<(u64, u64)>,
    /// Longest time that one reading covers.
    pub(super) longest_ns: u64,
    pub(super) closed: Vec<ClosedConnection>,
}

/// The connections that live.
#[derive(Debug)]
pub(super) struct LiveConnections {
    boot_id: String,
    pub(super) live: CookieMap<Connection>,
    pub(super) owners: Owners,
    /// Readings of sockets that have no record yet, as that is in another ring.
    early: Vec<SocketReading>,
    /// Some connections have no owner yet.
    pub(super) is_owner_wanted: bool,
}

impl LiveConnections {
    /// Begins without connections.
    pub(super) fn new(boot_id: String, owners: Owners) -> Self {
        Self {
            boot_id,
            live: CookieMap::default(),
            owners,
            early: Vec::new(),
            is_owner_wanted: false,
        }
    }

    /// Adds drained output: first new connections, then readings, then closed connections.
    pub(super) fn take(&mut self, output: ProbeOutput, span: &IntervalSpan) -> Changes {
        for owner in &output.owners {
            self.owners.note(owner);
        }
        let mut gone = Vec::new();
        for index in 0..output.rows.connections.len() {
            let row = output.rows.connections.row(index);
            if row.closed_ns.is_some() {
                gone.push(row.conn);
            }
            self.update(row);
        }
        let mut changes = Changes::default();
        for reading in std::mem::take(&mut self.early) {
            self.read(reading, span, &mut changes);
        }
        for reading in output.readings {
            if self.live.contains_key(&reading.sample.conn) {
                self.read(reading, span, &mut changes);
            } else {
                self.early.push(reading);
            }
        }
        changes.closed = self.remove(gone);
        changes
    }

    /// Takes the workloads of pods that runtimes have answered since. Connections of these pods are written again.
    pub(super) fn take_workloads(&mut self) {
        let changed = self.owners.take_workloads();
        self.note_owners(&changed);
    }

    /// Takes note that these owners have another place now.
    fn note_owners(&mut self, changed: &HashSet<u32>) {
        if changed.is_empty() {
            return;
        }
        for connection in self.live.values_mut() {
            let pid = connection.identity.as_ref().and_then(|row| row.pid);
            connection.is_changed |= pid.is_some_and(|pid| changed.contains(&pid));
        }
    }

    /// Takes a row of a connection, new or changed.
    fn update(&mut self, row: tables::Connection) {
        let boot_id = &self.boot_id;
        let connection = self.live.entry(row.conn).or_insert_with(|| {
            let first_ns = row.opened_ns.unwrap_or(row.time_ns);
            Connection::new(conn_id(boot_id, row.conn, row.netns), first_ns)
        });
        connection.is_changed |= rows::is_change(connection.identity.as_ref(), &row);
        self.is_owner_wanted |= row.pid.is_none() && row.closed_ns.is_none();
        connection.identity = Some(row);
    }

    /// Adds a reading of a socket, which is watched even if its first record was lost.
    fn read(&mut self, reading: SocketReading, span: &IntervalSpan, changes: &mut Changes) {
        let cookie = reading.sample.conn;
        let boot_id = &self.boot_id;
        let connection = self.live.entry(cookie).or_insert_with(|| {
            Connection::new(conn_id(boot_id, cookie, 0), reading.sample.time_ns)
        });
        let shown = connection.take(reading, span);
        let conn_id = connection.conn_id;
        changes
            .near
            .extend(shown.near.into_iter().map(|near| (conn_id, near)));
        changes.longest_ns = changes.longest_ns.max(shown.length_ns);
        if shown.problem_ns > 0 {
            changes.problems.push((cookie, shown.problem_ns));
        }
    }

    /// Removes closed connections, and returns them.
    fn remove(&mut self, gone: Vec<u64>) -> Vec<ClosedConnection> {
        let remove = |cookie| {
            let connection = self.live.remove(&cookie)?;
            Some(ClosedConnection { cookie, connection })
        };
        gone.into_iter().filter_map(remove).collect()
    }

    /// Removes sockets that a walk did not read, after it read every socket from `walk_ns` on (`CLOCK_MONOTONIC`).
    /// They have closed, and the record of that was lost.
    pub(super) fn remove_unread(&mut self, walk_ns: u64) -> Vec<ClosedConnection> {
        let unread = self
            .live
            .iter_mut()
            .filter(|(_, c)| c.last_read_ns() < walk_ns);
        let mut gone = Vec::new();
        for (cookie, connection) in unread {
            if let Some(row) = &mut connection.identity {
                row.closed_ns = Some(walk_ns);
            }
            gone.push(*cookie);
        }
        self.remove(gone)
    }

    /// Forgets processes that own nothing any more.
    pub(super) fn forget_owners(&mut self) {
        let pids = self.live.values().filter_map(|c| c.identity.as_ref()?.pid);
        let pids: std::collections::HashSet<u32> = pids.collect();
        self.owners.forget(|pid| pids.contains(&pid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_a_changed_owner_are_written_again() {
        let mut watched =
            LiveConnections::new(String::new(), Owners::new(Default::default(), None));
        for (conn, pid) in [(1, Some(7)), (2, Some(8)), (3, None)] {
            let row = table::row_of(serde_json::json!({"conn": conn, "pid": pid}));
            watched.update(row.expect("a row"));
        }
        let take = |watched: &mut LiveConnections| {
            let changed = watched.live.iter_mut();
            let changed = changed
                .filter_map(|(conn, it)| std::mem::take(&mut it.is_changed).then_some(*conn));
            changed.collect::<HashSet<u64>>()
        };
        assert_eq!(take(&mut watched), HashSet::from([1, 2, 3]), "new");
        watched.note_owners(&HashSet::new());
        assert!(take(&mut watched).is_empty());
        watched.note_owners(&HashSet::from([8, 9]));
        assert_eq!(take(&mut watched), HashSet::from([2]));
    }
}
