//! The activity of a message's CPUs while it was on its way, as an indented timeline.

use diagnose::messages::doing::CpuActivity;
use diagnose::messages::report::MessageStory;
use diagnose::units::{count, duration};

use super::parts::CELL;
use crate::doing;
use crate::layout::{Style, TextLayout};

/// Spans drawn of one CPU; the shortest are hidden.
const MOST: usize = 24;
/// Width of a span's name.
const WHAT: usize = 40;

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

fn draw_cpu(layout: &mut TextLayout, all: &[CpuActivity]) {
    let mut lengths: Vec<u64> = all.iter().map(|doing| doing.length_ns).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let least_ns = lengths.get(MOST).map_or(0, |ns| ns + 1);
    let shown = all.iter().filter(|doing| doing.length_ns >= least_ns);
    let hidden = all.len() - shown.clone().count();
    for doing in shown {
        let after = match u64::try_from(doing.after_ns) {
            Ok(ns) => duration(ns),
            Err(_) => format!("−{}", duration(doing.after_ns.unsigned_abs())),
        };
        let indent = "  ".repeat(doing.depth.into());
        let left = format!(
            "{after:>CELL$}  {:WHAT$}",
            format!("{indent}{}", span_name(doing))
        );
        layout.line(2, &[(Style::Plain, &left), (Style::Dim, &length(doing))]);
    }
    if hidden > 0 {
        let text = format!(
            "{} shorter: --format json shows them.",
            count(hidden as u64)
        );
        layout.paragraph(2, Style::Dim, &text);
    }
}

fn span_name(doing: &CpuActivity) -> String {
    doing::name(doing.kind, doing.name.as_deref(), doing.tid)
}

/// Returns how long it took; a span that was cut off took longer.
fn length(doing: &CpuActivity) -> String {
    let cut = !(doing.begin_seen && doing.end_seen);
    let more = if cut { " or more" } else { "" };
    format!("{}{more}", duration(doing.length_ns))
}
