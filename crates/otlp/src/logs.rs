//! Findings as log records: the headline is the body, and everything else an attribute.

use diagnose::Report;
use diagnose::report::finding::{FactList, FindingSubject};
use diagnose::report::{FactValue, Finding, Severity, UndecidedFinding};

use crate::attribute::attribute;
use crate::batch::{Batch, Sink};
use crate::clock::RecordingClock;
use crate::proto::{AnyValue, KeyValue, LogRecord, Value};
use crate::resource::{ResourceSource, page, server_address};
use crate::signal::Message;

/// Event name of findings.
const FINDING: &str = "whylat.finding";

/// Writes findings and undecided problems. Returns how many of both.
pub(crate) fn write(
    report: &Report,
    resources: &ResourceSource,
    sink: &mut Sink<'_>,
) -> std::io::Result<u64> {
    let clock = RecordingClock::new(&report.about.host);
    let observed_ns = clock.begin_ns() + report.about.span_ns;
    let mut batch = Batch::new(resources);
    for finding in &report.findings {
        let record = LogRecord {
            time_unix_nano: clock.unix_ns(finding.from_ns),
            observed_time_unix_nano: observed_ns,
            ..finding_log(finding)
        };
        batch.add(service(&finding.subject), record, sink)?;
    }
    for undecided in &report.undecided {
        let record = LogRecord {
            time_unix_nano: clock.begin_ns(),
            observed_time_unix_nano: observed_ns,
            ..undecided_log(undecided)
        };
        batch.add(service(&undecided.subject), record, sink)?;
    }
    batch.flush(sink)?;
    Ok((report.findings.len() + report.undecided.len()) as u64)
}

/// Returns the name of the program that a finding is about.
pub(crate) fn service(subject: &FindingSubject) -> Option<&str> {
    subject.process.as_ref()?.comm.as_deref()
}

/// A finding of a running program.
#[derive(Debug, Clone)]
pub struct FindingRecord {
    /// Program that it is about.
    pub service: Option<String>,
    /// When it began to do harm, and when it was seen, ns since 1970.
    pub times_ns: (u64, u64),
    /// How bad it is.
    pub severity: Severity,
    /// Name of its rule, which has a page.
    pub rule: &'static str,
    /// Sentence that says it.
    pub headline: String,
    /// Further attributes.
    pub attributes: Vec<KeyValue>,
}

/// Returns messages of findings.
pub fn encode_findings(records: Vec<FindingRecord>, resources: &ResourceSource) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut sink = |message| {
        messages.push(message);
        Ok(())
    };
    let mut batch = Batch::new(resources);
    let written = records.into_iter().try_for_each(|record| {
        let service = record.service.clone();
        batch.add(service.as_deref(), agent_finding_log(record), &mut sink)
    });
    // this sink has no error
    let _ = written.and_then(|()| batch.flush(&mut sink));
    messages
}

/// Makes the log record of a finding of an agent.
fn agent_finding_log(record: FindingRecord) -> LogRecord {
    let (severity_number, severity_text) = severity(record.severity);
    let mut attributes = vec![
        attribute("whylat.finding.rule", record.rule),
        attribute("whylat.finding.severity", record.severity.name()),
        attribute("whylat.finding.page", page(record.rule)),
    ];
    attributes.extend(record.attributes);
    LogRecord {
        time_unix_nano: record.times_ns.0,
        observed_time_unix_nano: record.times_ns.1,
        severity_number,
        severity_text: severity_text.to_owned(),
        body: Some(body(&record.headline)),
        attributes,
        event_name: FINDING.to_owned(),
    }
}

/// Returns the number and the text of a severity in OpenTelemetry's data model.
const fn severity(severity: Severity) -> (i32, &'static str) {
    match severity {
        Severity::Info => (9, "INFO"),
        Severity::Warning => (13, "WARN"),
        Severity::Critical => (17, "ERROR"),
    }
}

/// Makes the log record of a finding of a report.
fn finding_log(finding: &Finding) -> LogRecord {
    let (severity_number, severity_text) = severity(finding.severity);
    let rule = finding.rule.name();
    let mut attributes = vec![
        attribute("whylat.finding.rule", rule),
        attribute("whylat.finding.severity", finding.severity.name()),
        attribute("whylat.finding.page", page(rule)),
        attribute("whylat.finding.harm_ns", finding.harm_ns),
        attribute("whylat.finding.share", finding.share),
    ];
    attributes.extend(about(&finding.subject));
    let advice = finding.advice.iter().map(|it| it.0.to_string());
    attributes.push(attribute("whylat.finding.fix", advice.collect::<Vec<_>>()));
    attributes.extend(facts(&finding.evidence));
    LogRecord {
        severity_number,
        severity_text: severity_text.to_owned(),
        body: Some(body(&finding.headline)),
        attributes,
        event_name: FINDING.to_owned(),
        ..LogRecord::default()
    }
}

/// Makes the log record of what could not be decided.
fn undecided_log(undecided: &UndecidedFinding) -> LogRecord {
    let (severity_number, severity_text) = severity(Severity::Info);
    let candidates = undecided
        .candidates
        .iter()
        .map(|rule| rule.name().to_owned());
    let mut attributes = vec![
        attribute(
            "whylat.undecided.candidates",
            candidates.collect::<Vec<_>>(),
        ),
        attribute(
            "whylat.undecided.possible_harm_ns",
            undecided.possible_harm_ns,
        ),
        attribute("whylat.undecided.why", undecided.why.as_str()),
    ];
    attributes.extend(about(&undecided.subject));
    attributes.extend(facts(&undecided.evidence));
    LogRecord {
        severity_number,
        severity_text: severity_text.to_owned(),
        body: Some(body(&undecided.headline)),
        attributes,
        event_name: "whylat.undecided".to_owned(),
        ..LogRecord::default()
    }
}

/// Makes the text of a log record.
fn body(text: &str) -> AnyValue {
    AnyValue {
        value: Some(text.into()),
    }
}

/// Returns the attributes of a finding's subject: its process, its connections, its requests.
fn about(subject: &FindingSubject) -> Vec<KeyValue> {
    let mut attributes = vec![
        attribute("whylat.local", subject.local.as_str()),
        attribute("whylat.remote", subject.remote.as_str()),
        attribute("whylat.connections", subject.connections),
    ];
    if let Some(pid) = subject.process.as_ref().and_then(|it| it.pid) {
        attributes.push(attribute("process.pid", pid));
    }
    if let Some(requests) = &subject.requests {
        attributes.push(attribute("whylat.service.role", requests.role.name()));
        attributes.push(attribute("whylat.requests", requests.requests));
        attributes.extend(server_address(&requests.address));
    }
    attributes
}

/// Returns the evidence as attributes.
fn facts(evidence: &FactList) -> impl Iterator<Item = KeyValue> {
    evidence.0.iter().map(|fact| {
        let value = match fact.value {
            FactValue::Whole(number) => Value::from(number),
            FactValue::Real(number) => number.into(),
            FactValue::Is(is) => is.into(),
        };
        attribute(format!("whylat.evidence.{}", fact.name), value)
    })
}
