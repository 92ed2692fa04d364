//! Report of the differences between the slowest requests of a service and the others.

use serde::Serialize;

use super::functions::ShareBounds;
use super::part::RequestPart;
use crate::waits::join::factor::SideCounts;

/// The slowest requests of a service beside the others.
#[derive(Debug, Clone, Serialize)]
pub struct Contrast {
    /// How many are slow: the slowest 1 %, and those of about the same duration.
    pub slow: u64,
    /// They took this long or longer, ns.
    pub slow_from_ns: u64,
    /// How many others there are.
    pub others: u64,
    /// Requests that were compared: the slowest, and some of the others, which are drawn.
    pub compared: ContrastSide,
    /// The slow ones took longer by this, on average, ns.
    pub extra_ns: u64,
    /// The parts that made them slow: the one that is the first cause of most comes first.
    pub parts: Vec<ContrastPart>,
    /// Traits that slow ones have more often than others; empty: nothing beyond chance.
    pub traits: Vec<ContrastTrait>,
    /// Why traits are not known; absent: they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_unknown: Option<&'static str>,
}

/// Numbers of requests, or of samples, on both sides.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct ContrastSide {
    /// Slow ones.
    pub slow: u64,
    /// Others.
    pub others: u64,
}

impl ContrastSide {
    pub(super) fn new(counts: SideCounts) -> Self {
        Self {
            slow: counts.slow,
            others: counts.fast,
        }
    }
}

/// A part that is longer in slow requests.
#[derive(Debug, Clone, Serialize)]
pub struct ContrastPart {
    /// The part.
    pub part: RequestPart,
    /// By how much it is longer in slow requests, on average, ns.
    pub extra_ns: u64,
    /// Slow requests in which no other part is longer by more.
    pub requests: u64,
    /// Their share of the slow ones that were compared.
    pub share: ShareBounds,
}

/// Something that slow requests have more often than others.
#[derive(Debug, Clone, Serialize)]
pub struct ContrastTrait {
    /// Its kind.
    pub what: TraitKind,
    /// Its value.
    #[serde(flatten)]
    pub value: TraitValue,
    /// Requests with it; of functions, samples.
    pub with: ContrastSide,
    /// Requests that were compared; of functions, samples.
    pub of: ContrastSide,
    /// Its share of the slow ones.
    pub slow_share: ShareBounds,
    /// Its share of the others.
    pub others_share: ShareBounds,
    /// At most so likely by chance, with all that was tested counted in.
    pub chance: f64,
}

impl ContrastTrait {
    /// Makes a trait of slow requests: requests `with` it, `of` all, and the chance of such a
    /// difference.
    pub(super) fn new(
        what: TraitKind,
        value: TraitValue,
        (with, of): (SideCounts, SideCounts),
        chance: f64,
    ) -> Self {
        Self {
            what,
            value,
            with: ContrastSide::new(with),
            of: ContrastSide::new(of),
            slow_share: ShareBounds::new(with.slow, of.slow),
            others_share: ShareBounds::new(with.fast, of.fast),
            chance,
        }
    }
}

/// Kind of what requests are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TraitKind {
    /// Bytes of the request.
    RequestBytes,
    /// Bytes of the response.
    ResponseBytes,
    /// Send and receive calls.
    Calls,
    /// Most requests that it waited behind at a time.
    Behind,
    /// Address of the other end.
    Peer,
    /// Process that has it.
    Process,
    /// Thread that took or sent it.
    Thread,
    /// Its connection.
    Connection,
    /// Function that ran while it computed.
    Function,
}

/// Value of a trait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TraitValue {
    /// A number, or less.
    AtMost(u64),
    /// A number, or more.
    AtLeast(u64),
    /// A name.
    Name(String),
}
