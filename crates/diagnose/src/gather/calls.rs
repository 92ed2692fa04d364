//! Send and receive calls of one connection, summed up. A call costs one map look-up (none
//! when it follows another of the same connection) and a few additions, because a recording
//! holds a million of them.

use table::tables::Calls;

use super::hash::CookieMap;

/// `EAGAIN`: the socket was not ready and the caller did not want to wait.
const EAGAIN: i32 = -11;

/// Calls of one direction of one connection.
#[derive(Debug, Clone, Default)]
pub struct CallSums {
    /// Calls that moved at least one byte.
    pub calls: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Largest number of bytes of one call.
    pub largest_bytes: u64,
    /// Calls refused with `EAGAIN`: the caller waits elsewhere (epoll, select).
    pub would_block: u64,
    /// Calls that blocked.
    pub blocked_calls: u64,
    /// Time blocked, ns.
    pub blocked_ns: u64,
    /// Longest time blocked in one call, ns.
    pub longest_blocked_ns: u64,
    /// Calls whose blocking could not be measured.
    pub unmeasured: u64,
}

impl CallSums {
    fn add(&mut self, result: i32, blocked_ns: Option<u64>) {
        if result > 0 {
            let bytes = u64::from(result.unsigned_abs());
            self.calls += 1;
            self.bytes += bytes;
            self.largest_bytes = self.largest_bytes.max(bytes);
        } else if result == EAGAIN {
            self.would_block += 1;
        }
        match blocked_ns {
            None => self.unmeasured += 1,
            Some(0) => {}
            Some(ns) => {
                self.blocked_calls += 1;
                self.blocked_ns += ns;
                self.longest_blocked_ns = self.longest_blocked_ns.max(ns);
            }
        }
    }

    /// Mean bytes of a call; `None` without calls.
    pub fn mean_bytes(&self) -> Option<f64> {
        (self.calls > 0).then(|| self.bytes as f64 / self.calls as f64)
    }
}

/// Calls of one connection.
#[derive(Debug, Clone, Default)]
pub struct CallDigest {
    /// Send calls.
    pub send: CallSums,
    /// Receive calls.
    pub receive: CallSums,
}

/// Digests of all connections with calls; dense, so that the hot loop stays in cache.
#[derive(Debug, Default)]
pub struct CallTable {
    index: CookieMap<u32>,
    digests: Vec<CallDigest>,
}

impl CallTable {
    /// Adds a batch of calls whose end lies within `span` (ns, both ends included).
    pub fn add(&mut self, calls: &Calls, span: (u64, u64)) {
        let mut last: Option<(u64, usize)> = None;
        let rows = calls.conn.iter().zip(&calls.end_ns);
        let rows = rows.zip(
            calls
                .is_send
                .iter()
                .zip(calls.result.iter().zip(&calls.blocked_ns)),
        );
        for ((&conn, &end_ns), (&is_send, (&result, &blocked_ns))) in rows {
            if end_ns < span.0 || end_ns > span.1 {
                continue;
            }
            let slot = match last {
                Some((same, slot)) if same == conn => slot,
                _ => self.slot(conn),
            };
            last = Some((conn, slot));
            let digest = &mut self.digests[slot];
            let sums = if is_send {
                &mut digest.send
            } else {
                &mut digest.receive
            };
            sums.add(result, blocked_ns);
        }
    }

    fn slot(&mut self, conn: u64) -> usize {
        let next = self.digests.len();
        let slot = *self.index.entry(conn).or_insert(next as u32) as usize;
        if slot == next {
            self.digests.push(CallDigest::default());
        }
        slot
    }

    /// The digest of a connection; `None` when it made no call.
    pub fn get(&self, conn: u64) -> Option<&CallDigest> {
        self.index
            .get(&conn)
            .map(|slot| &self.digests[*slot as usize])
    }

    /// Whether no call was added.
    pub fn is_empty(&self) -> bool {
        self.digests.is_empty()
    }
}
