//! Drops and resets: how many, by reason and place with what helps, by connection and device, and what the kernel's own
//! counters add.

use diagnose::drops::DropReport;
use diagnose::drops::report::{
    ConnectionDrops, DropTotal, NamedCount, ReasonGroup, RetransmissionCauses,
};
use diagnose::units::{count, quantity};
use table::DropKind;
use table::manifest::ProbeState;

use super::footer;
use super::parts::{LABEL, draw_head, draw_more, process};
use crate::layout::{Style, TextLayout, TextOptions};

/// Entries of each list, unless the user asks for another number.
const SHOWN: usize = 10;

/// Names of a list in a line.
const NAMES: usize = 4;

/// Width of a number.
const NUMBER: usize = 9;

/// Draws the whole report.
pub fn text(report: &DropReport, options: &TextOptions) -> String {
    let limit = options.limit.unwrap_or(SHOWN);
    let mut layout = TextLayout::new(options);
    draw_head(&mut layout, &report.about);
    let why_off = why_off(report);
    if why_off.is_none() || report.total != DropTotal::default() {
        layout.paragraph(0, Style::Bold, &headline(report));
    }
    if let Some(why) = why_off {
        layout.paragraph(0, Style::Yellow, &why);
    }
    layout.blank();
    draw_reasons(&mut layout, report, limit);
    if let Some(causes) = &report.retransmissions {
        draw_retransmissions(&mut layout, causes);
    }
    draw_connections(&mut layout, &report.connections, limit);
    draw_devices(&mut layout, report, limit);
    draw_counters(&mut layout, report, limit);
    footer::draw(&mut layout, &report.about);
    layout.finish()
}

/// Draws the section of the main report; nothing where nothing was dropped or reset that concerns recorded sockets.
pub fn draw_section(layout: &mut TextLayout, report: &DropReport) {
    let concerned = report.reasons.iter().filter(|it| is_problem(it));
    let concerned: Vec<&ReasonGroup> = concerned.filter(|it| it.selected > 0).collect();
    if concerned.is_empty() {
        return;
    }
    layout.title(&[(Style::Bold, "drops and resets")]);
    for group in concerned.iter().take(NAMES) {
        layout.entry(2, &count(group.selected), NUMBER, &name_group(group));
    }
    if let Some(causes) = &report.retransmissions {
        layout.paragraph(2, Style::Plain, &retransmission_text(causes));
    }
    let text = "`whylat report --drops` gives the meaning and the fix of each.";
    layout.paragraph(2, Style::Dim, text);
    layout.blank();
}

/// Returns whether a group is of drops or resets that no other group counts.
fn is_problem(group: &ReasonGroup) -> bool {
    let is_own = matches!(
        group.kind,
        DropKind::Packet | DropKind::ResetSent | DropKind::ResetReceived
    );
    is_own && !group.ordinary
}

/// Returns the answer in a sentence or two.
fn headline(report: &DropReport) -> String {
    let DropTotal {
        packets,
        selected,
        resets_sent,
        resets_received,
        ..
    } = report.total;
    let mut text = match packets {
        0 => "This host dropped no packet.".to_owned(),
        _ => format!(
            "This host dropped {}, {} of recorded sockets.",
            quantity(packets, "packet"),
            count(selected)
        ),
    };
    let mut packets = report
        .reasons
        .iter()
        .filter(|it| it.kind == DropKind::Packet);
    if let Some(most) = packets.find(|it| !it.ordinary && it.count > 0) {
        text += &format!(" Most frequent: {}.", name_group(most));
    }
    if resets_sent + resets_received > 0 {
        text += &format!(
            " It sent {} and received {}.",
            quantity(resets_sent, "reset"),
            count(resets_received)
        );
    }
    text
}

/// Returns why drops are not seen here, if that is so.
fn why_off(report: &DropReport) -> Option<String> {
    let mut coverage = report.about.coverage.iter();
    match coverage.find(|it| it.probe == "drops").map(|it| &it.state) {
        None => Some(
            "Drops were not recorded: the recording is of an older whylat. hint: record again"
                .to_owned(),
        ),
        Some(ProbeState::Off { why, remedy }) => {
            Some(format!("Drops were not recorded: {why}. hint: {remedy}"))
        }
        Some(_) => None,
    }
}

/// Returns reason and place.
fn name_group(group: &ReasonGroup) -> String {
    let reason = match (&group.reason, group.kind) {
        (Some(reason), DropKind::ResetSent) => format!("reset sent: {reason}"),
        (Some(reason), DropKind::IcmpSent) => format!("ICMP error sent: {reason}"),
        (Some(reason), _) => reason.clone(),
        (None, DropKind::ResetSent) => "reset sent".to_owned(),
        (None, DropKind::ResetReceived) => "reset received".to_owned(),
        (None, DropKind::QueueFull) => "receive queue full".to_owned(),
        (None, DropKind::UdpQueueFull) => "receive queue of UDP full".to_owned(),
        (None, _) => "dropped without a reason".to_owned(),
    };
    match &group.place {
        Some(place) => format!("{reason} in {place}()"),
        None => reason,
    }
}

/// Writes the reasons of drops, with what they mean.
fn draw_reasons(layout: &mut TextLayout, report: &DropReport, limit: usize) {
    let (ordinary, others): (Vec<&ReasonGroup>, Vec<&ReasonGroup>) =
        report.reasons.iter().partition(|it| it.ordinary);
    if !report.reasons.is_empty() {
        layout.title(&[
            (Style::Bold, "reasons"),
            (Style::Dim, ", of the whole host"),
        ]);
    }
    for group in others.iter().take(limit) {
        draw(layout, group);
    }
    draw_more(layout, limit, others.len());
    if !ordinary.is_empty() {
        let names = ordinary.iter().map(|it| NamedCount {
            name: name_group(it),
            count: it.count,
        });
        let names: Vec<NamedCount> = names.collect();
        layout.entry(2, "no problem", LABEL, &list_counts(&names));
    }
    if !report.reasons.is_empty() {
        layout.blank();
    }
}

/// Writes one reason: number of drops, meaning, remedy, places.
fn draw(layout: &mut TextLayout, group: &ReasonGroup) {
    layout.entry(2, &count(group.count), NUMBER, &name_group(group));
    let indent = 2 + NUMBER;
    if let Some(meaning) = group.meaning {
        layout.paragraph(indent, Style::Plain, meaning);
    }
    let mut notes = vec![format!("of recorded sockets {}", count(group.selected))];
    if group.stored < group.selected {
        notes.push(format!("stored {}", count(group.stored)));
    }
    if !group.hooks.is_empty() {
        notes.push(format!("hook {}", list_counts(&group.hooks)));
    }
    if !group.qdiscs.is_empty() {
        notes.push(format!("qdisc {}", list_counts(&group.qdiscs)));
    }
    if !group.devices.is_empty() {
        notes.push(format!("device {}", list_counts(&group.devices)));
    }
    layout.paragraph(indent, Style::Dim, &notes.join(" · "));
    if let Some(remedy) = group.remedy {
        layout.entry(indent, "fix", LABEL / 2, remedy);
    }
}

/// Returns names with their numbers, the largest first.
fn list_counts(names: &[NamedCount]) -> String {
    let shown = names.iter().take(NAMES);
    let shown: Vec<String> = shown
        .map(|it| format!("{} ({})", it.name, count(it.count)))
        .collect();
    let hidden = names.len().saturating_sub(NAMES);
    match hidden {
        0 => shown.join(", "),
        _ => format!("{} and {hidden} more", shown.join(", ")),
    }
}

/// Writes how many retransmissions the drops of this host explain.
fn draw_retransmissions(layout: &mut TextLayout, causes: &RetransmissionCauses) {
    layout.title(&[(Style::Bold, "retransmissions")]);
    layout.paragraph(2, Style::Plain, &retransmission_text(causes));
    layout.blank();
}

/// Returns the text on retransmitted segments that this host dropped.
fn retransmission_text(causes: &RetransmissionCauses) -> String {
    let RetransmissionCauses {
        dropped_here,
        not_dropped_here,
        unknown,
        by,
    } = causes;
    let mut parts = Vec::new();
    if *dropped_here > 0 {
        let by: Vec<String> = by.iter().take(NAMES).map(dropped_by).collect();
        parts.push(format!(
            "{} dropped here, {}",
            count(*dropped_here),
            by.join(", ")
        ));
    }
    if *not_dropped_here > 0 {
        parts.push(format!(
            "{} not dropped on this host",
            count(*not_dropped_here)
        ));
    }
    if *unknown > 0 {
        parts.push(format!("{} not known", count(*unknown)));
    }
    let all = dropped_here + not_dropped_here + unknown;
    format!(
        "Of {}: {}.",
        quantity(all, "retransmitted segment"),
        parts.join("; ")
    )
}

/// Returns which drops made retransmissions necessary: reason, place, segments.
fn dropped_by(it: &diagnose::drops::report::RetransmittedBy) -> String {
    let reason = it.reason.as_deref().unwrap_or("no reason");
    match &it.place {
        Some(place) => format!("by {reason} in {place}() ({})", count(it.segments)),
        None => format!("by {reason} ({})", count(it.segments)),
    }
}

/// Writes connections that lost packets here.
fn draw_connections(layout: &mut TextLayout, all: &[ConnectionDrops], limit: usize) {
    if all.is_empty() {
        return;
    }
    layout.title(&[
        (Style::Bold, "connections"),
        (Style::Dim, ", of recorded sockets and their ports"),
    ]);
    for it in all.iter().take(limit) {
        let owner = it.process.as_ref().map(|owner| process(Some(owner)));
        let name = match owner {
            Some(owner) if !it.name.starts_with(&owner) => format!("{owner} {}", it.name),
            _ => it.name.clone(),
        };
        layout.paragraph(2, Style::Cyan, &name);
        let numbers = [
            (it.packets, "packet dropped"),
            (it.resets_sent, "reset sent"),
            (it.resets_received, "reset received"),
            (it.icmp_sent, "ICMP error sent"),
        ];
        let numbers = numbers.into_iter().filter(|(number, _)| *number > 0);
        let numbers: Vec<String> = numbers
            .map(|(number, words)| format!("{} × {words}", count(number)))
            .collect();
        layout.paragraph(4, Style::Plain, &numbers.join(", "));
        if !it.reasons.is_empty() {
            layout.entry(4, "reasons", LABEL, &list_counts(&it.reasons));
        }
    }
    draw_more(layout, limit, all.len());
    layout.blank();
}

/// Writes drops by network device.
fn draw_devices(layout: &mut TextLayout, report: &DropReport, limit: usize) {
    if report.devices.is_empty() {
        return;
    }
    layout.title(&[
        (Style::Bold, "devices"),
        (Style::Dim, ", dropped packets of the whole host"),
    ]);
    for it in report.devices.iter().take(limit) {
        let device = it
            .device
            .as_deref()
            .unwrap_or("no device yet, or not known");
        let netns = it.netns.map(|it| format!(" in namespace {it}"));
        let text = format!("{device}{}", netns.unwrap_or_default());
        layout.entry(2, &count(it.packets), NUMBER, &text);
    }
    draw_more(layout, limit, report.devices.len());
    layout.blank();
}

/// Writes the kernel's own counters of drops, to check that nothing was missed.
fn draw_counters(layout: &mut TextLayout, report: &DropReport, limit: usize) {
    if report.counters.is_empty() {
        return;
    }
    layout.title(&[
        (Style::Bold, "counters of the kernel"),
        (Style::Dim, ", to check that nothing was missed"),
    ]);
    for it in report.counters.iter().take(limit) {
        let device = it.device.as_ref().map(|it| format!(" {it}"));
        let text = format!(
            "{}{} in namespace {}",
            it.name,
            device.unwrap_or_default(),
            it.netns
        );
        layout.entry(2, &count(it.grew), NUMBER, &text);
    }
    draw_more(layout, limit, report.counters.len());
    layout.blank();
}
