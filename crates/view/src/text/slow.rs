//! The slow messages of a recording, in short: of those applications whose slow messages cost enough to be a warning.

use diagnose::Report;
use diagnose::report::{Severity, SlowCause, SlowMessages};
use diagnose::units::{count, counted, duration, percent};

use super::LABEL;
use super::tail::core;
use crate::layout::{Style, TextLayout};

/// Applications that are told.
const SHOWN: usize = 3;

/// Those worth telling, worst first.
pub fn worth_telling(report: &Report) -> impl Iterator<Item = &SlowMessages> {
    let slow = report.slow_messages.iter().flatten();
    slow.filter(|it| it.severity > Severity::Info)
}

/// One sentence of the worst.
pub fn headline(slow: &SlowMessages) -> String {
    let cause = slow.causes.first();
    format!(
        "The slowest messages {} by {} took {} longer than usual, {} of the time of all: {}.",
        slow.direction.name(),
        name(slow),
        duration(slow.harm_ns),
        percent(slow.share),
        cause.map_or("", |cause| cause.what.as_str())
    )
}

/// Draws them, if what CPUs did was recorded.
pub fn draw(layout: &mut TextLayout, report: &Report) {
    let Some(first) = report.slow_messages.iter().flatten().next() else {
        return;
    };
    layout.title(&[(Style::Bold, "slow messages")]);
    for messages in worth_telling(report).take(SHOWN) {
        draw_messages(layout, messages);
    }
    let tail = &first.tail;
    let text = if worth_telling(report).next().is_some() {
        format!("`whylat report --tail {tail}` tells it all, `--message ID` one of them.")
    } else {
        format!(
            "Of no application they took more than 5 % of the time of all its messages; `whylat report --tail \
             {tail}` says why they were slow."
        )
    };
    layout.paragraph(2, Style::Dim, &text);
    layout.blank();
}

fn name(slow: &SlowMessages) -> &str {
    slow.application.as_deref().unwrap_or("an unknown process")
}

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
        "{} took {} to {} ({}) where {} is usual: {} longer in all",
        counted(slow.messages, "message"),
        duration(slow.from_ns),
        duration(slow.until_ns),
        slow.tail,
        duration(slow.usual_ns.round() as u64),
        duration(slow.harm_ns)
    );
    layout.labelled(2, "slowest", LABEL, &text);
    let text = format!(
        "why is known of {} of them; {} of what the median one took longer",
        count(slow.judged),
        percent(slow.covered)
    );
    layout.labelled(2, "explained", LABEL, &text);
    for (index, cause) in slow.causes.iter().enumerate() {
        let label = if index == 0 { "because of" } else { "" };
        layout.labelled(2, label, LABEL, &because(cause));
    }
    if let Some(first) = slow.causes.first() {
        layout.labelled(2, "do this", LABEL, first.advice);
    }
    layout.blank();
}

fn because(cause: &SlowCause) -> String {
    format!(
        "{} ({}), the first cause of {}: {} longer, such as {} [{}]",
        cause.what,
        core(cause.role),
        count(cause.first),
        duration(cause.deviation_ns.round() as u64),
        cause.examples.first().map_or("", String::as_str),
        cause.rule
    )
}
