//! Intervals to the real OpenTelemetry Collector, over both protocols: what it decodes is what was delivered.

use otlp::Signal;
use serde_json::Value;
use testbed::collector::{Collector, leaves, program};
use whylat_agent::config::OtlpConfig;
use whylat_agent::metrics::Metrics;

use super::{busy_interval, export_all, export_with};

/// Returns the number of data points of one request.
fn count_points(line: &Value) -> usize {
    let metrics = leaves(line, &["resourceMetrics", "scopeMetrics", "metrics"]);
    let kinds = ["sum", "gauge", "exponentialHistogram"];
    let of_metric = |metric: &&Value| -> usize {
        let lists = kinds
            .iter()
            .map(|kind| leaves(&metric[kind], &["dataPoints"]).len());
        lists.sum()
    };
    metrics.iter().map(of_metric).sum()
}

/// Exports to a real collector and compares what it received.
fn check(protocol: &str, tls: bool, variables: &[(&str, &str)]) {
    let Some(program) = program() else {
        return;
    };
    let collector = Collector::start(&program, tls);
    let port = collector.ports[usize::from(protocol == "grpc")];
    let scheme = if tls { "https" } else { "http" };
    let config = OtlpConfig {
        endpoint: format!("{scheme}://127.0.0.1:{port}"),
        protocol: protocol.to_owned(),
        ..OtlpConfig::default()
    };
    let certificate = collector.certificate().display().to_string();
    let mut variables = variables.to_vec();
    if tls {
        variables.push(("OTEL_EXPORTER_OTLP_CERTIFICATE", &certificate));
    }
    let intervals = [
        busy_interval(0, 40_000),
        busy_interval(1, 0),
        busy_interval(2, 4_000),
    ];
    let states = export_all(
        export_with(&config, &variables),
        &Metrics::new(),
        &intervals,
    );
    for state in states.values() {
        assert!(
            state.dropped.is_empty() && state.error.is_none(),
            "{state:?}"
        );
    }
    let lines = collector.finish();
    let points: usize = lines.iter().map(count_points).sum();
    let records = lines
        .iter()
        .flat_map(|line| leaves(line, &["resourceLogs", "scopeLogs", "logRecords"]));
    assert_eq!(points as u64, states[&Signal::Metrics].delivered);
    let names: Vec<_> = records.map(|it| it["eventName"].as_str()).collect();
    assert_eq!(names, [Some("whylat.finding"); 2]);
}

#[test]
fn a_collector_gets_intervals_over_http() {
    check("http/protobuf", false, &[]);
}

#[test]
fn a_collector_gets_intervals_over_http_compressed_with_tls() {
    check(
        "http/protobuf",
        true,
        &[("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")],
    );
}

#[test]
fn a_collector_gets_intervals_over_grpc() {
    check("grpc", false, &[]);
}

#[test]
fn a_collector_gets_intervals_over_grpc_with_tls() {
    check("grpc", true, &[("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")]);
}
