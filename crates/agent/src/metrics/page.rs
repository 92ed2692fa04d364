//! All metrics together, and the page that they make.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use otlp::Signal;
use otlp::delivery::SignalState;
use otlp::exponential::DurationHistogram;
use prometheus_client::encoding::{prometheus_text, text};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::agent::AgentMetrics;
use super::families::{self, MetricFamily};
use super::rtt::RttMetrics;
use super::shipping::ShippingMetrics;
use super::tcp::TcpMetrics;
use super::telemetry::TelemetryMetrics;
use crate::Interval;
use crate::ship::ShipState;

/// Text formats that Prometheus reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextFormat {
    /// Its own, 0.0.4.
    Prometheus,
    /// OpenMetrics 1.0.0.
    OpenMetrics,
}

impl TextFormat {
    /// Returns the value of the header `Content-Type`.
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
    tcp: Mutex<TcpMetrics>,
    agent: AgentMetrics,
    shipping: Arc<ShippingMetrics>,
    telemetry: Arc<TelemetryMetrics>,
    rtt: Arc<RttMetrics>,
}

impl Metrics {
    /// Makes metrics of zero, for an agent that has just read its configuration.
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::with_prefix("whylat");
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "Version of the agent", version);
        let tcp = TcpMetrics::register(&mut registry);
        let rtt = Arc::clone(tcp.rtt());
        let agent = AgentMetrics::register(&mut registry);
        let shipping = Arc::<ShippingMetrics>::default();
        registry.register_collector(Box::new(Arc::clone(&shipping)));
        let telemetry = Arc::<TelemetryMetrics>::default();
        registry.register_collector(Box::new(Arc::clone(&telemetry)));
        let metrics = Self {
            registry,
            tcp: Mutex::new(tcp),
            agent,
            shipping,
            telemetry,
            rtt,
        };
        metrics.note_reload(true);
        Arc::new(metrics)
    }

    /// Adds the numbers of an interval.
    pub fn interval(&self, interval: &Interval) {
        let mut tcp = self.tcp.lock().unwrap_or_else(PoisonError::into_inner);
        tcp.interval(interval);
        self.agent.coverage(&interval.coverage);
    }

    /// Sets the state of shipping: to be called before each page, and after each change.
    pub fn shipping(&self, state: &ShipState) {
        self.shipping.set(state);
    }

    /// Sets the state of the export by OTLP.
    pub fn telemetry(&self, states: BTreeMap<Signal, SignalState>) {
        self.telemetry.set(states);
    }

    /// Counts an interval that was not encoded for the collector.
    pub fn note_unencoded(&self) {
        self.telemetry.note_unencoded();
    }

    /// Returns all metrics as values; of distributions only the names ([`Metrics::distributions`]).
    pub fn families(&self) -> Vec<MetricFamily> {
        let page = self.page(TextFormat::OpenMetrics).unwrap_or_default();
        families::parse(&page)
    }

    /// Returns the distributions of round-trip times, by application.
    pub fn distributions(&self) -> BTreeMap<String, DurationHistogram> {
        self.rtt.all()
    }

    /// Sets the number of probes that are missing.
    pub fn set_probes_off(&self, number: usize) {
        self.agent.set_probes_off(number);
    }

    /// Counts a reload of the configuration, applied or refused.
    pub fn note_reload(&self, is_taken: bool) {
        self.agent.note_reload(is_taken);
    }

    /// Returns all metrics as text.
    ///
    /// # Errors
    /// When a metric cannot be written as text, which none of these does.
    pub fn page(&self, format: TextFormat) -> Result<String, fmt::Error> {
        let mut page = String::new();
        match format {
            TextFormat::Prometheus => prometheus_text::encode(&mut page, &self.registry)?,
            TextFormat::OpenMetrics => text::encode(&mut page, &self.registry)?,
        }
        Ok(page)
    }
}
