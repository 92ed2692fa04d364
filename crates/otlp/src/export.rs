//! A recording → messages, in the order in which they are sent: metrics, logs, spans.

use std::collections::BTreeMap;
use std::io;

use diagnose::recording::{self, DiagnosisOptions};
use diagnose::requests::RequestFilter;
use serde::{Deserialize, Serialize};
use table::Recording;
use table::tables::Call;

use crate::identity::IdentityTable;
use crate::logs;
use crate::metrics::{self, MetricSource, ServiceDurations};
use crate::resource::ResourceSource;
use crate::signal::Message;
use crate::spans::{self, SlowestRequests, SpanContext};

/// Options of an export.
#[derive(Debug, Clone, Copy)]
pub struct ExportOptions {
    /// Requests that become spans, at most: the slowest.
    pub requests: usize,
    /// Limits of the diagnosis.
    pub judging: DiagnosisOptions,
}

/// Numbers of what was written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportSummary {
    /// Data points of metrics.
    pub points: u64,
    /// Findings and undecided problems.
    pub findings: u64,
    /// Requests that are spans.
    pub requests: u64,
    /// Faster requests, which are in the metrics alone.
    pub requests_left_out: u64,
    /// Connections that are not judged, because there are too many.
    pub connections_left_out: u64,
    /// Whether the recording holds calls: without, it has no requests.
    pub has_calls: bool,
    /// Whether the recording is whole.
    pub is_complete: bool,
    /// Damaged or missing parts of it.
    pub problems: Vec<String>,
}

/// Writes all messages of a recording.
///
/// # Errors
/// When the sink has one.
pub fn export(
    recording: &Recording,
    options: ExportOptions,
    sink: &mut dyn FnMut(Message) -> io::Result<()>,
) -> io::Result<ExportSummary> {
    let report = recording::findings(recording, options.judging);
    let listed = report.requests.iter().flat_map(|it| &it.services);
    let services: BTreeMap<_, _> = listed.map(|it| (it.title(), it)).collect();
    let mut slowest = SlowestRequests::new(options.requests);
    let mut durations: BTreeMap<String, ServiceDurations> = BTreeMap::new();
    let has_calls = recording.rows::<Call>() > 0;
    if has_calls {
        recording::for_each_request(recording, RequestFilter::default(), |row| {
            durations.entry(row.service.clone()).or_default().add(&row);
            slowest.add(row);
        });
    }
    let identities = IdentityTable::new(&report);
    let resources = ResourceSource::from_recording(&report.about.host);
    let source = MetricSource {
        recording,
        report: &report,
        services: &services,
        durations: &durations,
        identities: &identities,
    };
    let points = metrics::write(&source, &resources, sink)?;
    let findings = logs::write(&report, &resources, sink)?;
    let context = SpanContext {
        report: &report,
        services: &services,
        identities: &identities,
    };
    spans::write(&slowest, &context, &resources, sink)?;
    Ok(ExportSummary {
        points,
        findings,
        requests: slowest.len(),
        requests_left_out: slowest.left_out,
        connections_left_out: report.connections_not_judged,
        has_calls,
        is_complete: report.about.is_complete(),
        problems: report.about.problems,
    })
}
