//! When a request slept in an event loop. A loop reads several requests in one round. Some loops (asyncio) run their
//! handlers afterwards, in the order of the reads: until those before it were answered, this one had no timer.

use super::history::{ThreadCall, ThreadEventKind, ThreadHistory};
use super::id::{EndpointId, ThreadId};
use super::owner::is_of_loop;
use super::path_finder::{HOPS_LEAST, PathContext, PathFinder};
use super::service::Side;

/// Calls of a round that are searched, before the read of the request and after it.
const ROUND_MOST: usize = 64;

/// A round of a loop in which a request was read.
#[derive(Debug, Default)]
pub(super) struct LoopRound {
    /// When the last of the requests was answered that were read before it; 0: none was in this round.
    pub(super) handler_ns: u64,
    /// Requests that were read after it, before the loop sent anything.
    later: Vec<EndpointId>,
}

impl LoopRound {
    /// Returns whether a request was read later in the same round of the event loop.
    pub(super) fn is_later(&self, request: EndpointId) -> bool {
        self.later.contains(&request)
    }
}

/// Time in which a task slept, in a runtime that runs tasks in several threads.
pub(super) struct TaskSleep {
    /// The thread that it ran in before.
    pub(super) thread: ThreadId,
    /// When it ended its last call before.
    pub(super) since_ns: u64,
    /// When its timer was due.
    pub(super) due_ns: u64,
}

impl PathFinder<'_> {
    /// Returns the round of the event loop in which the request was read. Its handler ran at the
    /// earliest when its thread had answered the requests that it had read before in the same
    /// round, if it did so in that round.
    pub(super) fn round(&self, context: &PathContext) -> LoopRound {
        let (thread, read_ns) = context.home;
        let thread = self.history.get(thread);
        let next = thread.event_count_until(read_ns);
        let Some(read) = next.checked_sub(1) else {
            return LoopRound::default();
        };
        if read_of(thread, read) != Some(context.own) {
            return LoopRound::default();
        }
        let earlier: Vec<_> = reads_of(thread, (0..read).rev()).collect();
        LoopRound {
            handler_ns: match earlier.is_empty() {
                true => 0,
                false => answered_ns(thread, next, &earlier),
            },
            later: reads_of(thread, next..thread.event_count_until(u64::MAX)).collect(),
        }
    }

    /// Returns the sleep of a request before a thread of its runtime worked for it; `None`: it
    /// worked without a sleep.
    pub(super) fn task_sleep(
        &self,
        context: &PathContext,
        (thread, events): (ThreadId, usize),
        (until_ns, end_ns): (u64, u64),
    ) -> Option<TaskSleep> {
        let runtime = self.history.task_runtime(thread)?;
        let call = runtime.call_before(context.own, end_ns);
        let call = call.filter(|call| call.end_ns >= until_ns && context.side == Side::Server)?;
        if call.thread == thread && !self.has_left(thread, call.end_ns, events) {
            return None;
        }
        Some(TaskSleep {
            thread: call.thread,
            since_ns: call.end_ns,
            due_ns: runtime.due_ns(call.end_ns, end_ns)?,
        })
    }

    /// Returns whether a thread did something else meanwhile: calls for others, or a wait in its
    /// loop.
    fn has_left(&self, thread: ThreadId, since_ns: u64, events: usize) -> bool {
        let thread = self.history.get(thread);
        let events = (0..events).rev().take(HOPS_LEAST as usize);
        let events = events.filter_map(|at| thread.event(at));
        let mut since = events.take_while(|event| event.end_ns > since_ns);
        since.any(|event| match &event.kind {
            ThreadEventKind::Call(_) => true,
            ThreadEventKind::Wait(wait) => is_of_loop(wait.object),
            ThreadEventKind::Preemption(_) => false,
        })
    }
}

/// Returns the requests that a thread read in some events, until the first that is something else.
fn reads_of(
    thread: &ThreadHistory,
    events: impl Iterator<Item = usize>,
) -> impl Iterator<Item = EndpointId> {
    let events = events.take(ROUND_MOST);
    let events = events.filter(|at| !is_preemption(thread, *at));
    events.map_while(|at| read_of(thread, at))
}

/// Returns when the last of some requests was answered in the round that goes on with an event; 0: none was.
fn answered_ns(thread: &ThreadHistory, next: usize, requests: &[EndpointId]) -> u64 {
    let (mut answered_ns, mut has_sent) = (0, false);
    let later = (next..).map_while(|at| thread.event(at)).take(ROUND_MOST);
    for event in later {
        match &event.kind {
            ThreadEventKind::Wait(wait) if is_of_loop(wait.object) => break,
            ThreadEventKind::Call(call) if call.is_send => {
                has_sent = true;
                if requests.contains(&call.endpoint) {
                    answered_ns = event.end_ns;
                }
            }
            ThreadEventKind::Call(_) if has_sent => break,
            _ => {}
        }
    }
    answered_ns
}

/// Returns the connection of the request that an event read.
fn read_of(thread: &ThreadHistory, number: usize) -> Option<EndpointId> {
    let is_read = |call: &ThreadCall| !call.is_send && call.served == Some(call.endpoint);
    match &thread.event(number)?.kind {
        ThreadEventKind::Call(call) if is_read(call) => Some(call.endpoint),
        _ => None,
    }
}

fn is_preemption(thread: &ThreadHistory, number: usize) -> bool {
    let event = thread.event(number);
    event.is_some_and(|event| matches!(event.kind, ThreadEventKind::Preemption(_)))
}
