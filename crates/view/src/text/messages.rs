//! Received messages by connection: how long they took from the card to the program, in which parts of
//! their way, and the slowest.

use diagnose::messages::report::{MessageReport, PartSpread, Received, Slow, Spread, Took};
use diagnose::units::{bytes, count, counted, duration, percent};

use super::{footer, head};
use crate::TextOptions;
use crate::page::{Page, Style};

/// Column in which labelled text begins, after the indent.
const LABEL: usize = 12;

/// Width of a duration in a table.
const CELL: usize = 11;

/// Parts of a slow message that are named.
const PARTS: usize = 2;

/// Draws the whole report.
pub fn text(report: &MessageReport, options: &TextOptions) -> String {
    let mut page = Page::new(options);
    head(&mut page, &report.about);
    answer(&mut page, report);
    for received in &report.connections {
        draw(&mut page, received);
    }
    let (all, shown) = (report.all, report.connections.len() as u64);
    if all > shown {
        let text = format!("{} more: --limit {all} shows them.", count(all - shown));
        page.paragraph(2, Style::Dim, &text);
        page.blank();
    }
    footer::draw(&mut page, &report.about);
    page.finish()
}

fn answer(page: &mut Page, report: &MessageReport) {
    let text = match report.connections.first().and_then(|it| it.slowest.first()) {
        None if report.all == 0 => "No message was received.".to_owned(),
        None => "Of no message the whole way was seen.".to_owned(),
        Some(slow) => format!(
            "The slowest message took {} from its arrival to the end of the call: {}.",
            duration(slow.whole_ns),
            most(slow)
        ),
    };
    page.paragraph(0, Style::Bold, &text);
    page.blank();
}

fn draw(page: &mut Page, received: &Received) {
    page.title(&[
        (Style::Bold, &received.identity.title()),
        (Style::Dim, ", received"),
    ]);
    let mut text = format!(
        "{} of {} in all",
        counted(received.count, "message"),
        bytes(received.bytes)
    );
    if received.spliced_bytes > 0 {
        text += &format!(
            "; {} more by splice or sendfile",
            bytes(received.spliced_bytes)
        );
    }
    page.labelled(2, "received", LABEL, &text);
    if received.unseen > 0 {
        let text = format!(
            "of {} not every time was seen: they are in none of the figures below",
            count(received.unseen)
        );
        page.labelled(2, "", LABEL, &text);
    }
    if received.disordered > 0 {
        let text = format!(
            "of {} the times are in no order, which cannot be",
            count(received.disordered)
        );
        page.labelled(2, "", LABEL, &text);
    }
    if let Some(whole) = &received.whole {
        draw_parts(page, whole, &received.parts);
        for (index, slow) in received.slowest.iter().enumerate() {
            let label = if index == 0 { "slowest" } else { "" };
            let text = format!("{}  {}: {}", slow.id, duration(slow.whole_ns), most(slow));
            page.labelled(2, label, LABEL, &text);
        }
    }
    page.blank();
}

/// A line for each part, the whole last.
fn draw_parts(page: &mut Page, whole: &Spread, parts: &[PartSpread]) {
    let titles = ["half", "90 %", "99 %", "99.9 %", "most", "of all"];
    let line = |name: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>CELL$}")).collect();
        format!("{name:LABEL$}{cells}")
    };
    let head = line("", &titles.map(str::to_owned));
    page.line(2, &[(Style::Dim, &head)]);
    let cells = |spread: &Spread| {
        let times = [
            spread.p50_ns,
            spread.p90_ns,
            spread.p99_ns,
            spread.p999_ns,
            spread.max_ns,
        ];
        let share = spread.sum_ns as f64 / whole.sum_ns.max(1) as f64;
        let times = times.into_iter().map(duration);
        times.chain([percent(share)]).collect::<Vec<_>>()
    };
    for PartSpread { part, spread } in parts {
        page.line(2, &[(Style::Plain, &line(part.name(), &cells(spread)))]);
    }
    page.line(2, &[(Style::Bold, &line("whole", &cells(whole)))]);
}

/// The parts that took most.
fn most(slow: &Slow) -> String {
    let mut parts: Vec<&Took> = slow.parts.iter().filter(|it| it.ns > 0).collect();
    parts.sort_by_key(|it| std::cmp::Reverse(it.ns));
    let words = parts
        .iter()
        .take(PARTS)
        .map(|it| format!("{} {}", it.part.name(), duration(it.ns)));
    words.collect::<Vec<_>>().join(", ")
}
