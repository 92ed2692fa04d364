//! Messages by connection and direction: their latency, its parts, and the slowest; and one message by itself.

use diagnose::messages::message::MessageRow;
use diagnose::messages::parts::MessageEvent;
use diagnose::messages::report::{
    MessageGroup, MessageLifetime, MessageReport, MessageStory, PartTime,
};
use diagnose::units::{count, duration, format_bytes, quantity};
use table::tables::{ReceivedMessage, SentMessage};

use super::parts::{CELL, LABEL, draw_head, hidden_groups};
use super::spread::{draw_spreads, slowest_lines};
use super::{footer, meanwhile};
use crate::layout::{Style, TextLayout, TextOptions};

/// Width of the CPU beside a step, and of the step.
const PLACE: usize = 9;
const WHAT: usize = 32;

/// Parts of a slow message that are shown.
const PARTS: usize = 2;

/// Returns the whole report.
pub fn text(report: &MessageReport, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    draw_head(&mut layout, &report.about);
    draw_answer(&mut layout, report);
    for group in &report.groups {
        draw(&mut layout, group);
    }
    hidden_groups(&mut layout, report.groups.len(), report.all);
    footer::draw(&mut layout, &report.about);
    layout.finish()
}

/// Writes the first line: how many messages, and where their time goes.
fn draw_answer(layout: &mut TextLayout, report: &MessageReport) {
    let slowest = report.groups.first();
    let text = match slowest.and_then(|group| group.slowest.first()) {
        None if report.all == 0 => "No message was recorded.".to_owned(),
        None => "No message has a complete set of timestamps.".to_owned(),
        Some(slow) => format!(
            "Slowest message: {} from {} ({}).",
            duration(slow.whole_ns),
            span(slow),
            largest_parts(slow)
        ),
    };
    layout.paragraph(0, Style::Bold, &text);
    layout.blank();
}

/// Returns the start and end of a message's latency, as text.
fn span(lifetime: &MessageLifetime) -> &'static str {
    match &lifetime.message {
        MessageRow::Received(_) => "its arrival to the end of the receive call",
        MessageRow::Sent(_) if lifetime.message.is_datagram() => "the qdisc to the driver",
        MessageRow::Sent(_) => "the send call to the ACK",
    }
}

/// Writes the messages of one connection and direction: a table of parts.
fn draw(layout: &mut TextLayout, group: &MessageGroup) {
    let direction = group.direction.name();
    layout.title(&[
        (Style::Bold, &group.end.title()),
        (Style::Dim, &format!(", {direction}")),
    ]);
    let mut text = format!(
        "{}, {}",
        quantity(group.count, "message"),
        format_bytes(group.bytes)
    );
    if group.spliced_bytes > 0 {
        let spliced = format_bytes(group.spliced_bytes);
        text += &format!("; {spliced} more were spliced");
    }
    layout.entry(2, direction, LABEL, &text);
    for (number, what) in count_irregular(group) {
        if number > 0 {
            let text = format!("{} {what}", count(number));
            layout.entry(2, "", LABEL, &text);
        }
    }
    if let Some(dropped) = group.dropped.filter(|it| *it > 0) {
        let text = format!(
            "{} dropped: the receive buffer was full",
            quantity(dropped, "datagram")
        );
        layout.entry(2, "", LABEL, &text);
    }
    if let Some(error_ns) = group.stamped.map(|it| it.error_ns).filter(|it| *it > 0) {
        let text = format!("NIC timestamps: error up to {}", duration(error_ns));
        layout.entry(2, "", LABEL, &text);
    }
    if let Some(whole) = &group.whole {
        let parts = group.parts.iter();
        let parts = parts.map(|it| (it.part.name(), &it.spread, true));
        draw_spreads(layout, whole, parts);
        let slowest = group.slowest.iter();
        slowest_lines(
            layout,
            slowest.map(|it| (it.id.as_str(), it.whole_ns, largest_parts(it))),
        );
    }
    layout.blank();
}

/// Returns the number of irregular messages of a group, each with its reason.
fn count_irregular(group: &MessageGroup) -> [(u64, String); 6] {
    let late = duration(group.doubt_ns);
    let stamped = group.stamped;
    let words = str::to_owned;
    [
        (
            group.resent.unwrap_or(0),
            words("with a retransmitted segment"),
        ),
        (
            group.doubtful,
            format!("with an arrival that may be up to {late} later than shown"),
        ),
        (
            group.cut.unwrap_or(0),
            words("truncated: the buffer of the receive call was too small"),
        ),
        (
            group.unseen,
            words("with missing timestamps, not in the figures below"),
        ),
        (group.disordered, words("with timestamps out of order")),
        (
            stamped.map_or(0, |it| it.impossible + it.unplaced),
            words("with an unusable NIC timestamp"),
        ),
    ]
}

/// Returns the parts that took longest.
fn largest_parts(slow: &MessageLifetime) -> String {
    let mut parts: Vec<&PartTime> = slow.parts.iter().filter(|it| it.ns > 0).collect();
    parts.sort_by_key(|it| std::cmp::Reverse(it.ns));
    let words = parts
        .iter()
        .take(PARTS)
        .map(|it| format!("{} {}", it.part.name(), duration(it.ns)));
    words.collect::<Vec<_>>().join(", ")
}

/// Returns the report of one message.
pub fn story_text(story: &MessageStory, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    draw_head(&mut layout, &story.about);
    let text = match &story.lifetime {
        None => "This message has missing timestamps.".to_owned(),
        Some(lifetime) => format!(
            "This message took {} from {} ({}).",
            duration(lifetime.whole_ns),
            span(lifetime),
            largest_parts(lifetime)
        ),
    };
    layout.paragraph(0, Style::Bold, &text);
    layout.blank();
    layout.title(&[
        (Style::Bold, &story.end.title()),
        (Style::Dim, &format!(", {}", story.direction.name())),
    ]);
    if let Some(lifetime) = &story.lifetime {
        layout.entry(2, "message", LABEL, &describe_place(lifetime));
    }
    layout.blank();
    draw_steps(&mut layout, story);
    layout.blank();
    meanwhile::draw(&mut layout, story);
    footer::draw(&mut layout, &story.about);
    layout.finish()
}

/// Returns the size of a message and its place in the stream and in time.
fn describe_place(lifetime: &MessageLifetime) -> String {
    let (size, end, more) = match &lifetime.message {
        MessageRow::Received(row) => (row.bytes, row.offset_end, came_in(row)),
        MessageRow::Sent(row) => (row.bytes, row.offset_end, went_out_in(row)),
    };
    let of = if lifetime.message.is_datagram() {
        "this socket's bytes"
    } else {
        "the stream"
    };
    format!(
        "{}{more}, ends at byte {} of {of}, {} after the start",
        format_bytes(u64::from(size)),
        count(end),
        duration(lifetime.since_start_ns)
    )
}

/// Returns in how many segments the message came.
fn came_in(row: &ReceivedMessage) -> String {
    let number = u64::from(row.segments);
    match row.cut_bytes {
        None => {
            let segments = quantity(number, "segment");
            match row.doubt_ns {
                0 => format!(" in {segments}"),
                ns => format!(
                    " in {segments} (arrival up to {} later than shown)",
                    duration(ns)
                ),
            }
        }
        Some(0) if number == 1 => String::new(),
        Some(0) => format!(" in {}", quantity(number, "datagram")),
        Some(cut) => format!(" of a datagram, {} truncated", format_bytes(u64::from(cut))),
    }
}

/// Returns in how many packets the message left; empty if in one.
fn went_out_in(row: &SentMessage) -> String {
    match row.packets {
        Some(packets) if packets > 1 => format!(" in {}", quantity(packets.into(), "packet")),
        None if row.resent_segments > 0 => {
            let again = quantity(u64::from(row.resent_segments), "segment");
            format!(", {again} retransmitted")
        }
        _ => String::new(),
    }
}

/// Draws a line for each step of a message, with the part that ends there.
fn draw_steps(layout: &mut TextLayout, story: &MessageStory) {
    let mut cpu = None;
    for step in &story.steps {
        let mut place = String::new();
        if step.cpu.is_some() && step.cpu != cpu {
            cpu = step.cpu;
            place = cpu.map(|cpu| format!("CPU {cpu}")).unwrap_or_default();
        }
        let indent = if step.tid.is_some() { "  " } else { "" };
        let what = match (step.what, step.tid) {
            (MessageEvent::Woken, Some(tid)) => format!("thread {tid} woken"),
            (what, _) => what.text().to_owned(),
        };
        let what = format!("{indent}{what}");
        let after = duration(step.after_ns);
        let left = format!("{after:>CELL$}  {place:PLACE$}{what:WHAT$}");
        let mut part = step.ends.map_or(String::new(), |PartTime { part, ns }| {
            format!("{} {}", part.name(), duration(ns))
        });
        if let Some(error_ns) = step.error_ns {
            part += &format!(" ± {}", duration(error_ns));
        }
        layout.line(2, &[(Style::Plain, &left), (Style::Dim, &part)]);
    }
}
