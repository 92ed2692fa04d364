//! Metrics of shipping. They are counted elsewhere, and read when the page is made.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

use super::units::unix_s;
use crate::ship::ShipState;

/// The last state; none before the first.
#[derive(Debug, Default)]
pub(super) struct ShippingMetrics(Mutex<Option<ShipState>>);

impl ShippingMetrics {
    /// Replaces the state of shipping that the metrics show.
    pub(super) fn set(&self, state: &ShipState) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(state.clone());
    }
}

impl Collector for ShippingMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match state.as_ref() {
            Some(state) => {
                counts(&mut encoder, state)?;
                dropped(&mut encoder, state)?;
                gauges(&mut encoder, state)
            }
            None => Ok(()),
        }
    }
}

/// Writes the counters of files, bytes and rows.
fn counts(encoder: &mut DescriptorEncoder<'_>, state: &ShipState) -> fmt::Result {
    let mut count = |name: &str, help: &str, unit: Option<Unit>, value: u64| {
        let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Counter)?;
        ConstCounter::new(value).encode(metric)
    };
    count(
        "ship_delivered_files",
        "Files that the target has taken",
        None,
        state.delivered_files,
    )?;
    count(
        "ship_delivered",
        "Bytes that the target has taken",
        Some(Unit::Bytes),
        state.delivered_bytes,
    )?;
    count(
        "ship_failures",
        "Tries to reach the target that failed",
        None,
        state.failures,
    )?;
    count(
        "ship_dropped_intervals",
        "Intervals that the spool does not have, because its disk hung",
        None,
        state.refused_intervals,
    )?;
    count(
        "ship_late_rows",
        "Rows that were dropped because their hour was closed: the clock was set back",
        None,
        state.given.late_rows,
    )?;
    count(
        "ship_left_files",
        "Files of minutes that the target did not remove although their hour is merged",
        None,
        state.left_files,
    )?;
    count(
        "ship_unmerged_files",
        "Hours that were not merged: the files of their minutes stay",
        None,
        state.given.unmerged_hours,
    )
}

/// Writes the counters of dropped rows, by cause.
fn dropped(encoder: &mut DescriptorEncoder<'_>, state: &ShipState) -> fmt::Result {
    let help = "Files that were dropped: the spool was full, or its disk failed";
    let mut metric =
        encoder.encode_descriptor("ship_dropped_files", help, None, MetricType::Counter)?;
    for (cause, files) in [
        ("full", state.given.full_files),
        ("failed", state.given.failed_files),
    ] {
        let files = ConstCounter::new(files);
        files.encode(metric.encode_family(&[("cause", cause)])?)?;
    }
    Ok(())
}

/// Writes the gauges of waiting files and of the delay.
fn gauges(encoder: &mut DescriptorEncoder<'_>, state: &ShipState) -> fmt::Result {
    let mut gauge = |name: &str, help: &str, unit: Option<Unit>, value: f64| {
        let metric = encoder.encode_descriptor(name, help, unit.as_ref(), MetricType::Gauge)?;
        ConstGauge::new(value).encode(metric)
    };
    gauge(
        "ship_waiting_files",
        "Files that wait for the target",
        None,
        state.spooled_files as f64,
    )?;
    gauge(
        "ship_spool",
        "All bytes in the spool",
        Some(Unit::Bytes),
        state.spooled_bytes as f64,
    )?;
    gauge(
        "ship_delay",
        "Time that the oldest waiting file has waited",
        Some(Unit::Seconds),
        state.delay_s,
    )?;
    if let Some(at) = state.delivered_at {
        gauge(
            "ship_last_delivery_timestamp",
            "When the target last took a file",
            Some(Unit::Seconds),
            unix_s(at),
        )?;
    }
    Ok(())
}
