//! Requests as spans: each with its steps as children. Only the slowest are kept, as many as are wanted.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};
use std::io;

use diagnose::Report;
use diagnose::report::Finding;
use diagnose::requests::report::{PathStep, RequestRow, Service};
use diagnose::requests::{RequestId, Side};

use crate::attribute::attribute;
use crate::batch::{Batch, Sink};
use crate::clock::RecordingClock;
use crate::identity::{IdentityTable, SpanIdentity};
use crate::logs;
use crate::proto::{KeyValue, OtlpSpan, SpanKind};
use crate::resource::{ResourceSource, page, server_address};

/// The slowest requests, and how many were faster.
#[derive(Debug)]
pub(crate) struct SlowestRequests {
    limit: usize,
    kept: BTreeMap<(u64, Reverse<String>), RequestRow>,
    /// Requests that are not kept.
    pub(crate) left_out: u64,
}

impl SlowestRequests {
    /// Keeps at most `limit`.
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            limit,
            kept: BTreeMap::new(),
            left_out: 0,
        }
    }

    /// Adds a request, if it is among the slowest.
    pub(crate) fn add(&mut self, row: RequestRow) {
        let key = (row.duration_ns, Reverse(row.id.clone()));
        self.kept.insert(key, row);
        if self.kept.len() > self.limit {
            self.kept.pop_first();
            self.left_out += 1;
        }
    }

    /// Returns the number of kept requests.
    pub(crate) fn len(&self) -> u64 {
        self.kept.len() as u64
    }

    /// Returns the kept requests, the slowest first.
    fn rows(&self) -> impl Iterator<Item = &RequestRow> {
        self.kept.values().rev()
    }
}

/// Things to which spans refer.
pub(crate) struct SpanContext<'a> {
    /// Findings, and the host.
    pub(crate) report: &'a Report,
    /// Services by their title.
    pub(crate) services: &'a BTreeMap<String, &'a Service>,
    /// Ids.
    pub(crate) identities: &'a IdentityTable,
}

/// Writes the slowest requests.
pub(crate) fn write(
    slowest: &SlowestRequests,
    context: &SpanContext<'_>,
    resources: &ResourceSource,
    sink: &mut Sink<'_>,
) -> io::Result<()> {
    let identified = || {
        slowest.rows().filter_map(|row| {
            let service = *context.services.get(&row.service)?;
            let id: RequestId = row.id.parse().ok()?;
            Some((row, service, context.identities.request(id, service.role)))
        })
    };
    let written: HashSet<[u8; 8]> = identified().map(|(_, _, identity)| identity.span).collect();
    let mut batch = Batch::new(resources);
    for (row, service, mut identity) in identified() {
        identity.client = identity.client.filter(|span| written.contains(span));
        let name = Some(service.name.as_str());
        batch.add(name, request(row, service, &identity, context.report), sink)?;
        let clock = RecordingClock::new(&context.report.about.host);
        for (number, step) in row.path.iter().enumerate() {
            batch.add(name, child(row, step, (&identity, number), clock), sink)?;
        }
    }
    batch.flush(sink)
}

/// Makes the span of a request.
fn request(
    row: &RequestRow,
    service: &Service,
    identity: &SpanIdentity,
    report: &Report,
) -> OtlpSpan {
    let clock = RecordingClock::new(&report.about.host);
    let size = |range: (u64, u64)| range.1.saturating_sub(range.0);
    let mut attributes = vec![
        attribute("whylat.request.id", row.id.as_str()),
        attribute("whylat.request.bytes", size(row.request)),
        attribute("whylat.response.bytes", size(row.response)),
        attribute("whylat.request.calls", row.calls),
        attribute("whylat.path_is_cut", row.path_is_cut),
    ];
    attributes.extend(server_address(&service.address));
    let parts = row.parts.iter();
    attributes
        .extend(parts.map(|(part, ns)| attribute(format!("whylat.part.{}_ns", part.name()), ns)));
    attributes.extend(findings(&report.findings, service));
    OtlpSpan {
        trace_id: identity.trace.to_vec(),
        span_id: identity.span.to_vec(),
        parent_span_id: identity.client.map(|it| it.to_vec()).unwrap_or_default(),
        name: row.service.clone(),
        kind: match service.role {
            Side::Server => SpanKind::Server,
            Side::Client => SpanKind::Client,
        }
        .into(),
        start_time_unix_nano: clock.unix_ns(row.begin_ns),
        end_time_unix_nano: clock.unix_ns(row.begin_ns) + row.duration_ns,
        attributes,
    }
}

/// Returns the rules and the pages of the findings on requests of a service.
fn findings(findings: &[Finding], service: &Service) -> Vec<KeyValue> {
    let is_of_service = |finding: &&Finding| {
        let requests = finding.subject.requests.as_ref();
        requests.is_some_and(|it| it.role == service.role && it.address == service.address)
            && logs::service(&finding.subject).is_none_or(|name| name == service.name)
    };
    let rules = findings.iter().filter(is_of_service);
    let rules: Vec<_> = rules.map(|it| it.rule.name().to_owned()).collect();
    if rules.is_empty() {
        return Vec::new();
    }
    let pages: Vec<_> = rules.iter().map(|rule| page(rule)).collect();
    vec![
        attribute("whylat.finding.rules", rules),
        attribute("whylat.finding.pages", pages),
    ]
}

/// Makes the span of one step of a request.
fn child(
    row: &RequestRow,
    step: &PathStep,
    (identity, number): (&SpanIdentity, usize),
    clock: RecordingClock,
) -> OtlpSpan {
    let begin_ns = clock.unix_ns(row.begin_ns + step.after_ns);
    let mut attributes = vec![attribute("whylat.part", step.part.name())];
    if let Some(process) = &step.process {
        attributes.extend(process.pid.map(|pid| attribute("process.pid", pid)));
        let name = process.comm.as_deref();
        attributes.extend(name.map(|name| attribute("process.executable.name", name)));
    }
    attributes.extend(step.tid.map(|tid| attribute("thread.id", tid)));
    attributes.extend(step.behind.map(|behind| attribute("whylat.behind", behind)));
    let texts = [
        ("whylat.connection", step.connection.clone()),
        (
            "whylat.other_end",
            step.other_end.as_ref().map(|it| it.title()),
        ),
        (
            "whylat.woken_by",
            step.woken_by.as_ref().map(|it| it.process.title()),
        ),
        ("whylat.stack", step.stack.clone()),
    ];
    let texts = texts
        .into_iter()
        .filter_map(|(key, text)| Some(attribute(key, text?)));
    attributes.extend(texts);
    OtlpSpan {
        trace_id: identity.trace.to_vec(),
        span_id: identity.step(number).to_vec(),
        parent_span_id: identity.span.to_vec(),
        name: step.part.text().to_owned(),
        kind: SpanKind::Internal.into(),
        start_time_unix_nano: begin_ns,
        end_time_unix_nano: begin_ns + step.ns,
        attributes,
    }
}
