//! Finds the thread or process that did a job, by the thread that gave the result. A thread of a pool does one job after
//! another, so that a job waits for it. A thread that hands results on (those of Python's process pools) does none, and an event
//! loop or a reader of responses has many at once.

use table::{WaitObject, Waker};

use super::history::{History, Target, ThreadEventKind, ThreadHistory, ThreadId, ThreadWait};
use super::id::EndpointId;
use super::owner::is_of_loop;
use super::path_finder::HOPS_LEAST;
use crate::waits::StackPurpose;

/// Doer of a job, from the weakest evidence to the strongest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum JobDoer {
    /// The thread that gave the result: it was busy all the time.
    Giver,
    /// Perhaps another thread of the process, which that thread waited for.
    OtherThread,
    /// Not known: that thread may have had several jobs at once.
    Unknown,
    /// Another process, which that thread waited for.
    OtherProcess,
}

/// Returns the doer of a job: `giver` gave its result at `given_ns`, and another thread waited for that since `asked_ns`. A free
/// thread of a pool takes the next job: so the one that did it never waited for anything else meanwhile.
pub fn find_doer(history: &History, giver: ThreadId, (asked_ns, given_ns): (u64, u64)) -> JobDoer {
    let own = history.get(giver);
    let mut waited_ns = 0;
    let mut doer = match has_asked_itself(own, (asked_ns, given_ns)) {
        true => JobDoer::Giver,
        false => JobDoer::Unknown,
    };
    let events = (0..own.event_count_until(given_ns)).rev();
    let events = events.filter_map(|number| own.event(number));
    let within = events.take_while(|event| event.end_ns > asked_ns);
    for (count, event) in within.enumerate() {
        if count == HOPS_LEAST as usize {
            return JobDoer::Unknown;
        }
        // its wait for this very job ended before
        if let ThreadEventKind::Wait(wait) = &event.kind
            && wait.woken_ns > asked_ns
        {
            let it = doer_of_wait(history, giver, wait);
            doer = doer.max(it);
            waited_ns += match it {
                JobDoer::Giver => 0,
                _ => wait.woken_ns - wait.start_ns.max(asked_ns),
            };
        }
    }
    let is_mostly = 2 * waited_ns > given_ns.saturating_sub(asked_ns);
    match doer {
        // a job may start a process, too
        JobDoer::OtherProcess if !is_mostly => JobDoer::Unknown,
        doer => doer,
    }
}

/// Returns who works while a thread waits so, as far as that shows it.
fn doer_of_wait(history: &History, giver: ThreadId, wait: &ThreadWait) -> JobDoer {
    let has_purpose = matches!(
        wait.purpose,
        StackPurpose::Mutex | StackPurpose::Resolver | StackPurpose::Handshake
    );
    if has_purpose || wait.is_output || wait.kernel.is_beside_call() {
        return JobDoer::Giver;
    }
    let pid = history.get(giver).pid;
    let other = wait.waker_thread.filter(|_| wait.waker == Waker::Thread);
    let is_of_other = other.map(|it| history.get(it).pid != pid);
    match (wait.object, is_of_other) {
        (WaitObject::Futex, None) if wait.waker == Waker::Interrupt => JobDoer::Giver,
        (WaitObject::Futex, Some(_)) => JobDoer::OtherThread,
        (WaitObject::Futex, None) => JobDoer::Unknown,
        (WaitObject::Unix, _) if wait.target != Target::None => JobDoer::Giver,
        (WaitObject::Child, _) => JobDoer::OtherProcess,
        (object, Some(true)) if waits_for_threads(object) => JobDoer::OtherProcess,
        (object, Some(false)) if waits_for_threads(object) => JobDoer::OtherThread,
        (object, None) if waits_for_threads(object) => JobDoer::Unknown,
        _ => JobDoer::Giver,
    }
}

/// Returns whether a wait is for what other threads or processes give, or for any of several things.
fn waits_for_threads(object: WaitObject) -> bool {
    let is_of_threads = matches!(
        object,
        WaitObject::Event
            | WaitObject::Signal
            | WaitObject::Pipe
            | WaitObject::Unix
            | WaitObject::Listener
    );
    is_of_threads || is_of_loop(object)
}

/// Returns whether a thread sent all requests itself that it read responses to meanwhile, those of the last job within that job.
fn has_asked_itself(own: &ThreadHistory, (asked_ns, given_ns): (u64, u64)) -> bool {
    let job_ns = own.job_since_ns(given_ns);
    let mut unasked: Vec<EndpointId> = Vec::new();
    let events = (0..own.event_count_until(given_ns)).rev();
    let events = events.filter_map(|number| own.event(number));
    for event in events.take(HOPS_LEAST as usize) {
        if event.end_ns <= asked_ns && unasked.is_empty() {
            break;
        }
        let ThreadEventKind::Call(call) = &event.kind else {
            continue;
        };
        match call.response {
            Some(it) if event.end_ns > job_ns && it.asked_ns < job_ns => return false,
            Some(_) if !unasked.contains(&call.endpoint) => unasked.push(call.endpoint),
            None if call.is_send => unasked.retain(|it| *it != call.endpoint),
            _ => {}
        }
    }
    unasked.is_empty()
}
