//! The contract `whylat.ends/1`: what `whylat report --messages --other-end` says.

use serde::Serialize;

use super::offset::ClockOffset;
use crate::answer::About;
use crate::messages::report::{ConnectionEnd, DurationSpread};

/// Name and version of the contract.
pub const SCHEMA: &str = "whylat.ends/1";

/// Messages that are known at both ends.
#[derive(Debug, Clone, Serialize)]
pub struct EndsReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Of the first recording.
    #[serde(flatten)]
    pub about: About,
    /// Name of the other recording's host.
    pub other_host: String,
    /// How the two clocks stand to each other.
    pub clocks: ClockRelation,
    /// Largest relative error of a median or other percentile.
    pub relative_error: f64,
    /// Groups with messages, those not listed included.
    pub all: u64,
    /// The groups, those with the slowest messages first.
    pub groups: Vec<CrossingGroup>,
}

/// How the clocks of two recordings stand to each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum ClockRelation {
    /// It is one clock: both were made since the same boot of one host.
    Same,
    /// How far the other's is ahead, found from the messages.
    Apart {
        /// In order of time; of several the clocks did not run alike.
        offsets: Vec<ClockOffset>,
    },
    /// Messages went in one direction only: the time between the hosts is unknown.
    Unknown,
}

/// A part of the way from one program to the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PathLeg {
    /// From the end of the call that took the last message to the start of this one's: the sender thought.
    SenderApplication,
    /// From the start of the call to the driver.
    SenderKernel,
    /// From the driver to the other host's driver.
    Wire,
    /// From there until the thread could read it.
    ReceiverKernel,
    /// Until its call ended.
    ReceiverApplication,
}

/// How long a leg took.
#[derive(Debug, Clone, Serialize)]
pub struct LegSpread {
    /// Span.
    pub leg: PathLeg,
    /// How long.
    #[serde(flatten)]
    pub spread: DurationSpread,
}

/// Messages from one end to the other.
#[derive(Debug, Clone, Serialize)]
pub struct CrossingGroup {
    /// Sender.
    pub from: ConnectionEnd,
    /// Receiver.
    pub to: ConnectionEnd,
    /// Messages sent.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Of how many the receive call took more with them, so that their own arrival is not known.
    pub shared: u64,
    /// Of how many no receive call is known, or not every time.
    pub unmatched: u64,
    /// How far the wire of each may be off, ns, at most; 0 for one clock.
    pub error_ns: u64,
    /// From the start of the send call to the end of the receive call; `None`: no message has both.
    pub whole: Option<DurationSpread>,
    /// Its legs, in their order; the first comes before the whole begins.
    pub legs: Vec<LegSpread>,
    /// The slowest, slowest first.
    pub slowest: Vec<SlowCrossing>,
}

/// One message.
#[derive(Debug, Clone, Serialize)]
pub struct SlowCrossing {
    /// Argument of `--message`, for the sender's recording.
    pub id: String,
    /// The whole, ns.
    pub whole_ns: u64,
    /// The legs, in their order.
    pub legs: Vec<LegTime>,
}

/// How long a leg of one message took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct LegTime {
    /// Span.
    pub leg: PathLeg,
    /// How long, ns.
    pub ns: u64,
}

impl PathLeg {
    /// All, in their order.
    pub const ALL: [Self; 5] = [
        Self::SenderApplication,
        Self::SenderKernel,
        Self::Wire,
        Self::ReceiverKernel,
        Self::ReceiverApplication,
    ];

    /// Returns the leg's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SenderApplication => "(thinking)",
            Self::SenderKernel => "sending",
            Self::Wire => "wire",
            Self::ReceiverKernel => "receiving",
            Self::ReceiverApplication => "program",
        }
    }

    /// The sender's own time is before the whole begins.
    pub const fn is_of_whole(self) -> bool {
        !matches!(self, Self::SenderApplication)
    }
}
