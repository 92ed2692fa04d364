//! A lock that a thread cannot wait for twice, and that a forked child finds open.

use std::cell::UnsafeCell;

/// A value behind a `pthread` mutex of the error-checking kind: a thread that holds it (its
/// allocator may be instrumented, and call us from within) is refused instead of stopped forever.
pub(crate) struct ForkMutex<T> {
    mutex: UnsafeCell<libc::pthread_mutex_t>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is only reached with the mutex held.
unsafe impl<T: Send> Sync for ForkMutex<T> {}

impl<T> ForkMutex<T> {
    /// Makes an open lock.
    pub(crate) const fn new(value: T) -> Self {
        ForkMutex {
            mutex: UnsafeCell::new(libc::PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP),
            value: UnsafeCell::new(value),
        }
    }

    /// Calls `work` with the locked value; `None` if this thread has the lock already.
    pub(crate) fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.lock().then(|| self.run_and_unlock(work))
    }

    /// Calls `work` with the locked value; `None` at once if any thread has the lock.
    pub(crate) fn try_with<R>(&self, work: impl FnOnce(&mut T) -> R) -> Option<R> {
        // SAFETY: the mutex is initialised and never moves, as the lock is a static.
        let taken = unsafe { libc::pthread_mutex_trylock(self.mutex.get()) } == 0;
        taken.then(|| self.run_and_unlock(work))
    }

    /// Runs work on the value with the lock held, then unlocks.
    fn run_and_unlock<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the mutex is held, by this thread only once: nobody else has a reference.
        let outcome = work(unsafe { &mut *self.value.get() });
        self.unlock();
        outcome
    }

    /// Takes the lock; returns false if this thread has it already.
    pub(crate) fn lock(&self) -> bool {
        // SAFETY: the mutex is initialised and never moves, as the lock is a static.
        unsafe { libc::pthread_mutex_lock(self.mutex.get()) == 0 }
    }

    /// Releases the lock.
    pub(crate) fn unlock(&self) {
        // SAFETY: as above; one that is not held is refused by the error-checking kind.
        unsafe { libc::pthread_mutex_unlock(self.mutex.get()) };
    }

    /// Opens the lock in a forked child: its mutex still names a thread of the parent.
    ///
    /// # Safety
    ///
    /// The process has one thread, and `lock` was called before it was forked.
    pub(crate) unsafe fn reopen(&self) {
        let open = libc::PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
        // SAFETY: nobody else is there who could use the mutex.
        unsafe { self.mutex.get().write(open) };
    }
}
