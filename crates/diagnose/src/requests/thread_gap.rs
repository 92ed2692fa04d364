//! Times in which a thread worked for no request, in the order of time: it could run and had no CPU, or waited for bytes of a
//! connection. A request that lay unread meanwhile did not wait for the work of others in them. Its thread's calls are not read
//! one by one, so these times have a list of their own.

use std::collections::VecDeque;

use super::id::EndpointId;
use super::part::RequestPart;
use super::thread_event::{Target, ThreadEventKind};

/// Reason why a thread worked for no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GapReason {
    /// It could run and had no CPU: it had just been woken, was preempted, or its quota was used up.
    NoCpu(RequestPart),
    /// It waited for bytes of this connection.
    Connection(EndpointId),
}

/// Time in which a thread worked for no request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadGap {
    /// Begin, ns.
    pub begin_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Why.
    pub reason: GapReason,
}

impl ThreadGap {
    /// Returns the lack of CPU before the end of an event; `before_ns`: the end of the event before.
    pub fn without_cpu(end_ns: u64, kind: &ThreadEventKind, before_ns: u64) -> Option<Self> {
        let (begin_ns, part) = match kind {
            ThreadEventKind::Wait(wait) => (wait.woken_ns, RequestPart::RunQueue),
            ThreadEventKind::Preemption(preemption) => {
                let begin_ns = end_ns.saturating_sub(preemption.off_cpu_ns);
                (begin_ns.max(before_ns), preemption.part())
            }
            ThreadEventKind::Call(_) => return None,
        };
        (begin_ns < end_ns).then_some(Self {
            begin_ns,
            end_ns,
            reason: GapReason::NoCpu(part),
        })
    }

    /// Returns the time in which a thread waited for one connection; `None`: it did something else.
    pub fn waiting(kind: &ThreadEventKind) -> Option<Self> {
        let ThreadEventKind::Wait(wait) = kind else {
            return None;
        };
        let Target::Connection(endpoint) = wait.target else {
            return None;
        };
        (wait.start_ns < wait.woken_ns).then_some(Self {
            begin_ns: wait.start_ns,
            end_ns: wait.woken_ns,
            reason: GapReason::Connection(endpoint),
        })
    }
}

/// The same of a thread, lately.
#[derive(Debug, Default)]
pub struct ThreadGapLog(VecDeque<ThreadGap>);

impl ThreadGapLog {
    /// Adds an interval, in the order of time.
    pub fn add(&mut self, gap: ThreadGap) {
        let later = self.0.iter().rev();
        let later = later.take_while(|it| it.end_ns > gap.end_ns).count();
        self.0.insert(self.0.len() - later, gap);
    }

    /// Returns intervals that began before `ns`, the latest first.
    pub fn before(&self, ns: u64) -> impl Iterator<Item = &ThreadGap> {
        let count = self.0.partition_point(|it| it.begin_ns < ns);
        self.0.range(..count).rev()
    }

    /// Drops intervals that ended before `ns`.
    pub fn prune(&mut self, ns: u64) {
        let old = self.0.partition_point(|it| it.end_ns <= ns);
        self.0.drain(..old);
    }
}
