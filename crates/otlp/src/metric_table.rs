//! Data points, by program and metric → messages of a bounded size.

use std::borrow::Cow;
use std::collections::BTreeMap;

use prost::Message as _;

use crate::proto::{
    ExponentialHistogram, ExponentialPoint, Gauge, KeyValue, Metric, MetricData, MetricsRequest,
    Number, NumberPoint, ResourceMetrics, ScopeMetrics, Sum, Temporality,
};
use crate::resource::{ResourceSource, scope};
use crate::signal::{Message, Signal};

/// Names the variable with the wanted temporality: sums since the begin (`cumulative`, the default), or of an interval.
pub const TEMPORALITY_VARIABLE: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";

/// Data points of a full message, at about 200 bytes each: receivers of gRPC take 4 MiB.
const POINTS_FULL: u64 = 4_096;

/// Returns the temporality that a receiver prefers; `lowmemory` is `delta` for sums and histograms.
pub fn temporality(preference: &str) -> Temporality {
    match preference.trim().to_ascii_lowercase().as_str() {
        "delta" | "lowmemory" => Temporality::Delta,
        _ => Temporality::Cumulative,
    }
}

/// Kind of a metric, as OpenTelemetry names instruments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum MetricKind {
    /// A sum that only grows.
    Counter,
    /// A sum that grows and falls. It is always cumulative.
    UpDownCounter,
    /// The last value.
    Gauge,
    /// A distribution.
    Histogram,
}

/// Name, unit, description and kind of a metric.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct MetricLabel {
    /// Name, such as `process.network.io`.
    pub name: Cow<'static, str>,
    /// Unit by UCUM, such as `By`.
    pub unit: Cow<'static, str>,
    /// Description.
    pub description: Cow<'static, str>,
    /// Kind.
    pub kind: MetricKind,
}

impl MetricLabel {
    /// Makes a label of texts that are in the program.
    pub const fn new(
        kind: MetricKind,
        name: &'static str,
        unit: &'static str,
        description: &'static str,
    ) -> Self {
        Self {
            name: Cow::Borrowed(name),
            unit: Cow::Borrowed(unit),
            description: Cow::Borrowed(description),
            kind,
        }
    }
}

/// Data points of one metric.
#[derive(Debug)]
enum MetricPoints {
    Numbers(Vec<NumberPoint>),
    Durations(Vec<ExponentialPoint>),
}

/// Data points by the program they are about (`None`: the host) and by metric.
#[derive(Debug)]
pub struct MetricTable {
    times: (u64, u64),
    temporality: Temporality,
    programs: BTreeMap<Option<String>, BTreeMap<MetricLabel, MetricPoints>>,
    points: u64,
}

impl MetricTable {
    /// Makes an empty table. `times`: begin and end of sums and distributions, ns since 1970.
    pub fn new(times: (u64, u64), temporality: Temporality) -> Self {
        Self {
            times,
            temporality,
            programs: BTreeMap::new(),
            points: 0,
        }
    }

    /// Adds a point with a number, at the table's times.
    pub fn add(
        &mut self,
        service: Option<&str>,
        label: MetricLabel,
        value: Number,
        attributes: Vec<KeyValue>,
    ) {
        let start_time_unix_nano = match label.kind {
            // the last value has no start
            MetricKind::Gauge => 0,
            _ => self.times.0,
        };
        let point = NumberPoint {
            start_time_unix_nano,
            time_unix_nano: self.times.1,
            value: Some(value),
            attributes,
        };
        match self.get_points(service, label, MetricPoints::Numbers(Vec::new())) {
            MetricPoints::Numbers(points) => points.push(point),
            // a label has one kind
            MetricPoints::Durations(_) => return,
        }
        self.points += 1;
    }

    /// Adds a point with a distribution of durations, at the table's times.
    pub fn add_durations(
        &mut self,
        service: Option<&str>,
        label: MetricLabel,
        point: ExponentialPoint,
    ) {
        let point = ExponentialPoint {
            start_time_unix_nano: self.times.0,
            time_unix_nano: self.times.1,
            ..point
        };
        match self.get_points(service, label, MetricPoints::Durations(Vec::new())) {
            MetricPoints::Durations(points) => points.push(point),
            MetricPoints::Numbers(_) => return,
        }
        self.points += 1;
    }

    /// Returns the points of a service's metric; a new metric begins with `initial`.
    fn get_points(
        &mut self,
        service: Option<&str>,
        label: MetricLabel,
        initial: MetricPoints,
    ) -> &mut MetricPoints {
        let metrics = self.programs.entry(service.map(str::to_owned)).or_default();
        metrics.entry(label).or_insert(initial)
    }

    /// Returns whether the table has as many points as a message may have.
    pub fn is_full(&self) -> bool {
        self.points > POINTS_FULL
    }

    /// Returns all points as a message; `None`: there are none.
    pub fn take_message(&mut self, resources: &ResourceSource) -> Option<Message> {
        if self.points == 0 {
            return None;
        }
        let temporality = self.temporality;
        let programs = std::mem::take(&mut self.programs).into_iter();
        let resource_metrics = programs.map(|(program, metrics)| {
            let metrics = metrics.into_iter();
            ResourceMetrics {
                resource: Some(resources.resource(program.as_deref())),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(scope()),
                    metrics: metrics
                        .map(|(label, points)| metric(label, points, temporality))
                        .collect(),
                }],
            }
        });
        let request = MetricsRequest {
            resource_metrics: resource_metrics.collect(),
        };
        Some(Message {
            signal: Signal::Metrics,
            items: std::mem::take(&mut self.points),
            bytes: request.encode_to_vec(),
        })
    }
}

/// Makes the OTLP metric of these points.
fn metric(label: MetricLabel, points: MetricPoints, temporality: Temporality) -> Metric {
    let data = match points {
        MetricPoints::Numbers(data_points) if label.kind == MetricKind::Gauge => {
            MetricData::Gauge(Gauge { data_points })
        }
        MetricPoints::Numbers(data_points) => {
            let is_monotonic = label.kind == MetricKind::Counter;
            MetricData::Sum(Sum {
                data_points,
                aggregation_temporality: match is_monotonic {
                    true => temporality.into(),
                    false => Temporality::Cumulative.into(),
                },
                is_monotonic,
            })
        }
        MetricPoints::Durations(data_points) => {
            MetricData::ExponentialHistogram(ExponentialHistogram {
                data_points,
                aggregation_temporality: temporality.into(),
            })
        }
    };
    Metric {
        name: label.name.into_owned(),
        description: label.description.into_owned(),
        unit: label.unit.into_owned(),
        data: Some(data),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn temporality_is_what_the_receiver_prefers() {
        for text in ["delta", "DELTA", "lowmemory"] {
            assert_eq!(temporality(text), Temporality::Delta, "{text}");
        }
        for text in ["", "cumulative", "other"] {
            assert_eq!(temporality(text), Temporality::Cumulative, "{text}");
        }
    }
}
