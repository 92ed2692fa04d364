//! A recording for receivers of OpenTelemetry: comes in a [`table::Recording`], goes out metrics, spans and logs as messages of
//! OTLP, which [`delivery`] brings to a collector.
//!
//! ```text
//! proto        the messages of opentelemetry-proto, as far as they are written
//! attribute    attributes by their types
//! resource     the host and the program that a message is about
//! identity     ids of traces and spans, the same at each export
//! exponential  durations in exponential buckets
//! clock        times of the recording as times of the day
//! metrics, spans, logs   what is written, a signal each
//! batch        spans → messages of a bounded size
//! export       a recording → all messages
//! frame        messages through a pipe
//! settings     variables OTEL_EXPORTER_OTLP_* and options → endpoints
//! delivery     messages → a collector: tries, refusals, and what was not delivered
//! ```
//!
//! A program that runs on, such as the agent, fills a [`MetricTable`] and [`FindingRecord`]s itself, and hands messages to a
//! [`delivery::DeliveryQueue`].
//!
//! Reading and delivery know nothing of each other: a process that reads needs no network, and one that delivers reads no
//! recording.

pub mod attribute;
mod batch;
mod clock;
pub mod delivery;
pub mod exponential;
pub mod export;
pub mod frame;
mod identity;
mod logs;
pub mod metric_table;
mod metrics;
pub mod proto;
pub mod resource;
pub mod settings;
pub mod signal;
mod spans;

pub use export::{ExportOptions, ExportSummary, export};
pub use logs::{FindingRecord, encode_findings};
pub use metric_table::{MetricKind, MetricLabel, MetricTable};
pub use resource::ResourceSource;
pub use signal::{Message, Signal};
