//! A runtime that runs the tasks of a program in several threads (Go): a request may sleep in one thread and go on in another.
//! What all of these threads waited for shows when its timer was due.

use std::collections::{HashMap, VecDeque};

use super::due::DueRange;
use super::id::{EndpointId, ThreadId};
use super::thread_event::{ThreadEventKind, ThreadWait};

/// Waits that are kept of a runtime: those within one request matter.
const WAITS_MOST: usize = 256;

/// Connections with calls before old ones are forgotten.
const CALLS_LEAST: usize = 4_096;

/// A wait with a time limit.
#[derive(Debug, Clone, Copy)]
struct LimitedWait {
    start_ns: u64,
    end_ns: u64,
    due: DueRange,
}

/// A call for a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TaskCall {
    /// Thread that made it.
    pub thread: ThreadId,
    /// When it ended.
    pub end_ns: u64,
}

/// Waits and calls of all threads of a runtime.
#[derive(Debug)]
pub struct TaskRuntime {
    waits: VecDeque<LimitedWait>,
    /// The last two calls for each connection's request, the later one first.
    calls: HashMap<EndpointId, (TaskCall, Option<TaskCall>)>,
    calls_most: usize,
}

impl Default for TaskRuntime {
    fn default() -> Self {
        Self {
            waits: VecDeque::new(),
            calls: HashMap::new(),
            calls_most: CALLS_LEAST,
        }
    }
}

impl TaskRuntime {
    /// Adds what a thread of the runtime did. `horizon_ns`: nothing older is needed.
    pub fn add(&mut self, thread: ThreadId, end_ns: u64, kind: &ThreadEventKind, horizon_ns: u64) {
        match kind {
            ThreadEventKind::Wait(wait) => self.add_wait(end_ns, wait),
            ThreadEventKind::Call(call) => {
                if let Some(served) = call.served {
                    self.add_call(served, TaskCall { thread, end_ns }, horizon_ns);
                }
            }
            ThreadEventKind::Preemption(_) => {}
        }
    }

    /// Keeps a wait with a timeout: the time at which a task may have been due.
    fn add_wait(&mut self, end_ns: u64, wait: &ThreadWait) {
        let Some(until_ns) = wait.until_ns else {
            return;
        };
        if self.waits.len() == WAITS_MOST {
            self.waits.pop_front();
        }
        self.waits.push_back(LimitedWait {
            start_ns: wait.start_ns,
            end_ns,
            due: DueRange::of_scheduler(wait.start_ns, until_ns),
        });
    }

    /// Keeps the last two calls of a connection; forgets old connections if they are many.
    fn add_call(&mut self, served: EndpointId, call: TaskCall, horizon_ns: u64) {
        let before = self.calls.get(&served).map(|(last, _)| *last);
        self.calls.insert(served, (call, before));
        if self.calls.len() > self.calls_most {
            self.calls.retain(|_, (last, _)| last.end_ns >= horizon_ns);
            self.calls_most = CALLS_LEAST.max(2 * self.calls.len());
        }
    }

    /// Returns the last call for the request of a connection before a time.
    pub fn call_before(&self, served: EndpointId, ns: u64) -> Option<TaskCall> {
        let (last, before) = self.calls.get(&served)?;
        let calls = [Some(*last), *before].into_iter().flatten();
        calls.into_iter().find(|call| call.end_ns < ns)
    }

    /// Returns when a timer was due that began after `since_ns`, and no later than `until_ns`. A timer that threads waited
    /// for before is of something else.
    pub fn due_ns(&self, since_ns: u64, until_ns: u64) -> Option<u64> {
        let waits = self.waits.iter().rev();
        let later = waits.clone().take_while(|it| it.end_ns > since_ns);
        let within = later.filter(|it| (since_ns..until_ns).contains(&it.start_ns));
        let within = within.filter(|it| it.due.may_be_until(until_ns));
        let due = within.map(|it| it.due).reduce(DueRange::and_earlier)?;
        let mut earlier = waits.filter(|it| it.start_ns < since_ns);
        match earlier.any(|it| it.due.contains(&due)) {
            true => None,
            false => due.end_until(until_ns),
        }
    }
}
