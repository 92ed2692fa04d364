//! Findings as moments: each where it began to do harm.

use std::io;

use diagnose::report::finding::Finding;

use super::trace::{Event, Note, Of};
use super::tracks::Drawing;

pub(super) fn draw(drawing: &mut Drawing<'_>, findings: &[Finding]) -> io::Result<()> {
    if findings.is_empty() {
        return Ok(());
    }
    let track = drawing.trace.track(Of::Named("Findings"), None, None)?;
    for finding in findings {
        let subject = &finding.subject;
        let process = subject.process.as_ref().map(|process| process.title());
        let mut notes = vec![
            ("headline", Note::Text(&finding.headline)),
            ("severity", Note::Text(finding.severity.name())),
            ("local", Note::Text(&subject.local)),
            ("remote", Note::Text(&subject.remote)),
            ("until_ns", Note::Unsigned(finding.until_ns)),
            ("harm_ns", Note::Unsigned(finding.harm_ns)),
        ];
        if let Some(process) = &process {
            notes.push(("process", Note::Text(process)));
        }
        let what = Event {
            name: finding.rule.name(),
            category: "finding",
            flow: None,
            notes: &notes,
        };
        drawing.trace.instant(track, finding.from_ns, &what)?;
    }
    Ok(())
}
