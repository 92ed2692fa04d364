//! The collector's state in a process: the ring, handles, names, and whether it records.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use crate::collector::handles::Handles;
use crate::collector::identity::Identity;
use crate::collector::lock::ForkMutex;
use crate::collector::names::NameTable;
use crate::collector::system::now_ns;
use crate::region::Region;

/// The collector of a recorded process: its ring, its handles, its state. It is never freed.
pub(crate) struct Collector {
    pub(crate) region: Region,
    pub(crate) identity: Identity,
    pub(crate) handles: Handles,
    /// When it was loaded, ns.
    pub(crate) started_ns: u64,
    /// Names wait for room in the ring.
    pub(crate) has_waiting_names: AtomicBool,
    /// [`RUNNING`], [`PAUSED`] or [`DETACHED`].
    state: AtomicU8,
    /// Calls us when a thread ends.
    thread_key: Option<libc::pthread_key_t>,
}

pub(crate) const RUNNING: u8 = 0;
pub(crate) const PAUSED: u8 = 1;
pub(crate) const DETACHED: u8 = 2;

static COLLECTOR: AtomicPtr<Collector> = AtomicPtr::new(std::ptr::null_mut());
pub(crate) static NAMES: ForkMutex<NameTable> = ForkMutex::new(NameTable::new());

/// The collector, once a ring was found.
#[inline]
pub(crate) fn current_collector() -> Option<&'static Collector> {
    // SAFETY: the pointer is null or of a collector that is never freed.
    unsafe { COLLECTOR.load(Ordering::Acquire).as_ref() }
}

impl Collector {
    /// Makes the collector of this process; `thread_ends` is called when a recorded thread ends.
    pub(crate) fn install(
        region: Region,
        thread_ends: extern "C" fn(*mut c_void),
    ) -> &'static Collector {
        let mut key = 0;
        // SAFETY: the call fills a number on the stack; the destructor is a function of ours.
        let failed = unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) };
        let made = Box::leak(Box::new(Collector {
            region,
            identity: Identity::new(),
            handles: Handles::new(),
            started_ns: now_ns(),
            has_waiting_names: AtomicBool::new(false),
            state: AtomicU8::new(RUNNING),
            thread_key: (failed == 0).then_some(key),
        }));
        COLLECTOR.store(made, Ordering::Release);
        made
    }

    /// Returns whether the program has asked not to be recorded.
    pub(crate) fn is_silent(&self) -> bool {
        self.state.load(Ordering::Relaxed) != RUNNING
    }

    /// Starts, pauses or ends recording of this process. Nothing follows the end.
    pub(crate) fn set_state(&self, state: u8) {
        let change = |old| (old != DETACHED).then_some(state);
        let order = Ordering::Relaxed;
        // An error means that it was detached, and stays so.
        let _ = self.state.fetch_update(order, order, change);
        match self.is_silent() {
            true => self.identity.silence(),
            false => {
                self.identity.remember();
            }
        }
    }

    /// Calls `work` with the locked names; `None` within another such call of this thread.
    pub(crate) fn with_names<R>(
        &'static self,
        work: impl FnOnce(&mut NameTable) -> R,
    ) -> Option<R> {
        NAMES.with(|names| {
            let outcome = work(names);
            self.flush_names(names);
            outcome
        })
    }

    /// Tries again to write names that found no room.
    #[cold]
    pub(crate) fn retry_names(&'static self) {
        NAMES.try_with(|names| self.flush_names(names));
    }

    /// Writes waiting definitions into the ring, and notes whether some still wait.
    pub(crate) fn flush_names(&'static self, names: &mut NameTable) {
        names.check_process(&self.region);
        let is_done = names.queue.flush(&self.region);
        self.has_waiting_names.store(!is_done, Ordering::Relaxed);
    }

    /// Registers the calling thread, so that `thread_ends` is called at its end.
    pub(crate) fn watch_thread_end(&self) {
        if let Some(key) = self.thread_key {
            // SAFETY: the key was created; the value only has to differ from null.
            unsafe { libc::pthread_setspecific(key, (&raw const COLLECTOR).cast()) };
        }
    }
}
