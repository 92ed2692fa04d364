//! The thread that sends what waits in the spool, and removes what is merged.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::backoff::Backoff;
use super::name::Key;
use super::spool::{Given, Spool, Work};
use super::target::Sink;

/// Tries to remove a file that the target keeps. Then it is left, and data goes on: readers take the hour's file instead.
const REMOVALS: u32 = 3;

/// What the spooling and the delivering thread share.
pub(super) struct Shared {
    inner: Mutex<Inner>,
    changed: Condvar,
}

pub(super) struct Inner {
    pub spool: Spool,
    /// Files that the target has taken since the agent began.
    pub delivered_files: u64,
    /// Bytes of them.
    pub delivered_bytes: u64,
    /// Minutes' files that the target would not remove though their hour is merged.
    pub left_files: u64,
    /// Tries that failed.
    pub failures: u64,
    /// Why the last one failed; `None` after one that did not.
    pub error: Option<String>,
    /// When the target last took a file.
    pub delivered_at: Option<SystemTime>,
    /// Intervals that are in the spool, or were, as far as there was room.
    pub stored_intervals: u64,
    /// Intervals that were not even spooled, as the spool's disk hung.
    pub refused_intervals: u64,
    /// Until when what waits is still tried; `None` while the agent runs.
    pub ends: Option<Instant>,
}

/// How shipping is getting on.
#[derive(Debug, Clone, PartialEq)]
pub struct ShipState {
    /// Files that wait for the target.
    pub spooled_files: u64,
    /// All bytes in the spool, with copies of what was sent of hours that are not merged.
    pub spooled_bytes: u64,
    /// Time that the oldest of them has waited, s; zero when none waits.
    pub delay_s: f64,
    /// Files that the target has taken since the agent began.
    pub delivered_files: u64,
    /// Bytes of them.
    pub delivered_bytes: u64,
    /// When it last took one.
    pub delivered_at: Option<SystemTime>,
    /// Minutes' files that the target would not remove though their hour is merged.
    pub left_files: u64,
    /// Tries that failed since the agent began.
    pub failures: u64,
    /// Why the last try failed, if it did; else why the spool's disk last failed.
    pub error: Option<String>,
    /// What was given up since the agent began.
    pub given: Given,
    /// Intervals that the spool has taken since the agent began, as far as there was room.
    pub stored_intervals: u64,
    /// Intervals that were not even spooled, as the spool's disk hung.
    pub refused_intervals: u64,
}

impl Shared {
    pub(super) fn new(spool: Spool) -> Arc<Self> {
        Arc::new(Self {
            inner: Mutex::new(Inner {
                spool,
                delivered_files: 0,
                delivered_bytes: 0,
                left_files: 0,
                failures: 0,
                error: None,
                delivered_at: None,
                stored_intervals: 0,
                refused_intervals: 0,
                ends: None,
            }),
            changed: Condvar::new(),
        })
    }

    /// What is shared, for a short time.
    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        // a thread that panicked has changed nothing half: files are moved one by one
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// There is something to deliver, or an end.
    pub(super) fn wake(&self) {
        self.changed.notify_all();
    }

    /// The next thing to do; waits for one, and is `None` when the agent ends: with nothing left, or its patience.
    fn next_work(&self) -> Option<Work> {
        let mut inner = self.lock();
        loop {
            let is_late = inner.ends.is_some_and(|ends| Instant::now() >= ends);
            let work = inner.spool.next();
            if is_late || work.is_some() || inner.ends.is_some() {
                return work.filter(|_| !is_late);
            }
            let waited = self.changed.wait(inner);
            inner = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits before the next try; breaks when the agent ends, as a target that fails then is not waited for.
    fn pause(&self, time: Duration) -> ControlFlow<()> {
        let until = Instant::now() + time;
        let mut inner = self.lock();
        while inner.ends.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return ControlFlow::Continue(());
            }
            let waited = self.changed.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        ControlFlow::Break(())
    }

    pub(super) fn state(&self) -> ShipState {
        let inner = self.lock();
        let oldest = inner.spool.pending.values().map(|waiting| waiting.since);
        let delay = oldest.min().and_then(|since| since.elapsed().ok());
        ShipState {
            spooled_files: inner.spool.pending.len() as u64,
            spooled_bytes: inner.spool.bytes(),
            delay_s: delay.unwrap_or_default().as_secs_f64(),
            delivered_files: inner.delivered_files,
            delivered_bytes: inner.delivered_bytes,
            delivered_at: inner.delivered_at,
            left_files: inner.left_files,
            failures: inner.failures,
            error: inner.error.clone().or_else(|| inner.spool.failure.clone()),
            given: inner.spool.given,
            stored_intervals: inner.stored_intervals,
            refused_intervals: inner.refused_intervals,
        }
    }
}

/// Delivers until the agent ends.
pub(super) fn run(shared: &Shared, target: &mut Sink, backoff: Backoff) {
    let mut failed = 0;
    while let Some(work) = shared.next_work() {
        match perform(shared, target, &work, failed) {
            Ok(()) => failed = 0,
            Err(error) => {
                failed += 1;
                report(shared, &work, &error);
                if shared.pause(backoff.after(failed)).is_break() {
                    return;
                }
            }
        }
    }
}

/// Does one thing at the target, after so many failures in a row, and tells the spool.
fn perform(shared: &Shared, target: &mut Sink, work: &Work, failed: u32) -> io::Result<()> {
    match work {
        Work::Send {
            key,
            path,
            generation,
        } => {
            shared.lock().spool.trying(key);
            let bytes = path.metadata().map(|file| file.len());
            match target.put(key, path) {
                Err(_) if is_gone(path) => {
                    shared.lock().spool.vanished(key);
                    Ok(())
                }
                result => result.map(|()| taken(shared, key, *generation, bytes.unwrap_or(0))),
            }
        }
        Work::Remove(key) => {
            let result = target.remove(key);
            let mut inner = shared.lock();
            match result {
                Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
                Err(error) if failed < REMOVALS => return Err(error),
                Err(_) => inner.left_files += 1,
                Ok(()) => {}
            }
            inner.spool.removed(key);
            Ok(())
        }
    }
}

fn is_gone(path: &Path) -> bool {
    path.metadata()
        .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

fn taken(shared: &Shared, key: &Key, generation: u64, bytes: u64) {
    let mut inner = shared.lock();
    inner.spool.delivered(key, generation);
    inner.delivered_files += 1;
    inner.delivered_bytes += bytes;
    inner.delivered_at = Some(SystemTime::now());
    inner.error = None;
}

fn report(shared: &Shared, work: &Work, error: &io::Error) {
    let key = match work {
        Work::Send { key, .. } | Work::Remove(key) => key,
    };
    let mut inner = shared.lock();
    inner.failures += 1;
    inner.error = Some(format!("{}: {error}", key.path()));
}
