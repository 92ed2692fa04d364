//! Messages by connection and direction: how long they took, in which parts of their way, and the slowest;
//! and one message by itself.

use diagnose::messages::message::MessageRow;
use diagnose::messages::parts::MessageEvent;
use diagnose::messages::report::{Group, Lifetime, MessageReport, MessageStory, PartTime, Spread};
use diagnose::units::{bytes, count, counted, duration, percent};
use table::tables::{ReceivedMessage, SentMessage};

use super::{footer, head, meanwhile};
use crate::TextOptions;
use crate::layout::{Style, TextLayout};

/// Column in which labelled text begins, after the indent.
pub(super) const LABEL: usize = 12;

/// Width of a duration in a table.
pub(super) const CELL: usize = 11;

/// Width of the CPU beside a step, and of the step.
const PLACE: usize = 9;
const WHAT: usize = 32;

/// Parts of a slow message that are named.
const PARTS: usize = 2;

/// Draws the whole report.
pub fn text(report: &MessageReport, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    head(&mut layout, &report.about);
    answer(&mut layout, report);
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

fn answer(layout: &mut TextLayout, report: &MessageReport) {
    let slowest = report.groups.first();
    let text = match slowest.and_then(|group| group.slowest.first()) {
        None if report.all == 0 => "There was no message.".to_owned(),
        None => "Of no message the whole way was seen.".to_owned(),
        Some(slow) => format!(
            "The slowest message took {} from {}: {}.",
            duration(slow.whole_ns),
            span(slow),
            most(slow)
        ),
    };
    layout.paragraph(0, Style::Bold, &text);
    layout.blank();
}

/// From where to where the way goes.
fn span(lifetime: &Lifetime) -> &'static str {
    match &lifetime.message {
        MessageRow::Received(_) => "its arrival to the end of the call that took it",
        MessageRow::Sent(_) if lifetime.message.is_datagram() => {
            "the queue of the device to the driver"
        }
        MessageRow::Sent(_) => "the begin of its call to its acknowledgement",
    }
}

fn draw(layout: &mut TextLayout, group: &Group) {
    let direction = group.direction.name();
    layout.title(&[
        (Style::Bold, &group.end.title()),
        (Style::Dim, &format!(", {direction}")),
    ]);
    let mut text = format!(
        "{} of {} in all",
        counted(group.count, "message"),
        bytes(group.bytes)
    );
    if group.spliced_bytes > 0 {
        let spliced = bytes(group.spliced_bytes);
        text += &format!("; {spliced} more without a call");
    }
    layout.labelled(2, direction, LABEL, &text);
    let doubt = format!(
        "the arrival may have been up to {} later",
        duration(group.doubt_ns)
    );
    let of_these = [
        (group.resent.unwrap_or(0), "a segment was sent again"),
        (group.doubtful, doubt.as_str()),
        (
            group.cut.unwrap_or(0),
            "the call had no room for all of it: the rest is lost",
        ),
        (
            group.unseen,
            "not every time was seen: they are in none of the figures below",
        ),
        (
            group.disordered,
            "the times are in no order, which cannot be",
        ),
        (
            group.stamped.map_or(0, |it| it.impossible),
            "the adapter's stamp is in no order with the kernel's times, which cannot be",
        ),
        (
            group.stamped.map_or(0, |it| it.unplaced),
            "the adapter's stamp cannot be converted: its clock was set",
        ),
    ];
    for (number, what) in of_these {
        if number > 0 {
            let text = format!("of {} {what}", count(number));
            layout.labelled(2, "", LABEL, &text);
        }
    }
    if let Some(dropped) = group.dropped.filter(|it| *it > 0) {
        let text = format!(
            "{} dropped: the receive buffer was full",
            counted(dropped, "datagram")
        );
        layout.labelled(2, "", LABEL, &text);
    }
    if let Some(error_ns) = group.stamped.map(|it| it.error_ns).filter(|it| *it > 0) {
        let text = format!("the adapter's stamps are within {}", duration(error_ns));
        layout.labelled(2, "", LABEL, &text);
    }
    if let Some(whole) = &group.whole {
        let parts = group.parts.iter();
        let parts = parts.map(|it| (it.part.name(), &it.spread, true));
        spreads(layout, whole, parts);
        for (index, slow) in group.slowest.iter().enumerate() {
            let label = if index == 0 { "slowest" } else { "" };
            let text = format!("{}  {}: {}", slow.id, duration(slow.whole_ns), most(slow));
            layout.labelled(2, label, LABEL, &text);
        }
    }
    layout.blank();
}

/// A line for each part, the whole last. A part that is none of the whole has no share of it.
pub(super) fn spreads<'a>(
    layout: &mut TextLayout,
    whole: &Spread,
    parts: impl Iterator<Item = (&'a str, &'a Spread, bool)>,
) {
    let titles = ["half", "90 %", "99 %", "99.9 %", "most", "of all"];
    let line = |name: &str, cells: &[String]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>CELL$}")).collect();
        format!("{name:LABEL$}{cells}")
    };
    let head = line("", &titles.map(str::to_owned));
    layout.line(2, &[(Style::Dim, &head)]);
    let cells = |spread: &Spread, is_of_whole: bool| {
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
    layout.line(2, &[(Style::Bold, &line("whole", &cells(whole, true)))]);
}

/// The parts that took most.
fn most(slow: &Lifetime) -> String {
    let mut parts: Vec<&PartTime> = slow.parts.iter().filter(|it| it.ns > 0).collect();
    parts.sort_by_key(|it| std::cmp::Reverse(it.ns));
    let words = parts
        .iter()
        .take(PARTS)
        .map(|it| format!("{} {}", it.part.name(), duration(it.ns)));
    words.collect::<Vec<_>>().join(", ")
}

/// Draws one message.
pub fn story_text(story: &MessageStory, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    head(&mut layout, &story.about);
    let text = match &story.lifetime {
        None => "Not every time of this message was seen.".to_owned(),
        Some(lifetime) => format!(
            "This message took {} from {}: {}.",
            duration(lifetime.whole_ns),
            span(lifetime),
            most(lifetime)
        ),
    };
    layout.paragraph(0, Style::Bold, &text);
    layout.blank();
    layout.title(&[
        (Style::Bold, &story.end.title()),
        (Style::Dim, &format!(", {}", story.direction.name())),
    ]);
    if let Some(lifetime) = &story.lifetime {
        layout.labelled(2, "message", LABEL, &what(lifetime));
    }
    layout.blank();
    draw_steps(&mut layout, story);
    layout.blank();
    meanwhile::draw(&mut layout, story);
    footer::draw(&mut layout, &story.about);
    layout.finish()
}

/// Its place in the stream and in time.
fn what(lifetime: &Lifetime) -> String {
    let (size, end, more) = match &lifetime.message {
        MessageRow::Received(row) => (row.bytes, row.offset_end, came_in(row)),
        MessageRow::Sent(row) => (row.bytes, row.offset_end, went_out_in(row)),
    };
    let of = if lifetime.message.is_datagram() {
        "all recorded at this socket"
    } else {
        "the stream"
    };
    format!(
        "{}{more}, up to byte {} of {of}, {} after the recording began",
        bytes(u64::from(size)),
        count(end),
        duration(lifetime.since_start_ns)
    )
}

fn came_in(row: &ReceivedMessage) -> String {
    let number = u64::from(row.segments);
    match row.cut_bytes {
        None => {
            let segments = counted(number, "segment");
            match row.doubt_ns {
                0 => format!(" in {segments}"),
                ns => format!(
                    " in {segments} (arrived up to {} later than said)",
                    duration(ns)
                ),
            }
        }
        Some(0) if number == 1 => String::new(),
        Some(0) => format!(" in {}", counted(number, "datagram")),
        Some(cut) => format!(" of a datagram with {} more", bytes(u64::from(cut))),
    }
}

fn went_out_in(row: &SentMessage) -> String {
    match row.packets {
        Some(packets) if packets > 1 => format!(" in {}", counted(packets.into(), "packet")),
        None if row.resent_segments > 0 => {
            let again = counted(u64::from(row.resent_segments), "segment");
            format!(", {again} sent again")
        }
        _ => String::new(),
    }
}

/// A line for each step, those of the program indented, with the part of the way that it ends.
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
