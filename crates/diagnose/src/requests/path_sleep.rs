//! The sleep of a request in its event loop, on the critical path: by the time limits of the loop's waits, and where the loop
//! was never idle, by what it did for others meanwhile.

use super::history::{ThreadCall, ThreadEventKind};
use super::id::EndpointId;
use super::owner::is_of_loop;
use super::part::RequestPart;
use super::path_finder::{HOPS_LEAST, PathContext, PathFinder};
use super::position::{Position, SleepEvidence};
use super::trail::{StepSubject, Trail};

impl PathFinder<'_> {
    /// Walks back to the time before the request's handler ran: it was queued, without a timer.
    pub(super) fn leave_sleep(&self, context: &PathContext, at: &mut Position, trail: &Trail) {
        let is_asleep = matches!(at.later, Some((RequestPart::Timer, _)));
        if !is_asleep || at.depth > 0 || at.thread != context.home.0 {
            return;
        }
        let round = at.round.get_or_insert_with(|| self.round(context));
        if trail.at_ns() <= round.handler_ns {
            (at.later, at.due_ns, at.has_read) = (None, Some(None), false);
        }
    }

    /// Returns when the timer was due that the request waited for while its thread worked for others: a loop waits until
    /// its next timer at most. If that was due by the time of the request's own work, and the loop did not wait again in
    /// between, the request is what the timer was for. Else it is when the request was due by what others slept.
    pub(super) fn due_ns(&self, context: &PathContext, at: &mut Position) -> Option<u64> {
        if let Some(known) = at.due_ns {
            return known;
        }
        if context.is_unread_until(at.own_ns) || self.has_helper(context, at) {
            return *at.due_ns.insert(None);
        }
        let rounds = self.rounds(context, at);
        let mut due_ns = rounds.due_ns(at.own_ns);
        if let Some(due_ns) = due_ns {
            at.sleep = SleepEvidence::Due(rounds.length_ns(due_ns));
        } else if self.history.has_timers(at.thread)
            && let Some(bounds) = rounds.bounds(at.own_ns)
        {
            let slept_ns = self.history.sleep_ns(at.thread, &bounds.ranges_ns());
            due_ns = Some(bounds.due_ns(slept_ns));
        }
        *at.due_ns.insert(due_ns)
    }

    /// Returns whether another thread of the process ended a wait of the loop since it read the request (the thread pool of
    /// libuv, an executor of asyncio): the request may be with such a thread, and a timer of the loop says nothing of it.
    fn has_helper(&self, context: &PathContext, at: &Position) -> bool {
        let (home, since_ns) = context.home;
        if at.thread != home {
            return false;
        }
        let thread = self.history.get(home);
        // Most loops never have any: those events need not be searched for each request.
        if !thread.may_have_help_since(since_ns) {
            return false;
        }
        let numbers = (0..thread.event_count_until(at.own_ns)).rev();
        let events = numbers.take(HOPS_LEAST as usize);
        let mut events = events
            .map_while(|number| thread.event(number))
            .take_while(|event| event.end_ns > since_ns);
        events.any(|event| match &event.kind {
            ThreadEventKind::Wait(wait) if is_of_loop(wait.object) => {
                self.followed_thread(home, wait).is_some()
            }
            _ => false,
        })
    }

    /// Walks back over a call for another request, in a round of the event loop. A loop that
    /// answered others and then read more did not have this request to answer meanwhile: it waited
    /// for something that is not seen. That is a timer if it mostly is in its process, as long as
    /// those that were seen there; then it waited behind the others.
    pub(super) fn pass_round(&self, call: &ThreadCall, served: EndpointId, at: &mut Position) {
        let is_of_client = call.endpoint == served;
        if is_of_client && call.is_send && at.has_read && at.later.is_none() {
            let part = match self.history.has_timers(at.thread) {
                true => {
                    at.sleep = SleepEvidence::Unseen;
                    RequestPart::Timer
                }
                false => RequestPart::Unknown,
            };
            at.later = Some((part, StepSubject::default()));
        }
        at.has_read |= is_of_client && !call.is_send;
    }
}
