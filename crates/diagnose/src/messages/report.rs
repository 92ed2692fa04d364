//! The contract `whylat.messages/1`: what `whylat report --messages` says. A null means "not measured",
//! never zero.

use serde::Serialize;
use table::tables::Message;

use super::way::Part;
use crate::report::About;
use crate::waits::report::Identity;

/// Name and version of the contract.
pub const SCHEMA: &str = "whylat.messages/1";

/// Received messages by connection.
#[derive(Debug, Clone, Serialize)]
pub struct MessageReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Of what recording.
    #[serde(flatten)]
    pub about: About,
    /// Largest relative error of a median or other percentile.
    pub relative_error: f64,
    /// Connections with messages, those not listed included.
    pub all: u64,
    /// The connections, those with the slowest messages first.
    pub connections: Vec<Received>,
}

/// What was received on one connection.
#[derive(Debug, Clone, Serialize)]
pub struct Received {
    /// Which.
    #[serde(flatten)]
    pub identity: Identity,
    /// Messages: receive calls that took bytes.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes between them that no receive call took: splice, sendfile.
    pub spliced_bytes: u64,
    /// Of how many not every time was seen: they are in no percentile.
    pub unseen: u64,
    /// Of how many the times are in no order, which cannot be.
    pub disordered: u64,
    /// From the first byte's arrival to the end of the call; `None`: of none all is known.
    pub whole: Option<Spread>,
    /// Its parts, in their order.
    pub parts: Vec<PartSpread>,
    /// The slowest, slowest first.
    pub slowest: Vec<Slow>,
}

/// How long something took, ns.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Spread {
    /// How many had it.
    pub count: u64,
    /// Their sum; exact.
    pub sum_ns: u64,
    /// Half were no longer.
    pub p50_ns: u64,
    /// 90 % were no longer.
    pub p90_ns: u64,
    /// 99 % were no longer.
    pub p99_ns: u64,
    /// 99.9 % were no longer.
    pub p999_ns: u64,
    /// The longest; exact.
    pub max_ns: u64,
}

/// A part of the way, of all messages.
#[derive(Debug, Clone, Serialize)]
pub struct PartSpread {
    /// Which.
    pub part: Part,
    /// How long it took.
    #[serde(flatten)]
    pub spread: Spread,
}

/// One message and its way.
#[derive(Debug, Clone, Serialize)]
pub struct Slow {
    /// What `--message` takes.
    pub id: String,
    /// When its first byte arrived, ns from the recording's start; 0 if before it.
    pub since_start_ns: u64,
    /// From there to the end of the call, ns.
    pub whole_ns: u64,
    /// The parts, in their order.
    pub parts: Vec<Took>,
    /// The message.
    pub message: Message,
}

/// How long a part of one message took.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Took {
    /// Which.
    pub part: Part,
    /// How long, ns.
    pub ns: u64,
}
