//! A place on the critical path, and what is known there of what comes later.

use super::id::{EndpointId, ThreadId};
use super::loop_pool::LoopPoolWait;
use super::part::RequestPart;
use super::sleep::LoopRound;
use super::thread_event::ThreadCall;
use super::trail::StepSubject;

/// The call that a thread made next after a place on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NextCall {
    /// None before a wait of the loop.
    None,
    /// One for this request.
    Own(CallEnd),
    /// One for the request of another connection.
    Other(CallEnd, EndpointId),
}

/// When a call ended, and whether it sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CallEnd {
    pub(super) end_ns: u64,
    pub(super) is_send: bool,
}

impl CallEnd {
    pub(super) fn new(end_ns: u64, is_send: bool) -> Self {
        Self { end_ns, is_send }
    }
}

/// Evidence of the wait of a request within its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SleepEvidence {
    /// Nothing, or it did not wait there.
    None,
    /// A timer ended the wait of its loop.
    Timer,
    /// A timer was due that its loop had waited for before: after so long.
    Due(u64),
    /// The loop was never idle meanwhile.
    Unseen,
}

/// A request's wait for a connection of its loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PoolPlace {
    /// When the loop last took one that was free.
    pub(super) since_ns: u64,
    /// When the request got one.
    pub(super) end_ns: u64,
    /// The one that it got.
    pub(super) endpoint: EndpointId,
    /// The other loop of the process that gave it away.
    pub(super) through: Option<ThreadId>,
    /// Its own loop gave it away, and took none before that may have been free.
    pub(super) is_sure: bool,
    /// The loop waited meanwhile: else it asked in the round in which it read the request.
    pub(super) has_waited: bool,
}

impl PoolPlace {
    /// Returns whether the request got the connection to make this call.
    pub(super) fn is_of_call(&self, call: &ThreadCall, end_ns: u64) -> bool {
        call.is_send && call.endpoint == self.endpoint && end_ns >= self.end_ns
    }
}

/// A place on a path.
pub(super) struct Position {
    pub(super) thread: ThreadId,
    /// Events of the thread before it.
    pub(super) events: usize,
    /// When the request's own work began that comes later on.
    pub(super) own_ns: u64,
    /// When the part of the request was sent that comes next.
    pub(super) sent_ns: u64,
    /// When the timer was due that the request waited for, once that was searched.
    pub(super) due_ns: Option<Option<u64>>,
    /// Object of the request's next wait: while the thread is idle or serves others, it still does.
    pub(super) later: Option<(RequestPart, StepSubject)>,
    /// The wait for a connection that the request is in.
    pub(super) pool: Option<PoolPlace>,
    /// The round of the loop in which the request was read, once that was searched.
    pub(super) round: Option<LoopRound>,
    pub(super) next: NextCall,
    /// The thread read another request later on.
    pub(super) has_read: bool,
    /// Evidence of the wait of the request within its loop.
    pub(super) sleep: SleepEvidence,
    /// Threads that are followed.
    pub(super) depth: u32,
}

impl Position {
    /// Begins, backward, a wait for a connection: until then the thread had nothing to do for the request.
    pub(super) fn enter_pool(&mut self, place: PoolPlace, part: RequestPart) {
        let about = StepSubject {
            endpoint: Some(place.endpoint),
            ..StepSubject::default()
        };
        (self.pool, self.later, self.due_ns) = (Some(place), Some((part, about)), Some(None));
    }

    /// Ends the wait for a connection, if the request is in one. Returns it, with the time since `ns`.
    pub(super) fn leave_pool(&mut self, ns: u64) -> Option<LoopPoolWait> {
        let place = self.pool.take()?;
        self.later = None;
        let waited_ns = place.end_ns.saturating_sub(ns);
        place.has_waited.then_some(LoopPoolWait {
            ns: waited_ns,
            through_ns: if place.is_sure { 0 } else { waited_ns },
            endpoint: place.endpoint,
        })
    }
}
