//! When a request began to sleep in an event loop. A loop reads several requests in one round. Some loops (asyncio) run their
//! handlers afterwards, in the order of the reads: until those before it were answered, this one had no timer.

use super::history::{ThreadCall, ThreadEventKind, ThreadHistory};
use super::id::EndpointId;
use super::owner::is_of_loop;
use super::path_finder::{PathContext, PathFinder};

/// Calls of a round that are searched, before the read of the request and after it.
const ROUND_MOST: usize = 64;

impl PathFinder<'_> {
    /// Returns when the handler of a request may have run at the earliest: its thread had answered the requests that it
    /// had read before in the same round, if it did so in that round; else 0.
    pub(super) fn handler_ns(&self, context: &PathContext) -> u64 {
        let (thread, read_ns) = context.home;
        let thread = self.history.get(thread);
        let next = thread.until(read_ns);
        let Some(read) = next.checked_sub(1) else {
            return 0;
        };
        if read_of(thread, read) != Some(context.own) {
            return 0;
        }
        let earlier = (0..read).rev().take(ROUND_MOST);
        let earlier = earlier.filter(|at| !is_preemption(thread, *at));
        let earlier: Vec<_> = earlier.map_while(|at| read_of(thread, at)).collect();
        match earlier.is_empty() {
            true => 0,
            false => answered_ns(thread, next, &earlier),
        }
    }
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
