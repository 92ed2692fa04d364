//! Waits for a notice that the request of another client brings, as of long polling and server-sent events: nobody holds
//! anything meanwhile. The thread that ends such a wait waited for that request until shortly before.

use table::WaitObject;

use super::history::{EVENTS_NEAR, Target, ThreadEventKind, ThreadHistory, ThreadId, ThreadWait};
use super::id::EndpointId;
use super::owner::is_of_loop;
use super::path_finder::{PathContext, PathFinder};
use super::service::Side;
use crate::waits::StackPurpose;

impl PathFinder<'_> {
    /// Returns whether `giver` ended a wait for a condition of the program with a request that came during the wait: for most of
    /// it, that thread waited for a request, or there was no such thread. A thread that gives back what it had was busy.
    pub(super) fn is_notice(
        &self,
        context: &PathContext,
        wait: &ThreadWait,
        giver: ThreadId,
    ) -> bool {
        if wait.purpose != StackPurpose::Condition {
            return false;
        }
        let (since_ns, until_ns) = (wait.start_ns, wait.woken_ns);
        let own = self.history.get(giver);
        let count = own.event_count_until(until_ns);
        let events = (0..count).rev();
        let events = events.filter_map(|number| Some((number, own.event(number)?)));
        let events = events.take_while(|(_, event)| event.end_ns > since_ns);
        let mut idle_ns = 0;
        for (number, event) in events.take(EVENTS_NEAR) {
            if let ThreadEventKind::Wait(it) = &event.kind
                && self.is_for_request(context, it, (own, number))
            {
                idle_ns += it.woken_ns.saturating_sub(it.start_ns.max(since_ns));
            }
        }
        if count < EVENTS_NEAR && own.is_new_since(since_ns) {
            idle_ns += own.known_from_ns().saturating_sub(since_ns);
        }
        2 * idle_ns > until_ns.saturating_sub(since_ns)
    }

    /// Returns whether a thread waited for the next request of any other client. `at`: its history, and the number of the wait.
    fn is_for_request(
        &self,
        context: &PathContext,
        wait: &ThreadWait,
        at: (&ThreadHistory, usize),
    ) -> bool {
        match wait.target {
            Target::Connection(it) => {
                let is_other = it != context.own && self.endpoints.get(it).side == Side::Server;
                is_other && (is_of_loop(wait.object) || !wait.is_output && has_answered(at, it))
            }
            Target::Socket | Target::None => {
                is_of_loop(wait.object) || wait.object == WaitObject::Listener
            }
        }
    }
}

/// Returns whether the last call of a thread on a connection before an event was a response, or there was none: else it waits for
/// more of a request.
fn has_answered((history, number): (&ThreadHistory, usize), endpoint: EndpointId) -> bool {
    let mut before = (0..number).rev();
    let near = before.by_ref().take(EVENTS_NEAR);
    let mut calls = near.filter_map(|number| match history.event(number)?.kind {
        ThreadEventKind::Call(call) if call.endpoint == endpoint => Some(call.is_send),
        _ => None,
    });
    let last = calls.next();
    last.unwrap_or_else(|| before.next().is_none())
}
