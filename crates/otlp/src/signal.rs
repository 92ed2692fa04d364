//! The kinds of data that OTLP has, and a message of one.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Kind of data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Signal {
    /// Numbers.
    Metrics,
    /// Findings.
    Logs,
    /// Requests.
    Traces,
}

impl Signal {
    /// All of them, in the order in which they are sent.
    pub const ALL: [Self; 3] = [Self::Metrics, Self::Logs, Self::Traces];

    /// Returns the name in URLs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Metrics => "metrics",
            Self::Logs => "logs",
            Self::Traces => "traces",
        }
    }

    /// Returns the path of the signal's gRPC method.
    pub const fn grpc_path(self) -> &'static str {
        match self {
            Self::Metrics => "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
            Self::Logs => "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
            Self::Traces => "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
        }
    }

    /// Returns what the signal's messages consist of, such as log records.
    pub const fn item(self) -> &'static str {
        match self {
            Self::Metrics => "data point",
            Self::Logs => "log record",
            Self::Traces => "span",
        }
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One request to a collector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Kind of its data.
    pub signal: Signal,
    /// Data points, log records or spans in it.
    pub items: u64,
    /// The protobuf message.
    pub bytes: Vec<u8>,
}
