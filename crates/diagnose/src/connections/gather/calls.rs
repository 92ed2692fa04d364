//! Send and receive calls of one connection, summed up. A call costs one map look-up (none
//! when it follows another of the same connection) and a few additions, because a recording
//! holds a million of them.

use table::tables::Calls;

use crate::kernel::WAKE_NS;
use crate::rows::hash::ConnectionMap;

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
    /// Calls that moved as many bytes as the caller offered or had room for.
    pub full_calls: u64,
    /// Bytes of these.
    pub full_bytes: u64,
    /// Calls refused with `EAGAIN`: the caller waits elsewhere (epoll, select).
    pub would_block: u64,
    /// Calls that blocked.
    pub blocked_calls: u64,
    /// Time blocked, ns.
    pub blocked_ns: u64,
    /// Longest time blocked in one call, ns.
    pub longest_blocked_ns: u64,
    /// Calls without measured blocking.
    pub unmeasured: u64,
    /// Time that threads waited for a CPU in calls where it was more than a wake-up takes, ns.
    pub runq_ns: u64,
}

impl CallSums {
    /// Adds one call: result in bytes or errno, bytes asked for, time blocked and in the run queue.
    fn add(
        &mut self,
        (result, asked): (i32, Option<u64>),
        blocked_ns: Option<u64>,
        runq_ns: Option<u64>,
    ) {
        if result > 0 {
            let bytes = u64::from(result.unsigned_abs());
            self.calls += 1;
            self.bytes += bytes;
            self.largest_bytes = self.largest_bytes.max(bytes);
            if asked == Some(bytes) {
                self.full_calls += 1;
                self.full_bytes += bytes;
            }
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
        if let Some(ns) = runq_ns
            && ns > WAKE_NS
        {
            self.runq_ns += ns;
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
    /// Time between the ends of two sends, by the binary logarithm of its nanoseconds.
    send_gaps: [u32; GAP_CLASSES],
    /// End of the first and of the last send, ns; 0: there was none.
    first_send_ns: u64,
    last_send_ns: u64,
    /// On which CPUs calls ended, and how many.
    pub cpus: Vec<(u16, u64)>,
    /// Position of the last one in `cpus`.
    cpu_at: usize,
    /// Threads that received bytes, and how many.
    readers: Vec<(u32, u64)>,
}

/// Threads that are distinguished: the first ones.
const MOST_READERS: usize = 8;

/// Classes of gaps: the last one holds all from 2 s up.
const GAP_CLASSES: usize = 32;

impl CallDigest {
    /// Counts the time since the end of the send call before, by its power of two.
    fn add_gap(&mut self, end_ns: u64) {
        if self.last_send_ns > 0 {
            // Calls that ended on different CPUs may come a little out of order.
            let gap_ns = end_ns.abs_diff(self.last_send_ns);
            let class = (gap_ns | 1).ilog2() as usize;
            self.send_gaps[class.min(GAP_CLASSES - 1)] += 1;
        } else {
            self.first_send_ns = end_ns;
        }
        self.last_send_ns = end_ns;
    }

    /// Send calls for each receive call; `None` without receive calls.
    pub fn sends_per_receive(&self) -> Option<f64> {
        let receives = self.receive.calls;
        (receives > 0).then(|| self.send.calls as f64 / receives as f64)
    }

    /// Time from the first send to the last in which no send was blocked, ns: what the program did
    /// meanwhile. `None` where that is not known, or where it waits for room outside of its calls.
    pub fn program_ns(&self) -> Option<u64> {
        if self.send.unmeasured + self.send.would_block > 0 {
            return None;
        }
        let span_ns = self.last_send_ns.saturating_sub(self.first_send_ns);
        Some(span_ns.saturating_sub(self.send.blocked_ns))
    }

    /// Time that threads were blocked in calls of either direction, ns.
    pub fn blocked_ns(&self) -> u64 {
        self.send.blocked_ns + self.receive.blocked_ns
    }

    /// Returns the thread that received most of the bytes.
    pub fn reader(&self) -> Option<u32> {
        let most = self.readers.iter().max_by_key(|(_, bytes)| *bytes);
        most.map(|(tid, _)| *tid)
    }

    /// Adds bytes to the thread that received them; of many threads only the first are kept.
    fn add_reader(&mut self, tid: u32, bytes: u64) {
        let is_full = self.readers.len() == MOST_READERS;
        match self.readers.iter_mut().find(|(reader, _)| *reader == tid) {
            Some((_, sum)) => *sum += bytes,
            None if is_full => {}
            None => self.readers.push((tid, bytes)),
        }
    }

    /// Counts one call for the CPU on which it ended.
    fn add_cpu(&mut self, cpu: u16) {
        if let Some((same, calls)) = self.cpus.get_mut(self.cpu_at)
            && *same == cpu
        {
            *calls += 1;
            return;
        }
        let known = self.cpus.iter().position(|(known, _)| *known == cpu);
        self.cpu_at = known.unwrap_or(self.cpus.len());
        match known {
            Some(at) => self.cpus[at].1 += 1,
            None => self.cpus.push((cpu, 1)),
        }
    }

    /// Sends that followed the one before within `limit_ns` (less, by up to a half: gaps are
    /// kept by their logarithm).
    pub fn sends_within(&self, limit_ns: u64) -> u64 {
        let classes = (limit_ns | 1).ilog2() as usize;
        self.send_gaps
            .iter()
            .take(classes)
            .map(|number| u64::from(*number))
            .sum()
    }
}

/// Calls of all connections.
#[derive(Debug, Default)]
pub struct CallTable(ConnectionMap<CallDigest>);

impl CallTable {
    /// Adds a batch of calls that ended within `span` (ns, both ends included).
    pub fn add(&mut self, calls: &Calls, span: (u64, u64), judges: impl Fn(u64) -> bool) {
        let mut last: Option<(u64, usize)> = None;
        let rows = calls.conn.iter().zip(&calls.end_ns);
        let waits = calls.blocked_ns.iter().zip(&calls.runq_ns);
        let moved = calls.result.iter().zip(&calls.asked_bytes);
        let what = calls.is_send.iter().zip(moved).zip(waits);
        let rows = rows.zip(what.zip(calls.cpu.iter().zip(&calls.tid)));
        for (
            (&conn, &end_ns),
            (((&is_send, (&result, &asked)), (&blocked_ns, &runq_ns)), (&cpu, &tid)),
        ) in rows
        {
            if end_ns < span.0 || end_ns > span.1 || !judges(conn) {
                continue;
            }
            let position = match last {
                Some((same, position)) if same == conn => position,
                _ => self.0.position(conn),
            };
            last = Some((conn, position));
            let digest = self.0.at(position);
            if is_send && result > 0 {
                digest.add_gap(end_ns);
            }
            let sums = if is_send {
                &mut digest.send
            } else {
                &mut digest.receive
            };
            sums.add((result, asked), blocked_ns, runq_ns);
            digest.add_cpu(cpu);
            if !is_send && result > 0 {
                digest.add_reader(tid, result.unsigned_abs().into());
            }
        }
    }

    /// Returns the calls of a connection; `None` if it made none.
    pub fn get(&self, conn: u64) -> Option<&CallDigest> {
        self.0.get(conn)
    }

    /// Returns whether no call was added.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(calls: &[(u64, u64, bool, i32, Option<u64>)]) -> Calls {
        let mut columns = Calls::default();
        for (conn, end_ns, is_send, result, blocked_ns) in calls {
            columns.conn.push(*conn);
            columns.end_ns.push(*end_ns);
            columns.is_send.push(*is_send);
            columns.result.push(*result);
            columns.asked_bytes.push(Some(300));
            columns.blocked_ns.push(*blocked_ns);
            // of those that blocked, one waited for no longer than a wake-up takes
            let runq_ns = blocked_ns.map(|ns| ns.min(1) * (WAKE_NS + ns - 40));
            columns.runq_ns.push(runq_ns);
            columns.cpu.push((end_ns % 1_000 / 500) as u16);
            columns.tid.push(70);
        }
        columns
    }

    #[test]
    fn calls_are_summed_by_connection_and_direction() {
        let mut table = CallTable::default();
        let batch = rows(&[
            (7, 1_000, true, 100, Some(0)),
            (7, 1_500, true, 300, Some(40)),
            (9, 1_600, true, EAGAIN, Some(0)),
            (7, 900_000, false, 64, Some(800)),
            (7, 901_000, false, 0, None),
            (7, 990_000, true, 100, Some(0)),
        ]);
        table.add(&batch, (0, 950_000), |_| true);
        let digest = table.get(7).expect("it made calls");
        assert_eq!(
            (digest.send.calls, digest.send.bytes, digest.send.blocked_ns),
            (2, 400, 40)
        );
        assert_eq!(
            (digest.send.runq_ns, digest.receive.runq_ns),
            (0, WAKE_NS + 760)
        );
        assert_eq!((digest.send.full_calls, digest.send.full_bytes), (1, 300));
        assert_eq!(digest.cpus, [(0, 3), (1, 1)]);
        assert_eq!(digest.send.mean_bytes(), Some(200.0));
        assert_eq!((digest.receive.calls, digest.receive.unmeasured), (1, 1));
        assert_eq!(digest.sends_within(1_024), 1);
        assert_eq!(digest.program_ns(), Some(500 - 40));
        assert_eq!(digest.sends_within(256), 0);
        assert_eq!(table.get(9).map(|digest| digest.send.would_block), Some(1));
        assert_eq!(table.get(9).and_then(CallDigest::program_ns), None);
        assert!(table.get(8).is_none());
    }
}
