//! The first sentence: why is it slow?

use diagnose::Report;
use diagnose::report::Severity;
use diagnose::units::{count, duration};

use crate::page::{Page, Style};

/// Draws the answer.
pub fn draw(page: &mut Page, report: &Report) {
    let (style, text) = answer(report);
    page.paragraph(0, style, &text);
    page.blank();
}

fn answer(report: &Report) -> (Style, String) {
    let connections = report.connections.len();
    let doubt_ns = report
        .undecided
        .first()
        .map_or(0, |undecided| undecided.possible_harm_ns);
    match report.findings.first() {
        _ if connections == 0 => (Style::Bold, "No TCP connection was seen.".to_owned()),
        Some(worst) if worst.severity > Severity::Info => (Style::Bold, worst.headline.clone()),
        _ if doubt_ns > 0 => {
            let text = format!(
                "No problem is certain, but {} may be lost for a reason that this recording cannot \
                 tell.",
                duration(doubt_ns)
            );
            (Style::Bold, text)
        }
        _ => (Style::Bold, calm(report, connections)),
    }
}

fn calm(report: &Report, connections: usize) -> String {
    let judged = report
        .connections
        .iter()
        .filter(|connection| !connection.stages.is_empty());
    let of = |number: usize| match number {
        1 => "the connection".to_owned(),
        _ => format!("the {} connections", count(number as u64)),
    };
    if judged.count() == 0 {
        return format!(
            "No problem found in {}; none sent data that could be judged.",
            of(connections)
        );
    }
    format!("No problem found: TCP held up none of {}.", of(connections)).replace(
        "TCP held up none of the connection.",
        "TCP did not hold the connection up.",
    )
}
