//! Calls in which a thread was blocked, by how long and by the sends before them on their connection.
//! Calls come in batches; what is kept of a connection is a count for each combination that occurred.

use std::collections::BTreeMap;

use table::tables::Calls;

use super::hash::Digests;
use super::in_order::InOrder;
use crate::sends::{Before, Moved, Sends};
use crate::waits::histogram::{bucket, lower_edge};

/// Rows that are held back to be put in order: more than come between two drains of the kernel's
/// buffers.
const ROWS_KEPT: usize = 1 << 15;

/// Calls blocked shorter, ns, are not told apart: a Linux receiver withholds an ACK for 40 ms less a
/// jiffy, of 10 ms at most.
const TOLD_APART_NS: u64 = 1 << 24;

/// Sends since the last receive are told apart up to here.
const SEVERAL: u32 = 2;

/// Blocked calls that are alike: of one duration and after sends of one size, within 3 %.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cell {
    /// Bucket of the time blocked; 0: below [`TOLD_APART_NS`].
    blocked: u16,
    /// Bucket of the last send's bytes.
    bytes: Option<u16>,
    /// Sends since the last receive, at most [`SEVERAL`].
    sends: Option<u8>,
}

/// Blocked calls of a connection.
#[derive(Debug, Clone, Default)]
pub struct Blocked(BTreeMap<Cell, u64>);

/// Blocked calls, and how many of them followed what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct After {
    /// All.
    pub calls: u64,
    /// Those before which a send is known.
    pub send_known: u64,
    /// Of these, those after a send of less than a segment.
    pub short_send: u64,
    /// Those of which it is known how many sends had followed the last receive.
    pub sends_known: u64,
    /// Of these, those after two or more.
    pub several_sends: u64,
}

impl Blocked {
    fn add(&mut self, blocked_ns: u64, before: Before) {
        let told_apart = blocked_ns >= TOLD_APART_NS;
        let cell = Cell {
            blocked: if told_apart {
                bucket(blocked_ns) as u16
            } else {
                0
            },
            bytes: before.bytes.map(|bytes| bucket(bytes.into()) as u16),
            sends: before.sends.map(|sends| sends.min(SEVERAL) as u8),
        };
        *self.0.entry(cell).or_default() += 1;
    }

    /// What the calls followed that were blocked `least_ns` or longer (within 3 %), and the others.
    /// `segment_bytes`: of a whole segment. A time below 17 ms is not told apart.
    pub fn after(&self, least_ns: u64, segment_bytes: u64) -> (After, After) {
        let (mut late, mut others) = (After::default(), After::default());
        let segment = bucket(segment_bytes) as u16;
        for (cell, count) in &self.0 {
            let is_late = cell.blocked > 0 && lower_edge(cell.blocked.into()) >= least_ns;
            let after = if is_late { &mut late } else { &mut others };
            let counted = |is: bool| if is { *count } else { 0 };
            after.calls += count;
            after.send_known += counted(cell.bytes.is_some());
            after.short_send += counted(cell.bytes.is_some_and(|bytes| bytes < segment));
            after.sends_known += counted(cell.sends.is_some());
            let several = cell.sends.is_some_and(|sends| u32::from(sends) >= SEVERAL);
            after.several_sends += counted(several);
        }
        (late, others)
    }
}

/// A call of a connection.
#[derive(Debug)]
struct Call {
    conn: u64,
    start_ns: Option<u64>,
    blocked_ns: u64,
    moved: Moved,
}

#[derive(Debug, Default)]
struct Connection {
    sends: Sends,
    blocked: Blocked,
}

/// Of all connections.
#[derive(Debug)]
pub struct BlockedTable {
    connections: Digests<Connection>,
    waiting: InOrder<u64, Call>,
}

impl Default for BlockedTable {
    fn default() -> Self {
        Self {
            connections: Digests::default(),
            waiting: InOrder::new(ROWS_KEPT),
        }
    }
}

impl BlockedTable {
    /// Adds a batch of calls whose end lies within `span` (ns, both ends included).
    pub fn add(&mut self, calls: &Calls, span: (u64, u64)) {
        for index in 0..calls.conn.len() {
            let (end_ns, is_send) = (calls.end_ns[index], calls.is_send[index]);
            let (result, flags) = (calls.result[index], calls.flags[index]);
            let moved = Moved::of(end_ns, is_send, result, calls.offset_end[index], flags);
            let Some(moved) = moved.filter(|_| (span.0..=span.1).contains(&end_ns)) else {
                continue;
            };
            let call = Call {
                conn: calls.conn[index],
                start_ns: calls.start_ns[index],
                blocked_ns: calls.blocked_ns[index].unwrap_or(0),
                moved,
            };
            self.waiting.push(end_ns, call);
        }
        if self.waiting.is_full() {
            let first = self.waiting.release(None);
            self.count_all(first);
        }
    }

    /// Counts what is left: no more calls come.
    pub fn finish(&mut self) {
        let rest = self.waiting.finish();
        self.count_all(rest);
    }

    fn count_all(&mut self, calls: Vec<(u64, Call)>) {
        for (_, call) in calls {
            let place = self.connections.position(call.conn);
            let Connection { sends, blocked } = self.connections.at(place);
            if let Some(start_ns) = call.start_ns.filter(|_| call.blocked_ns > 0) {
                let before = sends.at(start_ns);
                let own = call.moved.is_send;
                blocked.add(
                    call.blocked_ns,
                    if own {
                        before.and_send(&call.moved)
                    } else {
                        before
                    },
                );
            }
            sends.add(&call.moved);
        }
    }

    /// The blocked calls of a connection; `None` when none moved anything.
    pub fn get(&self, conn: u64) -> Option<&Blocked> {
        self.connections.get(conn).map(|it| &it.blocked)
    }
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
        let (late, others) = table.get(7).expect("calls").after(36 * MS, 1_448);
        let expected = After {
            calls: 3,
            send_known: 3,
            short_send: 1,
            sends_known: 3,
            several_sends: 1,
        };
        assert_eq!(late, expected);
        assert_eq!(
            (others.calls, others.short_send, others.several_sends),
            (1, 1, 0)
        );
        assert!(table.get(8).is_none());
    }
}
