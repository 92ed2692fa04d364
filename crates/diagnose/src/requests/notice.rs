//! Waits for a notice that the request of another client brings, as of long polling and server-sent events: nobody holds
//! anything meanwhile. The thread that ends such a wait waited for that request until shortly before.

use table::WaitObject;

use super::history::{EVENTS_NEAR, Target, ThreadEventKind, ThreadId, ThreadWait};
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
        let events = (0..count).rev().filter_map(|number| own.event(number));
        let events = events.take_while(|event| event.end_ns > since_ns);
        let mut idle_ns = 0;
        for event in events.take(EVENTS_NEAR) {
            if let ThreadEventKind::Wait(it) = &event.kind
                && self.is_for_request(context, it)
            {
                idle_ns += it.woken_ns.saturating_sub(it.start_ns.max(since_ns));
            }
        }
        if count < EVENTS_NEAR && own.is_new_since(since_ns) {
            idle_ns += own.known_from_ns().saturating_sub(since_ns);
        }
        2 * idle_ns > until_ns.saturating_sub(since_ns)
    }

    /// Returns whether a thread waited for the next request of any other client.
    fn is_for_request(&self, context: &PathContext, wait: &ThreadWait) -> bool {
        match wait.target {
            Target::Connection(it) => {
                it != context.own && self.endpoints.get(it).side == Side::Server
            }
            Target::Socket | Target::None => {
                is_of_loop(wait.object) || wait.object == WaitObject::Listener
            }
        }
    }
}
