//! Exports to the real OpenTelemetry Collector, which decodes everything: both protocols, compression, TLS.

use serde_json::Value;
use testbed::collector::{Collector, leaves, program};
use testbed::finish;

use super::{REQUESTS, export, recording};

/// Numbers of what a collector got.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    spans: usize,
    points: usize,
    records: usize,
    histograms: usize,
}

impl Counts {
    fn add(&mut self, line: &Value) {
        self.spans += leaves(line, &["resourceSpans", "scopeSpans", "spans"]).len();
        self.records += leaves(line, &["resourceLogs", "scopeLogs", "logRecords"]).len();
        for metric in leaves(line, &["resourceMetrics", "scopeMetrics", "metrics"]) {
            self.points += leaves(&metric["sum"], &["dataPoints"]).len();
            let points = leaves(&metric["exponentialHistogram"], &["dataPoints"]);
            self.histograms += points.len();
            self.points += points.len();
        }
    }

    /// Returns what the command must print of it.
    fn lines(&self) -> [String; 3] {
        let line = |signal: &str, count: usize, item: &str| {
            let plural = if count == 1 { "" } else { "s" };
            format!("{signal}: {count} {item}{plural} to ")
        };
        [
            line("metrics", self.points, "data point"),
            line("logs", self.records, "log record"),
            line("traces", self.spans, "span"),
        ]
    }
}

/// Exports to a collector, and compares what it got with what the command says.
fn check(tls: bool, protocol: &str, variables: &[(&str, &str)]) {
    let Some(program) = program() else {
        return;
    };
    let collector = Collector::start(&program, tls);
    let (_folder, path) = recording(REQUESTS);
    let port = collector.ports[usize::from(protocol == "grpc")];
    let scheme = if tls { "https" } else { "http" };
    let url = format!("{scheme}://127.0.0.1:{port}");
    let mut command = export(
        &path,
        &["--tries", "1", "--protocol", protocol, "--endpoint", &url],
    );
    command.envs(variables.iter().copied());
    if tls {
        let untrusted = finish(&mut command);
        untrusted.assert_status(1);
        assert!(untrusted.err.contains("certificate"), "{}", untrusted.err);
        command.env("OTEL_EXPORTER_OTLP_CERTIFICATE", collector.certificate());
    }
    let output = finish(&mut command);
    output.assert_status(0);
    let mut counts = Counts::default();
    collector.finish().iter().for_each(|it| counts.add(it));
    assert_eq!(counts.histograms, 2);
    for line in counts.lines() {
        assert!(output.out.contains(&line), "{line}: {}", output.out);
    }
    assert_eq!(output.err, "");
}

#[test]
fn a_collector_gets_everything_over_http() {
    check(false, "http/protobuf", &[]);
}

#[test]
fn a_collector_gets_everything_over_http_compressed() {
    check(
        false,
        "http/protobuf",
        &[("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")],
    );
}

#[test]
fn a_collector_gets_everything_over_grpc() {
    check(false, "grpc", &[]);
}

#[test]
fn a_collector_gets_everything_over_grpc_compressed() {
    check(false, "grpc", &[("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")]);
}

#[test]
fn a_collector_gets_everything_over_tls() {
    check(true, "http/protobuf", &[]);
}

#[test]
fn a_collector_gets_everything_over_grpc_with_tls() {
    check(true, "grpc", &[]);
}

#[test]
fn http_to_the_port_of_grpc_names_the_protocol() {
    let Some(program) = program() else {
        return;
    };
    let collector = Collector::start(&program, false);
    let (_folder, path) = recording(REQUESTS);
    for (protocol, port) in [
        ("http/protobuf", collector.ports[1]),
        ("grpc", collector.ports[0]),
    ] {
        let url = format!("http://127.0.0.1:{port}");
        let options = ["--tries", "1", "--protocol", protocol, "--endpoint", &url];
        let output = finish(&mut export(&path, &options));
        output.assert_status(1);
        assert!(output.err.contains("--protocol"), "{}", output.err);
    }
}
