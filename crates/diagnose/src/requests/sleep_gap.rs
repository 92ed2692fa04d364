//! Sleeps of a client between its requests: nobody asks, so they are no part of the time of requests. A client that waits before
//! it tries again, or that asks at an interval, spends its time so.

use table::{WaitObject, Waker};

use super::history::{EVENTS_NEAR, History, Target, ThreadEventKind, ThreadWait};
use super::id::ThreadId;
use super::owner::is_of_loop;
use crate::rows::top::Top;
use crate::waits::StackPurpose;

/// Sleep of a thread before a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SleepGap {
    /// How long, ns.
    pub ns: u64,
    /// Number of the stack of the longest sleep.
    pub stack: Option<u32>,
}

/// Such sleeps of a service.
#[derive(Debug, Default)]
pub struct SleepGapDigest {
    /// Sum, ns.
    pub ns: u64,
    /// The longest before one request, ns.
    pub most_ns: u64,
    /// Requests with sleeps before them.
    pub requests: u64,
    /// Stacks of the sleeps, by their distinct number.
    pub stacks: Top,
}

impl SleepGapDigest {
    /// Adds the sleep before a request. `stack`: the distinct number of its stack.
    pub fn add(&mut self, gap: SleepGap, stack: Option<u32>) {
        self.ns += gap.ns;
        self.most_ns = self.most_ns.max(gap.ns);
        self.requests += 1;
        if let Some(stack) = stack {
            self.stacks.add(stack, gap.ns);
        }
    }
}

/// Returns how long `thread` slept between its last call and a request of `begin_ns`; `None`: not at all, or its last call is not
/// known. A loop sleeps if its time limit ends the wait, and no event came afterwards: else it waits for work. After a send call it
/// may wait for the response, with a time limit.
pub fn sleep_before(history: &History, (thread, begin_ns): (ThreadId, u64)) -> Option<SleepGap> {
    let own = history.get(thread);
    let before = (0..own.event_count_until(begin_ns)).rev().take(EVENTS_NEAR);
    let (mut sleeps, mut loops) = (SleepSum::default(), SleepSum::default());
    let mut is_idle_loop = false;
    for event in before.filter_map(|number| own.event(number)) {
        match event.kind {
            ThreadEventKind::Call(call) => {
                let is_pace = !is_idle_loop && !call.is_send;
                return sleeps.join(loops.filter(is_pace));
            }
            ThreadEventKind::Wait(wait) if is_of_loop(wait.object) => match is_loop_at_limit(&wait)
            {
                true => loops.add(&wait),
                false => is_idle_loop = true,
            },
            ThreadEventKind::Wait(wait) if is_sleep(&wait) => sleeps.add(&wait),
            ThreadEventKind::Wait(_) | ThreadEventKind::Preemption(_) => {}
        }
    }
    None
}

/// Sleeps of one kind, and the longest of them.
#[derive(Debug, Default)]
struct SleepSum {
    ns: u64,
    longest: Option<(u64, Option<u32>)>,
}

impl SleepSum {
    fn add(&mut self, wait: &ThreadWait) {
        let ns = wait.woken_ns.saturating_sub(wait.start_ns);
        self.ns += ns;
        self.longest = self.longest.max(Some((ns, wait.stack)));
    }

    fn filter(self, is_kept: bool) -> Self {
        if is_kept { self } else { Self::default() }
    }

    /// Returns all sleeps; `None`: there were none.
    fn join(self, other: Self) -> Option<SleepGap> {
        let (_, stack) = self.longest.max(other.longest)?;
        let ns = self.ns + other.ns;
        Some(SleepGap { ns, stack })
    }
}

/// Returns whether a timer ended a sleep.
fn is_sleep(wait: &ThreadWait) -> bool {
    wait.object == WaitObject::Sleep && wait.waker == Waker::Interrupt && !wait.is_ready
}

/// Returns whether a loop waited until its time limit. A wait for one connection, or for a resolver, is none of a loop.
fn is_loop_at_limit(wait: &ThreadWait) -> bool {
    let is_over = wait.until_ns.is_some_and(|ns| wait.woken_ns >= ns);
    let is_of_all = !matches!(wait.target, Target::Connection(_));
    let is_of_program = wait.purpose != StackPurpose::Resolver;
    is_over && is_of_all && is_of_program && wait.waker == Waker::Interrupt && !wait.is_ready
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_timer_ends_is_a_sleep() {
        let wait = |object| ThreadWait::of_interrupt((0, 100), object);
        assert!(is_sleep(&wait(WaitObject::Sleep)));
        assert!(!is_sleep(&wait(WaitObject::Futex)));
        // a loop without a time limit, with one that passed, and with one that did not
        assert!(!is_loop_at_limit(&wait(WaitObject::Epoll)));
        let until = |ns| ThreadWait {
            until_ns: Some(ns),
            ..wait(WaitObject::Epoll)
        };
        assert!(is_loop_at_limit(&until(100)));
        assert!(!is_loop_at_limit(&until(101)));
        let ready = ThreadWait {
            is_ready: true,
            ..until(100)
        };
        assert!(!is_loop_at_limit(&ready));
        let resolver = ThreadWait {
            purpose: StackPurpose::Resolver,
            ..until(100)
        };
        assert!(!is_loop_at_limit(&resolver));
    }
}
