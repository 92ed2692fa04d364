//! The contract `whylat.tail/1`: why the slow messages of each application are slow.

use serde::Serialize;

use super::explain::Anomaly;
use super::tree::{CoreRole, SpanId};
use crate::answer::About;
use crate::messages::message::MessageDirection;

/// Name and version of the contract.
pub const SCHEMA: &str = "whylat.tail/1";

/// Why slow messages are slow, by application and direction.
#[derive(Debug, Clone, Serialize)]
pub struct TailReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Of what.
    #[serde(flatten)]
    pub about: About,
    /// Explained messages.
    pub tail: String,
    /// Messages that they are compared with.
    pub body: String,
    /// The recording that these are of, if it is another.
    pub other: Option<OtherRecording>,
    /// Share of a deviation that inner places must explain for the outer one to be no cause, 0–1.
    pub explained: f64,
    /// Differences below this are none, ns.
    pub resolution_ns: f64,
    /// By application and direction, the largest sum of deviations first.
    pub groups: Vec<TailGroup>,
}

/// The recording that another is compared with.
#[derive(Debug, Clone, Serialize)]
pub struct OtherRecording {
    /// Host name.
    pub host: String,
    /// When it began, `CLOCK_REALTIME`, ns.
    pub started_realtime_ns: u64,
}

/// The messages of one application, one way.
#[derive(Debug, Clone, Serialize)]
pub struct TailGroup {
    /// Command name; `None`: not known.
    pub application: Option<String>,
    /// Direction.
    pub direction: MessageDirection,
    /// Messages with all their times.
    pub messages: u64,
    /// Latencies by rank, ns: of the host alone.
    pub latency: Vec<LatencyQuantile>,
    /// The sum of their latencies, ns.
    pub latency_sum_ns: u64,
    /// Messages among which those are that they are compared with.
    pub compared_messages: u64,
    /// Their latencies.
    pub compared: Vec<LatencyQuantile>,
    /// Messages that were explained, and those that could not be.
    pub tail: BandCounts,
    /// Messages that they were compared with.
    pub body: BandCounts,
    /// Mean latency of these, ns.
    pub usual_ns: f64,
    /// How much longer than that the explained messages took on average, ns; `None` without any.
    pub deviation_ns: Option<f64>,
    /// Messages of the tail that took clearly longer than that: only these have causes.
    pub longer: u64,
    /// Explained share of these: least and median, 0–1; `None` without any.
    pub covered: Option<CoveredShare>,
    /// Causes, that with the largest median of deviations first.
    pub causes: Vec<TailCause>,
    /// Messages ahead of each other.
    pub queue: QueueSpread,
    /// Queues that were longer than usual, by place.
    pub queueing: Vec<Queueing>,
    /// Contexts on the CPUs during the messages.
    pub cores: Vec<CpuShare>,
    /// Every explained message, in the order of time.
    pub explained: Vec<MessageCauses>,
}

/// A latency and its rank.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct LatencyQuantile {
    /// Share of messages that are no slower, 0–1.
    pub share: f64,
    /// ns.
    pub ns: u64,
}

/// How many messages of a band could be explained.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct BandCounts {
    /// Messages in the band.
    pub messages: u64,
    /// Those of them with recorded CPU activity.
    pub kept: u64,
    /// Shortest latency in it, ns.
    pub from_ns: u64,
    /// Longest latency in it, ns.
    pub until_ns: u64,
}

/// How much of the deviations is explained.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CoveredShare {
    /// Of the message that is explained worst.
    pub least: f64,
    /// Of the median message.
    pub median: f64,
}

/// Why messages were slow.
#[derive(Debug, Clone, Serialize)]
pub struct TailCause {
    /// Stable name of the rule.
    pub rule: &'static str,
    /// Its kind and name.
    pub what: String,
    /// Kind of work (docs/causes.md); `None`: none by itself, or no rule knows it.
    pub category: Option<&'static str>,
    /// Core role.
    pub role: CoreRole,
    /// Messages that it hit.
    pub messages: u64,
    /// Those of them with this as the largest cause.
    pub first: u64,
    /// Added time of the messages hit, ns.
    pub deviation_ns: FiveNumbers,
    /// Added time in total, ns.
    pub sum_ns: f64,
    /// Whether the messages hit came one after the other, or apart.
    pub order: HitOrder,
    /// Its parts, largest first.
    pub parts: Vec<CausePart>,
    /// Messages that it hit most.
    pub examples: Vec<String>,
    /// Fix.
    pub advice: &'static str,
}

/// A distribution in five numbers.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct FiveNumbers {
    /// Least.
    pub least: f64,
    /// A quarter is no larger.
    pub quarter: f64,
    /// Half is no larger.
    pub median: f64,
    /// A quarter is no smaller.
    pub three_quarters: f64,
    /// Most.
    pub most: f64,
}

/// How the messages hit follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum HitOrder {
    /// One after the other: one event behind them, likely.
    Bunched,
    /// Apart: each by itself.
    Spread,
}

/// Part of a cause.
#[derive(Debug, Clone, Serialize)]
pub struct CausePart {
    /// Its name.
    pub name: String,
    /// How it differs.
    pub anomaly: Anomaly,
    /// Messages that it hit.
    pub messages: u64,
    /// Added time, ns.
    pub deviation_ns: FiveNumbers,
}

/// Queueing, of the explained messages against the body.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct QueueSpread {
    /// Messages ahead: mean of the body.
    pub usual: f64,
    /// Median of the explained messages.
    pub median: u32,
    /// Most.
    pub most: u32,
    /// Explained messages with more ahead than usual.
    pub deeper: u64,
}

/// Place where other messages were processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QueuePlace {
    /// The thread, in calls that receive.
    ApplicationReceive,
    /// The thread, with what came in.
    ApplicationRequest,
    /// The thread, in calls that send.
    ApplicationSend,
    /// The receive core.
    KernelReceive,
    /// The core of the driver.
    KernelSend,
}

/// Queue before messages.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Queueing {
    /// Place where other messages were processed.
    pub queued: QueuePlace,
    /// Explained messages that waited behind more than is usual, and for longer.
    pub messages: u64,
    /// Messages or calls ahead: mean of the body.
    pub usual_ahead: f64,
    /// Of the messages hit: more ahead than that.
    pub ahead: FiveNumbers,
    /// How much longer than is usual they waited for those, ns.
    pub deviation_ns: FiveNumbers,
}

/// Contexts on a CPU during messages: means over all messages, of the explained ones and of the body.
#[derive(Debug, Clone, Serialize)]
pub struct CpuShare {
    /// Its number.
    pub cpu: u16,
    /// Time of an explained message's life that was spent there, ns.
    pub ns: f64,
    /// Time of a life in the body that was spent there, ns.
    pub usual_ns: f64,
    /// Contexts on it, the longest first.
    pub contexts: Vec<CpuContext>,
}

/// Context on a CPU.
#[derive(Debug, Clone, Serialize)]
pub struct CpuContext {
    /// Command name; `idle`, `interrupts`, `not known`.
    pub name: String,
    /// For how long of an explained message's life, ns.
    pub ns: f64,
    /// For how long of a life in the body, ns.
    pub usual_ns: f64,
}

/// One message with its causes.
#[derive(Debug, Clone, Serialize)]
pub struct MessageCauses {
    /// Its id.
    pub id: String,
    /// When it began, from the recording's start, ns.
    pub since_start_ns: u64,
    /// How long the host had it, ns.
    pub latency_ns: u64,
    /// Longer than usual, ns.
    pub deviation_ns: f64,
    /// Explained of that, 0–1.
    pub covered: f64,
    /// Messages of the same thread ahead of it.
    pub ahead: u32,
    /// Added time by cause, the largest first.
    pub causes: Vec<CauseTime>,
    /// Spans of its CPUs that the causes are made of, in the order of CPU and time; for the page alone.
    #[serde(skip)]
    pub spans: Vec<CauseSpan>,
}

/// A span that a cause of a message is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CauseSpan {
    /// Span.
    pub span: SpanId,
    /// Index in [`TailGroup::causes`].
    pub cause: usize,
    /// How the place that it is at differs.
    pub anomaly: Anomaly,
}

/// Added time of a cause for a message.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct CauseTime {
    /// Index in [`TailGroup::causes`].
    pub cause: usize,
    /// ns.
    pub ns: f64,
}
