//! Export by OTLP: the metrics of each interval, and its findings as logs. In: intervals, and the one registry of metrics. Out:
//! messages to a collector. A thread of its own encodes them, another one delivers them: the collecting thread waits for neither.
//!
//! ```text
//! encode    the encoding thread
//! names     names of metrics → those of OpenTelemetry's conventions
//! points    values of the registry → data points
//! findings  an interval → findings
//! news      how deliveries go → lines for the journal
//! ```

mod encode;
mod findings;
mod names;
mod news;
mod points;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use otlp::attribute::attribute;
use otlp::delivery::{DeliveryError, DeliveryQueue, PreparedQueue, QueueOptions, SignalState};
use otlp::metric_table::{TEMPORALITY_VARIABLE, temporality};
use otlp::proto::{KeyValue, Temporality};
use otlp::settings::DeliveryOptions;
use otlp::{ResourceSource, Signal, resource};

use crate::Interval;
use crate::apps::container_of;
use crate::config::OtlpConfig;
use crate::metrics::Metrics;
use crate::ship::Backoff;
use encode::{EncodeThread, Encoder};
use findings::FindingSource;
pub use news::DeliveryNews;
use points::PointSource;

/// Signals that an agent has.
const SIGNALS: [Signal; 2] = [Signal::Metrics, Signal::Logs];

/// Name of the agent's own service, unless the user gives one.
const SERVICE: &str = "whylat-agent";

/// Nothing can be exported.
#[derive(Debug, thiserror::Error)]
#[error("cannot export by OTLP: {0}")]
pub struct ExportError(#[from] DeliveryError);

/// Settings and certificates of an export. It is made before privileges are dropped, and started after.
pub struct PreparedExport {
    queue: PreparedQueue,
    temporality: Temporality,
}

impl PreparedExport {
    /// Reads the settings of the export; `None`: no collector is named.
    ///
    /// # Errors
    /// When a variable cannot be meant, or a file of certificates cannot be read.
    pub fn new(config: &OtlpConfig) -> Result<Option<Self>, ExportError> {
        Self::with_pauses(config, &|name| std::env::var(name).ok(), |failures| {
            Backoff::default().pause_after(failures)
        })
    }

    /// Reads the settings as [`PreparedExport::new`], with other variables and pauses.
    ///
    /// # Errors
    /// As [`PreparedExport::new`].
    pub fn with_pauses(
        config: &OtlpConfig,
        lookup: &dyn Fn(&str) -> Option<String>,
        pause_after: fn(u32) -> Duration,
    ) -> Result<Option<Self>, ExportError> {
        let options = DeliveryOptions {
            endpoint: Some(config.endpoint.clone()).filter(|it| !it.is_empty()),
            protocol: config.protocol.parse().ok(),
            headers: Vec::new(),
        };
        let queue = QueueOptions {
            bytes_most: config.queue_max_bytes,
            pause_after,
        };
        let prepared = PreparedQueue::new(&SIGNALS, &options, lookup, queue)?;
        let preference = lookup(TEMPORALITY_VARIABLE).unwrap_or_default();
        Ok(prepared.map(|queue| Self {
            queue,
            temporality: temporality(&preference),
        }))
    }

    /// Starts the threads that encode and deliver.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(self, host: &str, kernel: &str) -> Result<TelemetryExport, ExportError> {
        let queue = Arc::new(self.queue.start().map_err(DeliveryError::from)?);
        let service = resource::own_service_name().unwrap_or_else(|| SERVICE.to_owned());
        let mut resources = ResourceSource::new(host, kernel);
        resources.describe(&service, own_attributes());
        let encoder = EncodeThread::start(Encoder {
            queue: Arc::clone(&queue),
            resources,
            points: PointSource::new(service, self.temporality),
            findings: FindingSource::default(),
        });
        Ok(TelemetryExport {
            queue,
            encoder: Some(encoder.map_err(DeliveryError::from)?),
        })
    }
}

/// An export under way.
pub struct TelemetryExport {
    queue: Arc<DeliveryQueue>,
    /// `None`: the end has begun.
    encoder: Option<EncodeThread>,
}

impl TelemetryExport {
    /// Returns the address of each signal, without possible secrets.
    pub fn addresses(&self) -> &BTreeMap<Signal, String> {
        self.queue.addresses()
    }

    /// Queues an interval for encoding, which also adds it to `metrics`; false: the queue is full.
    pub fn add_interval(&self, interval: &Arc<Interval>, metrics: &Arc<Metrics>) -> bool {
        let encoder = self.encoder.as_ref();
        encoder.is_some_and(|it| it.add_interval(interval, metrics))
    }

    /// Returns the number of intervals that were encoded.
    pub fn encoded_intervals(&self) -> u64 {
        self.encoder.as_ref().map_or(0, EncodeThread::encoded)
    }

    /// Returns the state of each signal's delivery.
    pub fn states(&self) -> BTreeMap<Signal, SignalState> {
        self.queue.states()
    }

    /// Begins the end: queued intervals are encoded, and tried until `end`.
    pub fn end_by(&mut self, end: Instant) {
        if let Some(encoder) = self.encoder.take() {
            encoder.finish();
        }
        self.queue.end_by(end);
    }

    /// Waits for the end, and returns the last state of each signal.
    pub fn join(self) -> BTreeMap<Signal, SignalState> {
        if let Some(encoder) = self.encoder {
            encoder.finish();
        }
        // the encoder had the other handle
        Arc::into_inner(self.queue).map_or_else(BTreeMap::new, DeliveryQueue::join)
    }
}

/// Returns the attributes of the agent's own process.
fn own_attributes() -> Vec<KeyValue> {
    let mut attributes = vec![
        attribute("service.version", env!("CARGO_PKG_VERSION")),
        attribute("process.pid", std::process::id()),
    ];
    let container = own_container().ok().flatten();
    attributes.extend(container.map(|id| attribute("container.id", id)));
    attributes
}

/// Returns the container in which the agent runs. In a cgroup namespace its own path has no name: files that the engine
/// mounts have it then.
fn own_container() -> io::Result<Option<String>> {
    let cgroup = std::fs::read_to_string("/proc/self/cgroup")?;
    if let Some(id) = cgroup.lines().find_map(container_of) {
        return Ok(Some(id.to_owned()));
    }
    let mounts = std::fs::read_to_string("/proc/self/mountinfo")?;
    let mut of_engine = mounts.lines().filter_map(|line| {
        // proc_pid_mountinfo(5): the fourth field is the path within the file system
        let root = line.split(' ').nth(3)?;
        container_of(root.split_once("/containers/")?.1)
    });
    Ok(of_engine.next().map(str::to_owned))
}
