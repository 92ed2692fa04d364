//! Values that have the right type and still cannot be meant.

use std::net::SocketAddr;

use ::otlp::settings::Protocol;
use table::fleet::BIN_NS;
use url::Url;

use super::error::InvalidValue;
use super::target::Target;
use super::{Config, OtlpConfig, ShipConfig, WatchConfig};
use crate::apps::ApplicationRules;

/// Bounds of the mean time between readings, ms: what SNAP measured ends at 10 s (figure 8); ten milliseconds are the
/// kernel's own timer tick on common configurations, below which a reading has nothing new.
const POLL_MS: std::ops::RangeInclusive<u32> = 10..=10_000;

/// Least that a spool must be able to hold: an hour of a host with 150 connections at 50 MB a day.
const SPOOL_BYTES: u64 = 4 << 20;

/// Least that the queue to a collector must be able to hold: a full message (`otlp::metric_table`).
const QUEUE_BYTES: u64 = 1 << 20;

/// Returns the first value that cannot be meant.
pub(super) fn first_fault(config: &Config) -> Option<InvalidValue> {
    host(config)
        .or_else(|| watch(&config.watch))
        .or_else(|| ship(&config.ship))
        .or_else(|| listen("metrics", &config.metrics.listen))
        .or_else(|| listen("health", &config.health.listen))
        .or_else(|| otlp(&config.otlp))
        .or_else(|| {
            ApplicationRules::new(&config.applications)
                .err()
                .map(InvalidValue::from)
        })
}

/// Checks `[host]`; None if all is right.
fn host(config: &Config) -> Option<InvalidValue> {
    let name = &config.host.name;
    let fault = |what: &str| {
        let hint = "give the name of this host for others, as in topology.json";
        Some(InvalidValue::new("host", "name", what.to_owned(), hint))
    };
    if name.is_empty() {
        return fault(" is empty, and the kernel has no name for this host");
    }
    if name.chars().any(char::is_control) {
        return fault(" holds control characters");
    }
    // DNS allows no longer ones (RFC 1035, 2.3.4), and file names must hold it
    if name.len() > 253 {
        return fault(" is longer than 253 bytes");
    }
    None
}

/// Checks `[watch]`; None if all is right.
fn watch(watch: &WatchConfig) -> Option<InvalidValue> {
    if !POLL_MS.contains(&watch.poll_ms) {
        let what = format!(" = {}: not between 10 and 10000", watch.poll_ms);
        return Some(InvalidValue::new(
            "watch",
            "poll_ms",
            what,
            "500 is the default",
        ));
    }
    let (low, high) = (watch.cpu_low, watch.cpu_high);
    if !(high > 0.0 && high <= 1.0) {
        let what = format!(" = {high}: not a share of one CPU");
        let hint = "0.015 is the default: 1.5 % of one CPU";
        return Some(InvalidValue::new("watch", "cpu_high", what, hint));
    }
    if !(low >= 0.0 && low < high) {
        let what = format!(" = {low}: not between 0 and cpu_high = {high}");
        let hint = "0.005 is the default: 0.5 % of one CPU";
        return Some(InvalidValue::new("watch", "cpu_low", what, hint));
    }
    let bin_s = (BIN_NS / 1_000_000_000) as u32;
    let whole = watch.interval_s > 0
        && 60 % watch.interval_s == 0
        && watch.interval_s.is_multiple_of(bin_s);
    if !whole {
        let what = format!(
            " = {}: it must divide a minute, and be a multiple of bins of {bin_s} s",
            watch.interval_s
        );
        let hint = "60, or for a demonstration 2, 4, 6, 10, 12, 20 or 30";
        return Some(InvalidValue::new("watch", "interval_s", what, hint));
    }
    None
}

/// Checks `[ship]`; None if all is right.
fn ship(ship: &ShipConfig) -> Option<InvalidValue> {
    if !ship.is_wanted() {
        if *ship == ShipConfig::default() {
            return None;
        }
        let hint =
            "target = \"/srv/whylat\" or \"s3://BUCKET/whylat\"; without files, remove the section";
        return Some(InvalidValue::new(
            "ship",
            "target",
            " is missing".to_owned(),
            hint,
        ));
    }
    if let Err(why) = Target::parse(&ship.target) {
        let hint = "a directory with an absolute path, or s3://, gs://, az:// or https:// with bucket and \
            folder; credentials come from the environment";
        return Some(InvalidValue::new(
            "ship",
            "target",
            format!(": {why}"),
            hint,
        ));
    }
    if !ship.spool.is_absolute() {
        let what = format!(" = {:?}: not an absolute path", ship.spool);
        let hint = "/var/lib/whylat-agent/spool is the default";
        return Some(InvalidValue::new("ship", "spool", what, hint));
    }
    if ship.spool_max_bytes < SPOOL_BYTES {
        let what = format!(" = {}: less than {SPOOL_BYTES}", ship.spool_max_bytes);
        let hint = "1073741824 is the default: about twenty days of a host with 150 connections";
        return Some(InvalidValue::new("ship", "spool_max_bytes", what, hint));
    }
    None
}

/// Checks `[metrics]`; None if all is right.
fn listen(section: &'static str, address: &str) -> Option<InvalidValue> {
    if address.is_empty() || address.parse::<SocketAddr>().is_ok() {
        return None;
    }
    let what = format!(" = {address:?}: not an address with a port");
    let hint = "\"127.0.0.1:9464\" for this host, \"0.0.0.0:9464\" for others too, or \"\" for no endpoint";
    Some(InvalidValue::new(section, "listen", what, hint))
}

/// Checks `[otlp]`; None if all is right.
fn otlp(otlp: &OtlpConfig) -> Option<InvalidValue> {
    let fault = |key, what: String, hint| Some(InvalidValue::new("otlp", key, what, hint));
    if !otlp.endpoint.is_empty() {
        let hint = "\"http://127.0.0.1:4318\" for a collector on this host; secrets belong in OTEL_EXPORTER_OTLP_HEADERS";
        let Ok(url) = Url::parse(&otlp.endpoint) else {
            return fault("endpoint", " is no URL".to_owned(), hint);
        };
        if !matches!(url.scheme(), "http" | "https") || !url.has_host() {
            let what = " is no http:// or https:// URL".to_owned();
            return fault("endpoint", what, hint);
        }
        // the value is not repeated: it may hold a secret
        if !url.username().is_empty() || url.password().is_some() || url.query().is_some() {
            let what = " holds credentials or a query".to_owned();
            return fault("endpoint", what, hint);
        }
    }
    if !otlp.protocol.is_empty() && otlp.protocol.parse::<Protocol>().is_err() {
        let what = format!(" = {:?}: not known", otlp.protocol);
        return fault("protocol", what, "\"http/protobuf\" or \"grpc\"");
    }
    if otlp.queue_max_bytes < QUEUE_BYTES {
        let what = format!(" = {}: less than {QUEUE_BYTES}", otlp.queue_max_bytes);
        return fault("queue_max_bytes", what, "8388608 is the default");
    }
    None
}
