//! The sums of one group, a wait at a time.

use table::tables::Waits;

use crate::histogram::Histogram;
use crate::rows::top::Top;

/// A row that passes the filter, and who has part in it, by their numbers.
#[derive(Debug, Clone, Copy)]
pub struct WaitParts {
    /// Number of the pod or workload, if waits are grouped by it.
    pub place: u32,
    /// When and how long.
    pub times: WaitTimes,
    /// Object.
    pub object: u32,
    /// Thread.
    pub thread: u32,
    /// Waker.
    pub waker: u32,
    /// Where in the program; `None`: not known.
    pub stack: Option<u32>,
    /// Where in the kernel; `None`: not known.
    pub kernel_stack: Option<u32>,
    /// The connection that was ready, of several.
    pub ready: Option<u32>,
    /// The span that the program reports, in a grouping by these.
    pub task: u32,
}

/// Times of one wait, ns.
#[derive(Debug, Clone, Copy)]
pub struct WaitTimes {
    /// Begin, `CLOCK_MONOTONIC`.
    pub start_ns: u64,
    /// End, `CLOCK_MONOTONIC`.
    pub end_ns: u64,
    /// Time blocked.
    pub blocked_ns: u64,
    /// Time until it had a CPU again; `None`: the waking was not seen.
    pub runq_ns: Option<u64>,
}

impl WaitTimes {
    /// Returns the key of a row.
    pub fn from_row(rows: &Waits, row: usize) -> Self {
        let (start_ns, end_ns) = (rows.start_ns[row], rows.end_ns[row]);
        let woken_ns = rows.woken_ns[row];
        Self {
            start_ns,
            end_ns,
            blocked_ns: woken_ns.unwrap_or(end_ns).saturating_sub(start_ns),
            runq_ns: woken_ns.map(|woken_ns| end_ns.saturating_sub(woken_ns)),
        }
    }
}

/// Samples of a CPU that found a thread which asked what is ready, and did not wait.
#[derive(Debug, Clone, Default)]
pub struct SpinTime {
    /// How many.
    pub looks: u64,
    /// Time that they stand for, ns.
    pub length_ns: u64,
    /// Threads that asked.
    pub threads: Top,
    /// Objects that they asked for.
    pub objects: Top,
    /// Where in the program.
    pub stacks: Top,
}

/// Sums.
#[derive(Debug, Clone)]
pub struct WaitSums {
    /// Time blocked, ns.
    pub blocked_ns: u64,
    /// Time runnable, ns.
    pub runq_ns: u64,
    /// Waits without a seen waking.
    pub unseen: u64,
    /// Asking without waiting; `None`: there was none.
    pub spun: Option<Box<SpinTime>>,
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
    /// Stacks of the program.
    pub stacks: Top,
    /// Stacks of the kernel.
    pub kernel_stacks: Top,
    /// Connections that were ready.
    pub ready: Top,
}

impl Default for WaitSums {
    fn default() -> Self {
        Self {
            blocked_ns: 0,
            runq_ns: 0,
            unseen: 0,
            spun: None,
            first_ns: u64::MAX,
            last_ns: 0,
            histogram: Histogram::default(),
            objects: Top::default(),
            threads: Top::default(),
            wakers: Top::default(),
            stacks: Top::default(),
            kernel_stacks: Top::default(),
            ready: Top::default(),
        }
    }
}

impl WaitSums {
    /// Adds a wait; those that take part are added by the caller, who knows which differ in a group.
    pub fn add(&mut self, wait: WaitTimes) {
        self.blocked_ns += wait.blocked_ns;
        match wait.runq_ns {
            Some(runq_ns) => self.runq_ns += runq_ns,
            None => self.unseen += 1,
        }
        self.first_ns = self.first_ns.min(wait.start_ns);
        self.last_ns = self.last_ns.max(wait.end_ns);
        self.histogram.add(wait.blocked_ns);
    }

    /// Time spent on a CPU with asking, ns.
    pub fn spun_ns(&self) -> u64 {
        self.spun.as_ref().map_or(0, |spun| spun.length_ns)
    }

    /// Returns whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.histogram.count() == 0 && self.spun.is_none()
    }

    /// Returns the run-queue delay of all waits, ns; `None` if no wake-up was seen.
    pub fn runq_ns(&self) -> Option<u64> {
        (self.unseen < self.histogram.count()).then_some(self.runq_ns)
    }
}
