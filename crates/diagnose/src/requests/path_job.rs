//! The job that a helper thread did for an event loop, on the critical path: since the result of the helper that came before, if
//! the loop answered another request with that. Until then, the request waited for a free thread of the pool.

use super::history::{Target, ThreadCall, ThreadEvent, ThreadEventKind, ThreadId, ThreadWait};
use super::owner::is_of_loop;
use super::path_finder::{HOPS_LEAST, PathContext, PathFinder};
use table::Waker;

/// Requests for which a loop sent in a round, as far as one request is concerned.
#[derive(Debug, Clone, Copy, Default)]
struct RoundCalls {
    has_own: bool,
    has_answered_other: bool,
}

impl RoundCalls {
    /// Notes a call of the round.
    fn add(&mut self, context: &PathContext, call: &ThreadCall) {
        let Some(served) = call.served else {
            return;
        };
        let is_own = context.is_own(served);
        self.has_own |= is_own;
        self.has_answered_other |= call.is_send && !is_own;
    }

    /// Returns whether the loop answered other requests only.
    fn is_of_other(&self) -> bool {
        self.has_answered_other && !self.has_own
    }
}

impl PathFinder<'_> {
    /// Returns since when `helper` did the job with which it ended this wait of a loop: since it gave the result before, after
    /// which the loop answered other requests only. Not before `since_ns`; then, nothing shows another job.
    pub(super) fn loop_job_ns(
        &self,
        context: &PathContext,
        (home, helper): (ThreadId, ThreadId),
        wait: &ThreadWait,
        since_ns: u64,
    ) -> u64 {
        let times = (since_ns, wait.start_ns);
        let woken_ns = self.woken_result_ns(context, (home, helper), times);
        let sent_ns = self.sent_result_ns(context, (home, helper), wait.target, times);
        woken_ns.max(sent_ns).unwrap_or(since_ns)
    }

    /// Returns when a helper last ended a wait of the loop, after which that answered another request.
    fn woken_result_ns(
        &self,
        context: &PathContext,
        (home, helper): (ThreadId, ThreadId),
        times: (u64, u64),
    ) -> Option<u64> {
        let mut round = RoundCalls::default();
        for event in self.events_back(home, times) {
            match &event.kind {
                ThreadEventKind::Call(call) => round.add(context, call),
                ThreadEventKind::Wait(wait) if is_of_loop(wait.object) => {
                    let is_result = wait.waker == Waker::Thread;
                    let is_result = is_result && wait.waker_thread == Some(helper);
                    if is_result && round.is_of_other() && wait.woken_ns > times.0 {
                        return Some(wait.woken_ns);
                    }
                    round = RoundCalls::default();
                }
                ThreadEventKind::Wait(_) | ThreadEventKind::Preemption(_) => {}
            }
        }
        None
    }

    /// Returns when a helper last sent to the loop by a pair of sockets, if the loop answered another request later. The loop may
    /// have run then: no wait shows such a result.
    fn sent_result_ns(
        &self,
        context: &PathContext,
        (home, helper): (ThreadId, ThreadId),
        target: Target,
        (since_ns, until_ns): (u64, u64),
    ) -> Option<u64> {
        let Target::Connection(own) = target else {
            return None;
        };
        let pipe = self.endpoints.get(own).peer?;
        let mut events = self.events_back(helper, (since_ns, until_ns));
        let is_result = |event: &&ThreadEvent| match &event.kind {
            ThreadEventKind::Call(call) => call.is_send && call.endpoint == pipe,
            ThreadEventKind::Wait(_) | ThreadEventKind::Preemption(_) => false,
        };
        let sent_ns = events.find(is_result)?.end_ns;
        let mut calls = RoundCalls::default();
        for event in self.events_back(home, (sent_ns, until_ns)) {
            if let ThreadEventKind::Call(call) = &event.kind {
                calls.add(context, call);
            }
        }
        calls.is_of_other().then_some(sent_ns)
    }

    /// Returns events of a thread that ended after a time and until another, the latest first.
    fn events_back(
        &self,
        thread: ThreadId,
        (after_ns, until_ns): (u64, u64),
    ) -> impl Iterator<Item = &ThreadEvent> {
        let own = self.history.get(thread);
        let numbers = (0..own.event_count_until(until_ns)).rev();
        let events = numbers.filter_map(|number| own.event(number));
        let events = events.take_while(move |event| event.end_ns > after_ns);
        events.take(HOPS_LEAST as usize)
    }
}
