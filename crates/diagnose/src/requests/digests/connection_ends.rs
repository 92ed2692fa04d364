//! Ends of connections that this host opened: the sizes of their turns, which end closed first, and when the thread connected
//! again.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use table::manifest::Header;
use table::tables::{Calls, Connection, TcpEvents, Waits};
use table::{Role, Rows, TableConsumer, TableId, TcpEventKind, WaitObject, Waker};

use super::digest::RecordingDigest;
use crate::requests::control::CONTROL_MOST_BYTES;
use crate::waits::NameTable;

/// Calls that are kept of a connection, the first ones: a TLS handshake has about 20.
const CALLS_MOST: usize = 32;

/// Connections that are kept; there may be more.
const CONNECTIONS_MOST: usize = 1 << 16;

/// Sleeps that are kept of all threads; there may be more.
const SLEEPS_MOST: usize = 1 << 18;

/// Turns of a connection until a server has refused it: an answer to a request for TLS, two flights of the handshake, and the
/// message.
const TURNS_MOST: usize = 4;

/// A receive call that takes nothing away (`MSG_PEEK`), or takes what is no data (`MSG_ERRQUEUE`).
const NOT_TAKING: u32 = 0x2 | 0x2000;

/// States of TCP (`include/net/tcp_states.h`): the other end's FIN leads from the first to the second.
const TCP_ESTABLISHED: u8 = 1;
const TCP_CLOSE_WAIT: u8 = 8;

/// A call that moved bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BytesCall {
    end_ns: u64,
    is_send: bool,
    bytes: u64,
    tid: u32,
}

/// One connection, as its calls and its states show it.
#[derive(Debug, Default)]
struct ClientConnection {
    calls: Vec<BytesCall>,
    has_more_calls: bool,
    /// When the other end closed, if it did so first, ns.
    closed_by_other_ns: Option<u64>,
}

/// A sleep of a thread.
#[derive(Debug, Clone, Copy)]
struct ThreadSleep {
    tid: u32,
    start_ns: u64,
    end_ns: u64,
    stack: Option<u32>,
}

/// The turns of a connection that this host opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionTurns {
    /// Bytes of request and response of each turn, the first ones.
    pub turns: Vec<(u64, u64)>,
    /// Times from a response to the next request, ns.
    pub gaps_ns: Vec<u64>,
    /// Whether it had turns beyond these, or a request after the last response.
    pub goes_on: bool,
    /// When the last of these turns was over, ns.
    pub answered_ns: u64,
    /// When the other end closed, if it did so first, and before this end sent more, ns.
    pub closed_by_other_ns: Option<u64>,
    /// When the thread next began to connect to that address, ns.
    pub next_ns: Option<u64>,
    /// The longest sleep of the thread from the last response to that, ns. A loop without work sleeps again and again.
    pub slept_ns: u64,
    /// Number of its stack.
    pub stack: Option<u32>,
}

/// Connections that this host opened, and sleeps.
#[derive(Debug)]
pub struct ConnectionEndDigest {
    names: Rc<NameTable>,
    connections: HashMap<u64, ClientConnection>,
    sleeps: Vec<ThreadSleep>,
    /// Processes that connected.
    pids: HashSet<u32>,
}

/// Command name of a process, and the address that it asks.
pub type ConnectionGroup = (String, String);

impl RecordingDigest for ConnectionEndDigest {
    fn new(_: &Header, names: &Rc<NameTable>) -> Self {
        let opened = || names.connections().filter(|row| is_opened_here(row));
        let mut conns: Vec<u64> = opened().map(|row| row.conn).collect();
        conns.sort_unstable();
        conns.truncate(CONNECTIONS_MOST);
        Self {
            connections: conns
                .into_iter()
                .map(|conn| (conn, ClientConnection::default()))
                .collect(),
            sleeps: Vec::new(),
            pids: opened().filter_map(|row| row.pid).collect(),
            names: Rc::clone(names),
        }
    }
}

/// Returns whether this host opened a connection while it was recorded.
fn is_opened_here(row: &Connection) -> bool {
    row.role == Role::Client && row.connect_ns.or(row.opened_ns).is_some()
}

impl TableConsumer for ConnectionEndDigest {
    fn is_reader_of(&self, table: TableId) -> bool {
        let is_input = matches!(table, TableId::TcpEvent | TableId::Call | TableId::Wait);
        is_input && !self.connections.is_empty()
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::TcpEvent(rows) => self.add_states(rows),
            Rows::Call(rows) => self.add_calls(rows),
            Rows::Wait(rows) => self.add_waits(rows),
            _ => {}
        }
    }
}

impl ConnectionEndDigest {
    /// Notes which end closed first.
    fn add_states(&mut self, rows: &TcpEvents) {
        for row in 0..rows.conn.len() {
            let states = (rows.old[row], rows.new[row]);
            let is_fin = rows.kind[row] == TcpEventKind::State
                && states == (Some(TCP_ESTABLISHED), Some(TCP_CLOSE_WAIT));
            if let Some(connection) = self.connections.get_mut(&rows.conn[row]).filter(|_| is_fin) {
                connection.closed_by_other_ns = Some(rows.time_ns[row]);
            }
        }
    }

    /// Adds the first calls of connections.
    fn add_calls(&mut self, rows: &Calls) {
        for row in 0..rows.conn.len() {
            let bytes = u64::try_from(rows.result[row]).unwrap_or(0);
            let takes = rows.is_send[row] || rows.flags[row] & NOT_TAKING == 0;
            let connection = self.connections.get_mut(&rows.conn[row]);
            let Some(connection) = connection.filter(|_| takes && bytes > 0) else {
                continue;
            };
            if connection.calls.len() == CALLS_MOST {
                connection.has_more_calls = true;
                continue;
            }
            connection.calls.push(BytesCall {
                end_ns: rows.end_ns[row],
                is_send: rows.is_send[row],
                bytes,
                tid: rows.tid[row],
            });
        }
    }

    /// Adds waits of threads that a timer ended.
    fn add_waits(&mut self, rows: &Waits) {
        for row in 0..rows.end_ns.len() {
            let is_timeout = rows.waker[row] == Waker::Interrupt && rows.ready_fd[row].is_none();
            let is_sleep = match rows.kind[row] {
                WaitObject::Sleep => true,
                WaitObject::Epoll | WaitObject::Poll | WaitObject::Select | WaitObject::Futex => {
                    is_timeout
                }
                _ => false,
            };
            let has_room = self.sleeps.len() < SLEEPS_MOST;
            if is_sleep && has_room && self.pids.contains(&rows.pid[row]) {
                self.sleeps.push(ThreadSleep {
                    tid: rows.tid[row],
                    start_ns: rows.start_ns[row],
                    end_ns: rows.woken_ns[row].unwrap_or(rows.end_ns[row]),
                    stack: rows.stack[row],
                });
            }
        }
    }

    /// Returns when the other end of a connection closed, if it did so first; `None`: it did not, or nobody saw it.
    pub fn closed_by_other_ns(&self, conn: u64) -> Option<u64> {
        self.connections.get(&conn)?.closed_by_other_ns
    }

    /// Returns the connections with turns, by program and address, in the order in which they were opened.
    pub fn groups(&self) -> BTreeMap<ConnectionGroup, Vec<ConnectionTurns>> {
        let mut sleeps: HashMap<u32, Vec<ThreadSleep>> = HashMap::new();
        for sleep in &self.sleeps {
            sleeps.entry(sleep.tid).or_default().push(*sleep);
        }
        let of_threads = sleeps.values_mut();
        of_threads.for_each(|it| it.sort_by_key(|sleep| sleep.end_ns));
        let mut opened: Vec<(u64, &Connection)> = self
            .names
            .connections()
            .filter(|row| is_opened_here(row))
            .filter_map(|row| Some((row.connect_ns.or(row.opened_ns)?, row)))
            .collect();
        opened.sort_unstable_by_key(|(ns, row)| (*ns, row.conn));
        let mut groups: BTreeMap<ConnectionGroup, Vec<ConnectionTurns>> = BTreeMap::new();
        // by thread and address: when it connects next, as the list is read from its end
        let mut next: HashMap<(u32, &str), u64> = HashMap::new();
        for (begin_ns, row) in opened.into_iter().rev() {
            let Some(connection) = self.connections.get(&row.conn) else {
                continue;
            };
            let Some(tid) = connection.calls.iter().min().map(|call| call.tid) else {
                continue;
            };
            let next_ns = next.insert((tid, row.remote.as_str()), begin_ns);
            let mut turns = connection.turns(next_ns);
            turns.add_sleep(sleeps.get(&tid).map_or(&[], Vec::as_slice));
            let name = row.pid.and_then(|pid| self.names.comm(pid));
            let key = (name.unwrap_or("?").to_owned(), row.remote.clone());
            groups.entry(key).or_default().push(turns);
        }
        groups.values_mut().for_each(|it| it.reverse());
        groups
    }
}

impl ClientConnection {
    /// Returns the turns of the first calls.
    fn turns(&self, next_ns: Option<u64>) -> ConnectionTurns {
        let mut calls = self.calls.clone();
        calls.sort_unstable();
        let mut turns: Vec<(u64, u64)> = Vec::new();
        let (mut answered_ns, mut asked_bytes, mut asked_ns) = (0, 0, None);
        let mut goes_on = self.has_more_calls;
        let mut gaps_ns = Vec::new();
        for call in calls {
            if call.is_send {
                asked_bytes += call.bytes;
                asked_ns = asked_ns.or(Some(call.end_ns));
                continue;
            }
            let gap_ns = asked_ns.map(|asked_ns| asked_ns.saturating_sub(answered_ns));
            gaps_ns.extend(gap_ns.filter(|_| !turns.is_empty()));
            let is_next = asked_bytes > 0 || turns.is_empty();
            if is_next && turns.len() == TURNS_MOST {
                goes_on = true;
                break;
            }
            if is_next {
                turns.push((asked_bytes, 0));
            }
            if let Some(last) = turns.last_mut() {
                last.1 += call.bytes;
            }
            (answered_ns, asked_bytes, asked_ns) = (call.end_ns, 0, None);
        }
        // TLS says goodbye
        goes_on |= asked_bytes > CONTROL_MOST_BYTES;
        let is_before = |ns: &u64| asked_ns.is_none_or(|asked_ns| *ns <= asked_ns);
        ConnectionTurns {
            turns,
            gaps_ns,
            goes_on,
            answered_ns,
            closed_by_other_ns: self.closed_by_other_ns.filter(is_before),
            next_ns,
            slept_ns: 0,
            stack: None,
        }
    }
}

impl ConnectionTurns {
    /// Adds the longest sleep of its thread until that connects again; `sleeps` are in the order of their ends.
    fn add_sleep(&mut self, sleeps: &[ThreadSleep]) {
        let Some(next_ns) = self.next_ns else {
            return;
        };
        let first = sleeps.partition_point(|it| it.end_ns <= self.answered_ns);
        let later = sleeps[first..].iter();
        for sleep in later.take_while(|it| it.start_ns < next_ns) {
            let until_ns = sleep.end_ns.min(next_ns);
            let ns = until_ns.saturating_sub(sleep.start_ns.max(self.answered_ns));
            if ns > self.slept_ns {
                (self.slept_ns, self.stack) = (ns, sleep.stack);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a connection of calls: end, is_send, bytes.
    fn connection(calls: &[(u64, bool, u64)]) -> ClientConnection {
        let calls = calls.iter().map(|(end_ns, is_send, bytes)| BytesCall {
            end_ns: *end_ns,
            is_send: *is_send,
            bytes: *bytes,
            tid: 7,
        });
        ClientConnection {
            calls: calls.collect(),
            ..ClientConnection::default()
        }
    }

    #[test]
    fn turns_have_the_bytes_of_all_their_calls() {
        let postgres = connection(&[
            (1, true, 8),
            (2, false, 1),
            (3, true, 41),
            (4, false, 60),
            (5, false, 26),
        ]);
        let turns = postgres.turns(None);
        assert_eq!(turns.turns, [(8, 1), (41, 86)]);
        assert_eq!(turns.gaps_ns, [1]);
        assert_eq!((turns.goes_on, turns.answered_ns), (false, 5));
        let greeting = connection(&[(1, false, 27)]).turns(None);
        assert_eq!((greeting.turns, greeting.goes_on), (vec![(0, 27)], false));
    }

    #[test]
    fn farewell_is_no_request() {
        let of = |bytes| connection(&[(1, true, 9), (2, false, 9), (3, true, bytes)]).turns(None);
        assert!(!of(24).goes_on);
        assert!(of(65).goes_on);
    }

    #[test]
    fn other_end_closes_before_the_farewell_or_not_at_all() {
        let closed = |ns| {
            let mut it = connection(&[(1, true, 9), (2, false, 9), (4, true, 5)]);
            it.closed_by_other_ns = Some(ns);
            it.turns(None).closed_by_other_ns
        };
        assert_eq!((closed(3), closed(5)), (Some(3), None));
    }

    #[test]
    fn longest_sleep_from_the_answer_to_the_next_connection_counts() {
        let sleep = |start_ns, end_ns, stack| ThreadSleep {
            tid: 7,
            start_ns,
            end_ns,
            stack: Some(stack),
        };
        let sleeps = [sleep(0, 20, 1), sleep(30, 60, 2), sleep(90, 200, 3)];
        let mut turns = connection(&[(1, true, 9), (10, false, 9)]).turns(Some(100));
        turns.add_sleep(&sleeps);
        assert_eq!((turns.slept_ns, turns.stack), (30, Some(2)));
        let mut last = connection(&[(1, true, 9), (10, false, 9)]).turns(None);
        last.add_sleep(&sleeps);
        assert_eq!(last.slept_ns, 0);
    }
}
