//! The agent's configuration: a TOML file in, checked settings out. A key that is not known, or a value that cannot be
//! meant, is refused with its line, before anything is done with any other.
//!
//! `packaging/agent.toml` shows each key; tests compare it, and the operator's guide, with the fields here.

mod check;
mod error;
mod read;
mod target;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use error::ConfigError;
pub(crate) use target::Target;

use crate::apps::Application;

/// The agent's configuration, `agent.toml`. [`Config::read`] reads it and checks its values.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The name of this host.
    pub host: HostConfig,
    /// The connections that are watched, how often, at what cost.
    pub watch: WatchConfig,
    /// Where files go; without a target there are none.
    pub ship: ShipConfig,
    /// The endpoint that Prometheus reads.
    pub metrics: MetricsConfig,
    /// The endpoint that a supervisor asks.
    pub health: HealthConfig,
    /// The collector that gets metrics and findings.
    pub otlp: OtlpConfig,
    /// Rules that name the application of a connection: the first that matches is used.
    #[serde(rename = "application")]
    pub applications: Vec<Application>,
}

/// Section `[host]`: the name under which this host's rows are shipped.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HostConfig {
    /// Name of the host, in every row and file name. Must differ between hosts.
    pub name: String,
}

impl Default for HostConfig {
    /// Returns the settings with the kernel's name of this host.
    fn default() -> Self {
        let name = nix::unistd::gethostname().unwrap_or_default();
        Self {
            name: name.to_string_lossy().into_owned(),
        }
    }
}

/// Amount that is recorded of every connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Detail {
    /// Statistics of its socket.
    Stats,
    /// These, and its calls as sums, with what they say of delayed ACKs and idle applications.
    #[default]
    Calls,
}

impl Detail {
    /// Returns the name in the configuration and in `fleet_coverage.detail`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stats => "stats",
            Self::Calls => "calls",
        }
    }
}

/// The connections that are watched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WatchedNetns {
    /// Those of every network namespace of the host.
    #[default]
    Host,
    /// Those of the network namespace that the agent runs in.
    Own,
}

/// Section `[watch]`: connections that are read, how often, and the share of a CPU that this may cost.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct WatchConfig {
    /// How much is recorded of every connection.
    pub detail: Detail,
    /// The network namespaces with these connections.
    pub netns: WatchedNetns,
    /// Mean time between two readings of one connection, ms.
    pub poll_ms: u32,
    /// Below this share of one CPU, connections with problems are read more often.
    pub cpu_low: f64,
    /// Above this share of one CPU, connections without problems are read more seldom.
    pub cpu_high: f64,
    /// Length of an interval, s: how often files are written. Even, and a minute has a whole number of them.
    pub interval_s: u32,
}

impl Default for WatchConfig {
    fn default() -> Self {
        Self {
            detail: Detail::default(),
            netns: WatchedNetns::default(),
            poll_ms: 500,
            cpu_low: 0.005,
            cpu_high: 0.015,
            interval_s: 60,
        }
    }
}

/// Section `[ship]`: the target of files, and the spool where they wait for it.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct ShipConfig {
    /// The dataset: a directory, or the URL of an object store (`s3://`, `gs://`, `az://`, `https://`). Empty: no files are
    /// written.
    pub target: String,
    /// Directory on a local disk for files that are not yet delivered. No other agent may use it.
    pub spool: PathBuf,
    /// Most that the spool may hold, bytes.
    pub spool_max_bytes: u64,
}

impl ShipConfig {
    /// Returns whether files are written.
    pub fn is_wanted(&self) -> bool {
        !self.target.is_empty()
    }
}

impl Default for ShipConfig {
    fn default() -> Self {
        Self {
            target: String::new(),
            spool: PathBuf::from("/var/lib/whylat-agent/spool"),
            spool_max_bytes: 1 << 30,
        }
    }
}

/// The endpoint that Prometheus reads; there is none unless it is asked for.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct MetricsConfig {
    /// Address and port to listen on; empty: no endpoint.
    pub listen: String,
    /// Further names under which Prometheus may ask: addresses, `localhost` and the name of the host always work.
    pub names: Vec<String>,
}

/// Section `[health]`: the endpoint that says whether the agent watches, for a kubelet; there is none unless it is asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct HealthConfig {
    /// Address and port to listen on; empty: no endpoint.
    pub listen: String,
}

/// Section `[otlp]`: the OpenTelemetry collector that gets metrics and findings. Variables `OTEL_EXPORTER_OTLP_*` hold for
/// all that is empty here; headers, which may be secrets, are only in them.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct OtlpConfig {
    /// Base URL of the collector; empty: that of the variables, and without one nothing is sent.
    pub endpoint: String,
    /// `http/protobuf` or `grpc`; empty: that of the variables.
    pub protocol: String,
    /// Most that waits for the collector in memory, bytes, of metrics and of logs each.
    pub queue_max_bytes: u64,
}

impl Default for OtlpConfig {
    /// 8 MiB: more than two hours of a host with ten applications, at 51 kB a minute (`examples/export_cost.rs`).
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            protocol: String::new(),
            queue_max_bytes: 8 << 20,
        }
    }
}
