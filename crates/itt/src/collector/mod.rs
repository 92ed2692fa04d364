//! The part that runs inside the instrumented program.
//!
//! In: `__itt_api_init`, which each static ittnotify part of the process calls once, at its first
//! ITT call, with its own list of function pointers (`slots`) and the objects that it had created
//! before (`adopt`). Out: records in the ring (`record_writer`) and definitions of names (`names`).
//!
//! Nothing here prints, panics or fails towards the program: without a usable ring, the pointers
//! are set to what they are without a collector. Only the thread that calls is touched; there is
//! no thread of our own.

mod abi;
mod adopt;
mod calls;
mod chunk_writer;
mod definition;
mod handles;
mod identity;
mod lock;
mod memory;
mod names;
mod record_writer;
mod slots;
mod state;
mod system;

use std::ffi::{c_int, c_void};
use std::path::PathBuf;

use crate::RING_VARIABLE;
use crate::collector::state::{Collector, NAMES, current_collector};
use crate::region::Region;

/// Entry point: a static ittnotify part has loaded this library.
///
/// # Safety
///
/// `global` is null or the `__itt_global` of a static part, which holds its own lock.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn __itt_api_init(global: *mut abi::Global, _init_groups: c_int) {
    // SAFETY: the caller promises null or an `__itt_global`.
    let Some(part) = (unsafe { slots::StaticPart::from_global(global) }) else {
        return;
    };
    let Some(collector) = current_collector().or_else(start) else {
        return part.bind_nothing();
    };
    // Before the calls are bound, so that no call meets a handle that is not known.
    NAMES.with(|names| adopt::adopt_objects(collector, names, &part));
    part.bind();
}

/// Makes the collector, if the recorder has named a ring.
fn start() -> Option<&'static Collector> {
    let started = NAMES.with(|_| {
        if let Some(other) = current_collector() {
            return Some(other);
        }
        let path = PathBuf::from(std::env::var_os(RING_VARIABLE)?);
        let region = Region::open(&path).ok()?;
        let made = Collector::install(region, thread_ends);
        // SAFETY: the handlers are functions of this library, which is never unloaded.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
        Some(made)
    });
    started.flatten()
}

/// Gives back the chunk of a thread that ends.
extern "C" fn thread_ends(_: *mut c_void) {
    if let Some(collector) = current_collector() {
        record_writer::release_chunk(collector);
    }
}

/// Locks the names, so that the child finds them whole.
extern "C" fn before_fork() {
    NAMES.lock();
}

/// Unlocks the names in the parent.
extern "C" fn after_fork() {
    NAMES.unlock();
}

/// Unlocks the names in the child, which starts without a chunk in the ring.
extern "C" fn in_child() {
    // SAFETY: a child has one thread, and the lock was taken before it was forked.
    unsafe { NAMES.reopen() };
    if let Some(collector) = current_collector() {
        collector.identity.forget();
    }
}
