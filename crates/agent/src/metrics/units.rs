//! Units of metrics: Prometheus has seconds and counts as floating point, Unix time included.

use std::sync::atomic::{AtomicI64, AtomicU64};
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

/// A counter of seconds.
pub(super) type SecondsCounter = Counter<f64, AtomicU64>;
/// A gauge of seconds.
pub(super) type SecondsGauge = Gauge<f64, AtomicU64>;
/// A gauge of whole numbers.
pub(super) type CountGauge = Gauge<i64, AtomicI64>;

/// Returns seconds of a time in microseconds.
pub(super) fn seconds_of(us: i64) -> f64 {
    us.max(0) as f64 / 1e6
}

/// Returns a count, which is never negative.
pub(super) fn count_of(count: i64) -> u64 {
    count.max(0).cast_unsigned()
}

/// Returns seconds since 1970-01-01 UTC.
pub(super) fn unix_s(time: SystemTime) -> f64 {
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}
