//! Waits of the thread that holds a lock: the one that ended a wait for the lock had it until then. If it waited for a
//! disk or for memory, so did the thread that wanted the lock.

use table::{WaitObject, Waker};

use super::history::{History, ThreadEventKind, ThreadHistory, ThreadId, ThreadWait};
use super::part::RequestPart;
use crate::waits::{KernelPurpose, StackPurpose};

/// Events of the holder that are read back from the end of the wait.
const EVENTS_MOST: usize = 64;

/// Wait of a holder, for a disk or for memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderWait {
    /// Part of the time.
    pub part: RequestPart,
    /// Number of the stack in which it waited longest.
    pub stack: Option<u32>,
    /// Time of the wait for the lock that it covers, ns.
    ns: u64,
    /// The longest wait, ns.
    longest_ns: u64,
}

impl HolderWait {
    const fn new(part: RequestPart) -> Self {
        Self {
            part,
            stack: None,
            ns: 0,
            longest_ns: 0,
        }
    }
}

/// Threads that passed a lock on, one after another: so many are followed.
const HOLDERS_MOST: usize = 16;

/// Returns the thread that held the lock which `thread` waited for: the one that ended the wait. If a time limit ended it, as of
/// CPython's lock every 5 ms, the thread goes on to wait: who ends that had the lock, or got it meanwhile from another.
pub fn holder_of(history: &History, thread: ThreadId, wait: &ThreadWait) -> Option<ThreadId> {
    if wait.waker != Waker::Interrupt || wait.purpose != StackPurpose::Mutex {
        return wait.waker_thread.filter(|_| wait.waker == Waker::Thread);
    }
    let (mut holder, mut given_ns) = end_of_retries(history.get(thread), wait)?;
    for _ in 0..HOLDERS_MOST {
        match taken_from(history.get(holder), given_ns) {
            Some((before, taken_ns)) if taken_ns > wait.woken_ns && before != holder => {
                (holder, given_ns) = (before, taken_ns);
            }
            _ => return (holder != thread).then_some(holder),
        }
    }
    None
}

/// Returns who ended the waits for a lock that follow one with a time limit, and when.
fn end_of_retries(own: &ThreadHistory, wait: &ThreadWait) -> Option<(ThreadId, u64)> {
    let later = (own.until(wait.woken_ns)..).take(EVENTS_MOST);
    for event in later.map_while(|number| own.event(number)) {
        match event.kind {
            ThreadEventKind::Wait(it) if it.start_ns <= wait.start_ns => {}
            ThreadEventKind::Wait(it) if it.purpose != StackPurpose::Mutex => return None,
            ThreadEventKind::Wait(it) if it.waker == Waker::Thread => {
                return Some((it.waker_thread?, it.woken_ns));
            }
            ThreadEventKind::Call(_) => return None,
            ThreadEventKind::Wait(_) | ThreadEventKind::Preemption(_) => {}
        }
    }
    None
}

/// Returns who gave a thread the lock that it had at a time, and when.
fn taken_from(own: &ThreadHistory, had_ns: u64) -> Option<(ThreadId, u64)> {
    let before = (0..own.until(had_ns)).rev().take(EVENTS_MOST);
    let mut waits = before
        .filter_map(|number| own.event(number))
        .filter_map(|event| match event.kind {
            ThreadEventKind::Wait(it) if it.purpose == StackPurpose::Mutex => Some(it),
            _ => None,
        });
    let last = waits.find(|it| it.waker == Waker::Thread)?;
    Some((last.waker_thread?, last.woken_ns))
}

/// Returns what `holder` waited for during most of a wait for a lock; `None`: it did something else, or that is not recorded.
pub fn held_for(history: &History, holder: ThreadId, wait: &ThreadWait) -> Option<HolderWait> {
    let known = history.get(holder);
    if !known.has_waits {
        return None;
    }
    let mut sums = [RequestPart::Disk, RequestPart::Memory].map(HolderWait::new);
    let last = known.until(wait.woken_ns);
    let events = (0..last).rev().take(EVENTS_MOST);
    let events = events.filter_map(|number| known.event(number));
    for event in events.take_while(|event| event.end_ns > wait.start_ns) {
        let ThreadEventKind::Wait(own) = event.kind else {
            continue;
        };
        let part = part_of(&own);
        if let Some(sum) = sums.iter_mut().find(|it| Some(it.part) == part) {
            let ns = event.end_ns.saturating_sub(own.start_ns.max(wait.start_ns));
            sum.ns += ns;
            if ns > sum.longest_ns {
                sum.longest_ns = ns;
                sum.stack = own.stack;
            }
        }
    }
    let length_ns = wait.woken_ns.saturating_sub(wait.start_ns);
    let most = sums.into_iter().max_by_key(|it| it.ns)?;
    (2 * most.ns > length_ns).then_some(most)
}

/// Returns the part that a wait is, as far as a lock's holder is concerned.
fn part_of(wait: &ThreadWait) -> Option<RequestPart> {
    match (wait.kernel, wait.object) {
        (KernelPurpose::Reclaim | KernelPurpose::MajorFault, _) | (_, WaitObject::PageFault) => {
            Some(RequestPart::Memory)
        }
        (KernelPurpose::Sync, _) | (_, WaitObject::File) => Some(RequestPart::Disk),
        (KernelPurpose::Unknown, WaitObject::Other) if wait.uninterruptible => {
            Some(RequestPart::Disk)
        }
        _ => None,
    }
}
