//! Why the slow messages of each application are slow.

use diagnose::tail::report::{
    BandCounts, CpuShare, HitOrder, LatencyQuantile, TailCause, TailGroup, TailReport,
};
use diagnose::tail::{CoreRole, OWN_THREADS};
use diagnose::units::{count, duration, percent, quantity};

use super::footer;
use super::parts::LABEL;
use super::parts::{draw_head, draw_more};
use crate::layout::{Style, TextLayout, TextOptions};

/// Parts of a cause that are shown.
const PARTS: usize = 3;

/// Contexts of a CPU that are shown, and the least share of its time.
const CONTEXTS: usize = 5;
const LEAST_SHARE: f64 = 0.01;

/// Messages from which on quartiles are shown.
const QUARTILES_OF: u64 = 4;

/// Rules with a cause that is only the name of a process.
const CPU_CONTENTION: &str = "cpu_contention";
const PROBE_OVERHEAD: &str = "probe_overhead";

/// Returns the whole report; of each application the first `limit` causes.
pub fn text(report: &TailReport, limit: usize, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    draw_head(&mut layout, &report.about);
    layout.paragraph(0, Style::Bold, &answer_text(report));
    if !is_judged(report) && !report.groups.is_empty() {
        layout.paragraph(0, Style::Plain, HINT);
    }
    layout.blank();
    for group in &report.groups {
        draw(&mut layout, report, group, limit);
    }
    if is_judged(report) {
        let least = format_nanoseconds(report.resolution_ns);
        let text = format!(
            "Times are CLOCK_MONOTONIC of the host. Differences below {least} are ignored."
        );
        layout.paragraph(0, Style::Dim, &text);
        layout.blank();
    }
    footer::draw(&mut layout, &report.about);
    layout.finish()
}

/// How to record what CPUs did.
const HINT: &str = "hint: record with --keep p99,sample=100, for longer";

/// Returns the first line: how many messages are slow, and their most frequent cause.
fn answer_text(report: &TailReport) -> String {
    let takes_longer = |group: &&TailGroup| {
        let deviation_ns = group.deviation_ns.unwrap_or(0.0);
        deviation_ns >= report.resolution_ns && !group.causes.is_empty()
    };
    let worst = report.groups.iter().find(takes_longer);
    let Some((group, cause)) = worst.and_then(|it| Some((it, it.causes.first()?))) else {
        return nothing_longer(report).to_owned();
    };
    let kept = quantity(group.tail.kept, "message");
    let (direction, name) = (group.direction.name(), name(group));
    let slow = match &report.other {
        Some(_) => {
            format!("{kept} {direction} by {name}: slower than in the other recording.")
        }
        None => format!(
            "{} slow {} {direction} by {name}.",
            count(group.tail.kept),
            match group.tail.kept {
                1 => "message",
                _ => "messages",
            }
        ),
    };
    format!(
        "{slow} Most frequent cause: {} ({} of {}).",
        title(cause),
        count(cause.first),
        count(group.tail.kept)
    )
}

/// Returns whether CPU activity is recorded for any slow message and for ordinary ones.
fn is_judged(report: &TailReport) -> bool {
    let judged = |it: &TailGroup| it.tail.kept > 0 && it.body.kept > 0;
    report.groups.iter().any(judged)
}

/// Returns why no cause is reported.
fn nothing_longer(report: &TailReport) -> &'static str {
    let takes_less = |it: &TailGroup| {
        it.deviation_ns
            .is_some_and(|ns| ns <= -report.resolution_ns)
    };
    if report.groups.is_empty() {
        "No message matches."
    } else if !is_judged(report) {
        "No CPU activity was recorded for these messages; the cause cannot be determined."
    } else if report.other.is_none() {
        "No message took longer than ordinary ones."
    } else if report.groups.iter().any(takes_less) {
        "No message takes longer than in the other recording, and some are faster. Swap the recordings to see \
            why messages of the other one are slower."
    } else {
        "No message takes longer than in the other recording."
    }
}

/// Returns the program that received or sent the messages.
fn name(group: &TailGroup) -> &str {
    group.application.as_deref().unwrap_or("an unknown process")
}

/// Writes one group: latencies, causes, messages.
fn draw(layout: &mut TextLayout, report: &TailReport, group: &TailGroup, limit: usize) {
    let direction = group.direction.name();
    layout.title(&[
        (Style::Bold, name(group)),
        (Style::Dim, &format!(", {direction}")),
    ]);
    draw_latencies(layout, report, group);
    let (tail, body) = (&group.tail, &group.body);
    layout.entry(2, "slow", LABEL, &band_text(&report.tail, tail));
    let other = match report.other {
        Some(_) => ", of the other recording",
        None => "",
    };
    let ordinary = format!("{}{other}", band_text(&report.body, body));
    layout.entry(2, "ordinary", LABEL, &ordinary);
    if tail.kept == 0 || body.kept == 0 {
        layout.blank();
        return;
    }
    draw_whole(layout, group);
    layout.blank();
    for cause in group.causes.iter().take(limit) {
        draw_cause(layout, cause);
    }
    if group.causes.len() > limit {
        draw_more(layout, limit, group.causes.len());
        layout.blank();
    }
}

/// Writes percentiles of slow and of compared messages.
fn draw_latencies(layout: &mut TextLayout, report: &TailReport, group: &TailGroup) {
    let text = latencies(group.messages, &group.latency);
    layout.entry(2, "messages", LABEL, &text);
    if report.other.is_some() && !group.compared.is_empty() {
        let text = latencies(group.compared_messages, &group.compared);
        layout.entry(2, "other", LABEL, &text);
    }
}

/// Returns the number of messages in a band, and of those with recorded CPU activity.
fn band_text(band: &str, judged: &BandCounts) -> String {
    format!(
        "{} ({}); CPU activity recorded for {}",
        count(judged.messages),
        describe_band(band, judged.from_ns, judged.until_ns),
        count(judged.kept)
    )
}

/// Returns a band of latencies: `≥ p90, 13.0 µs to 210 µs`.
pub(super) fn describe_band(band: &str, from_ns: u64, until_ns: u64) -> String {
    let band = match band.split_once('-') {
        Some((from, until)) => format!("{from}–{until}"),
        None => format!("≥ {band}"),
    };
    match (duration(from_ns), duration(until_ns)) {
        (from, until) if from == until => format!("{band}, {from}"),
        (from, until) => format!("{band}, {from} to {until}"),
    }
}

/// Draws what all explained messages of a group have in common.
fn draw_whole(layout: &mut TextLayout, group: &TailGroup) {
    if let Some(deviation_ns) = group.deviation_ns {
        let by = duration(deviation_ns.abs().round() as u64);
        let usual = duration(group.usual_ns.round() as u64);
        let how = if deviation_ns < 0.0 { "less" } else { "longer" };
        let text = format!("{by} {how} on average (ordinary: {usual})");
        layout.entry(2, "took", LABEL, &text);
    }
    if let Some(covered) = group.covered {
        let text = format!(
            "{} of the extra time (median of {}); min {}",
            percent(covered.median),
            quantity(group.longer, "message"),
            percent(covered.least)
        );
        layout.entry(2, "explained", LABEL, &text);
    }
    let queue = &group.queue;
    if queue.most > 0 || queue.usual > 0.0 {
        let text = format!(
            "messages ahead: median {}, max {} (ordinary: {:.1})",
            queue.median, queue.most, queue.usual
        );
        layout.entry(2, "queue", LABEL, &text);
    }
    for core in &group.cores {
        let text = contexts(core);
        if !text.is_empty() {
            layout.entry(2, &format!("CPU {}", core.cpu), LABEL, &text);
        }
    }
}

/// Returns the threads that had a CPU, with the ordinary share where that differs.
fn contexts(core: &CpuShare) -> String {
    let share = |ns: f64, of: f64| if of > 0.0 { ns / of } else { 0.0 };
    let shown = core.contexts.iter().filter_map(|it| {
        let now = share(it.ns, core.ns);
        let usual = share(it.usual_ns, core.usual_ns);
        let differs = (now - usual).abs() >= LEAST_SHARE;
        let name = &it.name;
        match (now >= LEAST_SHARE, differs) {
            (_, true) => Some(format!(
                "{name} {} (ordinary: {})",
                percent(now),
                percent(usual)
            )),
            (true, false) => Some(format!("{name} {}", percent(now))),
            (false, false) => None,
        }
    });
    shown.take(CONTEXTS).collect::<Vec<_>>().join(", ")
}

/// Returns percentiles of this many messages in one line.
fn latencies(messages: u64, latency: &[LatencyQuantile]) -> String {
    let at = |share: f64| {
        let found = latency.iter().find(|it| it.share >= share);
        found.map_or_else(String::new, |it| duration(it.ns))
    };
    format!(
        "{}: p50 {}, p99 {}, p99.9 {}, max {}",
        count(messages),
        at(0.5),
        at(0.99),
        at(0.999),
        at(1.0)
    )
}

/// Returns what caused slow messages, with its role.
fn title(cause: &TailCause) -> String {
    cause_title(cause.rule, &cause.what, cause.role)
}

/// Returns a cause in a few words, with its CPU.
pub(super) fn cause_title(rule: &str, what: &str, role: CoreRole) -> String {
    let cpu = match role {
        CoreRole::Application => "the application's CPU",
        CoreRole::Receive => "the receiving CPU",
    };
    match rule {
        CPU_CONTENTION if what == OWN_THREADS => format!("{what}, on {cpu}"),
        CPU_CONTENTION => format!("another thread ({what}) on {cpu}"),
        PROBE_OVERHEAD => format!("whylat itself on {cpu}"),
        _ => format!("{what}, on {cpu}"),
    }
}

/// Writes one cause: messages, extra time, places, examples.
fn draw_cause(layout: &mut TextLayout, cause: &TailCause) {
    let rule = format!("  [{}]", cause.rule);
    layout.line(2, &[(Style::Bold, &title(cause)), (Style::Dim, &rule)]);
    let consecutive = match cause.order {
        HitOrder::Bunched => ", consecutive",
        HitOrder::Spread => "",
    };
    let text = format!(
        "{}{consecutive}; first cause of {}",
        count(cause.messages),
        count(cause.first)
    );
    layout.entry(4, "messages", LABEL - 2, &text);
    layout.entry(4, "extra", LABEL - 2, &extra(cause));
    let parts: Vec<String> = cause
        .parts
        .iter()
        .filter(|part| part.name != cause.what)
        .take(PARTS)
        .map(|part| {
            let (name, ns) = (&part.name, format_nanoseconds(part.deviation_ns.median));
            match part.messages < cause.messages {
                true => format!("{name} {ns} (in {})", count(part.messages)),
                false => format!("{name} {ns}"),
            }
        })
        .collect();
    if !parts.is_empty() {
        layout.entry(4, "within", LABEL - 2, &parts.join(", "));
    }
    layout.entry(4, "examples", LABEL - 2, &cause.examples.join(", "));
    layout.entry(4, "fix", LABEL - 2, cause.advice);
    layout.blank();
}

/// Returns the time that a cause added to its messages.
fn extra(cause: &TailCause) -> String {
    let deviation = &cause.deviation_ns;
    let median = format_nanoseconds(deviation.median);
    if cause.messages < QUARTILES_OF {
        return median;
    }
    format!(
        "{median} (median; p25 {}, p75 {}, max {})",
        format_nanoseconds(deviation.quarter),
        format_nanoseconds(deviation.three_quarters),
        format_nanoseconds(deviation.most)
    )
}

/// Returns a duration as text.
fn format_nanoseconds(ns: f64) -> String {
    duration(ns.round() as u64)
}
