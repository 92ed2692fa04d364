//! The report for people: the answer first, then each finding with its evidence, slow messages, then the
//! worst connections with a bar of their stages, then what the recording covers, lost and
//! cost, always, even when zero.

mod answer;
pub mod bar;
mod connections;
mod ends;
pub mod findings;
mod footer;
mod meanwhile;
mod messages;
mod preceding;
mod slow;
mod tail;
mod waits;

use diagnose::Report;
use diagnose::report::{About, Direction, Subject};
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

/// Draws the whole report.
pub fn text(report: &Report, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    head(&mut layout, &report.about);
    if let Some(text) = report.not_judged() {
        layout.paragraph(0, Style::Bold, &text);
        layout.blank();
    }
    answer::draw(&mut layout, report);
    findings::draw(&mut layout, report);
    slow::draw(&mut layout, report);
    connections::draw(&mut layout, report);
    footer::draw(&mut layout, &report.about);
    layout.finish()
}

fn head(layout: &mut TextLayout, about: &About) {
    let host = &about.host;
    let text = format!(
        "whylat · {} · Linux {} · detail {} · {} recorded",
        host.name,
        host.kernel,
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

/// Whom something is about, with the direction of the data.
fn who(subject: &Subject, direction: Direction) -> String {
    let process = process(subject.process.as_ref());
    let (arrow, verb) = match direction {
        Direction::Sending => ("→", "sending"),
        Direction::Receiving => ("←", "receiving"),
    };
    let (local, remote) = (&subject.local, &subject.remote);
    if subject.connections == 1 {
        format!("{process} {local} {arrow} {remote}, {verb}")
    } else {
        let number = count(subject.connections);
        format!("{process}, {number} connections, {verb}; worst: {local} {arrow} {remote}")
    }
}

/// A process as `comm[pid]`.
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
