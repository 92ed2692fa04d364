//! From intervals to files at the target. In: one [`Interval`] a minute. Out: the dataset of `docs/fleet/dataset.md`.
//!
//! Two threads, so that neither the disk nor the target holds up whoever collects: one writes intervals into the spool,
//! the other delivers what is there. A kill at any point loses at most the interval that was not stored yet, and
//! doubles nothing, as each file has one name and holds what its name says.

mod backoff;
mod deliver;
mod directory;
mod disk;
mod error;
#[cfg(test)]
mod interleavings;
mod merge;
mod name;
mod room;
mod spool;
mod stage;
mod state;
mod store;
mod target;
mod uploads;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

pub use backoff::Backoff;
pub use deliver::ShipState;
pub use error::ShipError;
pub use name::{FileKey, FileStem, WriterIdentity};
pub use spool::AbandonedRows;

use self::deliver::SharedSpool;
use self::spool::Spool;
use self::target::OpenTarget;
use crate::Interval;
use crate::config::ShipConfig;

/// Intervals that wait for the spool's disk: more than two of them are only there when it hangs.
const WAITING_INTERVALS: usize = 4;

/// Ships intervals until it is stopped.
pub struct Shipper {
    intervals: Option<SyncSender<Arc<Interval>>>,
    shared: Arc<SharedSpool>,
    threads: Vec<JoinHandle<()>>,
}

impl Shipper {
    /// Opens the spool, and begins to deliver what an earlier agent left in it. The target need not
    /// exist yet.
    ///
    /// # Errors
    /// When the spool cannot be used, or another agent uses it or writes under the name of this host.
    pub fn start(writer: &WriterIdentity, config: &ShipConfig) -> Result<Self, ShipError> {
        Self::start_with(writer, config, Backoff::default())
    }

    /// Does the same as [`Shipper::start`], with other pauses between tries.
    ///
    /// # Errors
    /// As [`Shipper::start`].
    pub fn start_with(
        writer: &WriterIdentity,
        config: &ShipConfig,
        backoff: Backoff,
    ) -> Result<Self, ShipError> {
        let spool = Spool::open(
            &config.spool,
            &writer.host,
            &writer.boot_id,
            config.spool_max_bytes,
        )?;
        let mut target = OpenTarget::open(writer, config)?;
        let shared = SharedSpool::new(spool);
        let (intervals, incoming) = sync_channel::<Arc<Interval>>(WAITING_INTERVALS);
        let spooling = Arc::clone(&shared);
        let delivering = Arc::clone(&shared);
        let spawned = |source| ShipError::Spool {
            path: config.spool.clone(),
            source,
        };
        let spool_thread = thread::Builder::new().name("spool".to_owned());
        let spool_thread = spool_thread.spawn(move || {
            for interval in incoming {
                // copied where another thread reads it, too
                let interval = Arc::unwrap_or_clone(interval);
                spooling.change(|inner| {
                    inner.spool.store(interval);
                    inner.stored_intervals += 1;
                });
            }
        });
        let deliver_thread = thread::Builder::new().name("deliver".to_owned());
        let deliver_thread =
            deliver_thread.spawn(move || deliver::run(&delivering, &mut target, backoff));
        Ok(Self {
            intervals: Some(intervals),
            shared,
            threads: vec![
                spool_thread.map_err(spawned)?,
                deliver_thread.map_err(spawned)?,
            ],
        })
    }

    /// Takes an interval over; returns at once. One that cannot be taken, as the spool's disk hangs, is counted.
    pub fn add_interval(&self, interval: impl Into<Arc<Interval>>) {
        let interval = interval.into();
        let is_taken = |to: &SyncSender<_>| to.try_send(interval).is_ok();
        if !self.intervals.as_ref().is_some_and(is_taken) {
            let refused = &self.shared.refused_intervals;
            refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the state of shipping. Waits for no disk.
    pub fn state(&self) -> ShipState {
        self.shared.state()
    }

    /// Returns a handle for readers of the shipping state.
    pub fn watch(&self) -> ShipWatch {
        ShipWatch(Arc::clone(&self.shared))
    }

    /// Stores all intervals, and delivers for at most `patience`. The rest stays in the spool for
    /// the next agent.
    pub fn stop(mut self, patience: Duration) -> ShipState {
        self.end(patience);
        self.shared.state()
    }

    /// Ends the delivering thread; it may deliver for so long.
    fn end(&mut self, patience: Duration) {
        // the spooling thread ends when nothing more can come
        self.intervals = None;
        let mut threads = self.threads.drain(..);
        if let Some(spool_thread) = threads.next() {
            let _ = spool_thread.join();
        }
        let ends = Instant::now() + patience;
        self.shared.change(|inner| inner.ends = Some(ends));
        if let Some(deliver_thread) = threads.next() {
            let _ = deliver_thread.join();
        }
    }
}

/// Handle for readers of the shipping state.
#[derive(Clone)]
pub struct ShipWatch(Arc<SharedSpool>);

impl ShipWatch {
    /// Returns the state of shipping.
    pub fn state(&self) -> ShipState {
        self.0.state()
    }
}

impl Drop for Shipper {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}
