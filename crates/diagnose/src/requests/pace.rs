//! The own pace of a client: sleeps between the parts of its request, and between its reads of the response. Only the client
//! itself waits meanwhile, and it chose that. Comes in: a wait for a timer on a request's path. Goes out: how long a client slept
//! in this way.
//!
//! Not every such wait is one:
//!
//! * The client serves a request of another program: then the sleep is a delay of that request.
//! * The client waited for its response, with a time limit. curl waits for `100 Continue` so, and then sends the body. In a wait
//!   for several descriptors its connection may be one of them; a wait for another thread may be a wait for what that reads.
//!   Such a wait ends once in a request. What sends on after several of them may have a pace, too: that is not decided.
//! * Nothing of the response had come when the client began to sleep. It asks for the response from time to time.

use table::{WaitObject, Waker};

use super::id::ThreadId;
use super::owner::is_of_loop;
use super::thread_event::ThreadWait;
use crate::waits::StackPurpose;

/// Turn of a client, as far as its sleeps may be its own pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientTurn {
    /// None: the end serves, or another program waits for this client.
    None,
    /// It sends the parts of its request. This thread takes the response.
    Sending(ThreadId),
    /// It has read a part of the response. The next bytes are there since then, ns.
    Reading(u64),
}

/// Evidence that a wait is the client's own pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PaceEvidence {
    /// It slept between parts of its request.
    Sending,
    /// It slept between reads of the response.
    Reading,
    /// It may have waited for the response.
    Unsure,
}

impl ClientTurn {
    /// Returns whether a wait of a thread, which a timer ended, is the client's own pace; `None`: it is not.
    pub(super) fn pace(self, thread: ThreadId, wait: &ThreadWait) -> Option<PaceEvidence> {
        if !is_timer(wait) {
            return None;
        }
        match self {
            Self::None => None,
            // a wait for descriptors with the connection among them ends at once while bytes are there
            Self::Reading(there_ns) if wait.start_ns >= there_ns => Some(PaceEvidence::Reading),
            Self::Reading(_) => None,
            Self::Sending(taker) => Some(match wait.object {
                WaitObject::Sleep => PaceEvidence::Sending,
                object if !is_of_loop(object) && thread == taker => PaceEvidence::Sending,
                _ => PaceEvidence::Unsure,
            }),
        }
    }
}

/// Whether a timer may have ended a wait. A lock is none: its holder may have slept.
fn is_timer(wait: &ThreadWait) -> bool {
    let is_limit = wait.waker == Waker::Interrupt && wait.purpose != StackPurpose::Mutex;
    wait.object == WaitObject::Sleep || is_of_loop(wait.object) || is_limit
}

/// How long clients slept by their own pace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ClientPace {
    /// Between parts of requests, ns.
    pub sending_ns: u64,
    /// Between reads of responses, ns.
    pub reading_ns: u64,
    /// Between parts of requests, where they may have waited for responses, ns.
    pub unsure_ns: u64,
}

impl ClientPace {
    /// Returns how long they surely did, ns.
    pub fn sure_ns(&self) -> u64 {
        self.sending_ns.saturating_add(self.reading_ns)
    }

    /// Adds another.
    pub fn add(&mut self, other: &Self) {
        self.sending_ns = self.sending_ns.saturating_add(other.sending_ns);
        self.reading_ns = self.reading_ns.saturating_add(other.reading_ns);
        self.unsure_ns = self.unsure_ns.saturating_add(other.unsure_ns);
    }
}

/// Counts the sleeps of a client in a stretch of one request.
#[derive(Debug, Default)]
pub(super) struct PaceCounter {
    pace: ClientPace,
    /// Times between two parts of the request in which it may have waited for the response.
    unsure: u64,
    /// When the part was sent that followed the latest of them, ns.
    unsure_before_ns: Option<u64>,
}

impl PaceCounter {
    /// Adds a sleep before a part of the request that was sent by `next_ns`.
    pub(super) fn add(&mut self, evidence: PaceEvidence, ns: u64, next_ns: u64) {
        match evidence {
            PaceEvidence::Sending => self.pace.sending_ns += ns,
            PaceEvidence::Reading => self.pace.reading_ns += ns,
            PaceEvidence::Unsure => {
                self.pace.unsure_ns += ns;
                let before_ns = self.unsure_before_ns.replace(next_ns);
                self.unsure += u64::from(before_ns != Some(next_ns));
            }
        }
    }

    /// Takes what was counted. One time alone is a wait for the response, until a time limit.
    pub(super) fn take(&mut self) -> ClientPace {
        let counted = std::mem::take(self);
        ClientPace {
            unsure_ns: if counted.unsure > 1 {
                counted.pace.unsure_ns
            } else {
                0
            },
            ..counted.pace
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(object: WaitObject, start_ns: u64) -> ThreadWait {
        ThreadWait::of_interrupt((start_ns, start_ns + 100), object)
    }

    #[test]
    fn only_sleeps_that_ask_for_nothing_are_a_pace() {
        let (own, other) = (ThreadId::from_number(1), ThreadId::from_number(2));
        let sending = ClientTurn::Sending(own);
        let pace = |thread, object| sending.pace(thread, &wait(object, 0));
        assert_eq!(pace(own, WaitObject::Sleep), Some(PaceEvidence::Sending));
        assert_eq!(pace(other, WaitObject::Sleep), Some(PaceEvidence::Sending));
        assert_eq!(pace(own, WaitObject::Epoll), Some(PaceEvidence::Unsure));
        assert_eq!(pace(own, WaitObject::Event), Some(PaceEvidence::Sending));
        // the thread that takes the response may have been waited for
        assert_eq!(pace(other, WaitObject::Event), Some(PaceEvidence::Unsure));
        let held = ThreadWait {
            waker: Waker::Thread,
            ..wait(WaitObject::Futex, 0)
        };
        assert_eq!(sending.pace(own, &held), None);
        let nobody = ClientTurn::None;
        assert_eq!(nobody.pace(own, &wait(WaitObject::Sleep, 0)), None);
    }

    #[test]
    fn a_reader_that_slept_before_bytes_came_has_no_pace() {
        let thread = ThreadId::from_number(1);
        let pace = |start_ns, there_ns| {
            let wait = wait(WaitObject::Epoll, start_ns);
            ClientTurn::Reading(there_ns).pace(thread, &wait)
        };
        assert_eq!(pace(50, 50), Some(PaceEvidence::Reading));
        assert_eq!(pace(50, 51), None);
    }

    #[test]
    fn one_time_limit_in_a_request_is_a_wait_for_the_response() {
        let mut counter = PaceCounter::default();
        counter.add(PaceEvidence::Unsure, 600, 1_000);
        counter.add(PaceEvidence::Unsure, 400, 1_000);
        counter.add(PaceEvidence::Sending, 7, 1_000);
        let pace = counter.take();
        assert_eq!((pace.unsure_ns, pace.sending_ns), (0, 7));
        counter.add(PaceEvidence::Unsure, 600, 2_000);
        counter.add(PaceEvidence::Unsure, 400, 1_000);
        assert_eq!(counter.take().unsure_ns, 1_000);
        assert_eq!(counter.take(), ClientPace::default());
    }
}
