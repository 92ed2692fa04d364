//! Parts that several reports draw alike: the head, labels, lists that are cut, and the names of processes and connections.

use diagnose::report::{About, DataDirection, FindingSubject, Process, SubjectRequests};
use diagnose::requests::Side;
use diagnose::units::{count, duration, quantity};
use table::manifest::CAPTURE;

use crate::layout::{Style, TextLayout};

/// Column in which labelled text begins, after the indent.
pub(super) const LABEL: usize = 12;

/// Width of a cell of numbers.
pub(super) const CELL: usize = 11;

/// Draws which recording the report is of, and its damage.
pub(super) fn draw_head(layout: &mut TextLayout, about: &About) {
    let host = &about.host;
    let span = duration(about.span_ns);
    let text = match host.detail == CAPTURE {
        true => format!("whylat · {} · packet capture · {span}", host.name),
        false => format!(
            "whylat · {} · Linux {} · detail {} · {span} recorded{}",
            host.name,
            kernel_release(&host.kernel),
            host.detail,
            describe_windows(about),
        ),
    };
    layout.paragraph(0, Style::Dim, &text);
    layout.blank();
    if let Some(damage) = about.damage_warning("problem") {
        layout.paragraph(0, Style::Bold, &damage);
        layout.blank();
    }
}

/// Returns which part of the time has calls, waits and requests, if not all.
fn describe_windows(about: &About) -> String {
    about.windows.map_or_else(String::new, |sums| {
        format!(
            " · calls, waits and requests of {} in {}",
            duration(sums.window_ns),
            quantity(sums.windows, "window")
        )
    })
}

/// Returns the kernel's release, without its build.
fn kernel_release(kernel: &str) -> &str {
    kernel.split(' ').next().unwrap_or(kernel)
}

/// Returns a value of a program with at most four digits after the point.
pub(super) fn format_value(value: f64) -> String {
    let text = format!("{value:.4}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Draws how many entries of a list are hidden, and the option that shows them.
pub(super) fn draw_more(layout: &mut TextLayout, shown: usize, all: usize) {
    if all > shown {
        let hidden = count((all - shown) as u64);
        let text = format!("{hidden} more: --limit {all} shows them.");
        layout.paragraph(2, Style::Dim, &text);
    }
}

/// Returns the process, the connection and the direction that a finding is about.
pub(super) fn describe_subject(subject: &FindingSubject, direction: DataDirection) -> String {
    let process = process(subject.process.as_ref());
    if let Some(requests) = &subject.requests {
        let ends = requests_of(requests);
        return format!(
            "{process} {ends}, {}",
            quantity(requests.requests, "request")
        );
    }
    if subject.connections == 0 {
        return process;
    }
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

/// Returns the place of a service: `at` its own address, `→` the asked one.
fn requests_of(requests: &SubjectRequests) -> String {
    match requests.role {
        Side::Server => format!("at {}", requests.address),
        Side::Client => format!("→ {}", requests.address),
    }
}

/// Returns a process as `comm[pid]`.
pub(super) fn process(process: Option<&Process>) -> String {
    let Some(process) = process else {
        return "unknown process".to_owned();
    };
    let comm = process.comm.as_deref().unwrap_or("?");
    match process.pid {
        Some(pid) => format!("{comm}[{pid}]"),
        None => comm.to_owned(),
    }
}

/// Draws how many groups are hidden, and the option that shows them.
pub(super) fn hidden_groups(layout: &mut TextLayout, shown: usize, all: u64) {
    let all = usize::try_from(all).unwrap_or(usize::MAX);
    if all > shown {
        draw_more(layout, shown, all);
        layout.blank();
    }
}
