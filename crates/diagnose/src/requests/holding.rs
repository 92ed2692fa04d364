//! Work of a process that others wait for: it has a lock of a database or of a file, and does something else meanwhile.
//! If it waits for another holder itself, that one counts.

use table::{WaitObject, Waker};

use super::endpoint::EndpointTable;
use super::history::{EVENTS_NEAR, History, Target, ThreadEventKind, ThreadWait};
use super::holder::part_of_holder;
use super::holder_times::HolderWork;
use super::id::ThreadId;
use super::owner::is_of_loop;
use super::part::RequestPart;
use super::service::Side;
use crate::waits::KernelPurpose;

/// Holders that wait for one another are followed so far.
const HOLDERS_MOST: usize = 16;

/// A thread that others waited for.
#[derive(Debug, Clone, Copy)]
pub struct Holder {
    /// The thread.
    pub thread: ThreadId,
    /// Its time meanwhile; unknown where its waits are not recorded.
    pub work: HolderWork,
}

/// Finds holders in what threads did lately.
#[derive(Debug, Clone, Copy)]
pub struct HolderFinder<'a> {
    /// Activity of all threads.
    pub history: &'a History,
    /// All connections.
    pub endpoints: &'a EndpointTable,
}

/// Work of one thread, and the thread for which it waited itself.
#[derive(Debug, Default)]
struct ThreadTime {
    work: HolderWork,
    /// The longest wait for another thread, ns.
    longest_ns: u64,
    waited_for: Option<ThreadId>,
}

impl HolderFinder<'_> {
    /// Returns the thread that `waiting` waited for in a time: `waker` ended the wait, or waited for that thread most
    /// of the time.
    pub fn find(&self, waiting: ThreadId, waker: ThreadId, time: (u64, u64)) -> Holder {
        let half_ns = time.1.saturating_sub(time.0) / 2;
        let mut thread = waker;
        let mut before = vec![waiting];
        loop {
            let found = self.read_thread(thread, time);
            before.push(thread);
            let next = found.waited_for.filter(|_| found.longest_ns > half_ns);
            match next.filter(|it| before.len() < HOLDERS_MOST && !before.contains(it)) {
                Some(next) => thread = next,
                None => {
                    let work = found.work;
                    return Holder { thread, work };
                }
            }
        }
    }

    /// Reads what a thread did in a time, backward.
    fn read_thread(&self, thread: ThreadId, (begin_ns, end_ns): (u64, u64)) -> ThreadTime {
        // the wait may have ended before the time that is left to account
        let begin_ns = begin_ns.min(end_ns);
        let mut time = ThreadTime::default();
        let known = self.history.get(thread);
        if !known.has_waits {
            let unknown_ns = end_ns.saturating_sub(begin_ns);
            time.work.parts.add(RequestPart::Unknown, unknown_ns);
            return time;
        }
        let mut at_ns = end_ns;
        let mut take = |part, from_ns: u64, time: &mut ThreadTime| {
            let from_ns = from_ns.clamp(begin_ns, at_ns);
            let ns = at_ns - from_ns;
            time.work.parts.add(part, ns);
            at_ns = from_ns;
            ns
        };
        let events = (0..known.event_count_until(end_ns)).rev();
        let events = events.filter_map(|number| known.event(number));
        for event in events.take(EVENTS_NEAR) {
            take(RequestPart::Cpu, event.end_ns, &mut time);
            match &event.kind {
                ThreadEventKind::Call(_) => {}
                ThreadEventKind::Preemption(it) => {
                    let from_ns = event.end_ns.saturating_sub(it.off_cpu_ns);
                    take(it.part(), from_ns, &mut time);
                }
                ThreadEventKind::Wait(wait) => {
                    take(RequestPart::RunQueue, wait.woken_ns, &mut time);
                    let part = self.part(wait);
                    let ns = take(part, wait.start_ns, &mut time);
                    self.note(wait, (part, ns), &mut time);
                }
            }
        }
        take(RequestPart::Unknown, begin_ns, &mut time);
        time
    }

    /// Notes the client or the other holder that a holder waited for.
    fn note(&self, wait: &ThreadWait, (part, ns): (RequestPart, u64), time: &mut ThreadTime) {
        const FOR_THREADS: [RequestPart; 3] =
            [RequestPart::Process, RequestPart::Lock, RequestPart::Output];
        let is_for_thread = FOR_THREADS.contains(&part);
        if is_for_thread && ns > time.longest_ns {
            time.longest_ns = ns;
            time.waited_for = wait.waker_thread.filter(|_| wait.waker == Waker::Thread);
        }
        match (part, wait.target) {
            _ if ns == 0 => {}
            (RequestPart::Remote, Target::Connection(it)) => time.work.client = Some(it),
            (RequestPart::Upstream, Target::Connection(it)) => time.work.server = Some(it),
            _ => {}
        }
    }

    /// Returns the part that a holder's wait is.
    fn part(&self, wait: &ThreadWait) -> RequestPart {
        let has_response = |target| self.endpoints.has_response(target);
        if let Some(part) = part_of_holder(wait, has_response) {
            return part;
        }
        match (wait.kernel, wait.target, wait.object) {
            (KernelPurpose::Stopped | KernelPurpose::Frozen, ..) => RequestPart::Paused,
            (_, Target::Connection(it), _) => match self.endpoints.get(it).side {
                Side::Server => RequestPart::Remote,
                Side::Client => RequestPart::Upstream,
            },
            (_, Target::Socket, _) => RequestPart::Unknown,
            (.., WaitObject::Sleep) => RequestPart::Timer,
            (.., WaitObject::Futex) => RequestPart::Lock,
            _ if wait.waker == Waker::Thread => RequestPart::Process,
            (.., object) if is_of_loop(object) && !wait.is_ready && !wait.is_endless => {
                RequestPart::Timer
            }
            _ => RequestPart::Unknown,
        }
    }
}
