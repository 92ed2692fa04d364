//! `whylat export otlp`: what arrives, decoded, beside what `whylat report` says of the same recording; and each way in which
//! it does not arrive. No privileges needed: recordings are made of text.

mod collector;
mod refusals;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use otlp::proto::{
    ExponentialPoint, KeyValue, LogsRequest, MetricData, MetricsRequest, Number, OtlpSpan,
    SpanKind, TracesRequest, Value,
};
use prost::Message;
use serde_json::Value as Json;
use tempfile::TempDir;
use testbed::receiver::{Answer, Post, Receiver};
use testbed::{CommandOutput, finish, whylat};

/// Four requests of two services.
const REQUESTS: &str = "golden_requests/recording";

/// A warning.
const FINDING: &str = "golden/slow_reader/fires";

/// A recording that is made of text in `tests/`, and its path.
fn recording(text: &str) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("r.whylat");
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests");
    table::write_fixture(tests.join(text), &path).expect("written");
    (folder, path)
}

/// The command for a recording, without variables of the machine.
fn export(path: &Path, options: &[&str]) -> Command {
    let mut command = whylat("export otlp");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("OTEL_") {
            command.env_remove(&name);
        }
    }
    command.env("NO_PROXY", "127.0.0.1");
    command.arg(path).args(options);
    command
}

/// Exports to a receiver that takes everything.
fn exported(text: &str, options: &[&str]) -> (CommandOutput, Vec<Post>, Json, Json) {
    let (_folder, path) = recording(text);
    let receiver = Receiver::start(|_, _| Answer::ok());
    let url = receiver.url();
    let output = finish(export(&path, options).args(["--endpoint", &url]));
    let answer = |options: &str| {
        let output = finish(
            whylat("report --format json")
                .arg(&path)
                .args(options.split_whitespace()),
        );
        serde_json::from_str(&output.out).expect("JSON")
    };
    (output, receiver.posts(), answer("--requests"), answer(""))
}

fn spans(posts: &[Post]) -> Vec<OtlpSpan> {
    let traces = posts.iter().filter(|post| post.path == "/v1/traces");
    let requests = traces.map(|post| TracesRequest::decode(&*post.body).expect("protobuf"));
    let resources = requests.flat_map(|it| it.resource_spans);
    resources
        .flat_map(|it| it.scope_spans)
        .flat_map(|it| it.spans)
        .collect()
}

/// Returns attributes by name, as text.
fn attributes(list: &[KeyValue]) -> BTreeMap<&str, String> {
    let text = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        Value::Whole(number) => number.to_string(),
        Value::Bool(is) => is.to_string(),
        Value::Real(number) => number.to_string(),
        Value::List(list) => format!("{list:?}"),
    };
    let pairs = list.iter().map(|it| {
        let value = it.value.as_ref().and_then(|it| it.value.as_ref());
        (it.key.as_str(), value.map(text).unwrap_or_default())
    });
    pairs.collect()
}

#[test]
fn spans_are_the_requests_of_the_report_with_their_steps() {
    let (output, posts, requests, _) = exported(REQUESTS, &[]);
    output.assert_status(0);
    let spans = spans(&posts);
    let listed = requests["requests"].as_array().expect("requests");
    let roots: Vec<_> = spans
        .iter()
        .filter(|it| it.kind != SpanKind::Internal as i32)
        .collect();
    assert_eq!(roots.len(), listed.len());
    for (root, request) in roots.iter().zip(listed) {
        let own = attributes(&root.attributes);
        let duration_ns = root.end_time_unix_nano - root.start_time_unix_nano;
        assert_eq!(
            own["whylat.request.id"],
            request["id"].as_str().expect("an id")
        );
        assert_eq!(root.name, request["service"].as_str().expect("a service"));
        assert_eq!(
            duration_ns,
            request["duration_ns"].as_u64().expect("a duration")
        );
        let parts = own
            .iter()
            .filter(|(name, _)| name.starts_with("whylat.part."));
        let parts: u64 = parts.map(|(_, ns)| ns.parse::<u64>().expect("ns")).sum();
        assert_eq!(parts, duration_ns, "{own:?}");
        let steps: Vec<_> = spans
            .iter()
            .filter(|it| it.parent_span_id == root.span_id)
            .collect();
        assert_eq!(
            steps.len(),
            request["path"].as_array().expect("steps").len()
        );
        let mut at_ns = root.start_time_unix_nano;
        for step in steps {
            assert_eq!(
                (step.trace_id.as_slice(), step.start_time_unix_nano),
                (&*root.trace_id, at_ns)
            );
            at_ns = step.end_time_unix_nano;
        }
        assert_eq!(at_ns, root.end_time_unix_nano);
    }
    let mut ids: Vec<_> = spans.iter().map(|it| &it.span_id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), spans.len());
}

#[test]
fn only_the_slowest_are_spans_and_the_rest_is_counted() {
    let (output, posts, requests, _) = exported(REQUESTS, &["--spans", "1"]);
    output.assert_status(0);
    let spans = spans(&posts);
    let slowest = requests["requests"][0]["id"].as_str().expect("an id");
    assert_eq!(
        attributes(&spans[0].attributes)["whylat.request.id"],
        slowest
    );
    assert!(
        output
            .out
            .contains("3 requests with shorter durations: only in the metrics"),
        "{}",
        output.out
    );
    assert!(
        output.out.contains(&format!("{} spans to ", spans.len())),
        "{}",
        output.out
    );
}

/// Returns the histogram of each service, by its role and port, and the sums of each metric.
fn metrics(posts: &[Post]) -> (BTreeMap<String, ExponentialPoint>, BTreeMap<String, f64>) {
    let (mut durations, mut sums) = (BTreeMap::new(), BTreeMap::new());
    let all = posts.iter().filter(|post| post.path == "/v1/metrics");
    let requests = all.map(|post| MetricsRequest::decode(&*post.body).expect("protobuf"));
    let metrics = requests
        .flat_map(|it| it.resource_metrics)
        .flat_map(|it| it.scope_metrics);
    for metric in metrics.flat_map(|it| it.metrics) {
        match metric.data.expect("data") {
            MetricData::Gauge(_) => panic!("a recording has no last values"),
            MetricData::ExponentialHistogram(histogram) => {
                for point in histogram.data_points {
                    let own = attributes(&point.attributes);
                    let key = format!("{} {}", own["whylat.service.role"], own["server.port"]);
                    durations.insert(key, point);
                }
            }
            MetricData::Sum(sum) => {
                assert!(sum.is_monotonic);
                for point in sum.data_points {
                    *sums.entry(metric.name.clone()).or_default() += match point.value {
                        Some(Number::Real(number)) => number,
                        Some(Number::Whole(number)) => number as f64,
                        None => panic!("{}: no value", metric.name),
                    };
                }
            }
        }
    }
    (durations, sums)
}

#[test]
fn metrics_count_all_requests_by_service() {
    let (output, posts, requests, _) = exported(REQUESTS, &["--spans", "1"]);
    output.assert_status(0);
    let (durations, sums) = metrics(&posts);
    let services = requests["services"].as_array().expect("services");
    assert_eq!(durations.len(), services.len());
    for service in services {
        let port = service["address"]
            .as_str()
            .expect("an address")
            .rsplit(':')
            .next();
        let key = format!(
            "{} {}",
            service["role"].as_str().expect("a role"),
            port.expect("a port")
        );
        let point = &durations[&key];
        let of_service = |it: &&Json| {
            let title = it["service"].as_str().expect("a service");
            title.ends_with(service["address"].as_str().expect("an address"))
        };
        let listed: Vec<_> = requests["requests"]
            .as_array()
            .expect("requests")
            .iter()
            .collect();
        let listed: Vec<u64> = listed
            .into_iter()
            .filter(of_service)
            .map(|it| it["duration_ns"].as_u64().expect("ns"))
            .collect();
        assert_eq!(point.count, service["requests"].as_u64().expect("a number"));
        assert_eq!(point.count, listed.len() as u64);
        let buckets = point.positive.as_ref().expect("buckets");
        assert_eq!(buckets.bucket_counts.iter().sum::<u64>(), point.count);
        let seconds = |ns: u64| ns as f64 / 1e9;
        assert_eq!(point.sum, Some(seconds(listed.iter().sum())));
        assert_eq!(point.max, listed.iter().max().map(|ns| seconds(*ns)));
        assert_eq!(point.min, listed.iter().min().map(|ns| seconds(*ns)));
    }
    let all_ns: u64 = requests["requests"]
        .as_array()
        .expect("requests")
        .iter()
        .map(|it| it["duration_ns"].as_u64().expect("ns"))
        .sum();
    let parts = sums["whylat.request.part.time"] * 1e9;
    assert!((parts - all_ns as f64).abs() < 1.0, "{parts} {all_ns}");
    assert_eq!(sums["whylat.records.lost"], 0.0);
}

#[test]
fn findings_are_log_records_with_their_pages() {
    let (output, posts, _, report) = exported(FINDING, &[]);
    let logs = posts.iter().filter(|post| post.path == "/v1/logs");
    let requests = logs.map(|post| LogsRequest::decode(&*post.body).expect("protobuf"));
    let scopes = requests
        .flat_map(|it| it.resource_logs)
        .flat_map(|it| it.scope_logs);
    let records: Vec<_> = scopes.flat_map(|it| it.log_records).collect();
    let findings = report["findings"].as_array().expect("findings");
    let undecided = report["undecided"].as_array().expect("undecided");
    assert_eq!(records.len(), findings.len() + undecided.len());
    for (record, finding) in records.iter().zip(findings) {
        let own = attributes(&record.attributes);
        let rule = finding["rule"].as_str().expect("a rule");
        assert_eq!(own["whylat.finding.rule"], rule);
        assert_eq!(
            own["whylat.finding.harm_ns"],
            finding["harm_ns"].to_string()
        );
        assert!(own["whylat.finding.page"].ends_with(&format!("/docs/findings/{rule}.md")));
        let body = record.body.clone().and_then(|it| it.value);
        let headline = finding["headline"].as_str().expect("a headline").to_owned();
        assert_eq!(body, Some(Value::Text(headline)));
        let severity = match finding["severity"].as_str() {
            Some("critical") => "ERROR",
            Some("warning") => "WARN",
            _ => "INFO",
        };
        assert_eq!(record.severity_text, severity);
        let evidence = finding["evidence"].as_object().expect("evidence");
        assert!(
            evidence
                .keys()
                .all(|it| own.contains_key(&*format!("whylat.evidence.{it}")))
        );
    }
    // a recording of a connection alone: it says so
    assert!(
        output.err.contains("holds no calls") || report["host"]["detail"] != "stats",
        "{}",
        output.err
    );
}

#[test]
fn a_second_export_has_the_same_ids() {
    let ids = || {
        let (_, posts, _, _) = exported(REQUESTS, &[]);
        let spans = spans(&posts).into_iter();
        spans
            .map(|it| (it.trace_id, it.span_id, it.parent_span_id))
            .collect::<Vec<_>>()
    };
    assert_eq!(ids(), ids());
}

#[test]
fn headers_are_sent_and_not_printed() {
    let (_folder, path) = recording(REQUESTS);
    let receiver = Receiver::start(|_, _| Answer::new("500 Internal Server Error", &[], b"no"));
    let mut command = export(&path, &["--header", "api-key=SECRET1"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url());
    command.env("OTEL_EXPORTER_OTLP_HEADERS", "tenant=SECRET2");
    let output = finish(&mut command);
    output.assert_status(1);
    let posts = receiver.posts();
    assert_eq!(posts.len(), 3);
    for post in posts {
        for header in ["api-key: SECRET1", "tenant: SECRET2"] {
            assert!(
                post.headers.iter().any(|it| it == header),
                "{:?}",
                post.headers
            );
        }
    }
    assert!(!(output.out + &output.err).contains("SECRET"));
}
