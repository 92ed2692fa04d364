//! The identity of this process, in a word that one load reads.
//!
//! A forked child inherits the ring and the memory of its parent's threads; it must not write
//! into their chunks. The word lives in a page that the kernel clears in a child
//! (`MADV_WIPEONFORK`, Linux 4.14), also when `fork` was not called through the C library. On
//! older kernels the `pthread_atfork` handler clears it.

use std::sync::atomic::{AtomicU64, Ordering};

/// The word: the pid, or 0 in a child that has made no call yet, or [`SILENT`].
pub(crate) struct Identity {
    word: &'static AtomicU64,
}

/// Replaces the pid while nothing is to be recorded; no thread has it as its process.
const SILENT: u64 = 1 << 32;

impl Identity {
    /// Makes the identity of this process.
    pub(crate) fn new() -> Self {
        let identity = Identity { word: word_place() };
        identity.remember();
        identity
    }

    /// Returns the word, to compare with a thread's.
    #[inline]
    pub(crate) fn word(&self) -> u64 {
        self.word.load(Ordering::Relaxed)
    }

    /// Writes the pid into the word, and returns it.
    pub(crate) fn remember(&self) -> u64 {
        let pid = u64::from(std::process::id());
        self.word.store(pid, Ordering::Relaxed);
        pid
    }

    /// Makes every thread find that recording is not for this process.
    pub(crate) fn silence(&self) {
        self.word.store(SILENT, Ordering::Relaxed);
    }

    /// Clears the word, as the kernel does in a child.
    pub(crate) fn forget(&self) {
        self.word.store(0, Ordering::Relaxed);
    }
}

/// Returns a word on a page that the kernel clears in a child; plain memory without such pages.
fn word_place() -> &'static AtomicU64 {
    let length = 4096;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: a new anonymous mapping, at an address that the kernel chooses.
    let page = unsafe { libc::mmap(std::ptr::null_mut(), length, access, kind, -1, 0) };
    if page == libc::MAP_FAILED {
        return Box::leak(Box::new(AtomicU64::new(0)));
    }
    // SAFETY: the page is ours. Failure leaves the handler of `pthread_atfork`.
    unsafe { libc::madvise(page, length, libc::MADV_WIPEONFORK) };
    // SAFETY: the page is never unmapped, is aligned, and any bytes are a value of an atomic.
    unsafe { &*page.cast() }
}
