//! Why the slow messages of each application are slow.

use diagnose::tail::Role;
use diagnose::tail::report::{Cause, Core, Order, Quantile, TailGroup, TailReport};
use diagnose::units::{count, counted, duration, percent};

use super::messages::LABEL;
use super::{footer, head};
use crate::TextOptions;
use crate::layout::{Style, TextLayout};

/// Parts of a cause that are named.
const PARTS: usize = 3;

/// Contexts of a CPU that are named, and the least share of its time.
const CONTEXTS: usize = 5;
const LEAST_SHARE: f64 = 0.01;

/// Messages hit of which a spread is told.
const SPREAD_OF: u64 = 4;

/// Draws the whole report; of each application the first `limit` causes.
pub fn text(report: &TailReport, limit: usize, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    head(&mut layout, &report.about);
    layout.paragraph(0, Style::Bold, &answer(report));
    layout.blank();
    for group in &report.groups {
        draw(&mut layout, report, group, limit);
    }
    footer::draw(&mut layout, &report.about);
    layout.finish()
}

fn answer(report: &TailReport) -> String {
    let takes_longer = |group: &&TailGroup| {
        let deviation_ns = group.deviation_ns.unwrap_or(0.0);
        deviation_ns >= report.resolution_ns && !group.causes.is_empty()
    };
    let worst = report.groups.iter().find(takes_longer);
    let what = if report.other.is_some() {
        "Messages that take longer than in the other recording,"
    } else {
        "Slow messages"
    };
    let Some((group, cause)) = worst.and_then(|it| Some((it, it.causes.first()?))) else {
        return nothing_longer(report).to_owned();
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

fn nothing_longer(report: &TailReport) -> &'static str {
    let judged = |it: &TailGroup| it.tail.kept > 0 && it.body.kept > 0;
    let takes_less = |it: &TailGroup| {
        it.deviation_ns
            .is_some_and(|ns| ns <= -report.resolution_ns)
    };
    if report.groups.is_empty() {
        "There was no such message."
    } else if !report.groups.iter().any(judged) {
        "Of no slow message it can be told why."
    } else if report.other.is_none() {
        "No message took longer than usual, of those that could be judged."
    } else if report.groups.iter().any(takes_less) {
        "No messages take longer than in the other recording, and some take less: the two the other way round \
         say what the other one's were slowed by."
    } else {
        "Messages take no longer than in the other recording, of those that could be judged."
    }
}

fn name(group: &TailGroup) -> &str {
    group.application.as_deref().unwrap_or("an unknown process")
}

fn draw(layout: &mut TextLayout, report: &TailReport, group: &TailGroup, limit: usize) {
    let direction = group.direction.name();
    layout.title(&[
        (Style::Bold, name(group)),
        (Style::Dim, &format!(", {direction}")),
    ]);
    layout.labelled(
        2,
        "messages",
        LABEL,
        &latencies(group.messages, &group.latency),
    );
    if report.other.is_some() && !group.compared.is_empty() {
        let text = latencies(group.compared_messages, &group.compared);
        layout.labelled(2, "other", LABEL, &text);
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
    layout.labelled(2, "looked at", LABEL, &slow);
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
    layout.labelled(2, "compared", LABEL, &ordinary);
    if tail.kept == 0 || body.kept == 0 {
        let hint = "not judged: record with --keep p99,sample=100, for longer";
        layout.labelled(2, "", LABEL, hint);
        layout.blank();
        return;
    }
    draw_whole(layout, group);
    layout.blank();
    for cause in group.causes.iter().take(limit) {
        draw_cause(layout, cause);
    }
    let more = group.causes.len().saturating_sub(limit);
    if more > 0 {
        let text = format!("{} more: --limit {} shows them.", more, group.causes.len());
        layout.paragraph(2, Style::Dim, &text);
        layout.blank();
    }
}

/// What all explained messages of a group have in common.
fn draw_whole(layout: &mut TextLayout, group: &TailGroup) {
    if let Some(deviation_ns) = group.deviation_ns {
        let by = duration(deviation_ns.abs().round() as u64);
        let than = duration(group.usual_ns.round() as u64);
        let how = if deviation_ns < 0.0 { "less" } else { "longer" };
        let text = format!("{by} {how} than the {than} of those compared, on average");
        layout.labelled(2, "took", LABEL, &text);
    }
    if let Some(covered) = group.covered {
        let text = format!(
            "{} of what {} took longer (median); {} at least",
            percent(covered.median),
            counted(group.longer, "message"),
            percent(covered.least)
        );
        layout.labelled(2, "explained", LABEL, &text);
    }
    let queue = &group.queue;
    if queue.most > 0 || queue.usual > 0.0 {
        let text = format!(
            "{} ahead (median), {} at most; usual: {:.1}",
            counted(u64::from(queue.median), "message"),
            queue.most,
            queue.usual
        );
        layout.labelled(2, "queue", LABEL, &text);
    }
    for core in &group.cores {
        let text = contexts(core);
        if !text.is_empty() {
            layout.labelled(2, &format!("CPU {}", core.cpu), LABEL, &text);
        }
    }
}

/// Who had a CPU, with what is usual where that differs.
fn contexts(core: &Core) -> String {
    let share = |ns: f64, of: f64| if of > 0.0 { ns / of } else { 0.0 };
    let told = core.contexts.iter().filter_map(|it| {
        let now = share(it.ns, core.ns);
        let usual = share(it.usual_ns, core.usual_ns);
        let differs = (now - usual).abs() >= LEAST_SHARE;
        let name = &it.name;
        match (now >= LEAST_SHARE, differs) {
            (_, true) => Some(format!(
                "{name} {} (usual: {})",
                percent(now),
                percent(usual)
            )),
            (true, false) => Some(format!("{name} {}", percent(now))),
            (false, false) => None,
        }
    });
    told.take(CONTEXTS).collect::<Vec<_>>().join(", ")
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
    format!("{} ({})", cause.what, core(cause.role))
}

/// A core's part in a message.
pub(super) const fn core(role: Role) -> &'static str {
    match role {
        Role::Application => "application core",
        Role::Receive => "receive core",
    }
}

fn draw_cause(layout: &mut TextLayout, cause: &Cause) {
    let rule = format!("  [{}]", cause.rule);
    layout.line(2, &[(Style::Bold, &title(cause)), (Style::Dim, &rule)]);
    let deviation = &cause.deviation_ns;
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
    layout.labelled(4, "hit", LABEL - 2, &text);
    let mut text = format!("{} longer", ns(deviation.median));
    if cause.messages >= SPREAD_OF {
        text += &format!(
            " (half of them between {} and {}; {} at most)",
            ns(deviation.quarter),
            ns(deviation.three_quarters),
            ns(deviation.most)
        );
    }
    layout.labelled(4, "took", LABEL - 2, &text);
    let parts: Vec<String> = cause
        .parts
        .iter()
        .filter(|part| part.name != cause.what)
        .take(PARTS)
        .map(|part| format!("{} {}", part.name, ns(part.deviation_ns.median)))
        .collect();
    if !parts.is_empty() {
        layout.labelled(4, "in", LABEL - 2, &parts.join(", "));
    }
    layout.labelled(4, "such as", LABEL - 2, &cause.examples.join(", "));
    layout.labelled(4, "fix", LABEL - 2, cause.advice);
    layout.blank();
}
