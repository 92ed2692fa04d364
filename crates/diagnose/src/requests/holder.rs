//! Waits of the thread that holds a lock: the one that ended a wait for the lock had it until then. If it waited for a
//! disk or for memory, so did the thread that wanted the lock.

use table::WaitObject;

use super::history::{History, ThreadEventKind, ThreadId, ThreadWait};
use super::part::RequestPart;
use crate::waits::KernelPurpose;

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
