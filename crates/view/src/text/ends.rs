//! Messages recorded at both ends: how long they took in the sender, on the wire, and in the receiver.

use diagnose::messages::ends::report::{
    ClockRelation, CrossingGroup, EndsReport, LegTime, SlowCrossing,
};
use diagnose::units::{count, duration, format_bytes, quantity};

use super::footer;
use super::parts::LABEL;
use super::parts::draw_head;
use super::parts::hidden_groups;
use super::spread::{draw_spreads, slowest_lines};
use crate::layout::{Style, TextLayout, TextOptions};

/// Legs of a slow message that are shown.
const LEGS: usize = 2;

/// Returns the whole report.
pub fn text(report: &EndsReport, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    draw_head(&mut layout, &report.about);
    let text = match report
        .groups
        .first()
        .and_then(|group| group.slowest.first())
    {
        None => "No message was recorded at both ends.".to_owned(),
        Some(slow) => format!(
            "Slowest message: {} from the send call to the end of the receive call ({}).",
            duration(slow.whole_ns),
            longest_legs(slow)
        ),
    };
    layout.paragraph(0, Style::Bold, &text);
    layout.blank();
    layout.paragraph(0, Style::Plain, &describe_clocks(report));
    layout.blank();
    for group in &report.groups {
        draw(&mut layout, group);
    }
    hidden_groups(&mut layout, report.groups.len(), report.all);
    footer::draw(&mut layout, &report.about);
    layout.finish()
}

/// Returns the clock offset of the two hosts, with its error bound.
fn describe_clocks(report: &EndsReport) -> String {
    let host = &report.other_host;
    match &report.clocks {
        ClockRelation::Same => "Both ends are on one host and share one clock.".to_owned(),
        ClockRelation::Unknown => format!(
            "Messages went in one direction only. The clock offset to {host} and the times on the wire are unknown."
        ),
        ClockRelation::Apart { offsets } => {
            let worst = offsets.iter().map(|it| it.error_ns).max().unwrap_or(0);
            let several = match offsets.len() {
                1 => String::new(),
                more => format!(
                    " in {} because the clocks drift,",
                    quantity(more as u64, "piece")
                ),
            };
            format!(
                "Clock offset to {host} estimated from message timestamps,{several} error ±{} (half the min \
                    RTT). One-way times have the same error.",
                duration(worst)
            )
        }
    }
}

/// Writes the parts of messages from one end to the other.
fn draw(layout: &mut TextLayout, group: &CrossingGroup) {
    layout.title(&[(Style::Bold, &group.from.title())]);
    if let Some(process) = &group.to.process {
        layout.entry(2, "to", LABEL, &process.title());
    }
    let text = format!(
        "{}, {}",
        quantity(group.count, "message"),
        format_bytes(group.bytes)
    );
    layout.entry(2, "sent", LABEL, &text);
    let left_out = [
        (group.shared, "received in one call with others"),
        (
            group.unmatched,
            "with an unknown receive call or missing timestamps",
        ),
    ];
    for (number, what) in left_out {
        if number > 0 {
            let text = format!("{} {what}, not in the figures below", count(number));
            layout.entry(2, "", LABEL, &text);
        }
    }
    if let Some(whole) = &group.whole {
        let legs = group.legs.iter();
        let legs = legs.map(|it| (it.leg.name(), &it.spread, it.leg.is_of_whole()));
        draw_spreads(layout, whole, legs);
        let slowest = group.slowest.iter();
        slowest_lines(
            layout,
            slowest.map(|it| (it.id.as_str(), it.whole_ns, longest_legs(it))),
        );
    }
    layout.blank();
}

/// Returns the legs that took longest, without the sender's own time before.
fn longest_legs(slow: &SlowCrossing) -> String {
    let mut legs: Vec<&LegTime> = slow
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
