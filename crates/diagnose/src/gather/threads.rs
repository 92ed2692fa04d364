//! Threads that serve several connections: what one waited for while another had data. A thread that
//! was blocked in a call on one connection, and then receives from another without blocking, has let
//! that one wait, for as long as it was blocked at most.

use table::tables::Calls;

use super::hash::Digests;

/// What a connection's data waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Behind {
    /// The connection on which the thread was blocked.
    pub conn: u64,
    /// It was blocked for so long, ns.
    pub blocked_ns: u64,
    /// How often.
    pub times: u64,
    /// End of the last of these, ns.
    until_ns: u64,
}

/// The last call in which a thread was blocked, and those right before it on the same connection.
#[derive(Debug, Default)]
struct Thread {
    conn: u64,
    blocked_ns: u64,
    until_ns: u64,
    counted: bool,
}

/// Of all threads and connections.
#[derive(Debug, Default)]
pub struct ThreadTable {
    threads: Digests<Thread>,
    behind: Digests<Vec<Behind>>,
}

impl ThreadTable {
    /// Adds a batch of calls whose end lies within `span` (ns, both ends included), each thread's
    /// in the order of time.
    pub fn add(&mut self, calls: &Calls, span: (u64, u64)) {
        for index in 0..calls.conn.len() {
            let end_ns = calls.end_ns[index];
            let blocked_ns = calls.blocked_ns[index].unwrap_or(0);
            let took = !calls.is_send[index] && calls.result[index] > 0;
            if (blocked_ns == 0 && !took) || end_ns < span.0 || end_ns > span.1 {
                continue;
            }
            let position = self.threads.position(calls.tid[index].into());
            let thread = self.threads.at(position);
            let conn = calls.conn[index];
            if blocked_ns > 0 {
                thread.block(conn, blocked_ns, end_ns);
            } else if thread.let_wait(conn, end_ns) {
                thread.counted = true;
                let position = self.behind.position(conn);
                count(self.behind.at(position), thread);
            }
        }
    }

    /// What this connection's data waited for.
    pub fn get(&self, conn: u64) -> &[Behind] {
        self.behind.get(conn).map_or(&[], Vec::as_slice)
    }
}

impl Thread {
    fn block(&mut self, conn: u64, blocked_ns: u64, end_ns: u64) {
        let goes_on = self.conn == conn && !self.counted;
        self.blocked_ns = blocked_ns + if goes_on { self.blocked_ns } else { 0 };
        self.conn = conn;
        self.until_ns = end_ns;
        self.counted = false;
    }

    /// Whether bytes received on another connection may have come while it was blocked: it has not
    /// waited elsewhere for longer since.
    fn let_wait(&self, conn: u64, end_ns: u64) -> bool {
        self.conn != 0
            && self.conn != conn
            && end_ns.saturating_sub(self.until_ns) <= self.blocked_ns
    }
}

fn count(waits: &mut Vec<Behind>, thread: &Thread) {
    match waits.iter_mut().find(|behind| behind.conn == thread.conn) {
        Some(behind) if behind.until_ns == thread.until_ns => {}
        Some(behind) => {
            behind.blocked_ns += thread.blocked_ns;
            behind.times += 1;
            behind.until_ns = thread.until_ns;
        }
        None => waits.push(Behind {
            conn: thread.conn,
            blocked_ns: thread.blocked_ns,
            times: 1,
            until_ns: thread.until_ns,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of one thread: connection, end, receive or send, time blocked.
    fn rows(calls: &[(u64, u64, bool, u64)]) -> Calls {
        let mut columns = Calls::default();
        for (conn, end_ns, is_send, blocked_ns) in calls {
            columns.conn.push(*conn);
            columns.end_ns.push(*end_ns);
            columns.is_send.push(*is_send);
            columns.result.push(10);
            columns.blocked_ns.push(Some(*blocked_ns));
            columns.tid.push(71);
        }
        columns
    }

    #[test]
    fn what_is_read_right_after_a_blocked_call_has_waited() {
        let mut table = ThreadTable::default();
        let calls = rows(&[
            (1, 100, false, 0),
            (2, 1_000, true, 500),
            (2, 1_400, true, 300),
            (1, 1_410, false, 0),
            (1, 1_420, false, 0),
            (3, 1_430, false, 0),
            (1, 9_000, false, 0),
            (2, 9_900, true, 70),
            (2, 9_910, false, 0),
        ]);
        table.add(&calls, (0, 10_000));
        let of = |conn| -> Vec<(u64, u64, u64)> {
            let waits = table.get(conn).iter();
            waits.map(|it| (it.conn, it.blocked_ns, it.times)).collect()
        };
        assert_eq!(of(1), [(2, 800, 1)]);
        assert_eq!(of(3), [(2, 800, 1)]);
        assert_eq!(of(2), []);
    }
}
