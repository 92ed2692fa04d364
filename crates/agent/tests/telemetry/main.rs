//! Export by OTLP: what arrives, decoded by the official schema, beside what the page for Prometheus says; and each way in which
//! it does not arrive. No privileges needed: intervals have known rows.

mod collector;
#[path = "../common/mod.rs"]
mod common;
mod decoded;
mod refusals;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use common::{HOUR_NS, MINUTE_NS, interval, row};
use decoded::{Point, Record, points, records};
use otlp::Signal;
use otlp::delivery::SignalState;
use probe::processes::Workload;
use serde_json::json;
use table::fleet::{FleetConnection, FleetCoverage, FleetInterval};
use table::{Columns, WorkloadKind, WorkloadSource};
use testbed::receiver::{Answer, Receiver};
use whylat_agent::config::OtlpConfig;
use whylat_agent::metrics::{Metrics, TextFormat};
use whylat_agent::telemetry::{PreparedExport, TelemetryExport};
use whylat_agent::{ContainerIdentity, Interval};

/// Name of the host of all exports here.
const HOST: &str = "web-1";

/// Starts an export to a collector, with pauses that tests can afford.
fn export(endpoint: &str, variables: &[(&str, &str)]) -> TelemetryExport {
    let config = OtlpConfig {
        endpoint: endpoint.to_owned(),
        ..OtlpConfig::default()
    };
    export_with(&config, variables)
}

/// Starts an export with these variables of the environment.
fn export_with(config: &OtlpConfig, variables: &[(&str, &str)]) -> TelemetryExport {
    let lookup = |name: &str| {
        let found = variables.iter().find(|(key, _)| *key == name);
        found.map(|(_, value)| (*value).to_owned())
    };
    let pause_after = |_| Duration::from_millis(1);
    let prepared = PreparedExport::with_pauses(config, &lookup, pause_after);
    let prepared = prepared.expect("settings").expect("an endpoint");
    prepared.start(HOST, "6.18 test").expect("a thread")
}

/// Exports intervals, and returns the last states when all has come to an end.
fn export_all(
    export: TelemetryExport,
    metrics: &Arc<Metrics>,
    intervals: &[Interval],
) -> BTreeMap<Signal, SignalState> {
    for interval in intervals {
        put_interval(&export, metrics, interval.clone());
    }
    export.join_all()
}

/// Gives an interval to the export, and waits until its messages are in the queue.
fn put_interval(export: &TelemetryExport, metrics: &Arc<Metrics>, interval: Interval) {
    let encoded = export.encoded_intervals();
    assert!(
        export.add_interval(&Arc::new(interval), metrics),
        "the one before is encoded"
    );
    testbed::until("the interval encoded", || {
        (export.encoded_intervals() > encoded).then_some(())
    });
}

/// An end that comes when all is delivered.
trait JoinAll {
    fn join_all(self) -> BTreeMap<Signal, SignalState>;
}

impl JoinAll for TelemetryExport {
    fn join_all(mut self) -> BTreeMap<Signal, SignalState> {
        self.end_by(std::time::Instant::now() + testbed::LONGEST);
        self.join()
    }
}

/// Makes an interval of two connections of an application and one of none, with delayed ACKs of
/// this many ms.
fn busy_interval(number: i64, delayed_ack_ms: i64) -> Interval {
    let begin_ns = HOUR_NS + number * MINUTE_NS;
    let mut interval = interval(begin_ns, 0);
    interval.coverage = row::<FleetCoverage>(json!({
        "begin_ns": begin_ns, "length_us": 60_000_000, "cpu_us": 250_000, "rss_bytes": 5_000_000, "polls": 120,
        "connections": 3, "bpf_us": 2_000,
    }));
    for (conn_id, app) in [(1, Some("shop")), (2, Some("shop")), (3, None)] {
        interval.connections.push(row::<FleetConnection>(json!({
            "conn_id": conn_id, "time_ns": begin_ns, "app": app, "process": "shopd", "pid": 77,
            "local_address": "10.0.0.1", "local_port": 80, "peer_address": "::1", "peer_port": 5000 + conn_id,
        })));
        interval.intervals.push(row::<FleetInterval>(json!({
            "conn_id": conn_id, "begin_ns": begin_ns, "length_us": 60_000_000, "acked_bytes": 1000 * conn_id,
            "received_bytes": 10, "retrans": 3, "srtt_us": 100 * conn_id, "verdict": "receiver_window",
            "delayed_ack_us": if conn_id == 1 { delayed_ack_ms * 1000 } else { 0 },
        })));
    }
    let container = ContainerIdentity {
        id: Some("c0ffee".to_owned()),
        name: Some("web".to_owned()),
        runtime: Some("containerd"),
        pod: Some(("shop".to_owned(), "web-0".to_owned())),
        pod_uid: Some("7d3c1f2e-5a64-4b1c-9c37-0f1e2d3c4b5a".to_owned()),
        workload: Some(Workload {
            kind: WorkloadKind::StatefulSet,
            name: "web".to_owned(),
            source: WorkloadSource::Labels,
        }),
    };
    interval.containers.insert(1, Arc::new(container));
    interval
}

/// Returns the points and records that a receiver got.
fn exported(intervals: &[Interval], variables: &[(&str, &str)]) -> (Vec<Point>, Vec<Record>) {
    let receiver = Receiver::start(|_, _| Answer::ok());
    let states = export_all(
        export(&receiver.url(), variables),
        &Metrics::new(),
        intervals,
    );
    let posts = receiver.posts();
    let (points, records) = (points(&posts), records(&posts));
    assert_eq!(states[&Signal::Metrics].delivered, points.len() as u64);
    assert_eq!(states[&Signal::Logs].delivered, records.len() as u64);
    for state in states.values() {
        assert_eq!((state.waiting, state.failures), (0, 0));
        assert!(state.dropped.is_empty() && state.error.is_none());
    }
    (points, records)
}

#[test]
fn points_have_names_units_and_resources_of_the_conventions() {
    let (points, _) = exported(&[busy_interval(0, 0), busy_interval(1, 0)], &[]);
    let last = |service: Option<&str>, name: &str, attributes: &[(&str, &str)]| {
        let is_it = |it: &&Point| {
            it.resource.get("service.name").map(String::as_str) == service
                && it.name == name
                && it.attributes == decoded::map(attributes)
        };
        let found = points.iter().rfind(is_it);
        found.unwrap_or_else(|| panic!("{name} of {service:?} {attributes:?}"))
    };
    let transmit = [("network.io.direction", "transmit")];
    let io = last(Some("shop"), "process.network.io", &transmit);
    assert_eq!(
        (io.value, io.unit.as_str(), io.kind),
        (6_000.0, "By", "sum")
    );
    let end_ns = (HOUR_NS + 2 * MINUTE_NS).cast_unsigned();
    assert_eq!(io.times_ns, (HOUR_NS.cast_unsigned(), end_ns));
    assert_eq!(io.resource["host.name"], HOST);
    assert_eq!(io.resource["os.type"], "linux");
    let none = [
        ("network.io.direction", "transmit"),
        ("whylat.application", "none"),
    ];
    assert_eq!(last(None, "process.network.io", &none).value, 6_000.0);
    let tcp = [("network.transport", "tcp")];
    let open = last(None, "system.network.connection.count", &tcp);
    assert_eq!((open.value, open.kind), (3.0, "sum that falls, too"));
    let agent = Some("whylat-agent");
    let cpu = last(agent, "process.cpu.time", &[]);
    assert_eq!((cpu.value, cpu.unit.as_str()), (0.5, "s"));
    assert_eq!(cpu.resource["process.pid"], std::process::id().to_string());
    assert!(cpu.resource.contains_key("service.version"));
    assert_eq!(last(agent, "process.memory.usage", &[]).value, 5e6);
    assert_eq!(last(agent, "whylat.agent.polls", &[]).value, 240.0);
    let held = [("whylat.stage", "receiver_window")];
    assert_eq!(
        last(Some("shop"), "whylat.tcp.held_intervals", &held).value,
        4.0
    );
    let rtt = last(Some("shop"), "whylat.tcp.rtt", &[]);
    assert_eq!(
        (rtt.kind, rtt.unit.as_str(), rtt.value),
        ("histogram", "s", 4.0)
    );
}

#[test]
fn every_metric_of_the_page_is_sent_once_an_interval() {
    let receiver = Receiver::start(|_, _| Answer::ok());
    let export = export(&receiver.url(), &[]);
    let metrics = Metrics::new();
    metrics.telemetry(export.states());
    put_interval(&export, &metrics, busy_interval(0, 0));
    let page = metrics.page(TextFormat::Prometheus).expect("a page");
    export.join_all();
    let points = points(&receiver.posts());
    let samples = page.lines().filter(|line| !line.starts_with('#'));
    // a distribution is one point; facts as labels are none
    let is_number = |line: &&str| !line.starts_with("whylat_build") && !line.contains("_rtt_");
    let numbers = samples.filter(is_number).count();
    let distributions = points.iter().filter(|it| it.kind == "histogram").count();
    assert_eq!((points.len(), distributions), (numbers + 2, 2));
    let series: BTreeSet<_> = points
        .iter()
        .map(|it| (&it.resource, &it.name, &it.attributes))
        .collect();
    assert_eq!(series.len(), points.len(), "a point is there twice");
}

#[test]
fn differences_add_up_to_the_sums() {
    let intervals = [
        busy_interval(0, 10),
        busy_interval(1, 20),
        busy_interval(2, 40),
    ];
    let delta = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
    let (sums, _) = exported(&intervals, &[]);
    let (differences, _) = exported(&intervals, &[(delta, "delta")]);
    type Series<'a> = (
        &'a BTreeMap<String, String>,
        &'a str,
        &'a BTreeMap<String, String>,
    );
    let is_sum = |it: &&Point| matches!(it.kind, "sum" | "histogram") && !it.name.contains("otlp");
    let mut total: BTreeMap<Series<'_>, f64> = BTreeMap::new();
    let mut last: BTreeMap<Series<'_>, f64> = BTreeMap::new();
    for it in sums.iter().filter(is_sum) {
        assert_eq!(it.temporality, "cumulative");
        last.insert((&it.resource, &it.name, &it.attributes), it.value);
    }
    for it in differences.iter().filter(is_sum) {
        assert_eq!(it.temporality, "delta");
        assert_eq!(it.times_ns.1 - it.times_ns.0, MINUTE_NS.cast_unsigned());
        *total
            .entry((&it.resource, &it.name, &it.attributes))
            .or_default() += it.value;
    }
    assert!(last.len() > 20);
    let of = |series: &BTreeMap<Series<'_>, f64>| -> Vec<_> {
        series
            .iter()
            .map(|(key, value)| (key.1.to_owned(), (value * 1e6).round()))
            .collect()
    };
    assert_eq!(of(&total), of(&last));
}

#[test]
fn findings_are_logs_with_their_page_and_the_worst_connection() {
    // 3 s of 2 minutes of two connections, but 5 % of one; then 40 s; then too little
    let intervals = [
        busy_interval(0, 3_100),
        busy_interval(1, 40_000),
        busy_interval(2, 39),
    ];
    let (_, records) = exported(&intervals, &[]);
    let severities: Vec<_> = records.iter().map(|it| it.severity.as_str()).collect();
    assert_eq!(severities, ["WARN", "ERROR"]);
    let record = &records[1];
    assert_eq!(
        record.body,
        "The writer waits for an ACK that the receiver delays — 40.00 s of 120.00 s of its connections (33.3 %)."
    );
    assert_eq!(record.resource["service.name"], "shop");
    assert_eq!(record.event_name, "whylat.finding");
    let begin_ns = (HOUR_NS + MINUTE_NS).cast_unsigned();
    assert_eq!(
        record.times_ns,
        (begin_ns, begin_ns + MINUTE_NS.cast_unsigned())
    );
    let own = &record.attributes;
    assert_eq!(own["whylat.finding.rule"], "delayed_ack");
    assert!(own["whylat.finding.page"].ends_with("/docs/findings/delayed_ack.md"));
    assert_eq!(own["whylat.finding.harm_ns"], "40000000000");
    assert_eq!(own["whylat.local"], "10.0.0.1:80");
    assert_eq!(own["whylat.remote"], "[::1]:5001");
    assert_eq!(
        (
            own["process.pid"].as_str(),
            own["whylat.connections"].as_str()
        ),
        ("77", "1")
    );
    for (key, value) in [
        ("container.id", "c0ffee"),
        ("container.runtime.name", "containerd"),
        ("k8s.container.name", "web"),
        ("k8s.namespace.name", "shop"),
        ("k8s.pod.name", "web-0"),
        ("k8s.statefulset.name", "web"),
        ("whylat.workload.source", "labels"),
        ("k8s.pod.uid", "7d3c1f2e-5a64-4b1c-9c37-0f1e2d3c4b5a"),
    ] {
        assert_eq!(own[key], value, "{key}");
    }
    assert!(!own.contains_key("container.name"), "{own:?}");
    assert_eq!(
        own["whylat.finding.next"],
        "sudo whylat record --comm 'shopd' -d 30"
    );
}

#[test]
fn nothing_is_exported_unless_a_collector_is_named() {
    let prepare = |config: &OtlpConfig, variables: &[(&str, &str)]| {
        let lookup = |name: &str| {
            let found = variables.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        let prepared = PreparedExport::with_pauses(config, &lookup, |_| Duration::ZERO);
        prepared
            .map(|it| it.is_some())
            .map_err(|why| why.to_string())
    };
    let none = OtlpConfig::default();
    let of_variables = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1");
    assert_eq!(prepare(&none, &[]), Ok(false));
    assert_eq!(prepare(&none, &[of_variables]), Ok(true));
    let off = [
        ("OTEL_METRICS_EXPORTER", "none"),
        ("OTEL_LOGS_EXPORTER", "none"),
    ];
    assert_eq!(prepare(&none, &[off[0], off[1], of_variables]), Ok(false));
    let bad = prepare(&none, &[of_variables, ("OTEL_EXPORTER_OTLP_TIMEOUT", "1s")]);
    let bad = bad.expect_err("refused");
    assert!(
        bad.contains("OTEL_EXPORTER_OTLP_TIMEOUT") && bad.contains("\nhint: "),
        "{bad}"
    );
    let missing = ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nonexistent.pem");
    let bad = prepare(&none, &[of_variables, missing]).expect_err("refused");
    assert!(bad.contains("/nonexistent.pem"), "{bad}");
}
