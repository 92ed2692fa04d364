//! Times in which a thread could run and had no CPU, in the order of time. A request that lay unread meanwhile did not wait
//! behind others in them. Its thread's calls are not read one by one, so these times have a list of their own.

use std::collections::VecDeque;

use super::part::RequestPart;
use super::thread_event::ThreadEventKind;

/// Time in which a thread could run and had no CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuLack {
    /// Begin, ns.
    pub begin_ns: u64,
    /// End, ns.
    pub end_ns: u64,
    /// Why: it had just been woken, was preempted, or its quota was used up.
    pub part: RequestPart,
}

impl CpuLack {
    /// Returns the lack of CPU before the end of an event; `before_ns`: the end of the event before.
    pub fn from_event(end_ns: u64, kind: &ThreadEventKind, before_ns: u64) -> Option<Self> {
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
            part,
        })
    }
}

/// The same of a thread, lately.
#[derive(Debug, Default)]
pub struct CpuLackLog(VecDeque<CpuLack>);

impl CpuLackLog {
    /// Adds an interval without a CPU, in the order of time.
    pub fn add(&mut self, lack: CpuLack) {
        let later = self.0.iter().rev();
        let later = later.take_while(|it| it.end_ns > lack.end_ns).count();
        self.0.insert(self.0.len() - later, lack);
    }

    /// Returns intervals without a CPU that began before `ns`, the latest first.
    pub fn before(&self, ns: u64) -> impl Iterator<Item = &CpuLack> {
        let count = self.0.partition_point(|it| it.begin_ns < ns);
        self.0.range(..count).rev()
    }

    /// Drops intervals that ended before `ns`.
    pub fn prune(&mut self, ns: u64) {
        let old = self.0.partition_point(|it| it.end_ns <= ns);
        self.0.drain(..old);
    }
}
