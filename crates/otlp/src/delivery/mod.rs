//! Messages → a collector: several tries, in a bounded time, and an account of what did not arrive.
//!
//! ```text
//! queue    messages of a program that runs on: bounded, and delivered beside it
//! route    the way of one signal
//! client   one HTTP exchange, with trailers
//! http     OTLP over HTTP: its answers
//! grpc     OTLP over gRPC: frames, and its answers
//! outcome  what an answer means
//! ```

mod client;
mod grpc;
mod http;
mod outcome;
mod queue;
mod route;

pub use queue::{DeliveryQueue, DropCause, PreparedQueue, QueueOptions, SignalState};

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::settings::{DeliveryOptions, SettingError};
use crate::signal::{Message, Signal};
use outcome::Outcome;
use route::Route;

/// Longest pause that a collector may ask for.
const PAUSE_MOST: Duration = Duration::from_secs(30);

/// How often a message is tried, and how long in between.
#[derive(Debug, Clone, Copy)]
pub struct RetryPolicy {
    /// Tries of each message, at least one.
    pub tries: u32,
    /// Returns the pause after so many failures in a row.
    pub pause_after: fn(u32) -> Duration,
}

/// Account of one signal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SignalAccount {
    /// Items that the collector took.
    pub delivered: u64,
    /// Items that it rejected, by its own response.
    pub rejected: u64,
    /// Items that did not arrive, as far as is known.
    pub undelivered: u64,
    /// Reasons, with a hint and the number of items.
    pub problems: BTreeMap<String, u64>,
    /// Remarks of the collector on what it took.
    pub remarks: BTreeMap<String, u64>,
}

/// Delivers messages, one after the other.
pub struct Delivery {
    runtime: Runtime,
    retry: RetryPolicy,
    signals: BTreeMap<Signal, SignalDelivery>,
}

/// The way of a signal, and its account.
struct SignalDelivery {
    route: Route,
    account: SignalAccount,
    /// Why nothing more is tried.
    end: Option<String>,
}

/// Why no delivery can begin.
#[derive(Debug, thiserror::Error)]
pub enum DeliveryError {
    /// A setting cannot be meant.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// The runtime cannot be made.
    #[error("cannot start to deliver: {0}")]
    Runtime(#[from] io::Error),
}

impl Delivery {
    /// Prepares the delivery of all signals, without sending. `lookup` returns variables of the
    /// environment.
    ///
    /// # Errors
    /// When a setting cannot be meant, or a file of certificates cannot be read.
    pub fn new(
        options: &DeliveryOptions,
        lookup: &dyn Fn(&str) -> Option<String>,
        retry: RetryPolicy,
    ) -> Result<Self, DeliveryError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let mut signals = BTreeMap::new();
        for signal in Signal::ALL {
            let delivery = SignalDelivery {
                route: Route::new(signal, options, lookup)?,
                account: SignalAccount::default(),
                end: None,
            };
            signals.insert(signal, delivery);
        }
        Ok(Self {
            runtime,
            retry,
            signals,
        })
    }

    /// Returns the address of a signal, without possible secrets.
    pub fn address(&self, signal: Signal) -> String {
        self.signals
            .get(&signal)
            .map(|it| it.route.address())
            .unwrap_or_default()
    }

    /// Delivers a message, or counts it as undelivered.
    pub fn send(&mut self, message: &Message) {
        if let Some(delivery) = self.signals.get_mut(&message.signal) {
            let retry = self.retry;
            self.runtime.block_on(delivery.send(message, retry));
        }
    }

    /// Returns the account of a signal.
    pub fn account(&self, signal: Signal) -> SignalAccount {
        self.signals
            .get(&signal)
            .map(|it| it.account.clone())
            .unwrap_or_default()
    }
}

impl SignalDelivery {
    /// Sends a message until it is accepted, refused, or out of attempts.
    async fn send(&mut self, message: &Message, retry: RetryPolicy) {
        if let Some(why) = &self.end {
            let why = why.clone();
            return self.lose(message, why);
        }
        for tried in 1.. {
            let pause = match self.route.exchange(message).await {
                Outcome::Accepted(partial) => return self.accept(message, partial),
                Outcome::Refused { why, is_final } => {
                    self.end = is_final.then(|| why.clone());
                    return self.lose(message, why);
                }
                Outcome::Failed { why, .. } if tried >= retry.tries => {
                    let tries = if tried == 1 { "try" } else { "tries" };
                    let why = why.replacen('\n', &format!(", after {tried} {tries}\n"), 1);
                    self.end = Some(why.clone());
                    return self.lose(message, why);
                }
                Outcome::Failed { after, .. } => after
                    .unwrap_or_else(|| (retry.pause_after)(tried))
                    .min(PAUSE_MOST),
            };
            tokio::time::sleep(pause).await;
        }
    }

    /// Counts the items of a message that the collector accepted and rejected.
    fn accept(&mut self, message: &Message, partial: outcome::Partial) {
        let rejected = partial.rejected.min(message.items);
        self.account.delivered += message.items - rejected;
        self.account.rejected += rejected;
        if rejected > 0 || !partial.remark.is_empty() {
            *self.account.remarks.entry(partial.remark).or_default() += rejected;
        }
    }

    /// Counts the items of a message that could not be delivered, and why.
    fn lose(&mut self, message: &Message, why: String) {
        self.account.undelivered += message.items;
        *self.account.problems.entry(why).or_default() += message.items;
    }
}
