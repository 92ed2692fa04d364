//! Two recordings side by side: services, findings, stages and waits, each before and after.

use diagnose::difference::report::{
    CounterNumbers, DiffReport, DiffSide, FindingChange, FindingState, PartChange, ServiceChange,
    ServiceNumbers, StageSum, WaitSum,
};
use diagnose::report::Severity;
use diagnose::requests::Side;
use diagnose::units::{count, duration, percent, quantity};

use super::parts::format_value;
use crate::layout::{Style, TextLayout, TextOptions, columns, pad_end};

/// Entries of a list, unless the user wants more.
const SHOWN: usize = 10;

/// Width of a name, of a number of requests, of a duration, and of one side's cell in the last tables.
const NAME: usize = 26;
const NUMBER: usize = 12;
const CELL: usize = 12;
const SIDE: usize = 22;

/// Draws the whole comparison.
pub fn text(report: &DiffReport, names: [&str; 2], options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    let most = options.limit.unwrap_or(SHOWN);
    for (letter, name, side) in [
        ("A", names[0], &report.before),
        ("B", names[1], &report.after),
    ] {
        layout.entry(0, letter, 3, &describe_side(name, side));
    }
    layout.blank();
    layout.paragraph(0, Style::Bold, &headline(report));
    layout.blank();
    draw_services(&mut layout, &report.services, most);
    findings(&mut layout, &report.findings, most);
    stages(&mut layout, report);
    waits(&mut layout, report, most);
    draw_counters(&mut layout, report, most);
    layout.finish()
}

/// Returns length, host and detail of a recording in one line.
fn describe_side(name: &str, side: &DiffSide) -> String {
    let about = &side.about;
    let mut text = format!(
        "{name}: {} recorded on {}, detail {}",
        duration(about.span_ns),
        about.host.name,
        about.host.detail
    );
    if !about.is_complete() {
        text.push_str(", not complete: `whylat report` says why");
    }
    text
}

/// Returns the answer: the service of both with the largest change of time, and how many findings came and went.
fn headline(report: &DiffReport) -> String {
    let both = report.services.iter().filter_map(|service| {
        let (before, after) = service.before.as_ref().zip(service.after.as_ref())?;
        let changed_ns = service
            .change
            .map_or(0, |it| it.before_ns.abs_diff(it.after_ns));
        let time_ns = changed_ns * before.requests.min(after.requests);
        Some((time_ns, service_headline(service, before, after)))
    });
    // Of equal ones the first, which has more time.
    let most = both.reduce(|most, it| if it.0 > most.0 { it } else { most });
    let of_both = most.map(|(_, text)| text);
    let services = of_both.unwrap_or_else(|| match report.services.is_empty() {
        true => "No request was seen in either.".to_owned(),
        false => "No service has requests in both.".to_owned(),
    });
    let number = |state| {
        let all = report.findings.iter();
        all.filter(|it| it.state == state && worst_severity(it) > Severity::Info)
            .count()
    };
    let (gone, new) = (number(FindingState::Gone), number(FindingState::New));
    format!("{services} Problems: {gone} gone, {new} new.")
}

/// Returns how a service changed: p50, and the part that changed most.
fn service_headline(
    service: &ServiceChange,
    before: &ServiceNumbers,
    after: &ServiceNumbers,
) -> String {
    let (old, new) = (before.duration_ns, after.duration_ns);
    let change = service.change.map_or_else(
        || "No part changed.".to_owned(),
        |it| format!("Largest change: {}.", describe_change(it)),
    );
    format!(
        "{}: p50 {} → {}, p99 {} → {}. {change}",
        name(service),
        duration(old.p50),
        duration(new.p50),
        duration(old.p99),
        duration(new.p99),
    )
}

/// Returns a part's mean time a request, before and after.
fn describe_change(it: PartChange) -> String {
    format!(
        "{} {} → {} a request",
        it.part.text(),
        duration(it.before_ns),
        duration(it.after_ns)
    )
}

/// Returns the service's name with its role and address.
fn name(service: &ServiceChange) -> String {
    let arrow = match service.role {
        Side::Server => "at",
        Side::Client => "→",
    };
    format!("{} {arrow} {}", service.name, service.address)
}

/// Writes both recordings' numbers of each service.
fn draw_services(layout: &mut TextLayout, services: &[ServiceChange], most: usize) {
    if services.is_empty() {
        return;
    }
    layout.title(&[(Style::Bold, "services")]);
    let head = ["p50", "p99", "max"].map(|it| format!("{it:>CELL$}"));
    let head = format!("{:6}{:>NUMBER$}{}", "", "requests", head.concat());
    layout.line(2, &[(Style::Dim, &head)]);
    for service in services.iter().take(most) {
        layout.paragraph(2, Style::Cyan, &name(service));
        for (letter, numbers) in [("A", &service.before), ("B", &service.after)] {
            side_line(layout, letter, numbers.as_ref());
        }
        if let Some(it) = service.change {
            layout.paragraph(
                4,
                Style::Plain,
                &format!("largest change: {}", describe_change(it)),
            );
        }
    }
    draw_more(layout, services.len(), most);
    layout.blank();
}

/// Writes one recording's numbers of a service: requests, p50, p99, max.
fn side_line(layout: &mut TextLayout, letter: &str, numbers: Option<&ServiceNumbers>) {
    let Some(numbers) = numbers else {
        layout.line(4, &[(Style::Plain, &format!("{letter}   no requests"))]);
        return;
    };
    let times = numbers.duration_ns;
    let times = [times.p50, times.p99, times.max];
    let times = times.map(|ns| format!("{:>CELL$}", duration(ns))).concat();
    let number = count(numbers.requests);
    let line = format!("{letter:4}{number:>NUMBER$}{times}");
    layout.line(4, &[(Style::Plain, &line)]);
}

/// Returns the higher of both sides' severities.
fn worst_severity(finding: &FindingChange) -> Severity {
    let sides = [&finding.before, &finding.after].into_iter().flatten();
    sides.map(|it| it.severity).max().unwrap_or(Severity::Info)
}

/// Writes findings that are new, gone, or in both recordings.
fn findings(layout: &mut TextLayout, findings: &[FindingChange], most: usize) {
    let of_note = |it: &&FindingChange| worst_severity(it) > Severity::Info;
    let shown: Vec<_> = findings.iter().filter(of_note).collect();
    let info = findings.len() - shown.len();
    if findings.is_empty() {
        return;
    }
    layout.title(&[(Style::Bold, "findings")]);
    for finding in shown.iter().take(most) {
        let severity = worst_severity(finding).name();
        let process = finding.process.as_deref().unwrap_or("unknown process");
        let style = match finding.state {
            FindingState::New => Style::Red,
            FindingState::Gone => Style::Green,
            FindingState::Both => Style::Yellow,
        };
        let what = format!(" · {severity} · {} · {process}", finding.rule);
        let state = finding.state.name();
        layout.line(2, &[(style, state), (Style::Plain, &what)]);
        let sides = [("A", &finding.before), ("B", &finding.after)];
        for (letter, numbers) in sides {
            if let Some(numbers) = numbers {
                layout.entry(4, letter, 4, &numbers.headline);
            }
        }
    }
    draw_more(layout, shown.len(), most);
    if info > 0 {
        let text = format!(
            "{} of severity info: --overall --format json has them.",
            quantity(info as u64, "finding")
        );
        layout.paragraph(2, Style::Dim, &text);
    }
    layout.blank();
}

/// Writes each stage's share of time in both recordings.
fn stages(layout: &mut TextLayout, report: &DiffReport) {
    if report.stages.is_empty() {
        return;
    }
    layout.title(&[(Style::Bold, "stages of all connections")]);
    pair_line(layout, Style::Dim, ["", "A", "B"]);
    let cell = |sum: Option<StageSum>| match sum {
        None => "not measured".to_owned(),
        Some(sum) => format!("{} ({})", duration(sum.ns), percent(sum.share)),
    };
    for stage in &report.stages {
        let (before, after) = (cell(stage.before), cell(stage.after));
        pair_line(layout, Style::Plain, [stage.stage, &before, &after]);
    }
    layout.blank();
}

/// Writes waits by kind of object in both recordings.
fn waits(layout: &mut TextLayout, report: &DiffReport, most: usize) {
    if report.waits.is_empty() {
        return;
    }
    layout.title(&[(Style::Bold, "waits: time blocked")]);
    pair_line(layout, Style::Dim, ["", "A", "B"]);
    let cell = |sum: Option<WaitSum>| match sum {
        None => "none".to_owned(),
        Some(sum) => format!("{} in {}", duration(sum.blocked_ns), count(sum.count)),
    };
    for wait in report.waits.iter().take(most) {
        let kind = wait.kind.map_or("others", |kind| kind.name());
        let name = match &wait.process {
            Some(process) => format!("{process}, {kind}"),
            None => kind.to_owned(),
        };
        let (before, after) = (cell(wait.before), cell(wait.after));
        pair_line(layout, Style::Plain, [&name, &before, &after]);
    }
    draw_more(layout, report.waits.len(), most);
    layout.blank();
}

/// Writes programs' counters in both recordings.
fn draw_counters(layout: &mut TextLayout, report: &DiffReport, most: usize) {
    if report.counters.is_empty() {
        return;
    }
    layout.title(&[(Style::Bold, "counters of programs: min to max")]);
    pair_line(layout, Style::Dim, ["", "A", "B"]);
    let cell = |numbers: Option<CounterNumbers>| match numbers {
        None => "none".to_owned(),
        Some(it) => format!("{} to {}", format_value(it.min), format_value(it.max)),
    };
    for counter in report.counters.iter().take(most) {
        let unit = counter.unit.as_ref().map(|unit| format!(", {unit}"));
        let unit = unit.unwrap_or_default();
        let name = match &counter.process {
            Some(process) => format!("{process}, {}{unit}", counter.name),
            None => format!("{}{unit}", counter.name),
        };
        let (before, after) = (cell(counter.before), cell(counter.after));
        pair_line(layout, Style::Plain, [&name, &before, &after]);
    }
    draw_more(layout, report.counters.len(), most);
    layout.blank();
}

/// Draws a name and a cell for each side; a long name gets a line of its own.
fn pair_line(layout: &mut TextLayout, style: Style, [name, before, after]: [&str; 3]) {
    let is_short = columns(name) < NAME;
    if !is_short {
        layout.paragraph(2, style, name);
    }
    let name = pad_end(if is_short { name } else { "" }, NAME);
    let line = format!("{name}{}{after}", pad_end(before, SIDE));
    layout.line(2, &[(style, &line)]);
}

/// Writes how many lines the limit leaves out.
fn draw_more(layout: &mut TextLayout, all: usize, most: usize) {
    if all > most {
        let text = format!(
            "{} more: --limit {all} shows them.",
            count((all - most) as u64)
        );
        layout.paragraph(2, Style::Dim, &text);
    }
}
