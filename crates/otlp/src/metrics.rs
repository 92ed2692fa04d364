//! Metrics of a recording: one data point each, from its begin to its end.

use std::collections::BTreeMap;
use std::env;
use std::io;

use diagnose::Report;
use diagnose::requests::RequestId;
use diagnose::requests::report::{RequestRow, Service};
use prost::Message as _;
use table::tables::NetCounter;
use table::{Columns, Recording};

use crate::attribute::{attribute, whole};
use crate::batch::Sink;
use crate::clock::RecordingClock;
use crate::exponential::DurationHistogram;
use crate::identity::IdentityTable;
use crate::logs;
use crate::proto::{
    Exemplar, ExponentialHistogram, ExponentialPoint, KeyValue, Metric, MetricData, MetricsRequest,
    Number, NumberPoint, ResourceMetrics, ScopeMetrics, Sum, Temporality,
};
use crate::resource::{ResourceSource, scope, server_address};
use crate::signal::{Message, Signal};

/// Names the variable with the wanted temporality: sums since the begin (`cumulative`, the default), or of an interval.
const PREFERENCE: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// Data points of a full message, at about 200 bytes each: receivers of gRPC take 4 MiB.
const POINTS_FULL: u64 = 4_096;

/// How long the requests of a service took.
#[derive(Debug, Default)]
pub(crate) struct ServiceDurations {
    histogram: DurationHistogram,
    longest: Option<(u64, u64, String)>,
}

impl ServiceDurations {
    /// Counts a request.
    pub(crate) fn add(&mut self, row: &RequestRow) {
        self.histogram.add(row.duration_ns);
        if self
            .longest
            .as_ref()
            .is_none_or(|it| row.duration_ns > it.0)
        {
            self.longest = Some((row.duration_ns, row.begin_ns, row.id.clone()));
        }
    }
}

/// Name, unit and description of a metric.
type Label = (&'static str, &'static str, &'static str);

const DURATION: Label = ("whylat.request.duration", "s", "How long requests took");
const PART: Label = (
    "whylat.request.part.time",
    "s",
    "Time of all requests, by part",
);
const CONNECTIONS: Label = (
    "whylat.connection.count",
    "{connection}",
    "TCP connections that were judged",
);
const STAGE: Label = (
    "whylat.connection.stage.time",
    "s",
    "Time of connections in each stage, by method",
);
const IO: Label = (
    "process.network.io",
    "By",
    "Bytes that the process sent and received by TCP",
);
const RETRANSMITS: Label = (
    "whylat.tcp.retransmits",
    "{segment}",
    "Segments retransmitted",
);
const TIMEOUTS: Label = (
    "whylat.tcp.timeouts",
    "{timeout}",
    "Retransmission timeouts",
);
const HARM: Label = ("whylat.finding.harm", "s", "Time that a finding cost");
const LOST: Label = (
    "whylat.records.lost",
    "{record}",
    "Records that the recorder lost, by probe",
);
const DEVICE_ERRORS: Label = (
    "system.network.errors",
    "{error}",
    "Errors of network devices",
);
const DEVICE_DROPS: Label = (
    "system.network.packet.dropped",
    "{packet}",
    "Packets that network devices dropped",
);

/// Metrics by the program they are about; `None`: the host.
struct MetricTable {
    times: (u64, u64),
    temporality: Temporality,
    sums: BTreeMap<Option<String>, BTreeMap<Label, Vec<NumberPoint>>>,
    durations: BTreeMap<Option<String>, Vec<ExponentialPoint>>,
    points: u64,
}

/// Inputs of metrics.
pub(crate) struct MetricSource<'a> {
    /// The recording itself.
    pub(crate) recording: &'a Recording,
    /// Its diagnosis.
    pub(crate) report: &'a Report,
    /// Services by their title.
    pub(crate) services: &'a BTreeMap<String, &'a Service>,
    /// Durations by the title of the service.
    pub(crate) durations: &'a BTreeMap<String, ServiceDurations>,
    /// Ids of requests.
    pub(crate) identities: &'a IdentityTable,
}

/// Writes all metrics, in messages of a bounded size. Returns the number of data points.
pub(crate) fn write(
    source: &MetricSource<'_>,
    resources: &ResourceSource,
    sink: &mut Sink<'_>,
) -> io::Result<u64> {
    let clock = RecordingClock::new(&source.report.about.host);
    let mut table = MetricTable {
        times: (
            clock.begin_ns(),
            clock.begin_ns() + source.report.about.span_ns,
        ),
        temporality: temporality(&env::var(PREFERENCE).unwrap_or_default()),
        sums: BTreeMap::new(),
        durations: BTreeMap::new(),
        points: 0,
    };
    let mut points = 0;
    let mut flush = |table: &mut MetricTable, least: u64| -> io::Result<()> {
        if table.points > least {
            points += table.points;
            sink(table.take_message(resources))?;
        }
        Ok(())
    };
    for (title, service) in source.services {
        table.add_service(
            service,
            source.durations.get(title),
            (source.identities, clock),
        );
        flush(&mut table, POINTS_FULL)?;
    }
    for (program, totals) in program_totals(source.report) {
        table.add_program(program, totals);
        flush(&mut table, POINTS_FULL)?;
    }
    table.add_findings(source.report);
    table.add_losses(source.report);
    table.add_devices(source.recording);
    flush(&mut table, 0)?;
    Ok(points)
}

/// Returns what a receiver wants. `lowmemory` is `delta` for sums and histograms.
fn temporality(preference: &str) -> Temporality {
    match preference.trim().to_ascii_lowercase().as_str() {
        "delta" | "lowmemory" => Temporality::Delta,
        _ => Temporality::Cumulative,
    }
}

impl MetricTable {
    fn add(
        &mut self,
        service: Option<&str>,
        label: Label,
        value: Number,
        attributes: Vec<KeyValue>,
    ) {
        let (begin_ns, end_ns) = self.times;
        let metrics = self.sums.entry(service.map(str::to_owned)).or_default();
        metrics.entry(label).or_default().push(NumberPoint {
            start_time_unix_nano: begin_ns,
            time_unix_nano: end_ns,
            value: Some(value),
            attributes,
        });
        self.points += 1;
    }

    fn add_service(
        &mut self,
        service: &Service,
        durations: Option<&ServiceDurations>,
        (identities, clock): (&IdentityTable, RecordingClock),
    ) {
        let name = Some(service.name.as_str());
        let mut of_service = vec![attribute("whylat.service.role", service.role.name())];
        of_service.extend(server_address(&service.address));
        for (part, ns) in service.parts.all.0.iter() {
            let mut attributes = of_service.clone();
            attributes.push(attribute("whylat.part", part.name()));
            self.add(name, PART, seconds(ns), attributes);
        }
        let Some(durations) = durations else {
            return;
        };
        let exemplar = durations.longest.as_ref().and_then(|(ns, begin_ns, id)| {
            let id: RequestId = id.parse().ok()?;
            let identity = identities.request(id, service.role);
            Some(Exemplar {
                time_unix_nano: clock.unix_ns(*begin_ns) + ns,
                as_double: *ns as f64 / SECOND_NS,
                span_id: identity.span.to_vec(),
                trace_id: identity.trace.to_vec(),
            })
        });
        let point = ExponentialPoint {
            start_time_unix_nano: self.times.0,
            time_unix_nano: self.times.1,
            attributes: of_service,
            exemplars: exemplar.into_iter().collect(),
            ..durations.histogram.point()
        };
        let points = self.durations.entry(name.map(str::to_owned)).or_default();
        points.push(point);
        self.points += 1;
    }

    /// Adds the connections of a program. What was not measured is absent.
    fn add_program(&mut self, program: Option<&str>, totals: ProgramTotals) {
        self.add(program, CONNECTIONS, count(totals.connections), Vec::new());
        for ((stage, method), ns) in totals.stages {
            let attributes = vec![
                attribute("whylat.stage", stage),
                attribute("whylat.method", method),
            ];
            self.add(program, STAGE, seconds(ns), attributes);
        }
        for (direction, bytes) in [("transmit", totals.sent), ("receive", totals.received)] {
            if let Some(bytes) = bytes {
                let direction = attribute("network.io.direction", direction);
                self.add(program, IO, count(bytes), vec![direction]);
            }
        }
        for (label, number) in [
            (RETRANSMITS, totals.retransmits),
            (TIMEOUTS, totals.timeouts),
        ] {
            if let Some(number) = number {
                self.add(program, label, count(number), Vec::new());
            }
        }
    }

    fn add_findings(&mut self, report: &Report) {
        let mut sums: BTreeMap<_, u64> = BTreeMap::new();
        for finding in &report.findings {
            let key = (
                logs::service(&finding.subject),
                finding.rule,
                finding.severity,
            );
            *sums.entry(key).or_default() += finding.harm_ns;
        }
        for ((program, rule, severity), ns) in sums {
            let attributes = vec![
                attribute("whylat.finding.rule", rule.name()),
                attribute("whylat.finding.severity", severity.name()),
            ];
            self.add(program, HARM, seconds(ns), attributes);
        }
    }

    fn add_losses(&mut self, report: &Report) {
        for loss in &report.about.loss {
            let probe = attribute("whylat.probe", loss.totals.probe.as_str());
            self.add(None, LOST, count(loss.lost_total), vec![probe]);
        }
    }

    /// Adds counters of network devices that grew.
    fn add_devices(&mut self, recording: &Recording) {
        let mut sums: BTreeMap<_, u64> = BTreeMap::new();
        for rows in recording.batches::<NetCounter>() {
            for row in 0..rows.len() {
                let (label, direction) = match rows.name[row].as_str() {
                    "rx_errors" => (DEVICE_ERRORS, "receive"),
                    "tx_errors" => (DEVICE_ERRORS, "transmit"),
                    "rx_dropped" => (DEVICE_DROPS, "receive"),
                    "tx_dropped" => (DEVICE_DROPS, "transmit"),
                    _ => continue,
                };
                let Some(device) = &rows.device[row] else {
                    continue;
                };
                let grown = rows.last[row].saturating_sub(rows.first[row]);
                let key = (label, device.to_string(), rows.netns[row], direction);
                *sums.entry(key).or_default() += grown;
            }
        }
        for ((label, device, netns, direction), grown) in sums {
            let attributes = vec![
                attribute("network.interface.name", device),
                attribute("network.io.direction", direction),
                attribute("whylat.netns", netns),
            ];
            self.add(None, label, count(grown), attributes);
        }
    }

    fn take_message(&mut self, resources: &ResourceSource) -> Message {
        let programs: Vec<_> = self
            .sums
            .keys()
            .chain(self.durations.keys())
            .cloned()
            .collect();
        let mut by_program: BTreeMap<Option<String>, Vec<Metric>> =
            programs.into_iter().map(|it| (it, Vec::new())).collect();
        for (program, metrics) in &mut by_program {
            let temporality = self.temporality.into();
            for (label, data_points) in self.sums.remove(program).unwrap_or_default() {
                let sum = Sum {
                    data_points,
                    aggregation_temporality: temporality,
                    is_monotonic: true,
                };
                metrics.push(metric(label, MetricData::Sum(sum)));
            }
            if let Some(data_points) = self.durations.remove(program) {
                let histogram = ExponentialHistogram {
                    data_points,
                    aggregation_temporality: temporality,
                };
                metrics.push(metric(
                    DURATION,
                    MetricData::ExponentialHistogram(histogram),
                ));
            }
        }
        let resource_metrics = by_program
            .into_iter()
            .map(|(program, metrics)| ResourceMetrics {
                resource: Some(resources.resource(program.as_deref())),
                scope_metrics: vec![ScopeMetrics {
                    scope: Some(scope()),
                    metrics,
                }],
            });
        let request = MetricsRequest {
            resource_metrics: resource_metrics.collect(),
        };
        Message {
            signal: Signal::Metrics,
            items: std::mem::take(&mut self.points),
            bytes: request.encode_to_vec(),
        }
    }
}

/// Sums of the connections of one program.
#[derive(Default)]
struct ProgramTotals {
    connections: u64,
    stages: BTreeMap<(&'static str, &'static str), u64>,
    sent: Option<u64>,
    received: Option<u64>,
    retransmits: Option<u64>,
    timeouts: Option<u64>,
}

/// Returns the sums of each program's connections.
fn program_totals(report: &Report) -> BTreeMap<Option<&str>, ProgramTotals> {
    let mut programs: BTreeMap<_, ProgramTotals> = BTreeMap::new();
    for connection in &report.connections {
        let process = connection.process.as_ref();
        let program = process.and_then(|it| it.comm.as_deref());
        programs.entry(program).or_default().add(connection);
    }
    programs
}

impl ProgramTotals {
    fn add(&mut self, connection: &diagnose::report::Connection) {
        self.connections += 1;
        for (stage, share) in connection.stages.iter() {
            *self
                .stages
                .entry((stage.name(), share.method.name()))
                .or_default() += share.ns;
        }
        let totals = &connection.totals;
        for (sum, number) in [
            (&mut self.sent, totals.bytes_sent),
            (&mut self.received, totals.bytes_received),
            (&mut self.retransmits, totals.retransmits),
            (&mut self.timeouts, totals.timeouts),
        ] {
            *sum = match (*sum, number) {
                (Some(sum), Some(number)) => Some(sum.saturating_add(number)),
                (sum, number) => sum.or(number),
            };
        }
    }
}

fn metric((name, unit, description): Label, data: MetricData) -> Metric {
    Metric {
        name: name.to_owned(),
        description: description.to_owned(),
        unit: unit.to_owned(),
        data: Some(data),
    }
}

fn seconds(ns: u64) -> Number {
    Number::Real(ns as f64 / SECOND_NS)
}

fn count(number: u64) -> Number {
    Number::Whole(whole(number))
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
