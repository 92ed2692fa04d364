//! The thread that sends what waits in the spool, and removes what is merged.

use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::backoff::Backoff;
use super::name::FileKey;
use super::spool::{AbandonedRows, DeliveryTask, Spool};
use super::target::OpenTarget;

/// Tries to remove a file that the target keeps. Then it is left, and data goes on: readers take the hour's file instead.
const REMOVALS: u32 = 3;

/// State of the spool, shared by the thread that spools and the thread that delivers.
pub(super) struct SharedSpool {
    inner: Mutex<DeliveryState>,
    changed: Condvar,
    /// The state for others: they must not wait for a disk that hangs.
    published: Mutex<PublishedState>,
    /// Intervals that were not even spooled, as the spool's disk hung.
    pub refused_intervals: AtomicU64,
}

struct PublishedState {
    state: ShipState,
    oldest: Option<SystemTime>,
}

pub(super) struct DeliveryState {
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
    /// Until when what waits is still tried; `None` while the agent runs.
    pub ends: Option<Instant>,
}

/// State of shipping: files that wait, files that were delivered, failures.
#[derive(Debug, Clone, Default, PartialEq)]
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
    /// Why the last try failed, if it did.
    pub error: Option<String>,
    /// Why the spool's disk last failed, if it ever did.
    pub spool_failure: Option<String>,
    /// Files and rows that were given up since the agent began.
    pub given: AbandonedRows,
    /// Intervals that the spool has taken since the agent began, as far as there was room.
    pub stored_intervals: u64,
    /// Intervals that were not even spooled, as the spool's disk hung.
    pub refused_intervals: u64,
}

impl SharedSpool {
    /// Shares a spool between the agent and the delivering thread.
    pub(super) fn new(spool: Spool) -> Arc<Self> {
        let inner = DeliveryState {
            spool,
            delivered_files: 0,
            delivered_bytes: 0,
            left_files: 0,
            failures: 0,
            error: None,
            delivered_at: None,
            stored_intervals: 0,
            ends: None,
        };
        Arc::new(Self {
            published: Mutex::new(inner.published()),
            inner: Mutex::new(inner),
            changed: Condvar::new(),
            refused_intervals: AtomicU64::new(0),
        })
    }

    /// Locks the shared state, also while the disk works: threads that must not wait use
    /// [`SharedSpool::state`].
    pub(super) fn lock(&self) -> MutexGuard<'_, DeliveryState> {
        // a thread that panicked has changed nothing half: files are moved one by one
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the shared state, publishes it, and wakes the delivering thread.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut DeliveryState) -> T) -> T {
        let mut inner = self.lock();
        let result = change(&mut inner);
        *self.look() = inner.published();
        self.changed.notify_all();
        result
    }

    /// Locks the state that metrics show.
    fn look(&self) -> MutexGuard<'_, PublishedState> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next file to deliver or remove; `None` when the agent ends.
    fn next_work(&self) -> Option<DeliveryTask> {
        let mut inner = self.lock();
        loop {
            let is_late = inner.ends.is_some_and(|ends| Instant::now() >= ends);
            let work = inner.spool.next();
            // that may have ended an hour
            *self.look() = inner.published();
            if is_late || work.is_some() || inner.ends.is_some() {
                return work.filter(|_| !is_late);
            }
            let waited = self.changed.wait(inner);
            inner = waited.unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits before the next try. An agent that ends meanwhile tries at once, for the target may be back; one that was
    /// ending already when it failed does not wait for it: breaks.
    fn pause(&self, time: Duration) -> ControlFlow<()> {
        let until = Instant::now() + time;
        let mut inner = self.lock();
        if inner.ends.is_some() {
            return ControlFlow::Break(());
        }
        while inner.ends.is_none() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(inner, left);
            inner = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        ControlFlow::Continue(())
    }

    /// Returns the state of shipping, as of the last change.
    pub(super) fn state(&self) -> ShipState {
        let published = self.look();
        let delay = published.oldest.and_then(|since| since.elapsed().ok());
        ShipState {
            delay_s: delay.unwrap_or_default().as_secs_f64(),
            refused_intervals: self.refused_intervals.load(Ordering::Relaxed),
            ..published.state.clone()
        }
    }
}

impl DeliveryState {
    /// Returns the state that metrics show: waiting files, delivered files, errors.
    fn published(&self) -> PublishedState {
        let oldest = self.spool.pending.values().map(|waiting| waiting.since);
        PublishedState {
            oldest: oldest.min(),
            state: ShipState {
                spooled_files: self.spool.pending.len() as u64,
                spooled_bytes: self.spool.bytes(),
                delay_s: 0.0,
                delivered_files: self.delivered_files,
                delivered_bytes: self.delivered_bytes,
                delivered_at: self.delivered_at,
                left_files: self.left_files,
                failures: self.failures,
                error: self.error.clone(),
                spool_failure: self.spool.failure.clone(),
                given: self.spool.given,
                stored_intervals: self.stored_intervals,
                refused_intervals: 0,
            },
        }
    }
}

/// Delivers files until the agent ends.
pub(super) fn run(shared: &SharedSpool, target: &mut OpenTarget, backoff: Backoff) {
    let mut failed = 0;
    while let Some(work) = shared.next_work() {
        match perform(shared, target, &work, failed) {
            Ok(()) => failed = 0,
            Err(error) => {
                failed += 1;
                shared.change(|inner| inner.note_failure(&work, &error));
                if shared.pause(backoff.pause_after(failed)).is_break() {
                    return;
                }
            }
        }
    }
}

/// Does one task at the target after `failed` failures in a row, and reports it to the spool.
fn perform(
    shared: &SharedSpool,
    target: &mut OpenTarget,
    work: &DeliveryTask,
    failed: u32,
) -> io::Result<()> {
    match work {
        DeliveryTask::Send {
            key,
            path,
            generation,
        } => {
            shared.change(|inner| inner.spool.trying(key));
            let bytes = path.metadata().map_or(0, |file| file.len());
            match target.put_file(key, path) {
                Err(_) if is_gone(path) => {
                    shared.change(|inner| inner.spool.mark_vanished(key, *generation))
                }
                Err(error) => return Err(error),
                Ok(()) => shared.change(|inner| inner.taken(key, *generation, bytes)),
            }
        }
        DeliveryTask::Remove(key) => match target.remove(key) {
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return Err(error),
            Err(error) if failed < REMOVALS => return Err(error),
            result => shared.change(|inner| {
                inner.left_files += u64::from(result.is_err());
                inner.spool.mark_removed(key);
            }),
        },
    }
    Ok(())
}

/// Returns whether a file does not exist.
fn is_gone(path: &Path) -> bool {
    path.metadata()
        .is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
}

impl DeliveryState {
    /// Notes that the target has a file.
    fn taken(&mut self, key: &FileKey, generation: u64, bytes: u64) {
        self.spool.mark_delivered(key, generation);
        self.delivered_files += 1;
        self.delivered_bytes += bytes;
        self.delivered_at = Some(SystemTime::now());
        self.error = None;
    }

    /// Notes that a file could not be delivered, and why.
    fn note_failure(&mut self, work: &DeliveryTask, error: &io::Error) {
        let (DeliveryTask::Send { key, .. } | DeliveryTask::Remove(key)) = work;
        self.failures += 1;
        self.error = Some(format!("{}: {error}", key.path()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::WriterIdentity;
    use super::super::interleavings::{interval, interval_of_detail};
    use super::super::name::HOUR_NS;
    use super::super::stage::StagedInterval;
    use super::*;
    use crate::Interval;
    use crate::config::ShipConfig;

    const BEGIN_NS: i64 = 490_000 * HOUR_NS;

    /// A spool in which an interval waits for a directory.
    struct DeliveryWorld {
        dir: tempfile::TempDir,
        shared: Arc<SharedSpool>,
        target: OpenTarget,
    }

    impl DeliveryWorld {
        /// Begins a simulation with one interval in the spool.
        fn new(first: Interval) -> Self {
            let dir = tempfile::tempdir().expect("directory");
            let spool = Spool::open(&dir.path().join("spool"), "h", "b", 1 << 30).expect("spool");
            let shared = SharedSpool::new(spool);
            let target = dir.path().join("target");
            std::fs::create_dir(&target).expect("target");
            let writer = WriterIdentity {
                host: "h".to_owned(),
                boot_id: "b".to_owned(),
            };
            let config = ShipConfig {
                target: target.to_str().expect("a path").to_owned(),
                spool: dir.path().join("spool"),
                ..ShipConfig::default()
            };
            let target = OpenTarget::open(&writer, &config).expect("target");
            shared.change(|inner| inner.spool.store(first));
            Self {
                dir,
                shared,
                target,
            }
        }

        /// Chooses the next file, calls `between`, and then sends the file.
        fn send_after(&mut self, between: impl FnOnce(&mut DeliveryState, &Path)) {
            let work = self.shared.next_work().expect("a file");
            let DeliveryTask::Send { path, .. } = &work else {
                panic!("{work:?}");
            };
            self.shared.change(|inner| between(inner, path));
            perform(&self.shared, &mut self.target, &work, 0).expect("nothing to try again");
        }

        /// Returns the rows that were given up.
        fn abandoned_rows(&self) -> AbandonedRows {
            self.shared.lock().spool.given
        }
    }

    #[test]
    fn file_of_an_hour_merged_before_delivery_is_not_lost() {
        let mut world = DeliveryWorld::new(interval(BEGIN_NS));
        let late = interval(BEGIN_NS + 2 * HOUR_NS);
        world.send_after(|inner, path| {
            inner.spool.store(late);
            assert!(!path.exists());
        });
        assert_eq!(world.abandoned_rows(), AbandonedRows::default());
    }

    #[test]
    fn details_dropped_before_they_were_sent_are_counted_once() {
        let mut world = DeliveryWorld::new(interval_of_detail(BEGIN_NS));
        world.send_after(|inner, path| {
            assert!(
                inner
                    .spool
                    .relieve(&mut StagedInterval::default(), BEGIN_NS)
            );
            assert!(!path.exists());
        });
        let given = world.abandoned_rows();
        assert_eq!((given.full_files, given.failed_files), (1, 0));
    }

    #[test]
    fn file_removed_by_another_process_is_counted() {
        let mut world = DeliveryWorld::new(interval(BEGIN_NS));
        world.send_after(|_, path| std::fs::remove_file(path).expect("a file"));
        assert_eq!(world.abandoned_rows().failed_files, 1);
        let pending = world.dir.path().join("spool/pending");
        assert_eq!(std::fs::read_dir(pending).expect("spool").count(), 1);
        world.send_after(|_, _| ());
        assert_eq!(world.abandoned_rows().failed_files, 1);
        assert_eq!(world.shared.state().spooled_files, 0);
    }

    #[test]
    fn changed_file_is_delivered_again() {
        let world = DeliveryWorld::new(interval(BEGIN_NS));
        let Some(DeliveryTask::Send {
            key, generation, ..
        }) = world.shared.next_work()
        else {
            panic!("no file");
        };
        world.shared.change(|inner| {
            inner.spool.store(interval(BEGIN_NS + 1));
            inner.spool.mark_vanished(&key, generation);
            assert!(inner.spool.pending.contains_key(&key));
        });
        assert_eq!(world.abandoned_rows(), AbandonedRows::default());
    }
}
