//! Long requests of a service that kept its threads, and how long others waited behind them.

use super::id::{EndpointId, RequestId};
use super::long_work::{LONG_LEAST_NS, LongWait};
use super::part::{PartTimes, RequestPart};

/// A request that kept its thread for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LongRequest {
    /// How long, ns.
    pub kept_ns: u64,
    /// Its connection.
    pub endpoint: EndpointId,
    /// Its first byte; `None`: not known.
    pub offset: Option<u64>,
}

impl LongRequest {
    /// Returns the id of the long request, on the connection with this cookie.
    pub fn id(&self, conn: u64) -> Option<RequestId> {
        self.offset.map(|offset| RequestId { conn, offset })
    }
}

/// Requests that kept threads for long while others waited.
#[derive(Debug, Default)]
pub struct BlockerDigest {
    /// How many.
    pub count: u64,
    /// The shortest of them kept its thread so long, ns.
    pub least_ns: u64,
    /// The one that kept its thread for longest.
    pub longest: Option<LongRequest>,
    /// Requests that waited behind them.
    pub waiters: u64,
    /// Time that these waited, ns: all of them together.
    pub waited_ns: u64,
    /// The same with what they would wait if both shared a thread evenly, ns.
    whole_ns: u64,
    /// Time in which they kept their threads, ns.
    kept_ns: u64,
    /// Time in which their threads waited meanwhile, ns.
    blocked_ns: u64,
    /// Parts of all requests that kept a thread for as long.
    parts: PartTimes,
}

/// Returns the time of the parts in which a request keeps its thread from others: all but the queue, and what TCP or the
/// other end did.
pub fn keeping_ns(parts: &PartTimes) -> u64 {
    keeping_parts(parts).total_ns()
}

/// Returns the parts in which a thread is kept from other requests.
fn keeping_parts(parts: &PartTimes) -> PartTimes {
    let mut keeping = PartTimes::default();
    for (part, ns) in parts.iter() {
        let is_free = matches!(
            part,
            RequestPart::Queued
                | RequestPart::Unread
                | RequestPart::RunQueue
                | RequestPart::Preempted
                | RequestPart::CpuQuota
                | RequestPart::Unknown
        );
        if !part.is_elsewhere() && !is_free {
            keeping.add(part, ns);
        }
    }
    keeping
}

impl BlockerDigest {
    /// Adds the parts of an answered request, and its wait behind long ones.
    pub fn add(&mut self, parts: &PartTimes, wait: &LongWait) {
        let keeping = keeping_parts(parts);
        if keeping.total_ns() >= LONG_LEAST_NS {
            self.parts.add_all(&keeping);
        }
        self.waiters += u64::from(wait.ns > 0);
        self.waited_ns += wait.ns;
        self.whole_ns += wait.whole_ns;
        for work in &wait.found {
            let kept_ns = work.kept_ns();
            self.least_ns = match self.count {
                0 => kept_ns,
                _ => self.least_ns.min(kept_ns),
            };
            self.count += 1;
            self.kept_ns += kept_ns;
            self.blocked_ns += work.waited_ns.min(kept_ns);
            if self.longest.is_none_or(|it| kept_ns > it.kept_ns) {
                self.longest = Some(LongRequest {
                    kept_ns,
                    endpoint: work.served,
                    offset: work.offset,
                });
            }
        }
    }

    /// Returns how much of the time behind long requests would be none if both shared a thread evenly: little, if those that
    /// wait are as long.
    pub fn uneven_share(&self) -> f64 {
        crate::units::ratio_of(self.waited_ns, self.whole_ns)
    }

    /// Returns the part that took most of the time of the long requests, and its share.
    pub fn largest_part(&self) -> (RequestPart, f64) {
        let waited = crate::units::ratio_of(self.blocked_ns, self.kept_ns);
        let others = self.parts.largest().into_iter();
        let mut others = others.filter(|(part, _)| *part != RequestPart::Cpu);
        match others.next() {
            Some((part, _)) if waited > 0.5 => (part, waited),
            _ if waited > 0.5 => (RequestPart::Unknown, waited),
            _ => (RequestPart::Cpu, 1.0 - waited),
        }
    }
}
