//! The report for people: the answer first, then each warning with its evidence and its fix, then what is only good to
//! know, one line each, then the connections. The end is what the recording covers, lost and cost.

mod answer;
pub mod bar;
mod connections;
mod coverage;
mod ends;
pub mod findings;
mod footer;
mod meanwhile;
mod messages;
mod notes;
mod preceding;
mod slow;
mod tail;
mod waits;

use diagnose::Report;
use diagnose::report::{About, DataDirection, FindingSubject};
use diagnose::units::{count, duration};

use crate::TextOptions;
use crate::layout::{Style, TextLayout};

pub use answer::sentence;
pub use ends::text as ends;
pub use messages::{story_text as message, text as messages};
pub use tail::text as tail;
pub use waits::text as waits;

/// Column in which labelled text begins, after the indent.
const LABEL: usize = 12;

/// Returns the whole report.
pub fn text(report: &Report, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    head(&mut layout, &report.about);
    if let Some(text) = report.not_judged() {
        layout.paragraph(0, Style::Bold, &text);
        layout.blank();
    }
    answer::draw(&mut layout, report);
    findings::draw(&mut layout, report, options);
    slow::draw(&mut layout, report);
    notes::draw(&mut layout, report, options);
    connections::draw(&mut layout, report, options);
    footer::draw(&mut layout, &report.about);
    layout.finish()
}

/// Draws which recording this is, and its damage.
fn head(layout: &mut TextLayout, about: &About) {
    let host = &about.host;
    let text = format!(
        "whylat · {} · Linux {} · detail {} · {} recorded",
        host.name,
        release(&host.kernel),
        host.detail,
        duration(about.span_ns)
    );
    layout.paragraph(0, Style::Dim, &text);
    layout.blank();
    if let Some(damage) = about.damage("problem") {
        layout.paragraph(0, Style::Bold, &damage);
        layout.blank();
    }
}

/// Returns the kernel's release, without its build.
fn release(kernel: &str) -> &str {
    kernel.split(' ').next().unwrap_or(kernel)
}

/// Draws how many entries of a list are hidden, and the option that shows them.
fn more(layout: &mut TextLayout, shown: usize, all: usize) {
    if all > shown {
        let hidden = count((all - shown) as u64);
        let text = format!("{hidden} more: --limit {all} shows them.");
        layout.paragraph(2, Style::Dim, &text);
    }
}

/// Returns the process, the connection and the direction that a finding is about.
fn subject(subject: &FindingSubject, direction: DataDirection) -> String {
    let process = process(subject.process.as_ref());
    let (arrow, verb) = match direction {
        DataDirection::Sending => ("→", "sending"),
        DataDirection::Receiving => ("←", "receiving"),
    };
    let (local, remote) = (&subject.local, &subject.remote);
    if subject.connections == 1 {
        format!("{process} {local} {arrow} {remote}, {verb}")
    } else {
        let number = count(subject.connections);
        format!("{process}, {number} connections, {verb}; worst: {local} {arrow} {remote}")
    }
}

/// Returns a process as `comm[pid]`.
fn process(process: Option<&diagnose::report::Process>) -> String {
    let Some(process) = process else {
        return "unknown process".to_owned();
    };
    let comm = process.comm.as_deref().unwrap_or("?");
    match process.pid {
        Some(pid) => format!("{comm}[{pid}]"),
        None => comm.to_owned(),
    }
}
