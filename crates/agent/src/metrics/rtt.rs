//! Distribution of round-trip times, by application: of each connection with activity the smoothed one, once an interval.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use otlp::exponential::DurationHistogram;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Unit;

/// Bounds on the page, as powers of two, s: 1 us to 16 s in steps of four. Finer buckets would be most of the page.
const EXPONENTS: std::ops::RangeInclusive<i32> = -20..=4;
const EXPONENT_STEP: usize = 2;

/// Name of the metric within the registry.
const NAME: &str = "tcp_rtt";

/// Name of the metric, with its unit.
pub(crate) const RTT_NAME: &str = "whylat_tcp_rtt_seconds";

/// Description of the metric.
pub(crate) const RTT_HELP: &str =
    "Smoothed round-trip times of connections with activity, each once an interval";

/// Distributions by application.
#[derive(Debug, Default)]
pub(super) struct RttMetrics(Mutex<BTreeMap<String, DurationHistogram>>);

impl RttMetrics {
    /// Locks the histograms, by application.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, DurationHistogram>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one connection's RTT to its application's histogram.
    pub(super) fn add(&self, application: &str, us: i32) {
        let ns = u64::try_from(us).unwrap_or_default() * 1_000;
        let mut all = self.lock();
        match all.get_mut(application) {
            Some(histogram) => histogram.add(ns),
            None => all.entry(application.to_owned()).or_default().add(ns),
        }
    }

    /// Returns the histograms of all applications.
    pub(super) fn all(&self) -> BTreeMap<String, DurationHistogram> {
        self.lock().clone()
    }
}

impl Collector for RttMetrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let all = self.lock();
        if all.is_empty() {
            return Ok(());
        }
        let seconds = Some(&Unit::Seconds);
        let mut metric =
            encoder.encode_descriptor(NAME, RTT_HELP, seconds, MetricType::Histogram)?;
        for (application, histogram) in all.iter() {
            let (count, sum) = histogram.totals();
            let mut below = 0;
            let mut buckets = Vec::new();
            for exponent in EXPONENTS.step_by(EXPONENT_STEP) {
                let until = histogram.count_to(exponent);
                buckets.push((f64::from(exponent).exp2(), until - below));
                below = until;
            }
            buckets.push((f64::INFINITY, count - below));
            let labels = [("application", application.as_str())];
            let mut of_one = metric.encode_family(&labels)?;
            of_one.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
        }
        Ok(())
    }
}
