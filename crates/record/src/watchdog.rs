//! The recorder's threads run at idle priority, behind the programs that they record. A small thread of ordinary
//! priority raises theirs when a ring fills, or when one of them shows no sign of life for too long.
//!
//! Why it exists: an idle thread (see `priority`) may wait for ever on a busy host, and the rings would lose records.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::EventFd;

use crate::priority::IdlePriority;

/// A thread without a sign of life for this long gets ordinary priority: twice the pauses that the threads make
/// by themselves, and a twentieth of the time in which rows are to be sealed.
const ALIVE_WITHIN: Duration = Duration::from_millis(100);

/// A ring that filled once fills again: the collecting thread is an ordinary one for so long. At idle
/// priority, others may have had the CPUs between two of its runs for longer than a ring lasts.
const AFTER_FILLING: Duration = Duration::from_secs(1);

/// Idle priority of the collecting thread, and a thread that raises it when the rings fill.
pub(crate) struct Watchdog {
    collector: Arc<IdlePriority>,
    ends: Arc<EventFd>,
    watcher: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// The calling thread, which collects, has idle priority from now on. `filling` is readable when a ring fills.
    pub(crate) fn begin(filling: BorrowedFd<'_>, store: &Arc<IdlePriority>) -> io::Result<Self> {
        let filling = filling.try_clone_to_owned()?;
        let ends = Arc::new(EventFd::new()?);
        let collector = Arc::<IdlePriority>::default();
        let watcher = WatchdogThread {
            collector: Arc::clone(&collector),
            store: Arc::clone(store),
            ends: Arc::clone(&ends),
        };
        let watcher = std::thread::spawn(move || watcher.run(filling.as_fd()));
        // only now: a new thread has the policy of the one that made it
        collector.begin();
        Ok(Self {
            collector,
            ends,
            watcher: Some(watcher),
        })
    }

    /// Yields the CPU between small pieces of work, unless this thread is behind.
    pub(crate) fn yield_cpu(&self) {
        self.collector.yield_cpu();
    }

    /// Notes whether the collector has emptied the rings.
    pub(crate) fn note_drained(&self, caught_up: bool) {
        self.collector.note_alive();
        if caught_up {
            self.collector.lower_priority();
        }
    }

    /// Raises the collector's priority until the rings are empty again.
    pub(crate) fn raise_priority(&self) {
        self.collector.raise_priority();
    }
}

impl Drop for Watchdog {
    /// Gives the collector ordinary priority again, and ends the watchdog's thread.
    fn drop(&mut self) {
        self.collector.raise_priority();
        // An event counter of zero takes one, and the thread ends with it.
        let _ = self.ends.write(1);
        if let Some(watcher) = self.watcher.take() {
            watcher.thread().unpark();
            let _ = watcher.join();
        }
    }
}

struct WatchdogThread {
    collector: Arc<IdlePriority>,
    store: Arc<IdlePriority>,
    ends: Arc<EventFd>,
}

impl WatchdogThread {
    /// Watches that collector and storing thread go on; ends the process if one does not.
    fn run(&self, filling: BorrowedFd<'_>) {
        self.collector.unpark_when_caught_up();
        let threads = [&self.collector, &self.store];
        loop {
            let alive_count = threads.map(|thread| thread.alive_count());
            let until = Instant::now() + ALIVE_WITHIN;
            while let Some(left) = until.checked_duration_since(Instant::now()) {
                if !self.wait(filling, left) {
                    return;
                }
            }
            for (thread, before) in threads.into_iter().zip(alive_count) {
                if thread.alive_count() == before {
                    thread.raise_priority();
                }
            }
        }
    }

    /// Waits for a ring that fills, and then until that is over; whether the recording goes on.
    fn wait(&self, filling: BorrowedFd<'_>, left: Duration) -> bool {
        let Some([ended, fills]) = readable([self.ends.as_fd(), filling], left) else {
            // without a watch they are better not left behind
            self.collector.raise_priority();
            self.store.raise_priority();
            return false;
        };
        if !fills || ended {
            return !ended;
        }
        self.collector.raise_for(AFTER_FILLING);
        while self.collector.is_raised() {
            std::thread::park_timeout(ALIVE_WITHIN);
            match readable([self.ends.as_fd(), filling], Duration::ZERO) {
                Some([false, false]) => {}
                Some([false, true]) => self.collector.raise_for(AFTER_FILLING),
                _ => return false,
            }
        }
        true
    }
}

/// Returns whether each of these is readable; `None`: not known.
fn readable<const N: usize>(fds: [BorrowedFd<'_>; N], within: Duration) -> Option<[bool; N]> {
    let mut fds = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    // rounded up: zero would not wait at all
    let within_ms = u16::try_from(within.as_micros().div_ceil(1_000)).unwrap_or(u16::MAX);
    match poll(&mut fds, PollTimeout::from(within_ms)) {
        Ok(_) => Some(fds.map(|fd| fd.any().unwrap_or(false))),
        Err(Errno::EINTR) => Some([false; N]),
        Err(_) => None,
    }
}
