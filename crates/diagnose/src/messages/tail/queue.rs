//! The queue before a message: other messages of the same thread. A thread that takes a message is busy with it
//! until it takes the next, or waits; who is ready meanwhile waits for it (head-of-line blocking).

use std::collections::HashMap;

use table::Columns;
use table::tables::Waits;

use super::message::HostMessage;
use crate::messages::message::MessageDirection;

/// When a thread did not want a CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct BlockedSpan {
    pub(super) start_ns: u64,
    pub(super) woken_ns: u64,
    /// Row of `waits`, for its object.
    pub(super) object: table::WaitObject,
}

/// Messages that each thread took, and its waits.
#[derive(Debug, Default)]
pub(super) struct QueueTable {
    /// When messages were taken, by thread.
    taken: HashMap<u32, Vec<u64>>,
    blocked: HashMap<u32, Vec<BlockedSpan>>,
}

/// The queue before a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct ThreadQueue {
    /// Messages that the thread was at, or took, from when this one was ready until it took it.
    pub(super) ahead: u32,
    /// Since when it was at one of them; `None`: at none.
    pub(super) since_ns: Option<u64>,
}

impl QueueTable {
    /// Adds one message to its thread's queue.
    pub(super) fn add(&mut self, message: &HostMessage) {
        if message.id.direction == MessageDirection::Received {
            let taken = self.taken.entry(message.tid).or_default();
            taken.push(message.times.taken_ns);
        }
    }

    /// Adds rows of table `waits`.
    pub(super) fn add_waits(&mut self, rows: &Waits) {
        for row in 0..rows.len() {
            let woken_ns = rows.woken_ns[row].unwrap_or(rows.end_ns[row]);
            self.blocked
                .entry(rows.tid[row])
                .or_default()
                .push(BlockedSpan {
                    start_ns: rows.start_ns[row],
                    woken_ns,
                    object: rows.kind[row],
                });
        }
    }

    /// Sorts messages and waits; call it before any question.
    pub(super) fn finish(&mut self) {
        self.taken.values_mut().for_each(|it| it.sort_unstable());
        let sort =
            |times: &mut Vec<BlockedSpan>| times.sort_by_key(|it| (it.start_ns, it.woken_ns));
        self.blocked.values_mut().for_each(sort);
    }

    /// Returns when a thread waited, in the order of time, as far as it overlaps the interval.
    pub(super) fn blocked_spans(
        &self,
        tid: u32,
        from_ns: u64,
        until_ns: u64,
    ) -> impl Iterator<Item = &BlockedSpan> {
        let all = self.blocked.get(&tid).map_or(&[][..], Vec::as_slice);
        let first = all.partition_point(|it| it.woken_ns <= from_ns);
        all[first..]
            .iter()
            .take_while(move |it| it.start_ns < until_ns)
    }

    /// Returns the queue before a received message.
    pub(super) fn queue_ahead(&self, message: &HostMessage) -> ThreadQueue {
        let Some(taken) = self.taken.get(&message.tid) else {
            return ThreadQueue::default();
        };
        if message.id.direction == MessageDirection::Sent {
            return ThreadQueue::default();
        }
        let ready_ns = message.times.running_ns.unwrap_or(message.times.handed_ns);
        let first = taken.partition_point(|at| *at < ready_ns);
        let last = taken.partition_point(|at| *at < message.times.taken_ns);
        let (between, before) = (&taken[first..last], taken[..first].last());
        // who waited for this message was at none before
        let at_one = message.times.running_ns.is_none()
            && before.is_some_and(|at| {
                self.blocked_spans(message.tid, *at, ready_ns)
                    .next()
                    .is_none()
            });
        let since_ns = if at_one {
            Some(ready_ns)
        } else {
            between.first().copied()
        };
        ThreadQueue {
            ahead: u32::try_from(between.len()).unwrap_or(u32::MAX) + u32::from(at_one),
            since_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::breakdown::HostTimes;
    use crate::messages::message::MessageId;

    /// Makes a received message: handed over, thread running, data taken.
    fn message(handed_ns: u64, running_ns: Option<u64>, taken_ns: u64) -> HostMessage {
        HostMessage {
            id: MessageId {
                conn: 1,
                direction: MessageDirection::Received,
                offset_end: taken_ns,
            },
            pid: 1,
            tid: 7,
            times: HostTimes {
                start_ns: handed_ns,
                end_ns: taken_ns + 1,
                handed_ns,
                running_ns,
                taken_ns,
            },
            kernel_cpu: None,
            cpu: 0,
        }
    }

    /// Makes a wait in epoll.
    fn blocked(start_ns: u64, woken_ns: u64) -> BlockedSpan {
        BlockedSpan {
            start_ns,
            woken_ns,
            object: table::WaitObject::Epoll,
        }
    }

    #[test]
    fn ready_message_waits_for_earlier_ones() {
        let all = [
            message(100, Some(110), 112),
            message(101, None, 120),
            message(102, None, 130),
            message(125, None, 140),
        ];
        let mut threads = QueueTable::default();
        all.iter().for_each(|it| threads.add(it));
        threads.finish();
        let ahead: Vec<_> = all.iter().map(|it| threads.queue_ahead(it)).collect();
        let queue = |ahead, since_ns| ThreadQueue { ahead, since_ns };
        // the thread had been woken: what was ready before it ran waits from its first message on
        assert_eq!(ahead[0], queue(0, None));
        assert_eq!(ahead[1], queue(1, Some(112)));
        assert_eq!(ahead[2], queue(2, Some(112)));
        assert_eq!(ahead[3], queue(2, Some(125)));
    }

    #[test]
    fn waiting_thread_processed_no_message() {
        let all = [message(90, None, 100), message(150, None, 200)];
        let mut threads = QueueTable::default();
        all.iter().for_each(|it| threads.add(it));
        threads.blocked.insert(7, vec![blocked(120, 130)]);
        threads.finish();
        assert_eq!(threads.queue_ahead(&all[1]), ThreadQueue::default());
        threads.blocked.clear();
        let at_one = ThreadQueue {
            ahead: 1,
            since_ns: Some(150),
        };
        assert_eq!(threads.queue_ahead(&all[1]), at_one);
    }
}
