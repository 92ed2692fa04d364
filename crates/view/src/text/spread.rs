//! A table of latencies: a line for each part, with percentiles and its share of the total.

use diagnose::messages::report::DurationSpread;
use diagnose::units::{duration, percent};

use super::parts::{CELL, LABEL};
use crate::layout::{Style, TextLayout};

/// Draws a line for each of the slowest: id, duration, and largest parts.
pub(super) fn slowest_lines<'a>(
    layout: &mut TextLayout,
    slowest: impl Iterator<Item = (&'a str, u64, String)>,
) {
    for (index, (id, whole_ns, parts)) in slowest.enumerate() {
        let label = if index == 0 { "slowest" } else { "" };
        let text = format!("{id}  {}: {parts}", duration(whole_ns));
        layout.entry(2, label, LABEL, &text);
    }
}

/// Draws a line for each part, the total last. A part outside of the total has no share of it.
pub(super) fn draw_spreads<'a>(
    layout: &mut TextLayout,
    whole: &DurationSpread,
    parts: impl Iterator<Item = (&'a str, &'a DurationSpread, bool)>,
) {
    let titles = ["p50", "p90", "p99", "p99.9", "max", "share"];
    let line = |name: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>CELL$}")).collect();
        format!("{name:LABEL$}{cells}")
    };
    let head = line("", &titles.map(str::to_owned));
    layout.line(2, &[(Style::Dim, &head)]);
    let cells = |spread: &DurationSpread, is_of_whole: bool| {
        let times = [
            spread.p50_ns,
            spread.p90_ns,
            spread.p99_ns,
            spread.p999_ns,
            spread.max_ns,
        ];
        let share = spread.sum_ns as f64 / whole.sum_ns.max(1) as f64;
        let times = times.into_iter().map(duration);
        let share = is_of_whole.then(|| percent(share));
        times.chain(share).collect::<Vec<_>>()
    };
    for (name, spread, is_of_whole) in parts {
        layout.line(
            2,
            &[(Style::Plain, &line(name, &cells(spread, is_of_whole)))],
        );
    }
    layout.line(2, &[(Style::Bold, &line("total", &cells(whole, true)))]);
}
