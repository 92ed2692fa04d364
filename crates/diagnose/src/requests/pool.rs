//! Threads that wait for a connection of a pool: before their request, so that it is no part of its time.
//!
//! A thread waited for a lock or a condition of the process while another thread's request was under way on a connection, the
//! wait ended when that had its response, and the thread's next call is a request on that connection. It may have waited at the
//! same place before, and have found that another thread had taken the connection: that counts, too.

use table::WaitObject;

use super::history::{
    EVENTS_NEAR, History, ThreadCall, ThreadEventKind, ThreadHistory, ThreadId, ThreadWait,
};
use super::id::EndpointId;
use crate::rows::top::Top;
use crate::waits::StackPurpose;

/// Waits of a thread that are read before its request: between them it may wait for other locks for a short time, such
/// as that of an interpreter.
const WAITS_MOST: usize = 16;

/// Events of a thread that are read before its wait: a bound of the work. The wait is longer if there are more.
const LOST_MOST: usize = 256;

/// A wait for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolWait {
    /// How long, ns.
    pub ns: u64,
    /// Number of the stack in which the thread waited.
    pub stack: Option<u32>,
    /// Thread that ended the wait.
    pub waker: Option<ThreadId>,
}

/// Waits for connections of a service.
#[derive(Debug, Default)]
pub struct PoolDigest {
    /// Sum, ns.
    pub ns: u64,
    /// The longest, ns.
    pub most_ns: u64,
    /// Requests that had to wait.
    pub requests: u64,
    /// Stacks of the waits, by their distinct number.
    pub stacks: Top,
    /// Threads that ended them.
    pub wakers: Top,
}

impl PoolDigest {
    /// Adds the wait before a request. `stack`: the distinct number of its stack.
    pub fn add(&mut self, wait: &PoolWait, stack: Option<u32>) {
        self.ns += wait.ns;
        self.most_ns = self.most_ns.max(wait.ns);
        self.requests += 1;
        if let Some(stack) = stack {
            self.stacks.add(stack, wait.ns);
        }
        if let Some(waker) = wait.waker {
            self.wakers.add(waker.number(), wait.ns);
        }
    }
}

/// Returns how long `thread` waited for a free connection before its request of `begin_ns`. Another
/// thread used the connection before, until its response came at `free_ns`. `None`: no wait was
/// seen. `is_of_pool`: whether a connection is one of the same service.
pub fn wait_before(
    history: &History,
    (thread, endpoint): (ThreadId, EndpointId),
    (begin_ns, free_ns): (u64, u64),
    is_of_pool: impl Fn(EndpointId) -> bool,
) -> Option<PoolWait> {
    let own = history.get(thread);
    let events = (0..own.event_count_until(begin_ns)).rev();
    let mut waits = 0;
    for (number, event) in events.filter_map(|number| Some((number, own.event(number)?))) {
        let wait = match event.kind {
            ThreadEventKind::Wait(wait) => wait,
            ThreadEventKind::Preemption(_) => continue,
            ThreadEventKind::Call(_) => return None,
        };
        let spans = wait.start_ns < free_ns && free_ns <= event.end_ns;
        if spans && is_of_process(history, thread, &wait) {
            if has_asked(own, number, endpoint) {
                return None;
            }
            return Some(PoolWait {
                ns: event.end_ns - wait.start_ns
                    + lost_ns(history, (own, number), &wait, is_of_pool),
                stack: wait.stack,
                waker: wait.waker_thread,
            });
        }
        waits += 1;
        if event.end_ns < free_ns || waits == WAITS_MOST {
            return None;
        }
    }
    None
}

/// Returns how long a thread had waited at the same place since its last call before, ns: a connection was given back, and
/// another thread took it first. So Python's queues wake a thread that finds none. A wait that a thread ended without a response
/// on one of these connections was for something else, such as a job.
fn lost_ns(
    history: &History,
    (own, number): (&ThreadHistory, usize),
    last: &ThreadWait,
    is_of_pool: impl Fn(EndpointId) -> bool,
) -> u64 {
    let before = (0..number).rev().take(LOST_MOST);
    let events = before.filter_map(|at| own.event(at));
    let waits = events.map_while(|event| match event.kind {
        ThreadEventKind::Wait(wait) => Some(Some((wait, event.end_ns))),
        ThreadEventKind::Preemption(_) => Some(None),
        ThreadEventKind::Call(_) => None,
    });
    let waits = waits.flatten();
    let is_release = |wait: &ThreadWait| {
        let waker = wait.waker_thread.map(|waker| history.get(waker));
        let call = waker.and_then(|waker| last_call(waker, waker.event_count_until(wait.woken_ns)));
        call.is_some_and(|call| !call.is_send && is_of_pool(call.endpoint))
    };
    let is_here = |wait: &ThreadWait| wait.stack.is_some() && wait.stack == last.stack;
    let lost = waits.filter(|(wait, _)| is_here(wait) && is_release(wait));
    lost.map(|(wait, end_ns)| end_ns - wait.start_ns).sum()
}

/// Returns the last call of a thread before its event of this number.
fn last_call(own: &ThreadHistory, number: usize) -> Option<ThreadCall> {
    let before = (0..number).rev().take(EVENTS_NEAR);
    before
        .filter_map(|at| own.event(at))
        .find_map(|event| match event.kind {
            ThreadEventKind::Call(call) => Some(call),
            ThreadEventKind::Wait(_) | ThreadEventKind::Preemption(_) => None,
        })
}

/// Returns whether a thread's last call before an event sent on this connection, so that it waits
/// for a shared response.
fn has_asked(own: &ThreadHistory, number: usize, endpoint: EndpointId) -> bool {
    last_call(own, number).is_some_and(|call| call.is_send && call.endpoint == endpoint)
}

/// Returns whether a thread of the same process ended a wait for a futex or for descriptors.
fn is_of_process(history: &History, thread: ThreadId, wait: &ThreadWait) -> bool {
    let is_lock = match wait.object {
        WaitObject::Futex => !matches!(wait.purpose, StackPurpose::Mutex | StackPurpose::Scheduler),
        WaitObject::Event | WaitObject::Pipe => true,
        _ => false,
    };
    let waker = wait.waker_thread.filter(|waker| *waker != thread);
    let pid = history.get(thread).pid;
    is_lock && waker.is_some_and(|waker| history.get(waker).pid == pid)
}
