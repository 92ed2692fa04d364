//! A check for a terminal.

use diagnose::check::report::{CheckReport, CountResult, CountState, FindingResult};
use diagnose::check::{interval, number};

use super::headline::headline;
use crate::layout::{Style, TextLayout, TextOptions, pad_begin, pad_end};

/// Width of the title of a count, and of its numbers.
const TITLE: usize = 36;
const NUMBER: usize = 14;

/// Draws a check.
pub fn text(report: &CheckReport, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    let style = if report.is_passed {
        Style::Green
    } else {
        Style::Red
    };
    layout.paragraph(0, style, &headline(report));
    for failure in &report.failures {
        layout.blank();
        layout.bullet(0, (Style::Bold, &failure.name), &failure.text);
        layout.entry(2, "hint:", 6, &failure.hint);
    }
    draw_counts(&mut layout, &report.counts);
    let others: Vec<_> = report
        .findings
        .iter()
        .filter(|it| it.state.why_not().is_some())
        .collect();
    if !others.is_empty() {
        layout.blank();
        layout.line(0, &[(Style::Bold, "Findings that do not fail")]);
    }
    for finding in others {
        draw_other(&mut layout, finding);
    }
    if !report.could_not_see.is_empty() {
        layout.blank();
    }
    for text in &report.could_not_see {
        layout.paragraph(0, Style::Dim, text);
    }
    layout.finish()
}

/// Writes a table of counts: median, baseline and limit.
fn draw_counts(layout: &mut TextLayout, counts: &[CountResult]) {
    if counts.iter().all(|it| it.median.is_none()) {
        return;
    }
    layout.blank();
    let head = [
        pad_end("Counts, median of the runs", TITLE),
        align_right("now"),
        align_right("baseline"),
        align_right("limit"),
    ];
    layout.line(0, &[(Style::Bold, &head.concat())]);
    for count in counts {
        let Some(median) = count.median else { continue };
        let baseline = count
            .baseline
            .map_or("–".to_owned(), |(least, most)| interval(least, most));
        let limit = count.limit.map_or("–".to_owned(), number);
        let (style, note) = state(count.state);
        let cells = [
            pad_end(count.title, TITLE),
            align_right(&number(median)),
            align_right(&baseline),
            align_right(&limit),
        ];
        layout.line(0, &[(Style::Plain, &cells.concat()), (style, note)]);
    }
}

/// Returns colour and mark of a count: worse, better, or neither.
fn state(state: CountState) -> (Style, &'static str) {
    match state {
        CountState::Worse => (Style::Red, " !"),
        CountState::Better => (Style::Green, " ↓"),
        CountState::Within | CountState::New | CountState::Absent => (Style::Plain, ""),
    }
}

/// Writes a finding that does not fail the check, and why not.
fn draw_other(layout: &mut TextLayout, finding: &FindingResult) {
    let why = finding.state.why_not().unwrap_or_default();
    let text = format!("{} ({why})", finding.headline);
    layout.bullet(0, (Style::Plain, finding.rule.name()), &text);
}

/// Pads a number to the width of its column.
fn align_right(text: &str) -> String {
    pad_begin(text, NUMBER)
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;
    use crate::layout::columns;

    #[test]
    fn failures_come_first_and_no_line_is_too_long() {
        let text = text(&fixture::failed_report(), &TextOptions::default());
        assert!(
            text.starts_with("Failed: 3 problems in 3 runs.\n"),
            "{text}"
        );
        assert!(text.contains("connections opened"), "{text}");
        assert!(text.lines().all(|line| columns(line) <= 80), "{text}");
        assert!(
            text.ends_with("The recordings do not have | bytes.\n"),
            "{text}"
        );
    }

    #[test]
    fn passed_check_is_one_line() {
        let text = text(&fixture::passed_report(), &TextOptions::default());
        let line = "Passed: in 3 runs no finding is new, and no count is beyond its baseline.\n";
        assert_eq!(text, line);
    }
}
