//! Waits of threads for the other end's answer, on the connections that are wanted: from the last send of a message until the
//! same thread receives. Meanwhile nobody added to the message.

use table::tables::Calls;

use crate::kernel::{LONGEST_JIFFY_NS, TCP_RTO_MIN_NS};
use crate::rows::hash::ConnectionMap;
use crate::rows::in_order::InOrder;
use crate::rows::sends::CallBytes;

/// Rows that are held back to be put in order: more than come between two drains of the kernel's
/// buffers.
const ROWS_KEPT: usize = 1 << 15;

/// From the first send of a message to its answer, at least, where a timer let the message go, ns. A timer of the kernel counts
/// jiffies, and the first one has begun already.
const ANSWER_LEAST_NS: u64 = TCP_RTO_MIN_NS - LONGEST_JIFFY_NS;

/// Waits for answers to messages that a timer may have held.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AnswerWaits {
    /// From the last send of a message until its thread received, ns.
    pub silent_ns: u64,
    /// Time of these in which the thread was blocked in the receive call, ns.
    pub blocked_ns: u64,
}

/// A message that has no answer yet.
#[derive(Debug, Clone, Copy)]
struct OpenMessage {
    /// Thread that sent last.
    tid: u32,
    /// End of its first send and of its last one, ns.
    sent_ns: (u64, u64),
}

/// A call that moved bytes.
#[derive(Debug)]
struct MovingCall {
    conn: u64,
    tid: u32,
    blocked_ns: u64,
    moved: CallBytes,
}

/// Messages and answers of a connection.
#[derive(Debug, Default)]
struct ConnectionAnswers {
    message: Option<OpenMessage>,
    waits: AnswerWaits,
}

/// Of all connections that are wanted.
#[derive(Debug)]
pub struct AnswerTable {
    connections: ConnectionMap<ConnectionAnswers>,
    waiting: InOrder<u64, MovingCall>,
}

impl Default for AnswerTable {
    fn default() -> Self {
        Self {
            connections: ConnectionMap::default(),
            waiting: InOrder::new(ROWS_KEPT),
        }
    }
}

impl AnswerTable {
    /// Begins to add up the answers of this connection.
    pub fn add_answers_of(&mut self, conn: u64) {
        self.connections.position(conn);
    }

    /// Returns whether no connection is wanted.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Adds a batch of calls that ended within `span` (ns, both ends included).
    pub fn add(&mut self, calls: &Calls, span: (u64, u64)) {
        for index in 0..calls.conn.len() {
            let (conn, end_ns) = (calls.conn[index], calls.end_ns[index]);
            let is_within = (span.0..=span.1).contains(&end_ns);
            if !is_within || self.connections.get(conn).is_none() {
                continue;
            }
            let (result, flags) = (calls.result[index], calls.flags[index]);
            let (is_send, offset) = (calls.is_send[index], calls.offset_end[index]);
            let Some(moved) = CallBytes::new(end_ns, is_send, result, offset, flags) else {
                continue;
            };
            let call = MovingCall {
                conn,
                tid: calls.tid[index],
                blocked_ns: calls.blocked_ns[index].unwrap_or(0),
                moved,
            };
            self.waiting.push(end_ns, call);
        }
        if self.waiting.is_full() {
            let connections = &mut self.connections;
            let first = self.waiting.release(None);
            first.for_each(|(_, call)| add_call(connections, &call));
        }
    }

    /// Adds the calls that are left: no more come.
    pub fn finish(&mut self) {
        let connections = &mut self.connections;
        let rest = self.waiting.finish();
        rest.for_each(|(_, call)| add_call(connections, &call));
    }

    /// Returns the waits of a connection; `None`: it is not wanted.
    pub fn get(&self, conn: u64) -> Option<&AnswerWaits> {
        self.connections.get(conn).map(|it| &it.waits)
    }
}

/// Adds a call that ended after all others.
fn add_call(connections: &mut ConnectionMap<ConnectionAnswers>, call: &MovingCall) {
    let place = connections.position(call.conn);
    let answers = connections.at(place);
    match call.moved.is_send {
        true => answers.add_send(call),
        false => answers.add_receive(call),
    }
}

impl ConnectionAnswers {
    /// Adds a send call: it begins a message, or goes on with it.
    fn add_send(&mut self, call: &MovingCall) {
        let end_ns = call.moved.end_ns;
        let first_ns = self.message.map_or(end_ns, |message| message.sent_ns.0);
        self.message = Some(OpenMessage {
            tid: call.tid,
            sent_ns: (first_ns, end_ns),
        });
    }

    /// Adds a receive call: it ends the message. If another thread reads, the one that sends need not wait for it.
    fn add_receive(&mut self, call: &MovingCall) {
        let own = self.message.take().filter(|it| it.tid == call.tid);
        let Some(OpenMessage { sent_ns, .. }) = own else {
            return;
        };
        let since = |ns: u64| call.moved.end_ns.saturating_sub(ns);
        if since(sent_ns.0) >= ANSWER_LEAST_NS {
            self.waits.silent_ns += since(sent_ns.1);
            self.waits.blocked_ns += call.blocked_ns.min(since(sent_ns.1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Returns the waits of a connection with these calls: end in ms, time blocked in ms, bytes sent (received: less than 0), and
    /// thread.
    fn waits_of(calls: &[(u64, u64, i32, u32)]) -> AnswerWaits {
        let mut rows = Calls::default();
        for (end_ms, blocked_ms, bytes, tid) in calls {
            rows.conn.push(7);
            rows.end_ns.push(end_ms * MS);
            rows.blocked_ns.push(Some(blocked_ms * MS));
            rows.is_send.push(*bytes > 0);
            rows.result.push(bytes.abs());
            rows.offset_end.push(0);
            rows.flags.push(0);
            rows.tid.push(*tid);
        }
        let mut table = AnswerTable::default();
        table.add_answers_of(7);
        table.add(&rows, (0, 10_000 * MS));
        table.finish();
        *table.get(7).expect("it is wanted")
    }

    /// Makes waits from milliseconds.
    fn waits(silent_ms: u64, blocked_ms: u64) -> AnswerWaits {
        AnswerWaits {
            silent_ns: silent_ms * MS,
            blocked_ns: blocked_ms * MS,
        }
    }

    #[test]
    fn answers_are_waited_for_from_the_last_send_on() {
        let blocked = [(100, 0, 50, 1), (150, 0, 20, 1), (300, 149, -5, 1)];
        assert_eq!(waits_of(&blocked), waits(150, 149));
        let event_loop = [(100, 0, 50, 1), (301, 0, -5, 1), (302, 0, 50, 1)];
        assert_eq!(waits_of(&event_loop), waits(201, 0));
    }

    #[test]
    fn answers_before_the_timer_and_to_other_threads_do_not_count() {
        let soon = [(100, 0, 50, 1), (289, 189, -5, 1)];
        assert_eq!(waits_of(&soon), waits(0, 0));
        let of_reader = [(100, 0, 50, 1), (400, 390, -5, 2), (900, 0, -5, 1)];
        assert_eq!(waits_of(&of_reader), waits(0, 0));
        let of_program = [(100, 0, 50, 1), (400, 0, 900, 1), (401, 1, -5, 1)];
        assert_eq!(waits_of(&of_program), waits(1, 1));
    }
}
