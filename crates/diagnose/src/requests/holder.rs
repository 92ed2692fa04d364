//! Waits of the threads that hold a lock: the one that ended a wait for the lock had it until then, and got it from another, if
//! it waited for the same lock before. If they waited for a disk, for memory or for the reader of output, so did the thread that
//! wanted the lock.

use table::{WaitObject, Waker};

use super::history::{
    EVENTS_NEAR, History, Target, ThreadEventKind, ThreadHistory, ThreadId, ThreadWait,
};
use super::part::RequestPart;
use crate::waits::{KernelPurpose, StackPurpose};

/// Parts that a lock's holder may wait for in place of the thread that wants the lock.
const HELD_PARTS: [RequestPart; 3] = [RequestPart::Disk, RequestPart::Memory, RequestPart::Output];

/// Wait of a lock's holders, for a disk, for memory or for the reader of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HolderWait {
    /// Part of the time.
    pub part: RequestPart,
    /// Number of the stack in which one waited longest.
    pub stack: Option<u32>,
    /// The thread that ended that wait, if it read output.
    pub reader: Option<ThreadId>,
    /// Time of the wait for the lock that it covers, ns.
    ns: u64,
    /// The longest wait, ns.
    longest_ns: u64,
}

impl HolderWait {
    /// Makes the wait for a lock's holder, before any time is added.
    const fn new(part: RequestPart) -> Self {
        Self {
            part,
            stack: None,
            reader: None,
            ns: 0,
            longest_ns: 0,
        }
    }

    /// Adds so much time of a holder's wait, ns.
    fn add(&mut self, own: &ThreadWait, ns: u64) {
        self.ns += ns;
        if ns > self.longest_ns {
            self.longest_ns = ns;
            self.stack = own.stack;
            let is_read = self.part == RequestPart::Output && own.waker == Waker::Thread;
            self.reader = own.waker_thread.filter(|_| is_read);
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

/// Returns who ended a lock wait that was repeated because of its time limit, and when.
fn end_of_retries(own: &ThreadHistory, wait: &ThreadWait) -> Option<(ThreadId, u64)> {
    let later = (own.event_count_until(wait.woken_ns)..).take(EVENTS_NEAR);
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

/// Returns who released the lock that a thread then had, and when.
fn taken_from(own: &ThreadHistory, had_ns: u64) -> Option<(ThreadId, u64)> {
    let before = (0..own.event_count_until(had_ns)).rev().take(EVENTS_NEAR);
    let mut waits = before
        .filter_map(|number| own.event(number))
        .filter_map(|event| match event.kind {
            ThreadEventKind::Wait(it) if it.purpose == StackPurpose::Mutex => Some(it),
            _ => None,
        });
    let last = waits.find(|it| it.waker == Waker::Thread)?;
    Some((last.waker_thread?, last.woken_ns))
}

/// Returns what the holders of a lock waited for during most of a wait for it; `None`: something else, or unknown.
/// `holder` is the last of them; `has_response`: whether a wait for this had to do with requests.
pub fn held_for(
    history: &History,
    holder: ThreadId,
    wait: &ThreadWait,
    has_response: &dyn Fn(Target) -> bool,
) -> Option<HolderWait> {
    let mut sums = HELD_PARTS.map(HolderWait::new);
    let (mut holder, mut until_ns) = (holder, wait.woken_ns);
    for _ in 0..HOLDERS_MOST {
        let known = history.get(holder);
        let given = find_giver(known, wait, until_ns);
        let since_ns = given.map_or(0, |(_, ns)| ns).max(wait.start_ns);
        if known.has_waits {
            let part = |it: &ThreadWait| part_of_holder(it, has_response);
            add_waits(known, (since_ns, until_ns), part, &mut sums);
        }
        match given {
            Some((before, ns)) if ns > wait.start_ns && before != holder => {
                (holder, until_ns) = (before, ns);
            }
            _ => break,
        }
    }
    let length_ns = wait.woken_ns.saturating_sub(wait.start_ns);
    let most = sums.into_iter().max_by_key(|it| it.ns)?;
    (2 * most.ns > length_ns).then_some(most)
}

/// Returns who gave a thread the lock which it had at a time and another waited for, and when; `None`: it did not wait for it.
fn find_giver(own: &ThreadHistory, wait: &ThreadWait, had_ns: u64) -> Option<(ThreadId, u64)> {
    let before = (0..own.event_count_until(had_ns)).rev().take(EVENTS_NEAR);
    let events = before.filter_map(|number| own.event(number));
    let events = events.take_while(|event| event.end_ns > wait.start_ns);
    let mut waits = events.filter_map(|event| match event.kind {
        ThreadEventKind::Wait(it) if it.futex.is_some() && it.futex == wait.futex => Some(it),
        _ => None,
    });
    let last = waits.find(|it| it.waker == Waker::Thread)?;
    Some((last.waker_thread?, last.woken_ns))
}

/// Adds what a thread waited for in a time. `part_of`: the part of a wait.
fn add_waits(
    own: &ThreadHistory,
    (since_ns, until_ns): (u64, u64),
    part_of: impl Fn(&ThreadWait) -> Option<RequestPart>,
    sums: &mut [HolderWait],
) {
    // the next one ends later; it may have begun before, if a time limit ended the wait for the lock
    let last = own.event_count_until(until_ns);
    let events = (0..=last).rev().take(EVENTS_NEAR);
    let events = events.filter_map(|number| own.event(number));
    for event in events.take_while(|event| event.end_ns > since_ns) {
        let ThreadEventKind::Wait(own) = event.kind else {
            continue;
        };
        let part = part_of(&own);
        if let Some(sum) = sums.iter_mut().find(|it| Some(it.part) == part) {
            let end_ns = event.end_ns.min(until_ns);
            sum.add(&own, end_ns.saturating_sub(own.start_ns.max(since_ns)));
        }
    }
}

/// Returns the part that a wait is, as far as a lock's holder is concerned. `has_response`: whether a wait for this had
/// to do with requests.
pub(super) fn part_of_holder(
    wait: &ThreadWait,
    has_response: impl Fn(Target) -> bool,
) -> Option<RequestPart> {
    match (wait.kernel, wait.object) {
        (KernelPurpose::Stopped | KernelPurpose::Frozen, _) => None,
        (KernelPurpose::Reclaim | KernelPurpose::MajorFault, _) | (_, WaitObject::PageFault) => {
            Some(RequestPart::Memory)
        }
        _ if wait.is_output => (!has_response(wait.target)).then_some(RequestPart::Output),
        (_, WaitObject::File) if wait.is_file_lock => None,
        (KernelPurpose::Sync, _) | (_, WaitObject::File) => Some(RequestPart::Disk),
        (KernelPurpose::Unknown, WaitObject::Other) if wait.uninterruptible => {
            Some(RequestPart::Disk)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(times: (u64, u64), object: WaitObject, waker: Waker) -> ThreadWait {
        ThreadWait {
            waker,
            uninterruptible: object == WaitObject::PageFault,
            purpose: match object {
                WaitObject::Futex => StackPurpose::Mutex,
                _ => StackPurpose::Unknown,
            },
            ..ThreadWait::of_interrupt(times, object)
        }
    }

    /// Three threads log in turn: each has the logger's lock while a pipe is full, and the last one waited for both others.
    #[test]
    fn holders_in_turn_wait_for_output() {
        const LOCK: Option<u64> = Some(0x7f00);
        let mut history = History::default();
        let [first, second, waiter, reader] =
            [71, 72, 73, 90].map(|tid| history.thread(tid / 10 * 10, tid));
        let mut add = |thread, it: ThreadWait| {
            history.add(thread, it.woken_ns, ThreadEventKind::Wait(it), it.woken_ns);
        };
        let output = |times| ThreadWait {
            kernel: KernelPurpose::Output,
            is_output: true,
            waker_thread: Some(reader),
            ..wait(times, WaitObject::Pipe, Waker::Thread)
        };
        let lock = |times, from| ThreadWait {
            futex: LOCK,
            purpose: StackPurpose::Unknown,
            waker_thread: Some(from),
            ..wait(times, WaitObject::Futex, Waker::Thread)
        };
        add(first, output((1, 40)));
        add(second, lock((2, 41), first));
        add(second, output((42, 80)));
        let last = lock((3, 81), second);
        add(waiter, last);
        let held = held_for(&history, second, &last, &|_| false).expect("waits of the holders");
        assert_eq!(
            (held.part, held.ns, held.reader),
            (RequestPart::Output, 75, Some(reader))
        );
        // another lock that the second one waited for says nothing of this one
        let other = ThreadWait {
            futex: Some(0x7f40),
            ..last
        };
        assert_eq!(held_for(&history, second, &other, &|_| false), None);
    }

    /// A thread with a lock answers a slow client by a UNIX socket: that is no log.
    #[test]
    fn a_holder_that_answers_a_slow_client_has_no_output() {
        let mut history = History::default();
        let [holder, waiter] = [71, 72].map(|tid| history.thread(70, tid));
        let mut add = |thread, it: ThreadWait| {
            history.add(thread, it.woken_ns, ThreadEventKind::Wait(it), it.woken_ns);
        };
        add(
            holder,
            ThreadWait {
                kernel: KernelPurpose::Output,
                is_output: true,
                ..ThreadWait::of_interrupt((1, 40), WaitObject::Unix)
            },
        );
        let lock = ThreadWait {
            waker: Waker::Thread,
            waker_thread: Some(holder),
            ..ThreadWait::of_interrupt((3, 41), WaitObject::Futex)
        };
        add(waiter, lock);
        let held = |is_of_client: bool| {
            held_for(&history, holder, &lock, &|_| is_of_client).map(|it| it.part)
        };
        assert_eq!(held(false), Some(RequestPart::Output));
        assert_eq!(held(true), None);
    }

    /// A thread waits for CPython's lock 5 ms at a time, while the one that has it waits 22 ms for a page.
    #[test]
    fn page_fault_of_holder_outlasts_limit_of_waiter() {
        let mut history = History::default();
        let [holder, waiter] = [71, 72].map(|tid| history.thread(70, tid));
        let mut add = |thread, it: ThreadWait| {
            history.add(thread, it.woken_ns, ThreadEventKind::Wait(it), it.woken_ns);
        };
        let fault = wait((1, 23), WaitObject::PageFault, Waker::Interrupt);
        add(holder, fault);
        let limited =
            [2, 7, 12, 17].map(|ns| wait((ns, ns + 5), WaitObject::Futex, Waker::Interrupt));
        for it in limited {
            add(waiter, it);
        }
        let last = ThreadWait {
            waker_thread: Some(holder),
            ..wait((22, 24), WaitObject::Futex, Waker::Thread)
        };
        add(waiter, last);
        for it in limited {
            assert_eq!(holder_of(&history, waiter, &it), Some(holder));
            let held = held_for(&history, holder, &it, &|_| false).expect("a wait of the holder");
            assert_eq!((held.part, held.ns), (RequestPart::Memory, 5));
        }
        // half of this one the holder ran
        assert_eq!(held_for(&history, holder, &last, &|_| false), None);
    }
}
