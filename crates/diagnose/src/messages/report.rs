//! The contracts `whylat.messages/1` and `whylat.message/1`: what `whylat report --messages` and `--message`
//! say. A null means "not measured", never zero.

use serde::Serialize;

use super::activity::CpuActivity;
use super::message::{MessageDirection, MessageRow};
use super::nic::{NicStamps, WireTime};
use super::parts::{MessageEvent, MessagePart};
use crate::answer::{About, Process};

/// Name and version of the contract of messages by connection.
pub const SCHEMA: &str = "whylat.messages/1";

/// Name and version of the contract of one message.
pub const STORY_SCHEMA: &str = "whylat.message/1";

/// Messages by connection and direction.
#[derive(Debug, Clone, Serialize)]
pub struct MessageReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Of what recording.
    #[serde(flatten)]
    pub about: About,
    /// Largest relative error of a median or other percentile.
    pub relative_error: f64,
    /// Groups with messages, those not listed included.
    pub all: u64,
    /// The groups, those with the slowest messages first.
    pub groups: Vec<MessageGroup>,
}

/// A connection, as seen from the process that has this end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionEnd {
    /// Socket cookie.
    pub conn: u64,
    /// Its addresses.
    pub name: String,
    /// Its process; `None`: not known.
    pub process: Option<Process>,
}

/// Messages of one direction of a connection.
#[derive(Debug, Clone, Serialize)]
pub struct MessageGroup {
    /// On which.
    #[serde(flatten)]
    pub end: ConnectionEnd,
    /// Direction.
    pub direction: MessageDirection,
    /// Messages: receive calls that took bytes, or send calls that gave some.
    pub count: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes between them that no such call moved: splice, sendfile.
    pub spliced_bytes: u64,
    /// Messages with retransmitted segments; `None`: received ones.
    pub resent: Option<u64>,
    /// Messages that may have arrived later than reported.
    pub doubtful: u64,
    /// By how much at most, ns.
    pub doubt_ns: u64,
    /// Of how many not every time was seen: they are in no percentile.
    pub unseen: u64,
    /// Of how many the times are in no order, which cannot be.
    pub disordered: u64,
    /// Of how many the call had no room for all of it, and the rest is lost; `None`: not of a UDP socket, or sent.
    pub cut: Option<u64>,
    /// Datagrams that found the receive buffer full, and are no messages; `None`: as `cut`.
    pub dropped: Option<u64>,
    /// Those that a network adapter stamped as it put them on the wire; `None`: it stamped none.
    pub stamped: Option<NicStamps>,
    /// From the start of the way to its end; `None`: of none all is known.
    pub whole: Option<DurationSpread>,
    /// Its parts, in their order.
    pub parts: Vec<PartSpread>,
    /// The slowest, slowest first.
    pub slowest: Vec<MessageLifetime>,
}

/// How long something took, ns.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct DurationSpread {
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
    /// Span.
    pub part: MessagePart,
    /// How long it took.
    #[serde(flatten)]
    pub spread: DurationSpread,
}

/// One message and its way.
#[derive(Debug, Clone, Serialize)]
pub struct MessageLifetime {
    /// Argument of `--message`.
    pub id: String,
    /// When its way began, ns from the recording's start; 0 if before it.
    pub since_start_ns: u64,
    /// From there to the end, ns.
    pub whole_ns: u64,
    /// The parts, in their order.
    pub parts: Vec<PartTime>,
    /// When the network adapter put it on the wire; `None`: that is not known.
    pub on_wire: Option<WireTime>,
    /// The message.
    pub message: MessageRow,
}

/// How long a part of one message took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PartTime {
    /// Span.
    pub part: MessagePart,
    /// How long, ns.
    pub ns: u64,
}

/// One message by itself.
#[derive(Debug, Clone, Serialize)]
pub struct MessageStory {
    /// [`STORY_SCHEMA`].
    pub schema: &'static str,
    /// Of what recording.
    #[serde(flatten)]
    pub about: About,
    /// On which connection.
    #[serde(flatten)]
    pub end: ConnectionEnd,
    /// Direction.
    pub direction: MessageDirection,
    /// Its way; `None`: a time of it was not seen, or they are in no order.
    pub lifetime: Option<MessageLifetime>,
    /// Its events, in the order of time.
    pub steps: Vec<MessageStep>,
    /// CPU activity meanwhile; `None`: not kept.
    pub meanwhile: Option<Vec<CpuActivity>>,
}

/// Something that happened to a message.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MessageStep {
    /// When, ns from the first one.
    pub after_ns: u64,
    /// Event.
    pub what: MessageEvent,
    /// On which CPU; `None`: not recorded.
    pub cpu: Option<u16>,
    /// In which thread; `None`: in none, or in whichever was interrupted.
    pub tid: Option<u32>,
    /// How far from it the true time may be, ns; `None`: the kernel itself took the time.
    pub error_ns: Option<u64>,
    /// MessagePart of the way that ends with it; `None`: none does.
    pub ends: Option<PartTime>,
}

impl ConnectionEnd {
    /// Returns the connection's name with its process, as reports print it.
    pub fn title(&self) -> String {
        match &self.process {
            Some(process) => format!("{} {}", process.title(), self.name),
            None => self.name.clone(),
        }
    }
}
