//! Two recordings of the same work side by side: before and after a fix, with the measured speed-up.

use diagnose::Report;
use diagnose::report::{Connection, Finding, Severity};
use diagnose::units::{count, duration, format_bytes, format_ratio, percent};
use table::Stage;

use crate::clean::remove_controls;
use crate::layout::{Style, TextLayout, TextOptions, columns};
use crate::text::findings::describe_estimate;

/// One side of the comparison.
#[derive(Debug, Clone, Copy)]
pub struct ComparedSide<'a> {
    /// Its name.
    pub label: &'a str,
    /// Its diagnosis.
    pub report: &'a Report,
    /// Time that the work took, measured by the caller, ns.
    pub total_ns: u64,
}

/// Width of the first column and of each side's.
const COLUMNS: [usize; 3] = [30, 24, 24];

/// Returns `before` and `after` side by side.
pub fn side_by_side(before: &ComparedSide, after: &ComparedSide, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    layout.title(&[(Style::Bold, "side by side")]);
    draw_row(&mut layout, "", [before.label, after.label], Style::Bold);
    let sides = [before, after];
    let each = |of: &dyn Fn(&ComparedSide) -> String| sides.map(of);
    let rows: [(&str, [String; 2]); 7] = [
        ("finding", each(&|side| verdict(side.report))),
        ("duration", each(&|side| duration(side.total_ns))),
        (
            "waiting for delayed ACKs",
            each(&|side| stage(side, Stage::DelayedAck)),
        ),
        (
            "held by Nagle's algorithm",
            each(&|side| stage(side, Stage::Nagle)),
        ),
        (
            "short segments held",
            each(&|side| number(side, |c| c.totals.nagle_holds)),
        ),
        ("longest hold", each(&|side| longest_name(side))),
        ("average write", each(&|side| mean_write(side))),
    ];
    for (name, [left, right]) in &rows {
        draw_row(&mut layout, name, [left, right], Style::Plain);
    }
    layout.blank();
    speed_up(&mut layout, before, after);
    layout.finish()
}

/// Writes one row: a name and the values of both sides.
fn draw_row(layout: &mut TextLayout, name: &str, sides: [&str; 2], style: Style) {
    let pad = |text: &str, width: usize| {
        let text = remove_controls(text);
        let gap = width.saturating_sub(columns(&text)).max(1);
        format!("{text}{}", " ".repeat(gap))
    };
    let name = pad(name, COLUMNS[0]);
    let (left, right) = (pad(sides[0], COLUMNS[1]), pad(sides[1], COLUMNS[2]));
    layout.line(2, &[(Style::Dim, &name), (style, &left), (style, &right)]);
}

/// Writes how much faster the second side is, and what the finding had estimated.
fn speed_up(layout: &mut TextLayout, before: &ComparedSide, after: &ComparedSide) {
    if after.total_ns == 0 {
        return;
    }
    let measured = before.total_ns as f64 / after.total_ns as f64;
    let win = before
        .report
        .findings
        .first()
        .and_then(|finding| finding.estimated_win.as_ref());
    let estimate = win.map_or_else(String::new, |win| {
        format!(" Estimated: {}.", describe_estimate(win))
    });
    let text = format!(
        "Measured speed-up: {} ({} → {}).{estimate}",
        format_ratio(measured),
        duration(before.total_ns),
        duration(after.total_ns)
    );
    layout.paragraph(2, Style::Bold, &text);
}

/// Returns the rule of the worst problem; "none" without one.
fn verdict(report: &Report) -> String {
    let worst = report.findings.first();
    let problem = worst.filter(|finding| finding.severity > Severity::Info);
    problem.map_or_else(|| "none".to_owned(), |finding| finding.rule.to_string())
}

/// Returns the connection to compare: that of the worst finding, else the first one.
fn main_connection<'a>(side: &ComparedSide<'a>) -> Option<&'a Connection> {
    let id = side
        .report
        .findings
        .first()
        .and_then(|finding: &Finding| finding.subject.ids.first());
    let connections = &side.report.connections;
    let named = connections
        .iter()
        .find(|connection| Some(&connection.id) == id);
    named.or(connections.first())
}

/// Returns the share of a stage in the main connection, as text.
fn stage(side: &ComparedSide, stage: Stage) -> String {
    let share = main_connection(side).and_then(|connection| connection.stages.get(stage));
    share.map_or_else(
        || "not measured".to_owned(),
        |share| format!("{} ({})", duration(share.ns), percent(share.share)),
    )
}

/// Returns a number of the main connection as text; "not measured" if it is unknown.
fn number(side: &ComparedSide, of: fn(&Connection) -> Option<u64>) -> String {
    main_connection(side)
        .and_then(of)
        .map_or_else(|| "not measured".to_owned(), count)
}

/// Returns the name of the stage that took most of the main connection's time.
fn longest_name(side: &ComparedSide) -> String {
    let longest_ns = main_connection(side).and_then(|connection| connection.totals.longest_hold_ns);
    match longest_ns {
        None => "not measured".to_owned(),
        Some(0) => "none".to_owned(),
        Some(ns) => duration(ns),
    }
}

/// Returns the mean bytes of a send call, as text.
fn mean_write(side: &ComparedSide) -> String {
    let mean = main_connection(side).and_then(|connection| {
        let totals = &connection.totals;
        totals.bytes_sent?.checked_div(totals.send_calls?)
    });
    mean.map_or_else(|| "not measured".to_owned(), format_bytes)
}
