//! Sleeps of a client between its requests: nobody asks, so they are no part of the time of requests. A client that waits before
//! it tries again, or that asks at an interval, spends its time so.

use table::{WaitObject, Waker};

use super::history::{EVENTS_NEAR, History, ThreadEventKind, ThreadWait};
use super::id::ThreadId;
use super::owner::is_of_loop;
use crate::rows::top::Top;

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

/// Returns how long `thread` slept between its last call and a request of `begin_ns`; `None`: not at all.
pub fn sleep_before(history: &History, (thread, begin_ns): (ThreadId, u64)) -> Option<SleepGap> {
    let own = history.get(thread);
    let before = (0..own.event_count_until(begin_ns)).rev().take(EVENTS_NEAR);
    let mut gap: Option<SleepGap> = None;
    let mut longest_ns = 0;
    for event in before.filter_map(|number| own.event(number)) {
        let wait = match event.kind {
            ThreadEventKind::Call(_) => break,
            ThreadEventKind::Wait(wait) if is_sleep(&wait) => wait,
            ThreadEventKind::Wait(_) | ThreadEventKind::Preemption(_) => continue,
        };
        let ns = wait.woken_ns.saturating_sub(wait.start_ns);
        let sum = gap.get_or_insert(SleepGap { ns: 0, stack: None });
        sum.ns += ns;
        if ns >= longest_ns {
            longest_ns = ns;
            sum.stack = wait.stack;
        }
    }
    gap
}

/// Returns whether a timer ended a wait: a sleep, or one of a loop at its time limit.
fn is_sleep(wait: &ThreadWait) -> bool {
    let is_by_timer = wait.waker == Waker::Interrupt && !wait.is_ready;
    let is_over = wait.until_ns.is_some_and(|ns| wait.woken_ns >= ns);
    let is_of_timer = wait.object == WaitObject::Sleep || is_of_loop(wait.object) && is_over;
    is_by_timer && is_of_timer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_timer_ends_is_a_sleep() {
        let wait = |object| ThreadWait::of_interrupt((0, 100), object);
        assert!(is_sleep(&wait(WaitObject::Sleep)));
        // a loop without a time limit, with one that passed, and with one that did not
        assert!(!is_sleep(&wait(WaitObject::Epoll)));
        let until = |ns| ThreadWait {
            until_ns: Some(ns),
            ..wait(WaitObject::Epoll)
        };
        assert!(is_sleep(&until(100)));
        assert!(!is_sleep(&until(101)));
        let ready = ThreadWait {
            is_ready: true,
            ..until(100)
        };
        assert!(!is_sleep(&ready));
        assert!(!is_sleep(&wait(WaitObject::Futex)));
    }
}
