//! Waits of a client between its requests until another process reads its output: so they are no part of the time of requests.

use table::Waker;

use super::history::{EVENTS_NEAR, History, Target, ThreadEventKind};
use super::id::ThreadId;
use crate::rows::top::Top;

/// Wait of a thread for the reader of its output, before a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OutputGap {
    /// How long, ns.
    pub ns: u64,
    /// Number of the stack of the longest wait.
    pub stack: Option<u32>,
    /// The thread that ended that wait.
    pub reader: Option<ThreadId>,
}

/// Such waits of a service.
#[derive(Debug, Default)]
pub struct OutputGapDigest {
    /// Sum, ns.
    pub ns: u64,
    /// The longest before one request, ns.
    pub most_ns: u64,
    /// Requests with such waits before them.
    pub requests: u64,
    /// Stacks of the waits, by their distinct number.
    pub stacks: Top,
    /// Threads that read.
    pub readers: Top,
}

impl OutputGapDigest {
    /// Adds the waits before a request. `stack`: the distinct number of their stack.
    pub fn add(&mut self, gap: &OutputGap, stack: Option<u32>) {
        self.ns += gap.ns;
        self.most_ns = self.most_ns.max(gap.ns);
        self.requests += 1;
        if let Some(stack) = stack {
            self.stacks.add(stack, gap.ns);
        }
        if let Some(reader) = gap.reader {
            self.readers.add(reader.number(), gap.ns);
        }
    }
}

/// Returns how long `thread` waited for the reader of its output between its last call and a request of `begin_ns`;
/// `None`: not at all. `has_response`: whether a wait for this had to do with requests.
pub fn gap_before(
    history: &History,
    (thread, begin_ns): (ThreadId, u64),
    has_response: impl Fn(Target) -> bool,
) -> Option<OutputGap> {
    let own = history.get(thread);
    let before = (0..own.event_count_until(begin_ns)).rev().take(EVENTS_NEAR);
    let mut gap: Option<OutputGap> = None;
    let mut longest_ns = 0;
    for event in before.filter_map(|number| own.event(number)) {
        let wait = match event.kind {
            ThreadEventKind::Call(_) => break,
            ThreadEventKind::Wait(wait) if wait.is_output => wait,
            ThreadEventKind::Wait(_) | ThreadEventKind::Preemption(_) => continue,
        };
        if has_response(wait.target) {
            continue;
        }
        let ns = wait.woken_ns.saturating_sub(wait.start_ns);
        let sum = gap.get_or_insert(OutputGap {
            ns: 0,
            stack: None,
            reader: None,
        });
        sum.ns += ns;
        if ns >= longest_ns {
            longest_ns = ns;
            sum.stack = wait.stack;
            sum.reader = wait.waker_thread.filter(|_| wait.waker == Waker::Thread);
        }
    }
    gap
}
