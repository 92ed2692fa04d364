//! A place on the critical path, and what is known there of what comes later.

use super::id::{EndpointId, ThreadId};
use super::part::RequestPart;
use super::sleep::LoopRound;
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
