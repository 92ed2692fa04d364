//! The slow messages of a recording, in short: of the applications where they cost enough to be a warning.

use diagnose::Report;
use diagnose::report::{Severity, SlowCause, SlowMessages};
use diagnose::units::{count, duration, percent, quantity};

use super::parts::LABEL;
use super::tail::{cause_title, describe_band};
use crate::layout::{Style, TextLayout};

/// Applications drawn.
const SHOWN: usize = 3;

/// Returns one sentence on the slow messages with the worst severity.
pub fn headline(slow: &SlowMessages) -> String {
    let cause = slow.causes.first();
    let cause = cause.map_or_else(|| "unknown cause".to_owned(), title);
    format!(
        "{} slow messages {} by {}. Most frequent cause: {cause}. They took {} longer, {} of the time of all \
         messages.",
        count(slow.messages),
        slow.direction.name(),
        name(slow),
        duration(slow.harm_ns),
        percent(slow.share)
    )
}

/// Draws the warnings, if the CPU activity was recorded.
pub fn draw(layout: &mut TextLayout, report: &Report) {
    let mut all = report.costly_messages().peekable();
    let Some(first) = all.peek() else {
        return;
    };
    let hint = format!(
        "All causes: `whylat report --tail {}`; one message: `whylat report --message ID`.",
        first.tail
    );
    layout.title(&[(Style::Bold, "slow messages")]);
    for messages in all.take(SHOWN) {
        draw_messages(layout, messages);
    }
    layout.paragraph(2, Style::Dim, &hint);
    layout.blank();
}

/// Returns the note that slow messages are no problem, with the command that explains them.
pub fn note(report: &Report) -> Option<(String, String)> {
    let first = report.slow_messages.iter().flatten().next()?;
    if report.costly_messages().next().is_some() {
        return None;
    }
    let text = format!(
        "they cost at most 5 % of the time of all messages; `whylat report --tail {}` explains them.",
        first.tail
    );
    Some(("slow messages".to_owned(), text))
}

/// Returns the program that received or sent the messages.
fn name(slow: &SlowMessages) -> &str {
    slow.application.as_deref().unwrap_or("an unknown process")
}

/// Writes the slow messages of a program, with their first causes.
fn draw_messages(layout: &mut TextLayout, slow: &SlowMessages) {
    let style = match slow.severity {
        Severity::Critical => Style::Red,
        Severity::Warning => Style::Yellow,
        Severity::Info => Style::Green,
    };
    let (name, direction) = (name(slow), slow.direction.name());
    layout.line(
        2,
        &[
            (style, slow.severity.name()),
            (Style::Cyan, &format!(" · {name}, {direction}")),
        ],
    );
    let text = format!(
        "{} ({}); ordinary: {}",
        quantity(slow.messages, "message"),
        describe_band(&slow.tail, slow.from_ns, slow.until_ns),
        duration(slow.usual_ns.round() as u64)
    );
    layout.entry(2, "slow", LABEL, &text);
    let text = format!(
        "{} of the extra time (median of {})",
        percent(slow.covered),
        quantity(slow.judged, "message")
    );
    layout.entry(2, "explained", LABEL, &text);
    for (index, cause) in slow.causes.iter().enumerate() {
        let label = if index == 0 { "causes" } else { "" };
        layout.entry(2, label, LABEL, &because(cause));
    }
    if let Some(first) = slow.causes.first() {
        layout.entry(2, "fix", LABEL, first.advice);
    }
    layout.blank();
}

/// Returns what caused slow messages, with its role.
fn title(cause: &SlowCause) -> String {
    cause_title(cause.rule, &cause.what, cause.role)
}

/// Returns a cause: messages, extra time, an example.
fn because(cause: &SlowCause) -> String {
    format!(
        "{}: first cause of {}, {} longer, for example {} [{}]",
        title(cause),
        count(cause.first),
        duration(cause.deviation_ns.round() as u64),
        cause.examples.first().map_or("", String::as_str),
        cause.rule
    )
}
