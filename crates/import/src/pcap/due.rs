//! When connections are to be examined again. All that waits for the same thing waits for equally long: a queue for each has its
//! first at the front, and costs nothing for those that do not wait.

use std::collections::VecDeque;

/// Event for which a connection waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitKind {
    /// Bytes that may go on.
    Run,
    /// Late segments after its end.
    Linger,
    /// An answer to its SYN.
    Answer,
}

/// After its end, what comes late still belongs to it.
pub const LINGER_NS: u64 = 1_000_000_000;

/// A connection that was not answered is given up then: Linux sends its last SYN after 63 s and waits 64 s
/// (`tcp_syn_retries` = 6).
pub const UNANSWERED_NS: u64 = 127_000_000_000;

/// All kinds, and for how long each waits, ns.
const WAITS: [(WaitKind, u64); 3] = [
    (WaitKind::Run, 20_000_000),
    (WaitKind::Linger, LINGER_NS),
    (WaitKind::Answer, UNANSWERED_NS),
];

/// Kinds of waiting for which a connection is in a queue.
#[derive(Debug, Clone, Copy, Default)]
pub struct QueuedKinds([bool; WAITS.len()]);

/// Queues of `T`, which names connections.
#[derive(Debug)]
pub struct DueQueues<T>([VecDeque<(u64, T)>; WAITS.len()]);

impl<T> Default for DueQueues<T> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| VecDeque::new()))
    }
}

impl<T: Copy> DueQueues<T> {
    /// Adds a connection to the queues of its timers, unless it is there already.
    pub fn push(
        &mut self,
        now_ns: u64,
        queued: &mut QueuedKinds,
        is_waiting: impl Fn(WaitKind) -> bool,
        name: T,
    ) {
        let queues = self.0.iter_mut().zip(&mut queued.0);
        for ((kind, wait_ns), (queue, is_queued)) in WAITS.into_iter().zip(queues) {
            if !*is_queued && is_waiting(kind) {
                *is_queued = true;
                queue.push_back((now_ns.saturating_add(wait_ns), name));
            }
        }
    }

    /// Removes and returns a connection with a timer that is due by now.
    pub fn pop(&mut self, now_ns: u64) -> Option<(WaitKind, T)> {
        let mut queues = WAITS.into_iter().zip(&mut self.0);
        queues.find_map(|((kind, _), queue)| {
            queue.front().filter(|(due_ns, _)| *due_ns <= now_ns)?;
            queue.pop_front().map(|(_, name)| (kind, name))
        })
    }
}

impl QueuedKinds {
    /// Notes that a connection left the queue of a kind.
    pub fn remove(&mut self, kind: WaitKind) {
        for ((other, _), is_queued) in WAITS.into_iter().zip(&mut self.0) {
            *is_queued &= other != kind;
        }
    }
}
