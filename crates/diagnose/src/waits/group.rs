//! The sums of one group, a wait at a time.

use super::histogram::Histogram;
use super::top::Top;

/// One wait.
#[derive(Debug, Clone, Copy)]
pub struct Wait {
    /// Time blocked, ns.
    pub blocked_ns: u64,
    /// Time until it had a CPU again, ns; `None`: the waking was not seen.
    pub runq_ns: Option<u64>,
    /// Begin, `CLOCK_MONOTONIC` ns.
    pub start_ns: u64,
    /// End, `CLOCK_MONOTONIC` ns.
    pub end_ns: u64,
    /// Number of the object.
    pub object: u32,
    /// Number of the thread.
    pub thread: u32,
    /// Number of the waker.
    pub waker: u32,
    /// Number of the connection that was ready, of several.
    pub ready: Option<u32>,
}

/// Sums.
#[derive(Debug, Clone)]
pub struct Sums {
    /// Time blocked, ns.
    pub blocked_ns: u64,
    /// Time runnable, ns.
    pub runq_ns: u64,
    /// Waits whose waking was not seen.
    pub unseen: u64,
    /// First begin, ns.
    pub first_ns: u64,
    /// Last end, ns.
    pub last_ns: u64,
    /// How long they were.
    pub histogram: Histogram,
    /// Those that take part.
    pub objects: Top,
    /// Threads.
    pub threads: Top,
    /// Wakers.
    pub wakers: Top,
    /// Connections that were ready.
    pub ready: Top,
}

impl Default for Sums {
    fn default() -> Self {
        Self {
            blocked_ns: 0,
            runq_ns: 0,
            unseen: 0,
            first_ns: u64::MAX,
            last_ns: 0,
            histogram: Histogram::default(),
            objects: Top::default(),
            threads: Top::default(),
            wakers: Top::default(),
            ready: Top::default(),
        }
    }
}

impl Sums {
    /// Adds a wait; those that take part are added by the caller, who knows which differ in a group.
    pub fn add(&mut self, wait: &Wait) {
        self.blocked_ns += wait.blocked_ns;
        match wait.runq_ns {
            Some(runq_ns) => self.runq_ns += runq_ns,
            None => self.unseen += 1,
        }
        self.first_ns = self.first_ns.min(wait.start_ns);
        self.last_ns = self.last_ns.max(wait.end_ns);
        self.histogram.add(wait.blocked_ns);
        if let Some(ready) = wait.ready {
            self.ready.add(ready, wait.blocked_ns);
        }
    }

    /// Time runnable, ns; `None` when no waking was seen.
    pub fn runq_ns(&self) -> Option<u64> {
        (self.unseen < self.histogram.count()).then_some(self.runq_ns)
    }
}
