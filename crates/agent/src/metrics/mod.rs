//! What Prometheus is told. In: intervals, and how shipping is getting on. Out: a page in one of Prometheus' text formats.
//!
//! Numbers are of applications and of the agent, never of a connection: how many series there are does not depend on what
//! happens on the host. Names and units follow Prometheus' conventions; the page is cheap enough for any scrape interval.

mod serve;
mod shipping;
mod tcp;

use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::encoding::{EncodeLabelSet, prometheus_text, text};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use table::fleet::FleetCoverage;

pub use serve::{Endpoint, EndpointError, TOKEN_VARIABLE, Token};

use self::shipping::Shipping;
use self::tcp::Tcp;
use crate::Interval;
use crate::ship::ShipState;

/// A counter of seconds.
type Seconds = Counter<f64, AtomicU64>;
/// A gauge of seconds.
type SecondsNow = Gauge<f64, AtomicU64>;
/// A gauge of whole numbers.
type Now = Gauge<i64, AtomicI64>;

/// Text formats that Prometheus reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Its own, 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl Format {
    /// As in the header `Content-Type`.
    pub const fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => prometheus_text::CONTENT_TYPE,
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// All numbers. Shared between the agent, which changes them, and the endpoint, which shows them.
pub struct Metrics {
    registry: Registry,
    tcp: Mutex<Tcp>,
    agent: Agent,
    shipping: Arc<Shipping>,
}

/// Of a metric that is one series, or none.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct NoLabels {}

/// Numbers of the agent itself.
struct Agent {
    intervals: Counter,
    last_interval: SecondsNow,
    cpu: Seconds,
    /// No series where the kernel does not measure it.
    bpf: Family<NoLabels, Seconds>,
    resident: Now,
    polls: Counter,
    poll_gap: SecondsNow,
    lost: Counter,
    lacks: Now,
    connections: Now,
    reload_ok: Now,
    reloaded: SecondsNow,
}

impl Metrics {
    /// Zeros, of an agent whose configuration has just been read.
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("whylat");
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of the agent", version);
        let tcp = Mutex::new(Tcp::register(&mut registry));
        let agent = Agent::register(&mut registry);
        let shipping = Arc::<Shipping>::default();
        registry.register_collector(Box::new(Arc::clone(&shipping)));
        let metrics = Self {
            registry,
            tcp,
            agent,
            shipping,
        };
        metrics.reloaded(true);
        Arc::new(metrics)
    }

    /// Adds what an interval tells.
    pub fn interval(&self, interval: &Interval) {
        let mut tcp = self.tcp.lock().unwrap_or_else(PoisonError::into_inner);
        tcp.interval(interval);
        self.agent.coverage(&interval.coverage);
    }

    /// How shipping is getting on: to be told before each page, and whenever it is known.
    pub fn shipping(&self, state: &ShipState) {
        self.shipping.set(state);
    }

    /// So many things cannot be seen.
    pub fn lacks(&self, number: usize) {
        self.agent
            .lacks
            .set(i64::try_from(number).unwrap_or(i64::MAX));
    }

    /// A configuration was read again: taken up, or refused and the one before kept.
    pub fn reloaded(&self, is_taken: bool) {
        self.agent.reload_ok.set(i64::from(is_taken));
        if is_taken {
            self.agent.reloaded.set(unix_s(SystemTime::now()));
        }
    }

    /// The page.
    ///
    /// # Errors
    /// When a metric cannot be written as text, which none of these does.
    pub fn page(&self, format: Format) -> Result<String, fmt::Error> {
        let mut page = String::new();
        match format {
            Format::Prometheus => prometheus_text::encode(&mut page, &self.registry)?,
            Format::OpenMetrics => text::encode(&mut page, &self.registry)?,
        }
        Ok(page)
    }
}

impl Agent {
    fn register(registry: &mut Registry) -> Self {
        let agent = Self {
            intervals: Counter::default(),
            last_interval: Gauge::default(),
            cpu: Counter::default(),
            bpf: Family::default(),
            resident: Gauge::default(),
            polls: Counter::default(),
            poll_gap: Gauge::default(),
            lost: Counter::default(),
            lacks: Gauge::default(),
            connections: Gauge::default(),
            reload_ok: Gauge::default(),
            reloaded: Gauge::default(),
        };
        agent.register_own(registry.sub_registry_with_prefix("agent"));
        registry.register(
            "tcp_connections",
            "Connections open at the end of the last interval",
            agent.connections.clone(),
        );
        registry.register(
            "config_last_reload_successful",
            "Whether the configuration that was last read was taken up",
            agent.reload_ok.clone(),
        );
        registry.register_with_unit(
            "config_last_reload_success_timestamp",
            "When a configuration was last taken up",
            Unit::Seconds,
            agent.reloaded.clone(),
        );
        agent
    }

    fn register_own(&self, own: &mut Registry) {
        let seconds = Unit::Seconds;
        own.register(
            "intervals",
            "Intervals recorded since the agent began",
            self.intervals.clone(),
        );
        own.register_with_unit(
            "last_interval_timestamp",
            "Begin of the last interval",
            seconds.clone(),
            self.last_interval.clone(),
        );
        own.register_with_unit(
            "cpu",
            "CPU time of the agent's process",
            seconds.clone(),
            self.cpu.clone(),
        );
        own.register_with_unit(
            "bpf",
            "CPU time of the agent's BPF programs, where the kernel measures it",
            seconds.clone(),
            self.bpf.clone(),
        );
        own.register_with_unit(
            "resident_memory",
            "Resident memory of the agent",
            Unit::Bytes,
            self.resident.clone(),
        );
        own.register("polls", "Readings of connections", self.polls.clone());
        own.register_with_unit(
            "poll_gap",
            "Longest time between two readings of one connection in the last interval",
            seconds,
            self.poll_gap.clone(),
        );
        own.register(
            "lost_records",
            "Records that were lost in the kernel or in the agent",
            self.lost.clone(),
        );
        own.register(
            "lacks",
            "What the agent cannot see of what it is to watch: fleet_coverage and its log say what, and why",
            self.lacks.clone(),
        );
    }

    fn coverage(&self, row: &FleetCoverage) {
        self.intervals.inc();
        self.last_interval.set(row.begin_ns as f64 / 1e9);
        self.cpu.inc_by(seconds_of(row.cpu_us));
        if let Some(bpf_us) = row.bpf_us {
            self.bpf
                .get_or_create(&NoLabels {})
                .inc_by(seconds_of(bpf_us));
        }
        self.resident.set(row.rss_bytes);
        self.polls.inc_by(count_of(row.polls));
        self.poll_gap.set(seconds_of(row.poll_gap_us));
        self.lost.inc_by(count_of(row.lost));
        self.connections.set(row.connections);
    }
}

/// Seconds of a time in microseconds.
fn seconds_of(us: i64) -> f64 {
    us.max(0) as f64 / 1e6
}

/// A count, which is never negative.
fn count_of(count: i64) -> u64 {
    count.max(0).cast_unsigned()
}

/// Seconds since 1970-01-01 UTC.
fn unix_s(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
