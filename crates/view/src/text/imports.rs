//! The report of an imported trace: threads and functions by CPU time, and what the trace does not show.

use diagnose::imports::{ActivitySum, FunctionSum, ImportedTrace, ThreadSum};
use diagnose::units::{count, duration, percent, quantity};

use super::parts::draw_more;
use crate::layout::{Style, TextLayout, TextOptions};

/// Entries of a list that are drawn unless the user asks for more.
const SHOWN: usize = 10;

/// Returns the first sentence of the report on an imported trace: its sources, spans, threads and
/// length.
pub fn headline(trace: &ImportedTrace) -> String {
    let sources: Vec<&str> = trace.sources.iter().map(|it| it.name()).collect();
    let on = match trace.cpus {
        0 => String::new(),
        cpus => format!(" on {}", quantity(cpus, "CPU")),
    };
    format!(
        "Imported trace ({}): {} of {}{on} in {}.",
        sources.join(", ").replace('_', " "),
        quantity(trace.spans, "span"),
        quantity(trace.threads.len() as u64, "thread"),
        duration(trace.length_ns)
    )
}

/// Draws the lists of an imported trace: threads, functions, kinds, gaps.
pub fn draw(layout: &mut TextLayout, trace: &ImportedTrace, options: &TextOptions) {
    let most = options.limit.unwrap_or(SHOWN);
    draw_list(
        layout,
        "threads",
        ", most CPU time first",
        &trace.threads,
        most,
        |it| thread(it, trace.length_ns),
    );
    draw_list(
        layout,
        "functions",
        ", most own time first",
        &trace.functions,
        most,
        function,
    );
    draw_list(layout, "activity", " by kind", &trace.kinds, most, kind);
    draw_list(layout, "not seen", " by the trace", &trace.gaps, most, gap);
    let hint = "Only recordings of whylat have slow messages. `whylat import … --with RECORDING` adds the \
        functions of a trace to one.";
    layout.paragraph(0, Style::Dim, hint);
    layout.blank();
}

/// Draws a list with a title, if it has entries.
fn draw_list<T>(
    layout: &mut TextLayout,
    title: &str,
    order: &str,
    entries: &[T],
    most: usize,
    line: impl Fn(&T) -> (String, String),
) {
    if entries.is_empty() {
        return;
    }
    layout.title(&[(Style::Bold, title), (Style::Dim, order)]);
    let shown = most.min(entries.len());
    for entry in &entries[..shown] {
        let (name, numbers) = line(entry);
        layout.bullet(2, (Style::Cyan, &name), &numbers);
    }
    draw_more(layout, shown, entries.len());
    layout.blank();
}

/// Returns name and times of a thread.
fn thread(thread: &ThreadSum, length_ns: u64) -> (String, String) {
    let name = thread.name.as_deref().unwrap_or("unknown");
    let name = match thread.tid {
        Some(tid) => format!("{name} {tid}"),
        None => name.to_owned(),
    };
    let share = thread.total_ns as f64 / length_ns.max(1) as f64;
    let times = quantity(thread.count, "time");
    let total = duration(thread.total_ns);
    (
        name,
        format!("{total} on a CPU ({} of one), {times}", percent(share)),
    )
}

/// Returns name and times of a function.
fn function(function: &FunctionSum) -> (String, String) {
    let name = match &function.name {
        Some(name) => format!("{name}()"),
        None => "unknown".to_owned(),
    };
    let numbers = format!(
        "{} itself, {} with what it called, {}",
        duration(function.own_ns),
        duration(function.total_ns),
        quantity(function.count, "call")
    );
    (name, numbers)
}

/// Returns name, number and time of a kind of activity.
fn kind(sum: &ActivitySum) -> (String, String) {
    let name = sum.kind.name().replace('_', " ");
    (
        name,
        format!("{}, {}", count(sum.count), duration(sum.total_ns)),
    )
}

/// Returns name, number and time of a kind of gap.
fn gap(sum: &ActivitySum) -> (String, String) {
    let kind = sum.kind.name().replace('_', " ");
    let name = sum.name.clone().unwrap_or(kind);
    let times = quantity(sum.count, "time");
    (
        name,
        format!("{times}, {} in total", duration(sum.total_ns)),
    )
}
