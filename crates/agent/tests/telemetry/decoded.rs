//! Messages as plain values, decoded by the schema of OpenTelemetry itself.

use std::collections::BTreeMap;

use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{Metric, NumberDataPoint};
use opentelemetry_proto::tonic::resource::v1::Resource;
use prost::Message;
use testbed::receiver::Post;

/// Attributes by name, as text.
pub type Attributes = BTreeMap<String, String>;

/// A data point.
#[derive(Debug, Clone)]
pub struct Point {
    pub resource: Attributes,
    pub name: String,
    pub unit: String,
    pub kind: &'static str,
    pub temporality: &'static str,
    pub attributes: Attributes,
    /// The number, or the count of a distribution.
    pub value: f64,
    pub times_ns: (u64, u64),
}

/// A log record.
#[derive(Debug, Clone)]
pub struct Record {
    pub resource: Attributes,
    pub event_name: String,
    pub severity: String,
    pub body: String,
    pub attributes: Attributes,
    pub times_ns: (u64, u64),
}

/// Returns attributes of pairs.
pub fn map(pairs: &[(&str, &str)]) -> Attributes {
    let pairs = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    pairs.collect()
}

/// Returns a value as text.
fn text(value: Option<Value>) -> String {
    match value {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::DoubleValue(number)) => number.to_string(),
        other => format!("{other:?}"),
    }
}

/// Returns attributes by name.
fn attributes(list: Vec<KeyValue>) -> Attributes {
    let length = list.len();
    let pairs = list
        .into_iter()
        .map(|it| (it.key, text(it.value.and_then(|it| it.value))));
    let all: Attributes = pairs.collect();
    assert_eq!(all.len(), length, "a key is there twice: {all:?}");
    all
}

/// Returns the attributes of a resource.
fn resource(resource: Option<Resource>) -> Attributes {
    attributes(resource.expect("a resource").attributes)
}

/// Returns the name of a temporality.
const fn temporality(number: i32) -> &'static str {
    match number {
        1 => "delta",
        2 => "cumulative",
        _ => "unspecified",
    }
}

/// Returns all data points, in the order in which they came.
pub fn points(posts: &[Post]) -> Vec<Point> {
    let mut all = Vec::new();
    for post in posts.iter().filter(|post| post.path == "/v1/metrics") {
        let request = ExportMetricsServiceRequest::decode(&*post.body).expect("protobuf");
        for of_resource in request.resource_metrics {
            let resource = resource(of_resource.resource);
            let scopes = of_resource.scope_metrics.into_iter();
            for metric in scopes.flat_map(|it| it.metrics) {
                points_of(&resource, metric, &mut all);
            }
        }
    }
    all
}

/// Adds all points of a metric.
fn points_of(resource: &Attributes, metric: Metric, all: &mut Vec<Point>) {
    assert!(
        !metric.description.is_empty(),
        "{} says nothing",
        metric.name
    );
    let empty = Point {
        resource: resource.clone(),
        name: metric.name,
        unit: metric.unit,
        kind: "",
        temporality: "",
        attributes: Attributes::new(),
        value: 0.0,
        times_ns: (0, 0),
    };
    let number = |it: NumberDataPoint, kind, temporality| Point {
        kind,
        temporality,
        attributes: attributes(it.attributes),
        value: match it.value.expect("a value") {
            Number::AsInt(number) => number as f64,
            Number::AsDouble(number) => number,
        },
        times_ns: (it.start_time_unix_nano, it.time_unix_nano),
        ..empty.clone()
    };
    match metric.data.expect("data") {
        Data::Gauge(gauge) => {
            all.extend(
                gauge
                    .data_points
                    .into_iter()
                    .map(|it| number(it, "gauge", "")),
            );
        }
        Data::Sum(sum) => {
            let kind = if sum.is_monotonic {
                "sum"
            } else {
                "sum that falls, too"
            };
            let temporality = temporality(sum.aggregation_temporality);
            all.extend(
                sum.data_points
                    .into_iter()
                    .map(|it| number(it, kind, temporality)),
            );
        }
        Data::ExponentialHistogram(histogram) => {
            let temporality = temporality(histogram.aggregation_temporality);
            all.extend(histogram.data_points.into_iter().map(|it| {
                let positive = it.positive.expect("buckets");
                let counted: u64 = positive.bucket_counts.iter().sum();
                assert_eq!(counted + it.zero_count, it.count);
                Point {
                    kind: "histogram",
                    temporality,
                    attributes: attributes(it.attributes),
                    value: it.count as f64,
                    times_ns: (it.start_time_unix_nano, it.time_unix_nano),
                    ..empty.clone()
                }
            }));
        }
        other => panic!("not expected: {other:?}"),
    }
}

/// Returns all log records, in the order in which they came.
pub fn records(posts: &[Post]) -> Vec<Record> {
    let mut all = Vec::new();
    for post in posts.iter().filter(|post| post.path == "/v1/logs") {
        let request = ExportLogsServiceRequest::decode(&*post.body).expect("protobuf");
        for of_resource in request.resource_logs {
            let resource = resource(of_resource.resource);
            let scopes = of_resource.scope_logs.into_iter();
            all.extend(scopes.flat_map(|it| it.log_records).map(|it| Record {
                resource: resource.clone(),
                event_name: it.event_name,
                severity: it.severity_text,
                body: text(it.body.and_then(|it| it.value)),
                attributes: attributes(it.attributes),
                times_ns: (it.time_unix_nano, it.observed_time_unix_nano),
            }));
        }
    }
    all
}
