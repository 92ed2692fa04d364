//! Messages that are known at both ends: how long they took in the one program, on the wire, and in the other.

use diagnose::messages::ends::report::{Clocks, Crossed, EndsReport, Slow, Took};
use diagnose::units::{bytes, count, counted, duration};

use super::messages::{LABEL, spreads};
use super::{footer, head};
use crate::TextOptions;
use crate::layout::{Style, TextLayout};

/// Legs of a slow message that are named.
const LEGS: usize = 2;

/// Draws the whole report.
pub fn text(report: &EndsReport, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    head(&mut layout, &report.about);
    let text = match report
        .groups
        .first()
        .and_then(|group| group.slowest.first())
    {
        None => "No message is known at both ends.".to_owned(),
        Some(slow) => format!(
            "The slowest message took {} from the begin of its send call to the end of its receive call: {}.",
            duration(slow.whole_ns),
            most(slow)
        ),
    };
    layout.paragraph(0, Style::Bold, &text);
    layout.blank();
    layout.paragraph(0, Style::Plain, &clocks(report));
    layout.blank();
    for group in &report.groups {
        draw(&mut layout, group);
    }
    let (all, shown) = (report.all, report.groups.len() as u64);
    if all > shown {
        let text = format!("{} more: --limit {all} shows them.", count(all - shown));
        layout.paragraph(2, Style::Dim, &text);
        layout.blank();
    }
    footer::draw(&mut layout, &report.about);
    layout.finish()
}

fn clocks(report: &EndsReport) -> String {
    let host = &report.other_host;
    match &report.clocks {
        Clocks::Same => "Both ends are of one host and have one clock.".to_owned(),
        Clocks::Unknown => format!(
            "Messages went one way only: how the clock of {host} stands to this one is not known, and neither \
             are their times on the wire."
        ),
        Clocks::Apart { offsets } => {
            let worst = offsets.iter().map(|it| it.error_ns).max().unwrap_or(0);
            let several = match offsets.len() {
                1 => String::new(),
                more => format!(
                    ", in {} for the clocks do not run alike",
                    counted(more as u64, "piece")
                ),
            };
            format!(
                "How the clock of {host} stands to this one is told by the messages themselves, which do not \
                 arrive before they are sent: within {}{several}. It is the quickest round trip's half, and \
                 times on the wire are no better known.",
                duration(worst)
            )
        }
    }
}

fn draw(layout: &mut TextLayout, group: &Crossed) {
    layout.title(&[(Style::Bold, &group.from.title())]);
    if let Some(process) = &group.to.process {
        layout.labelled(2, "to", LABEL, &process.title());
    }
    let text = format!(
        "{} of {} in all",
        counted(group.count, "message"),
        bytes(group.bytes)
    );
    layout.labelled(2, "sent", LABEL, &text);
    let of_these = [
        (
            group.shared,
            "the receive call took more with them: they are in no figure",
        ),
        (
            group.unmatched,
            "no receive call is known, or not every time: they are in no figure",
        ),
    ];
    for (number, what) in of_these {
        if number > 0 {
            let text = format!("of {} {what}", count(number));
            layout.labelled(2, "", LABEL, &text);
        }
    }
    if let Some(whole) = &group.whole {
        let legs = group.legs.iter();
        let legs = legs.map(|it| (it.leg.name(), &it.spread, it.leg.is_of_whole()));
        spreads(layout, whole, legs);
        for (index, slow) in group.slowest.iter().enumerate() {
            let label = if index == 0 { "slowest" } else { "" };
            let text = format!("{}  {}: {}", slow.id, duration(slow.whole_ns), most(slow));
            layout.labelled(2, label, LABEL, &text);
        }
    }
    layout.blank();
}

/// The legs that took most, without the sender's own time before.
fn most(slow: &Slow) -> String {
    let mut legs: Vec<&Took> = slow
        .legs
        .iter()
        .filter(|it| it.leg.is_of_whole() && it.ns > 0)
        .collect();
    legs.sort_by_key(|it| std::cmp::Reverse(it.ns));
    let words = legs
        .iter()
        .take(LEGS)
        .map(|it| format!("{} {}", it.leg.name(), duration(it.ns)));
    words.collect::<Vec<_>>().join(", ")
}
