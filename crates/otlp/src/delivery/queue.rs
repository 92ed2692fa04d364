//! Messages of a program that runs on → a collector, beside it: a bounded queue for each signal, and tries until the collector
//! takes them.
//!
//! Whoever puts a message never waits. A message that may be taken later is tried again, after pauses that grow, or as long as
//! the collector asks for. When too much waits, the oldest is dropped: later messages of cumulative metrics hold its sums, too.
//! All that is not delivered is counted, with its cause.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::LocalSet;

use super::DeliveryError;
use super::outcome::{Outcome, Partial};
use super::route::Route;
use crate::settings::{self, DeliveryOptions};
use crate::signal::{Message, Signal};

/// Longest pause that a collector may ask for. A wrong answer (a date of another year) must not end the delivery for good.
const PAUSE_MOST: Duration = Duration::from_secs(3_600);

/// Bound and pauses of a queue.
#[derive(Debug, Clone, Copy)]
pub struct QueueOptions {
    /// Bytes of messages that wait, at most, of each signal.
    pub bytes_most: u64,
    /// Returns the pause after so many failures in a row.
    pub pause_after: fn(u32) -> Duration,
}

/// Reason why items were not delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropCause {
    /// Too much waited.
    Full,
    /// The collector refused the message, for good.
    Refused,
    /// The collector took the message, but not these items of it.
    Rejected,
    /// The program ended before the collector took them.
    Ended,
}

impl DropCause {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Full, Self::Refused, Self::Rejected, Self::Ended];

    /// Returns the name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Refused => "refused",
            Self::Rejected => "rejected",
            Self::Ended => "ended",
        }
    }
}

/// State of one signal's delivery. Items are data points or log records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignalState {
    /// Items that the collector took.
    pub delivered: u64,
    /// Items that it did not get, by cause.
    pub dropped: BTreeMap<DropCause, u64>,
    /// Tries that failed.
    pub failures: u64,
    /// Items that wait, with those under way.
    pub waiting: u64,
    /// Bytes of their messages.
    pub waiting_bytes: u64,
    /// Why the last try failed, with a hint; `None`: it did not.
    pub error: Option<String>,
    /// The last remark of the collector on what it took.
    pub remark: Option<String>,
}

impl SignalState {
    /// Counts items that were dropped, by cause.
    fn drop_items(&mut self, cause: DropCause, items: u64) {
        if items > 0 {
            *self.dropped.entry(cause).or_default() += items;
        }
    }

    /// Notes the end of a message's wait.
    fn note_left(&mut self, message: &Message) {
        self.waiting -= message.items;
        self.waiting_bytes -= message.bytes.len() as u64;
    }
}

/// Messages of one signal that wait, and the account.
#[derive(Debug, Default)]
struct SignalQueue {
    waiting: VecDeque<Message>,
    state: SignalState,
}

/// Queues that the program fills and the delivering thread empties.
#[derive(Debug)]
struct SharedQueues {
    queues: Mutex<BTreeMap<Signal, SignalQueue>>,
    /// Number of messages that were put, so that a delivery that waits sees a new one.
    put: watch::Sender<u64>,
    /// When the delivery ends; `None`: not yet.
    end: watch::Sender<Option<Instant>>,
}

impl SharedQueues {
    /// Locks the queues. No thread waits for anything else while it holds the lock.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Signal, SignalQueue>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the queue of a signal; `None` if the signal is not exported.
    fn note<R>(&self, signal: Signal, change: impl FnOnce(&mut SignalQueue) -> R) -> Option<R> {
        self.lock().get_mut(&signal).map(change)
    }
}

/// Routes of all wanted signals, before anything is sent. Settings and certificates are read here.
pub struct PreparedQueue {
    routes: BTreeMap<Signal, Route>,
    options: QueueOptions,
    runtime: Runtime,
}

impl PreparedQueue {
    /// Reads the settings of the wanted signals ([`settings::is_wanted`]); `None`: none is wanted.
    ///
    /// # Errors
    /// When a setting cannot be meant, or a file of certificates cannot be read.
    pub fn new(
        signals: &[Signal],
        options: &DeliveryOptions,
        lookup: &dyn Fn(&str) -> Option<String>,
        queue: QueueOptions,
    ) -> Result<Option<Self>, DeliveryError> {
        let mut routes = BTreeMap::new();
        for signal in signals {
            if settings::is_wanted(*signal, options, lookup) {
                routes.insert(*signal, Route::new(*signal, options, lookup)?);
            }
        }
        if routes.is_empty() {
            return Ok(None);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        Ok(Some(Self {
            routes,
            options: queue,
            runtime,
        }))
    }

    /// Starts the thread that delivers.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(self) -> io::Result<DeliveryQueue> {
        let Self {
            routes,
            options,
            runtime,
        } = self;
        let addresses = routes.iter().map(|(signal, it)| (*signal, it.address()));
        let addresses: BTreeMap<_, _> = addresses.collect();
        let queues = routes
            .keys()
            .map(|signal| (*signal, SignalQueue::default()));
        let shared = Arc::new(SharedQueues {
            queues: Mutex::new(queues.collect()),
            put: watch::Sender::new(0),
            end: watch::Sender::new(None),
        });
        let delivering = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || {
                let tasks = LocalSet::new();
                for (signal, route) in routes {
                    let delivery = SignalDelivery {
                        signal,
                        route,
                        pause_after: options.pause_after,
                        put: delivering.put.subscribe(),
                        end: delivering.end.subscribe(),
                        shared: Arc::clone(&delivering),
                    };
                    tasks.spawn_local(delivery.run());
                }
                runtime.block_on(tasks);
            })?;
        Ok(DeliveryQueue {
            shared,
            addresses,
            bytes_most: options.bytes_most,
            thread: Some(thread),
        })
    }
}

/// A queue to a collector, and the thread that empties it.
#[derive(Debug)]
pub struct DeliveryQueue {
    shared: Arc<SharedQueues>,
    addresses: BTreeMap<Signal, String>,
    bytes_most: u64,
    thread: Option<JoinHandle<()>>,
}

impl DeliveryQueue {
    /// Returns the address of each signal, without possible secrets.
    pub fn addresses(&self) -> &BTreeMap<Signal, String> {
        &self.addresses
    }

    /// Takes a message over; returns at once. Where too much waits then, the oldest is dropped and counted. A signal that is
    /// not wanted is no loss.
    pub fn add_message(&self, message: Message) {
        let bytes_most = self.bytes_most;
        self.shared.note(message.signal, |queue| {
            queue.state.waiting += message.items;
            queue.state.waiting_bytes += message.bytes.len() as u64;
            queue.waiting.push_back(message);
            while queue.state.waiting_bytes > bytes_most {
                // what is under way is not among them
                let Some(oldest) = queue.waiting.pop_front() else {
                    break;
                };
                queue.state.note_left(&oldest);
                queue.state.drop_items(DropCause::Full, oldest.items);
            }
        });
        self.shared.put.send_modify(|number| *number += 1);
    }

    /// Counts items that were never queued, because there were too many.
    pub fn note_left_out(&self, signal: Signal, items: u64) {
        self.shared.note(signal, |queue| {
            queue.state.drop_items(DropCause::Full, items);
        });
    }

    /// Returns the state of each signal. Waits for no collector.
    pub fn states(&self) -> BTreeMap<Signal, SignalState> {
        let queues = self.shared.lock();
        let states = queues
            .iter()
            .map(|(signal, it)| (*signal, it.state.clone()));
        states.collect()
    }

    /// Begins the end: queued messages are tried until `end`. A pause that no collector asked for
    /// ends at once.
    pub fn end_by(&self, end: Instant) {
        self.shared.end.send_replace(Some(end));
    }

    /// Waits for the end, and returns the last state of each signal.
    pub fn join(mut self) -> BTreeMap<Signal, SignalState> {
        self.finish();
        self.states()
    }

    /// Ends the delivering thread and waits for it.
    fn finish(&mut self) {
        let now = Instant::now();
        self.shared.end.send_if_modified(|end| {
            let is_new = end.is_none();
            end.get_or_insert(now);
            is_new
        });
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for DeliveryQueue {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Delivery of one signal.
struct SignalDelivery {
    signal: Signal,
    route: Route,
    pause_after: fn(u32) -> Duration,
    put: watch::Receiver<u64>,
    end: watch::Receiver<Option<Instant>>,
    shared: Arc<SharedQueues>,
}

impl SignalDelivery {
    /// Delivers messages until the end, and counts the rest as dropped.
    async fn run(mut self) {
        let mut end = self.end.clone();
        tokio::select! {
            biased;
            () = until_end(&mut end) => {}
            () = self.deliver_all() => {}
        }
        self.shared.note(self.signal, |queue| {
            queue.waiting.clear();
            let state = &mut queue.state;
            let left = std::mem::take(&mut state.waiting);
            state.waiting_bytes = 0;
            state.drop_items(DropCause::Ended, left);
        });
    }

    /// Delivers one message after the other; returns when the end has begun and none waits.
    async fn deliver_all(&mut self) {
        loop {
            self.put.mark_unchanged();
            let next = self
                .shared
                .note(self.signal, |queue| queue.waiting.pop_front());
            match next.flatten() {
                Some(message) => self.deliver(&message).await,
                None if self.end.borrow_and_update().is_some() => return,
                None => {
                    tokio::select! {
                        // the senders live as long as this
                        _ = self.put.changed() => {}
                        _ = self.end.changed() => {}
                    }
                }
            }
        }
    }

    /// Tries a message until the collector takes or refuses it.
    async fn deliver(&mut self, message: &Message) {
        for failures in 1.. {
            let (why, after) = match self.route.exchange(message).await {
                Outcome::Accepted(partial) => return self.accept(message, partial),
                Outcome::Refused { why, .. } => return self.refuse(message, why),
                Outcome::Failed { why, after } => (why, after),
            };
            self.shared.note(self.signal, |queue| {
                queue.state.failures += 1;
                queue.state.error = Some(why);
            });
            match after {
                Some(asked) => tokio::time::sleep(asked.min(PAUSE_MOST)).await,
                None => {
                    let has_begun = self.end.borrow_and_update().is_some();
                    tokio::select! {
                        () = tokio::time::sleep((self.pause_after)(failures)) => {}
                        // the end begins: one try at once
                        _ = self.end.changed(), if !has_begun => {}
                    }
                }
            }
        }
    }

    /// Counts the items of a message that the collector accepted and rejected.
    fn accept(&self, message: &Message, partial: Partial) {
        self.shared.note(self.signal, |queue| {
            let state = &mut queue.state;
            let rejected = partial.rejected.min(message.items);
            state.note_left(message);
            state.delivered += message.items - rejected;
            state.drop_items(DropCause::Rejected, rejected);
            state.error = None;
            if !partial.remark.is_empty() {
                state.remark = Some(partial.remark);
            }
        });
    }

    /// Counts the items of a message that the collector refused for good.
    fn refuse(&self, message: &Message, why: String) {
        self.shared.note(self.signal, |queue| {
            let state = &mut queue.state;
            state.note_left(message);
            state.drop_items(DropCause::Refused, message.items);
            state.failures += 1;
            state.error = Some(why);
        });
    }
}

/// Waits until the end has come.
async fn until_end(end: &mut watch::Receiver<Option<Instant>>) {
    loop {
        let begun = *end.borrow_and_update();
        match begun {
            Some(at) => {
                tokio::select! {
                    () = tokio::time::sleep_until(at.into()) => return,
                    _ = end.changed() => {}
                }
            }
            None => {
                // the sender lives as long as this
                let _ = end.changed().await;
            }
        }
    }
}
