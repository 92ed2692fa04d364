//! Metrics of a recording: one data point each, from its begin to its end.

use std::collections::BTreeMap;
use std::env;
use std::io;

use diagnose::Report;
use diagnose::requests::RequestId;
use diagnose::requests::report::{RequestRow, Service};
use table::tables::NetCounter;
use table::{Columns, Recording};

use crate::attribute::{attribute, whole};
use crate::batch::Sink;
use crate::clock::RecordingClock;
use crate::exponential::DurationHistogram;
use crate::identity::IdentityTable;
use crate::logs;
use crate::metric_table::{
    MetricKind, MetricLabel, MetricTable, TEMPORALITY_VARIABLE, temporality,
};
use crate::proto::{Exemplar, ExponentialPoint, Number};
use crate::resource::{ResourceSource, server_address};

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// How long the requests of a service took.
#[derive(Debug, Default)]
pub(crate) struct ServiceDurations {
    histogram: DurationHistogram,
    longest: Option<(u64, u64, String)>,
}

impl ServiceDurations {
    /// Adds the duration of a request.
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

const DURATION: MetricLabel = MetricLabel::new(
    MetricKind::Histogram,
    "whylat.request.duration",
    "s",
    "How long requests took",
);
const PART: MetricLabel = MetricLabel::new(
    MetricKind::Counter,
    "whylat.request.part.time",
    "s",
    "Time of all requests, by part",
);
const CONNECTIONS: MetricLabel = MetricLabel::new(
    MetricKind::Counter,
    "whylat.connection.count",
    "{connection}",
    "TCP connections that were judged",
);
const STAGE: MetricLabel = MetricLabel::new(
    MetricKind::Counter,
    "whylat.connection.stage.time",
    "s",
    "Time of connections in each stage, by method",
);
const IO: MetricLabel = MetricLabel::new(
    MetricKind::Counter,
    "process.network.io",
    "By",
    "Bytes that the process sent and received by TCP",
);
const RETRANSMITS: MetricLabel = MetricLabel::new(
    MetricKind::Counter,
    "whylat.tcp.retransmits",
    "{segment}",
    "Segments retransmitted",
);
const TIMEOUTS: MetricLabel = MetricLabel::new(
    MetricKind::Counter,
    "whylat.tcp.timeouts",
    "{timeout}",
    "Retransmission timeouts",
);
const HARM: MetricLabel = MetricLabel::new(
    MetricKind::Counter,
    "whylat.finding.harm",
    "s",
    "Time that a finding cost",
);
const LOST: MetricLabel = MetricLabel::new(
    MetricKind::Counter,
    "whylat.records.lost",
    "{record}",
    "Records that the recorder lost, by probe",
);
const DEVICE_ERRORS: MetricLabel = MetricLabel::new(
    MetricKind::Counter,
    "system.network.errors",
    "{error}",
    "Errors of network devices",
);
const DEVICE_DROPS: MetricLabel = MetricLabel::new(
    MetricKind::Counter,
    "system.network.packet.dropped",
    "{packet}",
    "Packets that network devices dropped",
);

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
    let times = (
        clock.begin_ns(),
        clock.begin_ns() + source.report.about.span_ns,
    );
    let wanted = env::var(TEMPORALITY_VARIABLE).unwrap_or_default();
    let mut table = MetricTable::new(times, temporality(&wanted));
    let mut points = 0;
    let mut flush = |table: &mut MetricTable| -> io::Result<()> {
        match table.take_message(resources) {
            Some(message) => {
                points += message.items;
                sink(message)
            }
            None => Ok(()),
        }
    };
    for (title, service) in source.services {
        table.add_service(
            service,
            source.durations.get(title),
            (source.identities, clock),
        );
        if table.is_full() {
            flush(&mut table)?;
        }
    }
    for (program, totals) in program_totals(source.report) {
        table.add_program(program, totals);
        if table.is_full() {
            flush(&mut table)?;
        }
    }
    table.add_findings(source.report);
    table.add_losses(source.report);
    table.add_devices(source.recording);
    flush(&mut table)?;
    Ok(points)
}

impl MetricTable {
    /// Adds requests, durations and parts of a service.
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
            attributes: of_service,
            exemplars: exemplar.into_iter().collect(),
            ..durations.histogram.point()
        };
        self.add_durations(name, DURATION, point);
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

    /// Adds the number and the harm of findings, by rule.
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

    /// Adds the records that probes lost.
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
    /// Adds the bytes, calls and retransmissions of a connection.
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

/// Returns nanoseconds as seconds.
fn seconds(ns: u64) -> Number {
    Number::Real(ns as f64 / SECOND_NS)
}

/// Returns a number as a whole one.
fn count(number: u64) -> Number {
    Number::Whole(whole(number))
}
