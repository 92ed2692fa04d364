//! Requests: how long they took and what their time went to, by service; the slowest; and one request by itself.

use diagnose::requests::functions::FunctionShares;
use diagnose::requests::report::{DurationSpread, PathStep, RequestRow, Service};
use diagnose::requests::{PartShares, RequestPart, RequestReport, Side};
use diagnose::units::{count, duration, format_bytes, percent, quantity};
use table::manifest::{CAPTURE, ProbeState};

use super::parts::{LABEL, draw_head, process};
use super::{contrast, footer, functions};
use crate::layout::{Style, TextLayout, TextOptions, columns};

/// Parts of a sentence or a line: the largest, of at least the share below.
const PARTS: usize = 3;
const PART_LEAST: f64 = 0.01;

/// Width of a service's name, of a part's, of a number and of a duration in a table.
const NAME: usize = 38;
const PART: usize = 25;
const NUMBER: usize = 9;
const CELL: usize = 10;

/// Columns of the table of services; a narrower page has a paragraph for each.
const TABLE: usize = 2 + NAME + NUMBER + 3 * CELL;

/// Services of the section in the main report.
const SERVICES: usize = 6;

/// Steps of one request that are drawn: the longest.
const STEPS: usize = 24;

/// Columns of the bar of a step.
const BAR: usize = 16;

/// Draws the whole report.
pub fn text(report: &RequestReport, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    draw_head(&mut layout, &report.about);
    layout.paragraph(0, Style::Bold, &headline(report));
    layout.blank();
    table(&mut layout, report, usize::MAX);
    no_waits(&mut layout, report);
    for service in &report.services {
        draw(&mut layout, service);
    }
    draw_slowest(&mut layout, report);
    draw_others(&mut layout, report);
    footer::draw(&mut layout, &report.about);
    layout.finish()
}

/// Draws the section of the main report, which begins with `answer`; nothing if there are no requests, and no connection that
/// may hide some.
pub fn draw_section(layout: &mut TextLayout, report: &RequestReport, answer: &str) {
    let is_hidden = report.not_requests.iter().any(|it| it.may_have_requests());
    if report.services.is_empty() && !is_hidden {
        return;
    }
    layout.title(&[(Style::Bold, "requests")]);
    let headline = headline(report);
    let is_answer = answer.contains(&headline);
    if !is_answer {
        layout.paragraph(2, Style::Plain, &headline);
    }
    if !report.services.is_empty() {
        if !is_answer {
            layout.blank();
        }
        table(layout, report, SERVICES);
        no_waits(layout, report);
    }
    layout.blank();
}

/// Draws why much of the time is unknown: no waits were recorded.
fn no_waits(layout: &mut TextLayout, report: &RequestReport) {
    let is_off = |state: &ProbeState| matches!(state, ProbeState::Off { .. });
    let waits = report.about.coverage.iter().find(|it| it.probe == "waits");
    if waits.is_none_or(|it| is_off(&it.state)) {
        let text = match report.about.host.detail == CAPTURE {
            true => "Packets do not show the activity of threads.",
            false => "The activity of threads was not recorded. hint: --detail waits",
        };
        layout.paragraph(2, Style::Dim, text);
    }
}

/// Returns the answer in two sentences: of the service with the most time.
pub fn headline(report: &RequestReport) -> String {
    let Some(service) = report.services.first() else {
        if report.excluded > 0 {
            let others = quantity(report.excluded, "other request");
            return format!("No request matches the filter. The recording has {others}.");
        }
        let first = report.not_requests.iter();
        return match first.max_by_key(|it| it.may_have_requests()) {
            None => "No request was seen.".to_owned(),
            Some(it) => format!("No request was seen: {} is {}.", it.address, it.why),
        };
    };
    let ends = match service.role {
        Side::Server => format!("to {} at {}", service.name, service.address),
        Side::Client => format!("from {} to {}", service.name, service.address),
    };
    let DurationSpread { p50, p99, max, .. } = service.duration_ns;
    let times = match service.requests {
        1 => duration(max),
        _ => format!(
            "p50 {}, p99 {}, max {}",
            duration(p50),
            duration(p99),
            duration(max)
        ),
    };
    let owner = match service.requests {
        1 => "Its",
        _ => "Their",
    };
    format!(
        "{} {ends}: {times}. {owner} time: {}.",
        quantity(service.requests, "request"),
        largest_shares(&service.parts.all, functions_of_all(service))
    )
}

/// Returns the functions of all requests; None without samples.
fn functions_of_all(service: &Service) -> Option<&FunctionShares> {
    service.functions.as_ref().map(|it| &it.all)
}

/// Returns the largest parts with their shares, and the first function of computing.
fn largest_shares(parts: &PartShares, functions: Option<&FunctionShares>) -> String {
    let largest = parts.largest().take(PARTS);
    let word = |(part, share): (RequestPart, f64)| {
        let function =
            functions::first_function(parts, functions).filter(|_| part == RequestPart::Cpu);
        let function = function.map(|it| format!(" ({it})")).unwrap_or_default();
        format!("{} {}{function}", part.text(), whole_percent(share))
    };
    let words = largest.filter(|(_, share)| *share >= PART_LEAST).map(word);
    let words: Vec<_> = words.collect();
    match words.is_empty() {
        true => "none".to_owned(),
        false => words.join(", "),
    }
}

/// Returns a share in percent, without decimals.
fn whole_percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// Writes services with requests, p50, p99 and max.
fn table(layout: &mut TextLayout, report: &RequestReport, most: usize) {
    if report.services.is_empty() {
        return;
    }
    let line = |name: &str, number: &str, times: [&str; 3]| {
        let times: String = times.iter().map(|it| format!("{it:>CELL$}")).collect();
        format!("{name:NAME$}{number:>NUMBER$}{times}")
    };
    let is_wide = layout.width() >= TABLE;
    if is_wide {
        let head = line("service", "requests", ["p50", "p99", "max"]);
        layout.line(2, &[(Style::Dim, &head)]);
    }
    for service in report.services.iter().take(most) {
        let DurationSpread { p50, p99, max, .. } = service.duration_ns;
        let times = [duration(p50), duration(p99), duration(max)];
        let [p50, p99, max] = &times;
        let number = count(service.requests);
        let name = name(service);
        if is_wide {
            let is_short = columns(&name) < NAME;
            if !is_short {
                layout.paragraph(2, Style::Plain, &name);
            }
            let left = line(if is_short { &name } else { "" }, &number, [p50, p99, max]);
            layout.line(2, &[(Style::Plain, &left)]);
        } else {
            let text = format!("{name}: {number} requests, p50 {p50}, p99 {p99}, max {max}");
            layout.paragraph(2, Style::Plain, &text);
        }
        let parts = format!(
            "all: {}",
            largest_shares(&service.parts.all, functions_of_all(service))
        );
        layout.paragraph(4, Style::Plain, &parts);
        if service.requests > 1 {
            let functions = service.functions.as_ref().map(|it| &it.slowest);
            let shares = largest_shares(&service.parts.slowest, functions);
            let parts = format!("{}: {shares}", slowest_title(service.requests));
            layout.paragraph(4, Style::Plain, &parts);
        }
    }
    let more = report.services.len().saturating_sub(most);
    if more > 0 {
        let text = format!("{} more: whylat report --requests", count(more as u64));
        layout.paragraph(2, Style::Dim, &text);
    }
}

/// Returns the service's name with role and address.
fn name(service: &Service) -> String {
    match service.role {
        Side::Server => format!("{} {}", service.name, service.address),
        Side::Client => format!("{} → {}", service.name, service.address),
    }
}

/// Returns the title of the slowest 1 %: of fewer than a hundred requests "the slowest".
fn slowest_title(requests: u64) -> &'static str {
    match requests < 100 {
        true => "the slowest",
        false => "slowest 1 %",
    }
}

/// Draws all parts of a service.
fn draw(layout: &mut TextLayout, service: &Service) {
    layout.blank();
    let other = service.other_end.as_ref();
    let of = other.map(|it| format!(" of {}", process(Some(it))));
    let role = format!(", {}{}", service.role.name(), of.unwrap_or_default());
    layout.title(&[(Style::Bold, &name(service)), (Style::Dim, &role)]);
    let line =
        |part: &str, all: &str, slowest: &str| format!("{part:PART$}{all:>CELL$}{slowest:>14}");
    let head = line("part", "all", slowest_title(service.requests));
    layout.line(2, &[(Style::Dim, &head)]);
    for (part, share) in service.parts.all.largest() {
        let slow = percent(service.parts.slowest.share(part));
        let text = line(part.text(), &percent(share), &slow);
        layout.line(2, &[(Style::Plain, &text)]);
    }
    if service.queue_most > 0 {
        let text = format!(
            "one request waited behind {} at most",
            quantity(service.queue_most, "other")
        );
        layout.entry(2, "queue", LABEL, &text);
    }
    if let Some(it) = &service.contrast {
        contrast::draw(layout, it);
    }
    if let Some(functions) = &service.functions {
        functions::draw_service(layout, functions);
    }
}

/// Draws the slowest requests, with their services if there are several.
fn draw_slowest(layout: &mut TextLayout, report: &RequestReport) {
    if report.requests.is_empty() {
        return;
    }
    layout.blank();
    layout.title(&[(Style::Bold, "slowest requests")]);
    for request in &report.requests {
        let mut parts: Vec<_> = request.parts.largest();
        parts.truncate(PARTS);
        let parts: Vec<_> = parts
            .iter()
            .map(|(part, ns)| format!("{} {}", part.text(), duration(*ns)))
            .collect();
        let of = match report.services.len() {
            0 | 1 => String::new(),
            _ => format!(", {}", request.service),
        };
        let took = duration(request.duration_ns);
        let text = format!("{took}{of}: {}", parts.join(", "));
        layout.entry(2, &request.id, PART, &text);
    }
    layout.paragraph(
        2,
        Style::Dim,
        "whylat report --request ID shows one step by step.",
    );
}

/// Draws the connections without requests.
fn draw_others(layout: &mut TextLayout, report: &RequestReport) {
    layout.blank();
    for it in &report.not_requests {
        let text = format!(
            "{} of {} at {}: {}.",
            quantity(it.connections, "connection"),
            it.name,
            it.address,
            it.why
        );
        layout.paragraph(2, Style::Plain, &text);
    }
    if report.unanswered > 0 {
        let text = format!(
            "{} without a response.",
            quantity(report.unanswered, "request")
        );
        layout.paragraph(2, Style::Plain, &text);
    }
    if report.broken > 0 {
        let text = format!(
            "{} not judged: rows of their calls were lost.",
            quantity(report.broken, "request")
        );
        layout.paragraph(2, Style::Plain, &text);
    }
    layout.paragraph(2, Style::Dim, "Parts are measured at the recorded end.");
    layout.blank();
}

/// Returns the report on one request.
pub fn request_text(report: &RequestReport, request: &RequestRow, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    draw_head(&mut layout, &report.about);
    let largest = request.parts.largest();
    let first = largest
        .first()
        .map_or(RequestPart::Unknown, |(part, _)| *part);
    let text = format!(
        "This request took {}: {} {}.",
        duration(request.duration_ns),
        first.text(),
        duration(request.parts.get(first))
    );
    layout.paragraph(0, Style::Bold, &text);
    layout.blank();
    layout.title(&[
        (Style::Bold, &request.id),
        (Style::Dim, &format!(", {}", request.service)),
    ]);
    let range = |range: (u64, u64)| {
        let size = format_bytes(range.1.saturating_sub(range.0));
        format!("{size}, bytes {} to {}", count(range.0), count(range.1))
    };
    layout.entry(2, "request", LABEL, &range(request.request));
    layout.entry(2, "response", LABEL, &range(request.response));
    layout.entry(2, "calls", LABEL, &count(request.calls));
    layout.blank();
    draw_waterfall(&mut layout, request);
    layout.blank();
    for (part, ns) in largest {
        let share = percent(diagnose::units::ratio_of(ns, request.duration_ns));
        let text = format!("{:PART$}{:>CELL$}{share:>CELL$}", part.text(), duration(ns));
        layout.line(2, &[(Style::Plain, &text)]);
    }
    let text = format!("{:PART$}{:>CELL$}", "total", duration(request.duration_ns));
    layout.line(2, &[(Style::Bold, &text)]);
    if let Some(functions) = &request.functions {
        functions::request(&mut layout, functions);
    }
    layout.blank();
    footer::draw(&mut layout, &report.about);
    layout.finish()
}

/// Draws a line for each of the longest steps, in the order of time.
fn draw_waterfall(layout: &mut TextLayout, request: &RequestRow) {
    let mut by_length: Vec<u64> = request.path.iter().map(|step| step.ns).collect();
    by_length.sort_unstable_by(|a, b| b.cmp(a));
    let least_ns = by_length.get(STEPS).map_or(0, |ns| ns + 1);
    let mut left = (0_u64, 0_u64);
    for step in &request.path {
        if step.ns < least_ns {
            left = (left.0 + 1, left.1 + step.ns);
            continue;
        }
        let bar = step_bar(step, request.duration_ns);
        let what = format!(
            "{:>CELL$} {bar} {:>CELL$}  {:20}",
            duration(step.after_ns),
            duration(step.ns),
            step.part.text()
        );
        layout.line(2, &[(Style::Plain, &what)]);
        let about = describe_step(step);
        if !about.is_empty() {
            layout.paragraph(12, Style::Dim, &about);
        }
    }
    if left.0 > 0 {
        let text = format!(
            "{} more, {} in all",
            quantity(left.0, "step"),
            duration(left.1)
        );
        layout.paragraph(2, Style::Dim, &text);
    }
    if request.path_is_cut {
        let text = "The request has more steps than whylat keeps. The sums below have all steps.";
        layout.paragraph(2, Style::Dim, text);
    }
}

/// Returns a bar with the place of a step in its request.
fn step_bar(step: &PathStep, duration_ns: u64) -> String {
    let column = |ns: u64| {
        let share = diagnose::units::ratio_of(ns, duration_ns);
        ((share * BAR as f64).round() as usize).min(BAR)
    };
    let begin = column(step.after_ns).min(BAR - 1);
    let end = column(step.after_ns + step.ns).clamp(begin + 1, BAR);
    format!(
        "{}{}{}",
        "·".repeat(begin),
        "█".repeat(end - begin),
        "·".repeat(BAR - end)
    )
}

/// Returns the thread of a step, its connection, and the requests before it.
fn describe_step(step: &PathStep) -> String {
    let mut words = Vec::new();
    if let Some(tid) = step.tid {
        let title = process(step.process.as_ref());
        words.push(format!("{title} thread {tid}"));
    }
    words.extend(step.connection.clone());
    if let Some(other) = &step.other_end {
        words.push(format!("other end {}", process(Some(other))));
    }
    if let Some(behind) = step.behind {
        words.push(format!("behind {}", quantity(behind, "request")));
    }
    if let Some(waker) = &step.woken_by {
        let title = process(Some(&waker.process));
        words.push(format!("ended by {title} thread {}", waker.tid));
    }
    words.extend(step.stack.clone());
    words.join(", ")
}
