//! Findings as moments: each where it began to do harm.

use std::io;

use diagnose::report::finding::Finding;

use super::trace::{NoteValue, TraceEvent, TrackKind};
use super::tracks::TraceDrawing;

/// Writes each finding as a span over its time.
pub(super) fn draw(drawing: &mut TraceDrawing<'_>, findings: &[Finding]) -> io::Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    let track = drawing
        .trace
        .track(TrackKind::Named("Findings"), None, None)?;
    for finding in findings {
        let subject = &finding.subject;
        let process = subject.process.as_ref().map(|process| process.title());
        let mut notes = vec![
            ("headline", NoteValue::Text(&finding.headline)),
            ("severity", NoteValue::Text(finding.severity.name())),
            ("local", NoteValue::Text(&subject.local)),
            ("remote", NoteValue::Text(&subject.remote)),
            ("until_ns", NoteValue::Unsigned(finding.until_ns)),
            ("harm_ns", NoteValue::Unsigned(finding.harm_ns)),
        ];
        if let Some(process) = &process {
            notes.push(("process", NoteValue::Text(process)));
        }
        let what = TraceEvent {
            name: finding.rule.name(),
            category: "finding",
            flow: None,
            notes: &notes,
        };
        drawing.trace.instant(track, finding.from_ns, &what)?;
    }
    Ok(())
}
