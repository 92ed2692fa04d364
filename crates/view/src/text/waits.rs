//! Waits in groups, worst first: total, distribution, fast and slow ones apart, and the threads and objects involved.

use diagnose::units::{count, duration, percent, quantity};
use diagnose::waits::report::{
    DurationCell, Durations, FewSlow, GroupPart, Populations, SpanTimes, SpinReport, WaitGroup,
    WaitStack,
};
use diagnose::waits::{Grouping, WaitFilter, WaitReport};

use table::Caller;

use super::parts::hidden_groups;
use super::parts::{LABEL, draw_head, draw_more, format_value};
use super::{footer, preceding};
use crate::layout::{Style, TextLayout, TextOptions, columns};

/// Columns of a histogram, at most.
const COLUMNS: usize = 44;

/// Functions of a stack that are shown.
const STACK_LINES: usize = 12;

/// Columns below which a histogram shows nothing.
const LEAST_COLUMNS: usize = 10;

/// Heights of a column that is not empty.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Returns the whole report.
pub fn text(report: &WaitReport, options: &TextOptions) -> String {
    let mut layout = TextLayout::new(options);
    draw_head(&mut layout, &report.about);
    draw_answer(&mut layout, report);
    draw_groups(&mut layout, report);
    draw_counters(&mut layout, report, options);
    footer::draw(&mut layout, &report.about);
    layout.finish()
}

/// Writes the first line: blocked time, and the object with most of it.
fn draw_answer(layout: &mut TextLayout, report: &WaitReport) {
    let total = &report.total;
    let conditions = list_conditions(&report.filter);
    if total.count == 0 && total.filtered == 0 {
        layout.paragraph(0, Style::Bold, "No thread waited.");
    } else if total.count == 0 {
        let all = quantity(total.filtered, "wait");
        layout.paragraph(
            0,
            Style::Bold,
            &format!("None of {all} matches the filter."),
        );
    } else {
        let relation = match report.by {
            Grouping::Object => "on",
            Grouping::Thread => "by",
            Grouping::Stack => "in",
            Grouping::Waker => "with",
            Grouping::Task | Grouping::Pod | Grouping::Workload => "in",
        };
        let mut text = format!(
            "{} {relation} {}: {} blocked",
            quantity(total.count, "wait"),
            quantity(total.groups, report.by.name()),
            duration(total.blocked_ns)
        );
        if let Some(runq_ns) = total.runq_ns {
            text += &format!(", then {} of run-queue delay", duration(runq_ns));
        }
        layout.paragraph(0, Style::Bold, &format!("{text}."));
    }
    if let Some(spun_ns) = total.spun_ns.filter(|spun_ns| *spun_ns > 0) {
        let text = format!("Busy polling took {} of CPU time.", duration(spun_ns));
        layout.paragraph(0, Style::Bold, &text);
    }
    if !conditions.is_empty() {
        let text = format!(
            "Filter: {}; {} excluded.",
            conditions.join(", "),
            quantity(total.filtered, "wait")
        );
        layout.paragraph(0, Style::Yellow, &text);
    }
    layout.blank();
}

/// Returns the conditions of a filter.
fn list_conditions(filter: &WaitFilter) -> Vec<String> {
    let ended = match (filter.from_ns, filter.to_ns) {
        (None, None) => None,
        (Some(from), None) => Some(format!("ended at {} or later", duration(from))),
        (None, Some(to)) => Some(format!("ended before {}", duration(to))),
        (Some(from), Some(to)) => Some(format!(
            "ended between {} and {}",
            duration(from),
            duration(to)
        )),
    };
    let conditions = [
        ended,
        filter.pid.map(|pid| format!("process {pid}")),
        filter.tid.map(|tid| format!("thread {tid}")),
        filter
            .object
            .as_ref()
            .map(|object| format!("object {object}")),
        filter
            .longer_than_ns
            .map(|least| format!("longer than {}", duration(least))),
    ];
    conditions.into_iter().flatten().collect()
}

/// Writes the groups, the longest blocked first.
fn draw_groups(layout: &mut TextLayout, report: &WaitReport) {
    let (shown, all) = (report.groups.len() as u64, report.total.groups);
    if shown == 0 {
        return;
    }
    let number = format!(", worst first: {} of {}", count(shown), count(all));
    let title = format!("waits by {}", report.by.name());
    layout.title(&[(Style::Bold, &title), (Style::Dim, &number)]);
    for group in &report.groups {
        draw(layout, group, report.filter.longer_than_ns);
    }
    hidden_groups(layout, report.groups.len(), all);
    if all <= shown {
        layout.blank();
    }
}

/// Counters drawn unless the user asks for more.
const COUNTERS: usize = 10;

/// Draws the counters of programs, and the waits that go with them.
fn draw_counters(layout: &mut TextLayout, report: &WaitReport, options: &TextOptions) {
    let all = &report.counters;
    if all.is_empty() {
        return;
    }
    layout.title(&[(Style::Bold, "counters of programs")]);
    let shown = options.limit.unwrap_or(COUNTERS).min(all.len());
    for counter in &all[..shown] {
        let unit = counter.unit.as_deref().unwrap_or_default();
        let number = |value: f64| {
            format!("{} {unit}", format_value(value))
                .trim_end()
                .to_owned()
        };
        let mut text = format!(
            "{}, {} to {}, last {}",
            quantity(counter.values, "value"),
            number(counter.min),
            number(counter.max),
            number(counter.last)
        );
        match counter.slow_waits.is_empty() {
            true => text += ". No slow wait goes with it.",
            false => {
                text += &format!(
                    ". Slow waits go with it: {}.",
                    counter.slow_waits.join("; ")
                )
            }
        }
        let name = format!("{}, {}", counter.title(), counter.process.title());
        layout.bullet(2, (Style::Cyan, &name), &text);
    }
    draw_more(layout, shown, all.len());
    layout.blank();
}

/// Writes one group with its durations, wakers and stacks.
fn draw(layout: &mut TextLayout, group: &WaitGroup, longer_than_ns: Option<u64>) {
    layout.paragraph(2, Style::Cyan, &group.identity.title());
    if let Some(stack) = &group.identity.stack {
        let first = if group.durations.is_some() {
            "waits at"
        } else {
            "polls at"
        };
        draw_stack(layout, first, stack);
    }
    if let Some(spans) = &group.spans {
        draw_spans(layout, group, spans);
    }
    if let Some(durations) = &group.durations {
        draw_blocked(layout, group, durations, longer_than_ns);
    }
    if let Some(spinning) = &group.spinning {
        draw_spinning(layout, group, spinning);
    }
    if group.count > 0 || group.spinning.is_some() {
        let when = format!(
            "{} to {}",
            duration(group.first_ns),
            duration(group.last_ns)
        );
        layout.entry(4, "when", LABEL, &when);
    }
    draw_parts(layout, group);
}

/// Draws how many spans there were, how long each took, and the share of waits in it.
fn draw_spans(layout: &mut TextLayout, group: &WaitGroup, spans: &SpanTimes) {
    let mut text = format!(
        "{} in {}",
        duration(spans.total_ns),
        quantity(spans.count, "span")
    );
    if spans.unfinished > 0 {
        text += &format!("; {} without an end", count(spans.unfinished));
    }
    if spans.handed_over > 0 {
        text += &format!("; {} ended on another thread", count(spans.handed_over));
    }
    layout.entry(4, "took", LABEL, &text);
    if let Some(durations) = &spans.durations {
        layout.entry(4, "each span", LABEL, &describe_durations(durations));
    }
    if group.count == 0 {
        layout.entry(4, "blocked", LABEL, "no wait was recorded in them");
    }
}

/// Writes how often and how long the group's threads were blocked.
fn draw_blocked(
    layout: &mut TextLayout,
    group: &WaitGroup,
    durations: &Durations,
    longer_than_ns: Option<u64>,
) {
    let mut text = format!(
        "{} ({}) in {}",
        duration(group.blocked_ns),
        percent(group.share),
        quantity(group.count, "wait")
    );
    if let Some(runq_ns) = group.runq_ns.filter(|runq_ns| *runq_ns > 0) {
        text += &format!("; then {} of run-queue delay", duration(runq_ns));
    }
    if group.waking_unseen > 0 {
        text += &format!(
            "; {} without a recorded wake-up",
            count(group.waking_unseen)
        );
    }
    layout.entry(4, "blocked", LABEL, &text);
    layout.entry(4, "each", LABEL, &describe_durations(durations));
    if let Some(populations) = &group.populations {
        draw_populations(layout, group, durations, populations);
    }
    if let Some(few) = &group.few_slow {
        draw_few(layout, few);
    }
    if let Some(preceding) = &group.preceding {
        preceding::draw(layout, LABEL, preceding, longer_than_ns);
    }
}

/// Draws how much CPU time busy polling took, and who did it.
fn draw_spinning(layout: &mut TextLayout, group: &WaitGroup, spinning: &SpinReport) {
    let SpinReport {
        looks,
        spun_ns,
        threads,
        objects,
        stacks,
    } = spinning;
    let text = format!(
        "{} of CPU time without waiting ({})",
        duration(*spun_ns),
        quantity(*looks, "sample")
    );
    layout.entry(4, "busy poll", LABEL, &text);
    for (label, parts) in [
        ("polls on", objects),
        ("polls by", threads),
        ("polls in", stacks),
    ] {
        if !parts.is_empty() {
            layout.entry(4, label, LABEL, &describe_shares(parts, group, *spun_ns));
        }
    }
}

/// Draws the threads, objects, stacks and wakers of a group.
fn draw_parts(layout: &mut TextLayout, group: &WaitGroup) {
    for (label, parts) in [
        ("threads", &group.threads),
        ("objects", &group.objects),
        ("ready", &group.ready),
        ("in", &group.stacks),
        ("in kernel", &group.kernel_stacks),
        ("woken by", &group.wakers),
    ] {
        if !parts.is_empty() {
            layout.entry(
                4,
                label,
                LABEL,
                &describe_shares(parts, group, group.blocked_ns),
            );
        }
    }
}

/// Draws one function a line, with its line of source.
fn draw_stack(layout: &mut TextLayout, first: &str, stack: &WaitStack) {
    let outline = stack.outline();
    for (index, frame) in outline.iter().take(STACK_LINES).enumerate() {
        let mut text = frame.name();
        if let Some(line) = frame.line() {
            text += &format!("  {line}");
        } else if let (Some(_), Some(object)) = (&frame.function, &frame.object) {
            text += &format!("  {}", object.rsplit('/').next().unwrap_or(object));
        }
        if frame.inlined {
            text += " (inlined)";
        }
        if frame.may_be_folded() {
            text += " (maybe the method of another kind of socket: the linker joins equal code)";
        }
        let label = if index == 0 { first } else { "" };
        layout.entry(4, label, LABEL, &text);
    }
    let more = outline.len().saturating_sub(STACK_LINES) as u64;
    let rest = match stack.caller {
        _ if more > 0 => Some(format!("{} more: --format json shows them", count(more))),
        Caller::Unknown => Some("caller unknown".to_owned()),
        Caller::LeftOut => Some("callers omitted".to_owned()),
        Caller::Known | Caller::None => None,
    };
    if let Some(rest) = rest {
        layout.entry(4, "", LABEL, &rest);
    }
}

/// Returns percentiles of waits in one line.
fn describe_durations(durations: &Durations) -> String {
    let (min, max) = (duration(durations.min_ns), duration(durations.max_ns));
    if min == max {
        return max;
    }
    format!(
        "min {min}, p50 {}, p90 {}, p99 {}, max {max}",
        duration(durations.p50_ns),
        duration(durations.p90_ns),
        duration(durations.p99_ns)
    )
}

/// Writes number and p50 of fast and of slow waits.
fn draw_populations(
    layout: &mut TextLayout,
    group: &WaitGroup,
    durations: &Durations,
    populations: &Populations,
) {
    let Populations {
        boundary_ns,
        fast,
        slow,
    } = populations;
    let least = format!("{:LABEL$}{} [", "", duration(durations.min_ns));
    let most = format!("] {}", duration(durations.max_ns));
    let used = 4 + columns(&least) + columns(&most);
    let room = layout.width().saturating_sub(used).min(COLUMNS);
    if room >= LEAST_COLUMNS {
        let bar = histogram_bar(&group.histogram, *boundary_ns, room);
        let pieces = [
            (Style::Dim, least.as_str()),
            (Style::Yellow, &bar),
            (Style::Dim, &most),
        ];
        layout.line(4, &pieces);
    }
    let share = slow.blocked_ns as f64 / (fast.blocked_ns + slow.blocked_ns).max(1) as f64;
    let text = format!(
        "{} of about {}, {} of about {} ({} of the time); boundary {}",
        quantity(fast.count, "wait"),
        duration(fast.p50_ns),
        count(slow.count),
        duration(slow.p50_ns),
        percent(share),
        duration(*boundary_ns)
    );
    layout.entry(4, "fast, slow", LABEL, &text);
}

/// Draws slow waits that are too few for a population.
fn draw_few(layout: &mut TextLayout, few: &FewSlow) {
    let each: Vec<String> = few.durations_ns.iter().map(|ns| duration(*ns)).collect();
    let alike: Vec<&[String]> = each.chunk_by(|one, other| one == other).collect();
    let group = |alike_ones: &&[String]| match alike_ones.len() {
        times if times > 1 && alike.len() > 1 => format!("{} ({times} times)", alike_ones[0]),
        _ => alike_ones[0].clone(),
    };
    let each: Vec<String> = alike.iter().map(group).collect();
    let waits = quantity(few.durations_ns.len() as u64, "wait");
    let text = format!(
        "{waits} of about {}; the others took at most about {}. Fewer than 12 are too few to show two kinds of waits.",
        each.join(", "),
        duration(few.others_max_ns)
    );
    layout.entry(4, "few slow", LABEL, &text);
}

/// Returns a histogram over the logarithm of the duration; heights are logarithms of the counts, so that a few
/// slow waits are seen beside many fast ones.
fn histogram_bar(cells: &[DurationCell], boundary_ns: u64, room: usize) -> String {
    let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
        return String::new();
    };
    let first = quarter_index(first.from_ns);
    let a_column = (quarter_index(last.from_ns) - first + 1).div_ceil(room);
    let column = |ns: u64| (quarter_index(ns) - first) / a_column;
    let mut counts = vec![0; column(last.from_ns) + 1];
    for cell in cells {
        counts[column(cell.from_ns)] += cell.count;
    }
    let most = counts.iter().copied().max().unwrap_or(1) as f64;
    let boundary = column(boundary_ns);
    let columns = counts
        .iter()
        .enumerate()
        .map(|(column, count)| match count {
            0 if column == boundary => '┊',
            0 => ' ',
            count => {
                let height = (*count as f64).ln_1p() / most.ln_1p() * HEIGHTS.len() as f64;
                HEIGHTS[(height.ceil() as usize).clamp(1, HEIGHTS.len()) - 1]
            }
        });
    columns.collect()
}

/// Returns the number of a duration's histogram cell: each doubling of nanoseconds has four.
fn quarter_index(ns: u64) -> usize {
    let doublings = ns.max(4).ilog2();
    doublings as usize * 4 + ((ns >> (doublings - 2)) & 3) as usize
}

/// Returns the members of a group with their shares of its time. Those that differ in nothing that is shown are one, such as
/// two stacks with the same first functions.
fn describe_shares(parts: &[GroupPart], group: &WaitGroup, all_ns: u64) -> String {
    let mut shown: Vec<(String, u64, bool)> = Vec::new();
    for part in parts {
        let identity = &part.identity;
        let own = identity.process.is_some() && identity.process == group.identity.process;
        let name = if own {
            identity.name.clone()
        } else {
            identity.title()
        };
        match shown.iter_mut().find(|known| known.0 == name) {
            Some((_, blocked_ns, is_exact)) => {
                *blocked_ns += part.blocked_ns;
                *is_exact &= part.exact;
            }
            None => shown.push((name, part.blocked_ns, part.exact)),
        }
    }
    let words = shown.iter().map(|(name, blocked_ns, is_exact)| {
        let share = *blocked_ns as f64 / all_ns.max(1) as f64;
        let least = if *is_exact { "" } else { "at least " };
        format!("{name} {least}{}", percent(share))
    });
    words.collect::<Vec<_>>().join(", ")
}
