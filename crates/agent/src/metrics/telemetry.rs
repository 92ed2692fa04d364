//! Metrics of the export by OTLP. They are counted elsewhere, and set before a page is made.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use otlp::Signal;
use otlp::delivery::{DropCause, SignalState};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// The last state of each signal; none before the first.
#[derive(Debug, Default)]
pub(super) struct TelemetryMetrics {
    states: Mutex<BTreeMap<Signal, SignalState>>,
    unencoded: AtomicU64,
}

impl TelemetryMetrics {
    /// Replaces the states of export, by signal.
    pub(super) fn set(&self, states: BTreeMap<Signal, SignalState>) {
        *self.states.lock().unwrap_or_else(PoisonError::into_inner) = states;
    }

    /// Counts an interval that was not exported because encoding was behind.
    pub(super) fn note_unencoded(&self) {
        self.unencoded.fetch_add(1, Ordering::Relaxed);
    }
}

impl Collector for TelemetryMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        if states.is_empty() {
            return Ok(());
        }
        let mut count = |name: &str, help: &str, of: fn(&SignalState) -> u64| {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for (signal, state) in states.iter() {
                let labels = [("signal", signal.name())];
                let counter = ConstCounter::new(of(state));
                counter.encode(metric.encode_family(&labels)?)?;
            }
            Ok(())
        };
        count(
            "otlp_delivered_items",
            "Data points and log records that the collector took",
            |it| it.delivered,
        )?;
        count(
            "otlp_failures",
            "Tries to reach the collector that failed",
            |it| it.failures,
        )?;
        let help = "Data points and log records that the collector did not get";
        let mut metric =
            encoder.encode_descriptor("otlp_dropped_items", help, None, MetricType::Counter)?;
        for (signal, state) in states.iter() {
            for cause in DropCause::ALL {
                let labels = [("signal", signal.name()), ("cause", cause.name())];
                let items = state.dropped.get(&cause).copied().unwrap_or_default();
                ConstCounter::new(items).encode(metric.encode_family(&labels)?)?;
            }
        }
        let help = "Intervals without findings for the collector, because the agent had no CPU time to encode \
            them; a later interval has their numbers";
        let metric =
            encoder.encode_descriptor("otlp_dropped_intervals", help, None, MetricType::Counter)?;
        ConstCounter::new(self.unencoded.load(Ordering::Relaxed)).encode(metric)?;
        let mut gauge = |name: &str, help: &str, unit, of: fn(&SignalState) -> u64| {
            let mut metric = encoder.encode_descriptor(name, help, unit, MetricType::Gauge)?;
            for (signal, state) in states.iter() {
                let labels = [("signal", signal.name())];
                let gauge = ConstGauge::new(of(state) as f64);
                gauge.encode(metric.encode_family(&labels)?)?;
            }
            Ok(())
        };
        gauge(
            "otlp_waiting_items",
            "Data points and log records that wait for the collector",
            None,
            |it| it.waiting,
        )?;
        gauge(
            "otlp_waiting",
            "Bytes of messages that wait for the collector",
            Some(&Unit::Bytes),
            |it| it.waiting_bytes,
        )
    }
}
