//! The activity of a message's CPUs while it was on its way, as an indented timeline.

use diagnose::messages::activity::CpuActivity;
use diagnose::messages::report::MessageStory;
use diagnose::units::{count, duration};

use super::parts::CELL;
use crate::layout::{Style, TextLayout};
use crate::span_name;

/// Spans drawn of one CPU; the shortest are hidden.
const MOST: usize = 24;
/// Width of a span's name.
const WHAT: usize = 40;

/// Writes what CPUs did while the message was under way.
pub(super) fn draw(layout: &mut TextLayout, story: &MessageStory) {
    let Some(all) = &story.meanwhile else {
        return;
    };
    for on_cpu in all.chunk_by(|a, b| a.cpu == b.cpu) {
        layout.title(&[(Style::Bold, &format!("CPU {} at that time", on_cpu[0].cpu))]);
        draw_cpu(layout, on_cpu);
        layout.blank();
    }
}

/// Writes the activities of one CPU, indented by depth.
fn draw_cpu(layout: &mut TextLayout, all: &[CpuActivity]) {
    let mut lengths: Vec<u64> = all.iter().map(|activity| activity.length_ns).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let least_ns = lengths.get(MOST).map_or(0, |ns| ns + 1);
    let shown = all.iter().filter(|activity| activity.length_ns >= least_ns);
    let hidden = all.len() - shown.clone().count();
    for activity in shown {
        let after = match u64::try_from(activity.after_ns) {
            Ok(ns) => duration(ns),
            Err(_) => format!("−{}", duration(activity.after_ns.unsigned_abs())),
        };
        let indent = "  ".repeat(activity.depth.into());
        let left = format!(
            "{after:>CELL$}  {:WHAT$}",
            format!("{indent}{}", title(activity))
        );
        layout.line(
            2,
            &[
                (Style::Plain, &left),
                (Style::Dim, &format_length(activity)),
            ],
        );
    }
    if hidden > 0 {
        let text = format!(
            "{} shorter: --format json shows them.",
            count(hidden as u64)
        );
        layout.paragraph(2, Style::Dim, &text);
    }
}

/// Returns the name of an activity.
fn title(activity: &CpuActivity) -> String {
    span_name::activity_name(activity.kind, activity.name.as_deref(), activity.tid)
}

/// Returns the duration as text; a span that was cut off took longer.
fn format_length(activity: &CpuActivity) -> String {
    let cut = !(activity.begin_seen && activity.end_seen);
    let more = if cut { " or more" } else { "" };
    format!("{}{more}", duration(activity.length_ns))
}
