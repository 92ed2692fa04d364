//! Threads that serve several connections: what one waited for while another had data. A receive call
//! says how long its bytes had been ready; what of that time its thread was blocked in calls on other
//! connections, it waited behind them.

use std::collections::VecDeque;

use table::tables::Calls;

use crate::rows::hash::ConnectionMap;
use crate::rows::in_order::InOrder;

/// Blocked calls that are remembered of a thread: what it received waited behind these, at least.
const BLOCKS_KEPT: usize = 16;
/// Blockers that are distinguished for a connection; the time of those that blocked it least is summed.
const BLOCKERS_KEPT: usize = 8;
/// Rows that are held back to be put in order: more than come between two drains of the kernel's
/// buffers.
const ROWS_KEPT: usize = 1 << 15;

/// Waits behind one other connection.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blocker {
    /// The connection on which the thread was blocked.
    pub conn: u64,
    /// Data waited here meanwhile, ns.
    pub waited_ns: u64,
    /// Calls on it behind which data waited.
    pub times: u64,
}

/// Connections on which the reader was blocked while data waited on this one.
#[derive(Debug, Clone, Default)]
pub struct BlockedElsewhere {
    /// By the connection on which the thread was blocked, in no order.
    pub blockers: Vec<Blocker>,
    /// Waited behind connections that are not among them, ns.
    pub others_ns: u64,
    /// Time that the thread was blocked elsewhere right before it received bytes that had been
    /// ready for an unknown time, ns.
    pub unknown_ns: u64,
    /// Waiting until then is counted, ns.
    counted_ns: u64,
}

/// A call in which a thread was blocked.
#[derive(Debug)]
struct BlockedInterval {
    conn: u64,
    start_ns: u64,
    end_ns: u64,
    blocked_ns: u64,
}

/// The last blocked calls of a thread, in the order of time.
#[derive(Debug, Default)]
struct ThreadBlocks(VecDeque<BlockedInterval>);

/// A call that blocked, or received what may have waited.
#[derive(Debug)]
struct ThreadCall {
    conn: u64,
    tid: u32,
    start_ns: u64,
    blocked_ns: u64,
    received: Option<ReadyTime>,
}

/// How long what a call received had been ready, ns, where that is known.
#[derive(Debug, Clone, Copy)]
struct ReadyTime(Option<u64>);

/// Of all threads and connections.
#[derive(Debug)]
pub struct ThreadTable {
    threads: ConnectionMap<ThreadBlocks>,
    behind: ConnectionMap<BlockedElsewhere>,
    /// Not yet counted: rows of sends and of receives come in batches of their own, some
    /// milliseconds apart, and have to be put in the order of time.
    waiting: InOrder<u64, ThreadCall>,
}

impl Default for ThreadTable {
    fn default() -> Self {
        Self {
            threads: ConnectionMap::default(),
            behind: ConnectionMap::default(),
            waiting: InOrder::new(ROWS_KEPT),
        }
    }
}

impl ThreadTable {
    /// Adds a batch of calls that ended within `span` (ns, both ends included).
    /// Of those that `judges` refuses it counts what others waited for, and not what they did.
    pub fn add(&mut self, calls: &Calls, span: (u64, u64), judges: impl Fn(u64) -> bool) {
        for index in 0..calls.conn.len() {
            let end_ns = calls.end_ns[index];
            let blocked_ns = calls.blocked_ns[index].unwrap_or(0);
            let received = !calls.is_send[index] && calls.result[index] > 0;
            let unread_ns = calls.unread_ns[index];
            // Most calls neither block nor let anything wait.
            let waited = received && unread_ns != Some(0) && judges(calls.conn[index]);
            if (blocked_ns == 0 && !waited) || end_ns < span.0 || end_ns > span.1 {
                continue;
            }
            if self.waiting.is_full() {
                let first = self.waiting.release(None).collect();
                self.count_all(first);
            }
            let call = ThreadCall {
                conn: calls.conn[index],
                tid: calls.tid[index],
                start_ns: calls.start_ns[index].unwrap_or(end_ns - blocked_ns.min(end_ns)),
                blocked_ns,
                received: waited.then_some(ReadyTime(unread_ns)),
            };
            self.waiting.push(end_ns, call);
        }
    }

    /// Counts the calls that are left: no more come.
    pub fn finish(&mut self) {
        let rest = self.waiting.finish().collect();
        self.count_all(rest);
    }

    fn count_all(&mut self, calls: Vec<(u64, ThreadCall)>) {
        calls
            .into_iter()
            .for_each(|(end_ns, call)| self.count(end_ns, call));
    }

    /// Counts one call, and adds time that its data waited while the thread was blocked elsewhere.
    fn count(&mut self, end_ns: u64, call: ThreadCall) {
        let ThreadCall {
            conn,
            tid,
            start_ns,
            blocked_ns,
            received,
        } = call;
        let position = self.threads.position(tid.into());
        let thread = self.threads.at(position);
        if let Some(ReadyTime(unread_ns)) = received.filter(|_| thread.was_elsewhere(conn)) {
            let position = self.behind.position(conn);
            let behind = self.behind.at(position);
            match unread_ns {
                Some(ns) => behind.add(conn, (end_ns - ns.min(end_ns), end_ns), thread),
                // A call that blocked itself let nothing wait.
                None if blocked_ns == 0 => behind.add_unknown(conn, end_ns, thread),
                None => {}
            }
        }
        if blocked_ns > 0 {
            thread.add_block(BlockedInterval {
                conn,
                start_ns,
                end_ns,
                blocked_ns,
            });
        }
    }

    /// Returns the connections that delayed the data of connection `conn`; `None` if none did.
    pub fn get(&self, conn: u64) -> Option<&BlockedElsewhere> {
        self.behind.get(conn)
    }
}

impl ThreadBlocks {
    fn add_block(&mut self, block: BlockedInterval) {
        if self.0.len() == BLOCKS_KEPT {
            self.0.pop_front();
        }
        self.0.push_back(block);
    }

    /// Returns whether the thread was blocked on another connection lately.
    fn was_elsewhere(&self, conn: u64) -> bool {
        self.0.iter().any(|block| block.conn != conn)
    }
}

impl BlockedElsewhere {
    /// Adds the time in which data was ready, from `ready.0` to `ready.1`, while its thread was
    /// blocked elsewhere.
    fn add(&mut self, conn: u64, ready: (u64, u64), thread: &ThreadBlocks) {
        let since_ns = ready.0.max(self.counted_ns);
        self.counted_ns = ready.1;
        for block in thread.0.iter().filter(|block| block.conn != conn) {
            let both_ns = ready
                .1
                .min(block.end_ns)
                .saturating_sub(since_ns.max(block.start_ns));
            if both_ns > 0 {
                self.count(block.conn, both_ns.min(block.blocked_ns));
            }
        }
    }

    /// Adds data that was read at `end_ns`, if nobody knows since when it was ready.
    fn add_unknown(&mut self, conn: u64, end_ns: u64, thread: &ThreadBlocks) {
        let since_ns = self.counted_ns;
        self.counted_ns = end_ns;
        let elsewhere = thread
            .0
            .iter()
            .filter(|block| block.conn != conn && block.end_ns > since_ns);
        self.unknown_ns += elsewhere.map(|block| block.blocked_ns).sum::<u64>();
    }

    /// Adds time that data waited while the thread was blocked on connection `conn`.
    fn count(&mut self, conn: u64, waited_ns: u64) {
        let known = self
            .blockers
            .iter()
            .position(|blocker| blocker.conn == conn);
        let position = known.unwrap_or_else(|| self.begin(conn));
        let blocker = &mut self.blockers[position];
        blocker.waited_ns += waited_ns;
        blocker.times += 1;
    }

    /// Makes room for another blocker, and says where.
    fn begin(&mut self, conn: u64) -> usize {
        let blocker = Blocker {
            conn,
            ..Blocker::default()
        };
        if self.blockers.len() < BLOCKERS_KEPT {
            self.blockers.push(blocker);
            return self.blockers.len() - 1;
        }
        let least = (0..BLOCKERS_KEPT).min_by_key(|at| self.blockers[*at].waited_ns);
        let position = least.unwrap_or(0);
        self.others_ns += self.blockers[position].waited_ns;
        self.blockers[position] = blocker;
        position
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes calls of one thread: connection, end, blocked time, and how long the received data was
    /// ready (`None`: a send call).
    fn rows(calls: &[(u64, u64, u64, Option<u64>)]) -> Calls {
        let mut columns = Calls::default();
        for (conn, end_ns, blocked_ns, unread_ns) in calls {
            columns.conn.push(*conn);
            columns.end_ns.push(*end_ns);
            columns
                .start_ns
                .push((*blocked_ns > 0).then(|| end_ns - blocked_ns));
            columns.is_send.push(unread_ns.is_none());
            columns.result.push(10);
            columns.blocked_ns.push(Some(*blocked_ns));
            columns.unread_ns.push(*unread_ns);
            columns.tid.push(71);
        }
        columns
    }

    /// Returns connections that made this one wait: id, nanoseconds, number of waits.
    fn blockers_of(table: &ThreadTable, conn: u64) -> Vec<(u64, u64, u64)> {
        let blockers = table.get(conn).map_or(&[][..], |behind| &behind.blockers);
        let counts = |it: &Blocker| (it.conn, it.waited_ns, it.times);
        blockers.iter().map(counts).collect()
    }

    #[test]
    fn data_waits_behind_calls_that_were_blocked_while_it_was_ready() {
        let mut table = ThreadTable::default();
        let calls = [
            (1, 100, 0, Some(0)),
            (2, 1_000, 500, None),
            (3, 1_400, 300, Some(0)),
            // Ready since 600: 400 of the first, 300 of the second.
            (1, 1_410, 0, Some(810)),
            // What was left lay there as long, and is not counted again.
            (1, 1_420, 0, Some(820)),
            // Ready since 1,300.
            (4, 1_430, 0, Some(130)),
            // Ready long after.
            (1, 9_000, 0, Some(700)),
            (2, 9_900, 70, None),
            (2, 9_910, 0, Some(100)),
        ];
        // Sends and receives come in batches of their own.
        let (sends, receives): (Vec<_>, Vec<_>) = calls.iter().partition(|call| call.3.is_none());
        table.add(&rows(&receives), (0, 10_000), |_| true);
        table.add(&rows(&sends), (0, 10_000), |_| true);
        table.finish();
        assert_eq!(blockers_of(&table, 1), [(2, 400, 1), (3, 300, 1)]);
        assert_eq!(blockers_of(&table, 4), [(3, 100, 1)]);
        assert_eq!(blockers_of(&table, 2), []);
    }

    #[test]
    fn of_many_blockers_the_worst_are_distinguished() {
        let mut table = ThreadTable::default();
        for other in 1..=20_u64 {
            let at = other * 10_000;
            let blocked_ns = if other == 3 { 900 } else { other };
            let calls = [(100 + other, at, blocked_ns, None), (7, at, 0, Some(5_000))];
            table.add(&rows(&calls), (0, 1_000_000), |_| true);
        }
        table.finish();
        let behind = table.get(7).unwrap();
        let named_ns: u64 = behind.blockers.iter().map(|it| it.waited_ns).sum();
        assert_eq!(named_ns + behind.others_ns, (1..=20).sum::<u64>() - 3 + 900);
        assert_eq!(behind.blockers.len(), BLOCKERS_KEPT);
        assert!(behind.blockers.iter().any(|it| it.conn == 103));
    }
}
