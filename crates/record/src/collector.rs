//! The one capture loop: takes what is in the rings, reads sockets, and looks for owners, each when it is due. In:
//! loaded programs. Out: what they gave, to a [`CaptureSink`]: the store of a recording, a live view, or an agent.
//!
//! Who calls it decides when it looks; how much it takes at once, and how much of a CPU its walks may take, is decided
//! here.

use std::os::fd::{AsFd, BorrowedFd};

use probe::clock::{monotonic_ns, thread_cpu_ns};
use probe::hooks::{Drainer, Hooks, HooksError, ProbeOutput};

/// Records and batches taken in one look.
pub const DRAIN_MOST: usize = 8192;
/// Of these, taken at once and then handed over, so that a long look does not end with work during which a ring fills.
pub(crate) const DRAIN_AT_ONCE: usize = 64;
/// Batches that are not full are handed over this often, so that a kill loses at most what an unsealed segment holds
/// anyway.
const FLUSH_EVERY_NS: u64 = 1_000_000_000;
/// Walks over all open files are no closer than this.
const WALK_EVERY_NS: u64 = 1_000_000_000;

/// The share of one CPU that a walk may take, over all open files, all recorded sockets or all threads of their owners:
/// its pause is this many times the CPU time that it took.
#[derive(Debug, Clone, Copy)]
pub struct WalkShare {
    pub(crate) pause_factor: u64,
}

impl WalkShare {
    /// Of a recording: 0.5 %.
    pub const RECORDING: Self = Self { pause_factor: 200 };
    /// Of a live view, which does the same for hours: 0.25 %.
    pub const LIVE: Self = Self { pause_factor: 400 };
    /// Of an agent, which does it for good: 0.1 %.
    pub const AGENT: Self = Self {
        pause_factor: 1_000,
    };

    /// Returns the pause after work of this much CPU time, ns.
    pub(crate) fn pause_ns(self, cpu_ns: u64) -> u64 {
        cpu_ns.saturating_mul(self.pause_factor)
    }
}

/// Uses the output of probes.
pub trait CaptureSink {
    /// Adds the records of the rings; returns whether some sockets may be sending their last bytes.
    fn add_output(&mut self, output: ProbeOutput) -> bool;

    /// Yields the CPU between pieces of work of some dozen microseconds.
    fn yield_cpu(&self) {}
}

/// Captures what loaded programs give.
pub struct Collector<'a> {
    hooks: &'a Hooks<'a>,
    drainer: Drainer<'a>,
    share: WalkShare,
    /// Some sockets may be sending their last bytes.
    is_draining: bool,
    next: Due,
}

/// When periodic work is due next, `CLOCK_MONOTONIC` ns.
#[derive(Debug, Clone, Copy, Default)]
struct Due {
    flush_ns: u64,
    walk_ns: u64,
    draining_ns: u64,
}

impl<'a> Collector<'a> {
    /// Begins to capture with programs that are attached.
    ///
    /// # Errors
    /// When the rings cannot be mapped.
    pub fn new(hooks: &'a Hooks<'a>, share: WalkShare) -> Result<Self, HooksError> {
        Ok(Self {
            hooks,
            drainer: hooks.drainer()?,
            share,
            is_draining: false,
            next: Due::default(),
        })
    }

    /// Returns the loaded programs.
    pub fn hooks(&self) -> &'a Hooks<'a> {
        self.hooks
    }

    /// Moves records from the rings to the sink, at most about [`DRAIN_MOST`]; returns their
    /// number.
    pub fn drain(&mut self, sink: &mut impl CaptureSink) -> usize {
        let mut all = 0;
        while all < DRAIN_MOST {
            let taken = self.drainer.drain(DRAIN_AT_ONCE, || sink.yield_cpu());
            self.is_draining |= sink.add_output(self.drainer.take());
            all += taken;
            if taken < DRAIN_AT_ONCE {
                break;
            }
        }
        all
    }

    /// Moves records from the rings to the sink until the rings are empty; returns their number.
    pub fn drain_all(&mut self, sink: &mut impl CaptureSink) -> usize {
        let mut all = 0;
        loop {
            let taken = self.drain(sink);
            all += taken;
            if taken < DRAIN_MOST {
                return all;
            }
        }
    }

    /// Walks over sockets and reads them: `begin` begins the walk, and returns whether the ring is
    /// too small for all.
    ///
    /// # Errors
    /// When the kernel does not let a program run that is loaded.
    pub fn read_sockets(
        &mut self,
        sink: &mut impl CaptureSink,
        begin: impl FnOnce(&Hooks<'_>) -> Result<bool, HooksError>,
    ) -> Result<(), HooksError> {
        let mut more = begin(self.hooks)?;
        self.drain_all(sink);
        while more {
            more = self.hooks.read_more_sockets()?;
            // a ring that stays full for another cause is left to the next walk
            more &= self.drain_all(sink) > 0;
        }
        Ok(())
    }

    /// Moves incomplete batches to the rings, if that is due.
    ///
    /// # Errors
    /// As [`read_sockets`](Self::read_sockets).
    pub fn flush_if_due(&mut self, now_ns: u64) -> Result<(), HooksError> {
        if now_ns >= self.next.flush_ns {
            self.hooks.flush()?;
            self.next.flush_ns = now_ns + FLUSH_EVERY_NS;
        }
        Ok(())
    }

    /// Reads closing sockets, if there are some: they send their last bytes.
    ///
    /// # Errors
    /// As [`read_sockets`](Self::read_sockets).
    pub fn read_draining_if_due(&mut self, now_ns: u64) -> Result<(), HooksError> {
        if !self.is_draining || now_ns < self.next.draining_ns {
            return Ok(());
        }
        let before_ns = self.walk_cpu_ns();
        self.is_draining = self.hooks.read_draining()? > 0;
        let took_ns = self.walk_cpu_ns().saturating_sub(before_ns);
        self.next.draining_ns = now_ns + self.share.pause_ns(took_ns);
        Ok(())
    }

    /// Returns the CPU time of this thread and of walks over sockets, ns.
    pub fn walk_cpu_ns(&self) -> u64 {
        thread_cpu_ns() + self.hooks.walker_cpu_ns()
    }

    /// Returns when the next walk over open files may be, `CLOCK_MONOTONIC` ns.
    pub fn next_walk_ns(&self) -> u64 {
        self.next.walk_ns
    }

    /// Walks all open files for owners and other ends of sockets, if the last walk is long enough
    /// ago. Calls `wanted` only if a walk may be done.
    ///
    /// # Errors
    /// As [`read_sockets`](Self::read_sockets).
    pub fn walk_if_due(
        &mut self,
        now_ns: u64,
        wanted: impl FnOnce() -> bool,
    ) -> Result<(), HooksError> {
        if now_ns < self.next.walk_ns || !wanted() {
            return Ok(());
        }
        let before_ns = thread_cpu_ns();
        self.hooks.walk()?;
        let took_ns = thread_cpu_ns().saturating_sub(before_ns);
        let pause_ns = self.share.pause_ns(took_ns).max(WALK_EVERY_NS);
        self.next.walk_ns = monotonic_ns() + pause_ns;
        Ok(())
    }
}

impl AsFd for Collector<'_> {
    /// Readable when a ring fills faster than it was drained.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.drainer.as_fd()
    }
}
