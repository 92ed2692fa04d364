//! The encoding thread: intervals → the registry, and messages for the queue. Whoever collects hands an interval over and goes
//! on; the queue's own thread compresses and delivers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use otlp::delivery::DeliveryQueue;
use otlp::{ResourceSource, Signal};

use super::findings::FindingSource;
use super::points::PointSource;
use crate::Interval;
use crate::metrics::Metrics;

/// Intervals that wait to be encoded. The encoder waits for no disk and no collector: only without CPU time does one wait for
/// another.
const WAITING_INTERVALS: usize = 4;

/// An interval that is to be counted and encoded.
struct EncodeJob {
    interval: Arc<Interval>,
    metrics: Arc<Metrics>,
}

/// Hands intervals over to the encoding thread.
pub(super) struct EncodeThread {
    jobs: SyncSender<EncodeJob>,
    encoded: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl EncodeThread {
    /// Starts the encoding thread.
    pub(super) fn start(mut encoder: Encoder) -> io::Result<Self> {
        let (jobs, incoming) = sync_channel(WAITING_INTERVALS);
        let encoded = Arc::<AtomicU64>::default();
        let counted = Arc::clone(&encoded);
        let thread = thread::Builder::new().name("encode".to_owned());
        let thread = thread.spawn(move || encoder.run(&incoming, &counted))?;
        Ok(Self {
            jobs,
            encoded,
            thread,
        })
    }

    /// Queues an interval for encoding, without waiting; false: the queue is full.
    pub(super) fn add_interval(&self, interval: &Arc<Interval>, metrics: &Arc<Metrics>) -> bool {
        let job = EncodeJob {
            interval: Arc::clone(interval),
            metrics: Arc::clone(metrics),
        };
        self.jobs.try_send(job).is_ok()
    }

    /// Returns the number of intervals that were encoded.
    pub(super) fn encoded(&self) -> u64 {
        self.encoded.load(Ordering::Acquire)
    }

    /// Encodes the queued intervals, and ends the thread.
    pub(super) fn finish(self) {
        drop(self.jobs);
        let _ = self.thread.join();
    }
}

/// Makes messages of intervals.
pub(super) struct Encoder {
    pub(super) queue: Arc<DeliveryQueue>,
    pub(super) resources: ResourceSource,
    pub(super) points: PointSource,
    pub(super) findings: FindingSource,
}

impl Encoder {
    /// Encodes intervals until no more come.
    fn run(&mut self, jobs: &Receiver<EncodeJob>, encoded: &AtomicU64) {
        for EncodeJob { interval, metrics } in jobs {
            // in this thread: the registry has no later interval when it is read
            metrics.interval(&interval);
            self.encode(&interval, &metrics);
            encoded.fetch_add(1, Ordering::Release);
        }
    }

    /// Encodes an interval's metrics and logs, and hands them to the queue.
    fn encode(&mut self, interval: &Interval, metrics: &Metrics) {
        let times_ns = times_ns(interval);
        if self.is_wanted(Signal::Metrics) {
            let messages = self.points.messages(metrics, times_ns, &self.resources);
            messages
                .into_iter()
                .for_each(|it| self.queue.add_message(it));
        }
        if self.is_wanted(Signal::Logs) {
            let (records, left_out) = self.findings.records(interval, times_ns);
            self.queue.note_left_out(Signal::Logs, left_out);
            let messages = otlp::encode_findings(records, &self.resources);
            messages
                .into_iter()
                .for_each(|it| self.queue.add_message(it));
        }
    }

    /// Returns whether the signal is exported.
    fn is_wanted(&self, signal: Signal) -> bool {
        self.queue.addresses().contains_key(&signal)
    }
}

/// Returns begin and end of an interval, ns since 1970.
fn times_ns(interval: &Interval) -> (u64, u64) {
    let begin_ns = interval.begin_ns.max(0).cast_unsigned();
    let length_us = interval.coverage.length_us.max(0).cast_unsigned();
    (begin_ns, begin_ns + length_us * 1_000)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::fixture;

    #[test]
    fn an_interval_without_room_is_refused_at_once() {
        let (release, released) = channel::<()>();
        let (jobs, incoming) = sync_channel(WAITING_INTERVALS);
        // one that gets no CPU time until it is released
        let thread = thread::spawn(move || {
            let _ = released.recv();
            drop(incoming);
        });
        let encoder = EncodeThread {
            jobs,
            encoded: Arc::default(),
            thread,
        };
        let interval = Arc::new(Interval {
            begin_ns: 0,
            coverage: fixture::coverage(serde_json::json!({})),
            problems: Default::default(),
            intervals: Default::default(),
            connections: Default::default(),
            details: Default::default(),
            containers: Default::default(),
        });
        let metrics = Metrics::new();
        for _ in 0..WAITING_INTERVALS {
            assert!(encoder.add_interval(&interval, &metrics));
        }
        assert!(!encoder.add_interval(&interval, &metrics));
        assert_eq!(encoder.encoded(), 0);
        drop(release);
        encoder.finish();
    }
}
