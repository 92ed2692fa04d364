//! Holds the request that a thread has to do with, where it serves several at once. An event loop reads some requests and then
//! answers them: the time between two calls belongs to one of them.
//!
//! - After a request is read, or a response that it had asked for, the thread has to do with it until the next call.
//! - After it has sent, the next call is of what comes next, or of nothing.
//! - Between the last read and the first send of another request, the work may be of either. Some loops compute when they
//!   read (redis), others run what they read in turn, each until it sends (asyncio). Their times between two reads and
//!   between two sends show which: work of that length lies in the one or in the other.

use table::WaitObject;

use super::id::EndpointId;
use super::thread_event::ThreadCall;

/// Requests of a thread that are remembered while they are open: other threads may answer them, unseen here.
const OPEN_MOST: usize = 64;

/// Of so many requests read in a row, the one that is answered first says in which order the loop answers. Of two, one may
/// have had to wait for something.
const ORDER_LEAST: usize = 3;

/// The request that a thread had to do with, by its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The connection.
    pub served: EndpointId,
    /// Whether the thread had received for it; else it had sent.
    pub is_received: bool,
    /// Since when: the end of that call.
    pub since_ns: u64,
}

/// Lengths of the times between two calls of one kind for different requests, without a wait of a loop: by power of two.
#[derive(Debug, Clone, PartialEq, Eq)]
struct GapCounts {
    counts: [u32; u64::BITS as usize],
    total: u32,
}

impl Default for GapCounts {
    fn default() -> Self {
        Self {
            counts: [0; u64::BITS as usize],
            total: 0,
        }
    }
}

impl GapCounts {
    /// Counts a gap by its power of two, in nanoseconds.
    fn add(&mut self, ns: u64) {
        let class = &mut self.counts[(ns | 1).ilog2() as usize];
        *class = class.saturating_add(1);
        self.total = self.total.saturating_add(1);
    }

    /// Returns the number of requests that last about as long, or longer.
    fn count_long(&self, ns: u64) -> u64 {
        let first = (ns | 1).ilog2() as usize;
        self.counts[first..].iter().map(|it| u64::from(*it)).sum()
    }

    /// Returns whether gaps of this length are a larger share here than in `other`.
    fn has_more(&self, other: &Self, ns: u64) -> bool {
        self.count_long(ns) * u64::from(other.total.max(1))
            > other.count_long(ns) * u64::from(self.total.max(1))
    }
}

/// Times between reads, and between sends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct WorkTimes {
    reads: GapCounts,
    sends: GapCounts,
}

/// A call for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedCall {
    /// When it ended.
    pub end_ns: u64,
    /// Whether it sent.
    pub is_send: bool,
    /// The connection of the request.
    pub served: EndpointId,
}

/// Requests that a thread has to do with.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThreadWork {
    owner: Option<Owner>,
    /// Requests that it read and did not answer, the latest last.
    open: Vec<EndpointId>,
    /// Those among them that it received for and did not send for since.
    ready: Vec<EndpointId>,
    /// How many of these it received for since it sent or waited.
    reads: usize,
    /// How often the first answer after such reads was to the first of these, and to the last.
    answers: (u32, u32),
    /// The last call for a request, without a wait of a loop since.
    latest: Option<TimedCall>,
    times: Option<Box<WorkTimes>>,
}

impl ThreadWork {
    /// Returns the request that the thread has to do with now.
    pub fn owner(&self) -> Option<Owner> {
        self.owner
    }

    /// Returns whether work of this length, between a read and a send of another request, belongs
    /// to the read one.
    pub fn is_after_read(&self, ns: u64) -> bool {
        let times = self.times.as_ref();
        times.is_some_and(|it| it.reads.has_more(&it.sends, ns))
    }

    /// Returns whether work of this length belongs to the request that is sent next.
    pub fn is_before_send(&self, ns: u64) -> bool {
        let times = self.times.as_ref();
        times.is_some_and(|it| it.sends.has_more(&it.reads, ns))
    }

    /// Returns whether the thread answers the request first that it read last, as redis does.
    pub fn answers_latest_first(&self) -> bool {
        self.answers.1 > self.answers.0
    }

    /// Counts whether the answered request was the first or the last of those read in a row.
    fn count_order(&mut self, served: EndpointId) {
        let reads = std::mem::take(&mut self.reads).min(self.ready.len());
        if reads < ORDER_LEAST {
            return;
        }
        let batch = &self.ready[self.ready.len() - reads..];
        let is_at = |end: Option<&EndpointId>| u32::from(end == Some(&served));
        self.answers.0 = self.answers.0.saturating_add(is_at(batch.first()));
        self.answers.1 = self.answers.1.saturating_add(is_at(batch.last()));
    }

    /// Returns the request that a thread serves when it begins a request of its own; `None`:
    /// unknown, or none. `is_released`: another request had the connection until this round of the loop. If that one is answered,
    /// the connection is for one that waited.
    pub fn asking_endpoint(&self, (at_ns, is_released): (u64, bool)) -> Option<EndpointId> {
        let owner = self.owner.filter(|it| it.is_received || !is_released);
        let Some(owner) = owner else {
            return match self.open.as_slice() {
                [one] => Some(*one),
                _ => None,
            };
        };
        let next = self.ready.first().copied().unwrap_or(owner.served);
        match self.is_before_send(at_ns.saturating_sub(owner.since_ns)) {
            true => Some(next),
            false => Some(owner.served),
        }
    }

    /// Counts the time between two calls of a request.
    pub fn count_time(&mut self, call: TimedCall) {
        let before = self.latest.replace(call);
        let before = before.filter(|it| it.served != call.served && it.is_send == call.is_send);
        let Some(before) = before else {
            return;
        };
        let times = self.times.get_or_insert_with(Box::default);
        let gaps = match call.is_send {
            true => &mut times.sends,
            false => &mut times.reads,
        };
        gaps.add(call.end_ns.saturating_sub(before.end_ns));
    }

    /// Adds the end of a call of the thread.
    pub fn call(&mut self, end_ns: u64, call: &ThreadCall) {
        let Some(served) = call.served else {
            self.latest = None;
            self.owner = self.owner.filter(|_| call.is_send);
            return;
        };
        let is_answer = call.is_send && call.endpoint == served;
        if is_answer {
            self.count_order(served);
        }
        let is_known = self.ready.contains(&served);
        self.ready.retain(|it| *it != served);
        if is_answer {
            self.open.retain(|it| *it != served);
        } else if !self.open.contains(&served) {
            push(&mut self.open, served);
        }
        if !call.is_send {
            push(&mut self.ready, served);
            self.reads += usize::from(!is_known);
        }
        self.owner = Some(Owner {
            served,
            is_received: !call.is_send,
            since_ns: end_ns,
        });
    }

    /// Adds a wait of the thread: before a wait for descriptors it was done with what it had read. Any other wait blocks the
    /// loop, and is a part of its work.
    pub fn wait(&mut self, object: WaitObject) {
        if is_of_loop(object) {
            self.latest = None;
            self.owner = None;
            self.ready.clear();
            self.reads = 0;
        }
    }
}

/// Returns whether the wait is that of an event loop without further work.
pub const fn is_of_loop(object: WaitObject) -> bool {
    matches!(
        object,
        WaitObject::Epoll | WaitObject::Poll | WaitObject::Select | WaitObject::IoUring
    )
}

/// Adds a connection to those served last; forgets the oldest if they are many.
fn push(list: &mut Vec<EndpointId>, served: EndpointId) {
    if list.len() == OPEN_MOST {
        list.remove(0);
    }
    list.push(served);
}
