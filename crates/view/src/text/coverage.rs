//! The probes that recorded, and the causes of gaps: one entry a cause, with all its probes.

use diagnose::report::{About, OmittedRows};
use table::manifest::{Coverage, ProbeState, join_reason};

use super::parts::LABEL;
use crate::layout::{MOST_COLUMNS, TextLayout, columns};

/// Prefix of the coverage of clocks, which have a line of their own.
const CLOCK: &str = "clock.";

/// Columns of a line after its label.
const ROOM: usize = MOST_COLUMNS - LABEL - 2;

/// The probe without which a connection is found only by a poll.
const EVENTS: &str = "tcp_events";

/// Clocks that most hosts do not have; only what compares hosts or adapters needs them.
const OPTIONAL_CLOCKS: [&str; 2] = ["clock.perf", "clock.ptp"];

/// Draws the probes that do not work, then missing clocks.
pub fn draw(layout: &mut TextLayout, about: &About) {
    let all = about.coverage.iter();
    let (clocks, probes): (Vec<&Coverage>, Vec<&Coverage>) =
        all.partition(|coverage| coverage.probe.starts_with(CLOCK));
    let mut label = "coverage";
    let mut line = |text: &str| {
        layout.entry(2, label, LABEL, text);
        label = "";
    };
    line(&format!("on: {}", list_working(&probes, &about.left_out)));
    for text in list_partial(&probes, &about.left_out) {
        line(&text);
    }
    for Group {
        probes,
        text,
        remedy,
    } in groups(&probes)
    {
        let cause = format!("{}{text}", probes.join(", "));
        let joined = format!("{cause}. hint: {remedy}");
        if remedy.is_empty() {
            line(&cause);
        } else if columns(&joined) <= ROOM {
            line(&joined);
        } else {
            line(&cause);
            line(&format!("hint: {remedy}"));
        }
    }
    if misses_short_connections(&probes) {
        line("whylat does not see connections that open and close between two polls.");
    }
    draw_clocks(layout, &clocks);
}

/// Probes in the same state for the same reason.
struct Group<'a> {
    probes: Vec<&'a str>,
    /// Text after the names.
    text: String,
    remedy: &'a str,
}

/// Returns the probes that do not work as designed, grouped by cause.
fn groups<'a>(all: &[&'a Coverage]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for coverage in all {
        let (text, remedy) = match &coverage.state {
            ProbeState::On => continue,
            ProbeState::Fallback { which, why } => {
                (format!(" partly: {}", join_reason(which, why)), "")
            }
            ProbeState::Off { why, remedy } => (format!(" off: {why}"), remedy.as_str()),
        };
        let same = |it: &&mut Group<'_>| it.text == text && it.remedy == remedy;
        match groups.iter_mut().find(same) {
            Some(group) => group.probes.push(&coverage.probe),
            None => groups.push(Group {
                probes: vec![&coverage.probe],
                text,
                remedy,
            }),
        }
    }
    groups
}

/// Returns the names of the probes that recorded everything.
fn list_working(all: &[&Coverage], left_out: &[OmittedRows]) -> String {
    let is_whole = |it: &&&Coverage| {
        it.state == ProbeState::On && left_out.iter().all(|part| part.probe != it.probe)
    };
    let on: Vec<&str> = all
        .iter()
        .filter(is_whole)
        .map(|it| it.probe.as_str())
        .collect();
    match on.is_empty() {
        true => "nothing".to_owned(),
        false => on.join(", "),
    }
}

/// Returns a line for each probe with unreadable rows.
fn list_partial(all: &[&Coverage], left_out: &[OmittedRows]) -> Vec<String> {
    let lines = all.iter().filter_map(|coverage| {
        let parts = left_out.iter().filter(|it| it.probe == coverage.probe);
        let words: Vec<String> = parts.map(OmittedRows::describe_rows).collect();
        let is_partial = coverage.state == ProbeState::On && !words.is_empty();
        is_partial.then(|| {
            format!(
                "{} in part: without {}",
                coverage.probe,
                words.join(" and ")
            )
        })
    });
    lines.collect()
}

/// Returns whether nothing but polls finds connections, though the detail asks for more.
fn misses_short_connections(all: &[&Coverage]) -> bool {
    let events = all.iter().find(|it| it.probe == EVENTS);
    events.is_some_and(|it| matches!(it.state, ProbeState::Off { .. }))
}

/// Writes which clocks could not be read.
fn draw_clocks(layout: &mut TextLayout, all: &[&Coverage]) {
    let missing: Vec<&str> = all
        .iter()
        .filter(|it| matches!(it.state, ProbeState::Off { .. }))
        .filter(|it| !OPTIONAL_CLOCKS.contains(&it.probe.as_str()))
        .map(|it| it.probe.trim_start_matches(CLOCK))
        .collect();
    if !missing.is_empty() {
        let text = format!("without {}: see `whylat doctor`", missing.join(", "));
        layout.entry(2, "clocks", LABEL, &text);
    }
}
