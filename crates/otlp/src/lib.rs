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
//! Reading and delivery know nothing of each other: a process that reads needs no network, and one that delivers reads no
//! recording.

mod attribute;
mod batch;
mod clock;
pub mod delivery;
mod exponential;
pub mod export;
pub mod frame;
mod identity;
mod logs;
mod metrics;
pub mod proto;
mod resource;
pub mod settings;
pub mod signal;
mod spans;

pub use export::{ExportOptions, ExportSummary, export};
pub use signal::{Message, Signal};
