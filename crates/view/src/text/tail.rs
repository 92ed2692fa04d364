//! Why the slow messages of each application are slow.

use diagnose::tail::Role;
use diagnose::tail::report::{Cause, Order, Quantile, TailGroup, TailReport};
use diagnose::units::{count, counted, duration, percent};

use super::messages::LABEL;
use super::{footer, head};
use crate::TextOptions;
use crate::page::{Page, Style};

/// Parts of a cause that are named.
const PARTS: usize = 3;

/// Messages hit of which a spread is told.
const SPREAD_OF: u64 = 4;

/// Draws the whole report; of each application the first `limit` causes.
pub fn text(report: &TailReport, limit: usize, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    head(&mut page, &report.about);
    page.paragraph(0, Style::Bold, &answer(report));
    page.blank();
    for group in &report.groups {
        draw(&mut page, report, group, limit);
    }
    footer::draw(&mut page, &report.about);
    page.finish()
}

fn answer(report: &TailReport) -> String {
    let worst = report.groups.iter().find(|group| !group.causes.is_empty());
    let what = if report.other.is_some() {
        "Messages that take longer than in the other recording,"
    } else {
        "Slow messages"
    };
    let Some((group, cause)) = worst.and_then(|it| Some((it, it.causes.first()?))) else {
        let judged = |it: &TailGroup| it.tail.kept > 0 && it.body.kept > 0;
        return if report.groups.iter().all(|it| it.messages == 0) {
            "There was no message."
        } else if report.groups.iter().any(judged) {
            "No message took longer than usual, of those that could be judged."
        } else {
            "Of no slow message it can be told why."
        }
        .to_owned();
    };
    format!(
        "{what} {} by {}: {}. First cause of {} of {}.",
        group.direction.name(),
        name(group),
        title(cause),
        count(cause.first),
        counted(group.tail.kept, "message")
    )
}

fn name(group: &TailGroup) -> &str {
    group.application.as_deref().unwrap_or("an unknown process")
}

fn draw(page: &mut Page, report: &TailReport, group: &TailGroup, limit: usize) {
    let direction = group.direction.name();
    page.title(&[
        (Style::Bold, name(group)),
        (Style::Dim, &format!(", {direction}")),
    ]);
    page.labelled(
        2,
        "messages",
        LABEL,
        &latencies(group.messages, &group.latency),
    );
    if report.other.is_some() && !group.compared.is_empty() {
        let text = latencies(group.compared_messages, &group.compared);
        page.labelled(2, "other", LABEL, &text);
    }
    let (tail, body) = (&group.tail, &group.body);
    let slow = format!(
        "{}, {} to {} ({}); of {} it is known what their CPUs did",
        count(tail.messages),
        duration(tail.from_ns),
        duration(tail.until_ns),
        report.tail,
        count(tail.kept)
    );
    page.labelled(2, "looked at", LABEL, &slow);
    let whose = if report.other.is_some() {
        " of the other recording"
    } else {
        ""
    };
    let ordinary = format!(
        "{}, {} to {} ({}{whose}); of {} it is known",
        count(body.messages),
        duration(body.from_ns),
        duration(body.until_ns),
        report.body,
        count(body.kept)
    );
    page.labelled(2, "compared", LABEL, &ordinary);
    if tail.kept == 0 || body.kept == 0 {
        let hint = "not judged: record with --keep p99,sample=100, for longer";
        page.labelled(2, "", LABEL, hint);
        page.blank();
        return;
    }
    if let Some(covered) = group.covered {
        let text = format!(
            "{} of what they took longer (median); {} at least",
            percent(covered.median),
            percent(covered.least)
        );
        page.labelled(2, "explained", LABEL, &text);
    }
    let queue = &group.queue;
    let text = format!(
        "{} ahead of a slow message (median), {} at most; usual: {:.1}",
        counted(u64::from(queue.median), "message"),
        queue.most,
        queue.usual
    );
    page.labelled(2, "queue", LABEL, &text);
    page.blank();
    for cause in group.causes.iter().take(limit) {
        draw_cause(page, cause);
    }
    let more = group.causes.len().saturating_sub(limit);
    if more > 0 {
        let text = format!("{} more: --limit {} shows them.", more, group.causes.len());
        page.paragraph(2, Style::Dim, &text);
        page.blank();
    }
}

fn latencies(messages: u64, latency: &[Quantile]) -> String {
    let at = |share: f64| {
        let found = latency.iter().find(|it| it.share >= share);
        found.map_or_else(String::new, |it| duration(it.ns))
    };
    format!(
        "{}; half took up to {}, 99 % {}, 99.9 % {}, all {}",
        count(messages),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    )
}

/// A cause in a few words.
fn title(cause: &Cause) -> String {
    let core = match cause.role {
        Role::Application => "application core",
        Role::Receive => "receive core",
    };
    format!("{} ({core})", cause.what)
}

fn draw_cause(page: &mut Page, cause: &Cause) {
    let rule = format!("  [{}]", cause.rule);
    page.line(2, &[(Style::Bold, &title(cause)), (Style::Dim, &rule)]);
    let deviation = &cause.deviation;
    let ns = |ns: f64| duration(ns.round() as u64);
    let bunched = match cause.order {
        Order::Bunched => ", one after the other",
        Order::Spread => "",
    };
    let text = format!(
        "{}{bunched}; the first cause of {}",
        counted(cause.messages, "message"),
        count(cause.first)
    );
    page.labelled(4, "hit", LABEL - 2, &text);
    let mut text = format!("{} longer", ns(deviation.median_ns));
    if cause.messages >= SPREAD_OF {
        text += &format!(
            " (half of them between {} and {}; {} at most)",
            ns(deviation.quarter_ns),
            ns(deviation.three_quarters_ns),
            ns(deviation.most_ns)
        );
    }
    page.labelled(4, "took", LABEL - 2, &text);
    let parts: Vec<String> = cause
        .parts
        .iter()
        .filter(|part| part.name != cause.what)
        .take(PARTS)
        .map(|part| format!("{} {}", part.name, ns(part.deviation.median_ns)))
        .collect();
    if !parts.is_empty() {
        page.labelled(4, "in", LABEL - 2, &parts.join(", "));
    }
    page.labelled(4, "such as", LABEL - 2, &cause.examples.join(", "));
    page.labelled(4, "fix", LABEL - 2, cause.advice);
    page.blank();
}
