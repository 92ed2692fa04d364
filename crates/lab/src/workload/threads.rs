//! Threads of a role.

use std::ffi::CStr;
use std::thread;

use nix::sys::prctl;

use crate::error::LabError;

/// Starts a thread of a scope.
///
/// # Errors
/// When there can be no more threads.
pub fn start<'scope, T: Send + 'scope>(
    scope: &'scope thread::Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<thread::ScopedJoinHandle<'scope, T>, LabError> {
    let started = thread::Builder::new().spawn_scoped(scope, work);
    started.map_err(|why| LabError::os("start", "a thread", why, "ask for fewer connections"))
}

/// Waits for all threads; the first error wins.
///
/// # Errors
/// That of the first thread that failed.
pub fn join_threads<T>(
    threads: Vec<thread::ScopedJoinHandle<'_, Result<T, LabError>>>,
) -> Result<Vec<T>, LabError> {
    let join = |thread: thread::ScopedJoinHandle<'_, _>| {
        thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    threads.into_iter().map(join).collect()
}

/// Names the calling thread, so that roles that play together can be distinguished.
pub(crate) fn name_thread(name: &CStr) {
    // a thread without a name works as well
    let _ = prctl::set_name(name);
}
