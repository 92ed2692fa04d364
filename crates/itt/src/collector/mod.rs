//! The part that runs inside the instrumented program.
//!
//! In: `__itt_api_init`, which each static ittnotify part of the process calls once, at its first
//! ITT call, with its own list of function pointers (`slots`) and the objects that it had created
//! before (`adopt`). Out: records in the ring (`pen`) and definitions of names (`names`).
//!
//! Nothing here prints, panics or fails towards the program: without a usable ring, the pointers
//! are set to what they are without a collector. Only the thread that calls is touched; there is
//! no thread of our own.

mod abi;
mod adopt;
mod calls;
mod definition;
mod handles;
mod identity;
mod lane;
mod lock;
mod names;
mod pen;
mod slots;

use std::ffi::{c_int, c_void};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, Ordering};

use crate::RING_VARIABLE;
use crate::collector::handles::Handles;
use crate::collector::identity::Identity;
use crate::collector::lock::Locked;
use crate::collector::names::Names;
use crate::layout::WORD_PID_NAMESPACE;
use crate::region::{Region, pid_namespace};

/// What the collector has in a process that is recorded. It is never freed.
pub(crate) struct Collector {
    region: Region,
    identity: Identity,
    handles: Handles,
    /// When it was loaded, ns.
    started_ns: u64,
    /// Names wait for room in the ring.
    has_waiting_names: AtomicBool,
    /// [`RUNNING`], [`PAUSED`] or [`DETACHED`].
    state: AtomicU8,
    /// Calls us when a thread ends.
    thread_key: Option<libc::pthread_key_t>,
}

const RUNNING: u8 = 0;
const PAUSED: u8 = 1;
const DETACHED: u8 = 2;

static COLLECTOR: AtomicPtr<Collector> = AtomicPtr::new(std::ptr::null_mut());
static NAMES: Locked<Names> = Locked::new(Names::new());

/// The collector, once a ring was found.
#[inline]
fn collector() -> Option<&'static Collector> {
    // SAFETY: the pointer is null or of a collector that is never freed.
    unsafe { COLLECTOR.load(Ordering::Acquire).as_ref() }
}

/// Entry point: a static ittnotify part has loaded this library.
///
/// # Safety
///
/// `global` is null or the `__itt_global` of a static part, which holds its own lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __itt_api_init(global: *mut abi::Global, _init_groups: c_int) {
    // SAFETY: the caller says so.
    let Some(part) = (unsafe { slots::StaticPart::of(global) }) else {
        return;
    };
    let Some(collector) = collector().or_else(start) else {
        return part.bind_nothing();
    };
    // Before the calls are bound, so that no call meets a handle that is not known.
    NAMES.with(|names| adopt::adopt(collector, names, &part));
    part.bind();
}

/// Makes the collector, if the recorder has named a ring.
fn start() -> Option<&'static Collector> {
    let started = NAMES.with(|_| {
        if let Some(other) = collector() {
            return Some(other);
        }
        let path = PathBuf::from(std::env::var_os(RING_VARIABLE)?);
        let region = Region::open(&path).ok()?;
        let made = Box::leak(Box::new(Collector::new(region)));
        COLLECTOR.store(made, Ordering::Release);
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
        Some(&*made)
    });
    started.flatten()
}

impl Collector {
    fn new(region: Region) -> Self {
        let mut key = 0;
        // SAFETY: the call fills a number on the stack; the destructor is a function of ours.
        let failed = unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) };
        Collector {
            region,
            identity: Identity::new(),
            handles: Handles::new(),
            started_ns: pen::now_ns(),
            has_waiting_names: AtomicBool::new(false),
            state: AtomicU8::new(RUNNING),
            thread_key: (failed == 0).then_some(key),
        }
    }

    /// Whether the program has asked not to be recorded.
    fn is_silent(&self) -> bool {
        self.state.load(Ordering::Relaxed) != RUNNING
    }

    /// Starts, pauses or ends recording of this process. Nothing follows the end.
    fn set_state(&self, state: u8) {
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

    /// Does something with the names; none within another such call of this thread.
    fn with_names<R>(&'static self, work: impl FnOnce(&mut Names) -> R) -> Option<R> {
        NAMES.with(|names| {
            let outcome = work(names);
            self.flush_names(names);
            outcome
        })
    }

    /// Tries again to write names that found no room.
    #[cold]
    fn retry_names(&'static self) {
        NAMES.try_with(|names| self.flush_names(names));
    }

    fn flush_names(&'static self, names: &mut Names) {
        names.check_process(&self.region);
        let is_done = names.queue.flush(&self.region);
        self.has_waiting_names.store(!is_done, Ordering::Relaxed);
    }

    /// Has `thread_ends` called for this thread.
    fn tell_when_thread_ends(&self) {
        if let Some(key) = self.thread_key {
            // SAFETY: the key was created; the value only has to differ from null.
            unsafe { libc::pthread_setspecific(key, (&raw const COLLECTOR).cast()) };
        }
    }
}

/// Whether this process's pids mean the same to the recorder. Asked anew after each fork: the
/// parent may have called `unshare`.
fn is_same_namespace(region: &Region) -> bool {
    let theirs = region.word(WORD_PID_NAMESPACE).load(Ordering::Relaxed);
    theirs != 0 && theirs == pid_namespace()
}

extern "C" fn thread_ends(_: *mut c_void) {
    if let Some(collector) = collector() {
        pen::leave(collector);
    }
}

extern "C" fn before_fork() {
    NAMES.lock();
}

extern "C" fn after_fork() {
    NAMES.unlock();
}

extern "C" fn in_child() {
    // SAFETY: a child has one thread, and the lock was taken before it was forked.
    unsafe { NAMES.reopen() };
    if let Some(collector) = collector() {
        collector.identity.forget();
    }
}
