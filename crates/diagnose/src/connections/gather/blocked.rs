//! Calls in which a thread was blocked, by how long and by the sends before them on their connection, for
//! the wanted connections. Calls come in batches; what is kept of a connection is a count
//! for each combination that occurred.

use std::collections::BTreeMap;

use table::tables::Calls;

use crate::histogram::{bucket_of, lower_edge};
use crate::rows::hash::ConnectionMap;
use crate::rows::in_order::InOrder;
use crate::rows::sends::{CallBytes, CallHistory, PrecedingCalls};

/// Rows that are held back to be put in order: more than come between two drains of the kernel's
/// buffers.
const ROWS_KEPT: usize = 1 << 15;

/// Calls blocked shorter, ns, are not distinguished: a Linux receiver delays an ACK for 40 ms less a
/// jiffy, of 10 ms at most.
const SHORTEST_NS: u64 = 1 << 24;

/// Sends since the last receive are distinguished up to here.
const SEVERAL: u32 = 2;

/// Calls that were blocked about as long, after sends of about one size, within 3 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BlockedCell {
    /// Bucket of the time blocked.
    blocked: u16,
    /// Bucket of the last send's bytes.
    bytes: Option<u16>,
    /// Sends since the last receive, at most [`SEVERAL`].
    sends: Option<u32>,
}

/// Blocked calls of a connection.
#[derive(Debug, Clone, Default)]
pub struct BlockedCalls {
    /// Those blocked for [`SHORTEST_NS`] or longer.
    long: BTreeMap<BlockedCell, u64>,
    /// The others.
    short: CallsAfter,
}

/// Blocked calls, and how many of them followed what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CallsAfter {
    /// All.
    pub calls: u64,
    /// Those with a known number of sends since the last receive.
    pub sends_known: u64,
    /// Of these, those after two or more.
    pub several_sends: u64,
}

/// How many calls followed a send of less than a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ShortSends {
    /// Calls before which a send is known.
    pub known: u64,
    /// Those of them after less than a segment.
    pub short: u64,
}

impl CallsAfter {
    /// Counts blocked calls by the number of send calls before them; None is an unknown number.
    fn add(&mut self, calls: u64, sends: Option<u32>) {
        self.calls += calls;
        if let Some(sends) = sends {
            self.sends_known += calls;
            self.several_sends += if sends >= SEVERAL { calls } else { 0 };
        }
    }
}

impl BlockedCalls {
    /// Counts one blocked call, by its duration and by the calls before it.
    fn add(&mut self, blocked_ns: u64, before: PrecedingCalls) {
        if blocked_ns < SHORTEST_NS {
            return self.short.add(1, before.sends);
        }
        let cell = BlockedCell {
            blocked: bucket_of(blocked_ns) as u16,
            bytes: before
                .sent_bytes
                .map(|bytes| bucket_of(bytes.into()) as u16),
            sends: before.sends.map(|sends| sends.min(SEVERAL)),
        };
        *self.long.entry(cell).or_default() += 1;
    }

    /// Returns the sends before calls that were blocked `least_ns` or longer (within 3 %), and before the others.
    /// A time below 17 ms is not distinguished.
    pub fn split_calls(&self, least_ns: u64) -> (CallsAfter, CallsAfter) {
        let (mut late, mut others) = (CallsAfter::default(), self.short);
        for (cell, calls) in &self.long {
            let after = if cell.is_blocked_for(least_ns) {
                &mut late
            } else {
                &mut others
            };
            after.add(*calls, cell.sends);
        }
        (late, others)
    }

    /// Counts calls that were blocked `least_ns` or longer, and those of them that followed less than a segment of
    /// `segment_bytes`.
    pub fn short_sends(&self, least_ns: u64, segment_bytes: u64) -> ShortSends {
        let segment = bucket_of(segment_bytes) as u16;
        let mut sends = ShortSends::default();
        let late = self
            .long
            .iter()
            .filter(|(cell, _)| cell.is_blocked_for(least_ns));
        for (bytes, calls) in late.filter_map(|(cell, calls)| Some((cell.bytes?, calls))) {
            sends.known += calls;
            sends.short += if bytes < segment { *calls } else { 0 };
        }
        sends
    }
}

impl BlockedCell {
    /// Returns whether calls of this cell were blocked for `least_ns` or longer.
    fn is_blocked_for(&self, least_ns: u64) -> bool {
        lower_edge(self.blocked.into()) >= least_ns
    }
}

/// A call of a connection.
#[derive(Debug)]
struct BlockedCall {
    conn: u64,
    /// How it blocked: since when, and how long, ns.
    blocked: Option<(u64, u64)>,
    moved: CallBytes,
}

#[derive(Debug, Default)]
struct ConnectionCalls {
    /// Where another thread made a call meanwhile, what went before is not known.
    sends: CallHistory<1>,
    blocked: BlockedCalls,
}

/// Of all connections that are wanted.
#[derive(Debug)]
pub struct BlockedTable {
    connections: ConnectionMap<ConnectionCalls>,
    waiting: InOrder<u64, BlockedCall>,
}

impl Default for BlockedTable {
    fn default() -> Self {
        Self {
            connections: ConnectionMap::default(),
            waiting: InOrder::new(ROWS_KEPT),
        }
    }
}

impl BlockedTable {
    /// Begins to count the blocked calls of this connection.
    pub fn count_calls_of(&mut self, conn: u64) {
        self.connections.position(conn);
    }

    /// Returns whether no connection is wanted.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Adds a batch of calls that ended within `span` (ns, both ends included).
    pub fn add(&mut self, calls: &Calls, span: (u64, u64)) {
        for index in 0..calls.conn.len() {
            if self.connections.get(calls.conn[index]).is_none() {
                continue;
            }
            let (end_ns, is_send) = (calls.end_ns[index], calls.is_send[index]);
            let (result, flags) = (calls.result[index], calls.flags[index]);
            let moved = CallBytes::new(end_ns, is_send, result, calls.offset_end[index], flags);
            let Some(moved) = moved.filter(|_| (span.0..=span.1).contains(&end_ns)) else {
                continue;
            };
            let call = BlockedCall {
                conn: calls.conn[index],
                blocked: calls.start_ns[index].zip(calls.blocked_ns[index]),
                moved,
            };
            self.waiting.push(end_ns, call);
        }
        if self.waiting.is_full() {
            let connections = &mut self.connections;
            let first = self.waiting.release(None);
            first.for_each(|(_, call)| count(connections, &call));
        }
    }

    /// Counts the calls that are left: no more come.
    pub fn finish(&mut self) {
        let connections = &mut self.connections;
        let rest = self.waiting.finish();
        rest.for_each(|(_, call)| count(connections, &call));
    }

    /// The blocked calls of a connection; `None`: not wanted.
    pub fn get(&self, conn: u64) -> Option<&BlockedCalls> {
        self.connections.get(conn).map(|it| &it.blocked)
    }
}

/// Counts a call that ended after all others.
fn count(connections: &mut ConnectionMap<ConnectionCalls>, call: &BlockedCall) {
    let place = connections.position(call.conn);
    let ConnectionCalls { sends, blocked } = connections.at(place);
    if let Some((start_ns, blocked_ns)) = call.blocked {
        let before = match sends.at(start_ns) {
            before if call.moved.is_send => before.and_send(&call.moved),
            before => before,
        };
        blocked.add(blocked_ns, before);
    }
    sends.add(&call.moved);
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Calls of a connection: end in ms, time blocked until then in ms, bytes sent (or received: less
    /// than 0).
    fn rows(calls: &[(u64, u64, i32)]) -> Calls {
        let mut rows = Calls::default();
        for (end_ms, blocked_ms, bytes) in calls {
            rows.conn.push(7);
            rows.end_ns.push(end_ms * MS);
            let start_ns = (end_ms - blocked_ms) * MS;
            rows.start_ns.push((*blocked_ms > 0).then_some(start_ns));
            rows.blocked_ns.push(Some(blocked_ms * MS));
            rows.is_send.push(*bytes > 0);
            rows.result.push(bytes.abs());
            rows.offset_end.push(0);
            rows.flags.push(0);
        }
        rows
    }

    #[test]
    fn calls_are_counted_by_what_they_follow() {
        let mut table = BlockedTable::default();
        table.count_calls_of(7);
        // Receives come first, in a batch of their own.
        let receives = [(100, 0, -5), (152, 41, -5), (163, 3, -5), (900, 200, -5)];
        let sends = [
            (50, 0, 9_000),
            (110, 0, 8),
            (111, 0, 120),
            (159, 0, 120),
            (600, 50, 20_000),
        ];
        table.add(&rows(&receives), (0, u64::MAX));
        table.add(&rows(&sends), (0, u64::MAX));
        table.finish();
        let blocked = table.get(7).expect("calls");
        let after = |calls, several_sends| CallsAfter {
            calls,
            sends_known: calls,
            several_sends,
        };
        assert_eq!(blocked.split_calls(36 * MS), (after(3, 1), after(1, 0)));
        assert_eq!(blocked.split_calls(100 * MS), (after(1, 0), after(3, 1)));
        let short_sends = |known, short| ShortSends { known, short };
        assert_eq!(blocked.short_sends(36 * MS, 1_448), short_sends(3, 1));
        assert_eq!(blocked.short_sends(36 * MS, 32_741), short_sends(3, 3));
        assert!(table.get(8).is_none());
    }
}
