//! Findings and undecided problems, each with what shows it, what it is not, what to do.

use diagnose::Report;
use diagnose::report::{Fact, Finding, Severity, Undecided, Unit, Value, Win};
use diagnose::units::{bytes, count, duration, percent, plural, rate, times};

use super::{LABEL, who};
use crate::layout::{Style, TextLayout, columns};

/// Findings drawn in full; the rest are counted.
const SHOWN: usize = 6;

/// Column in which the numbers of evidence end.
const NUMBERS: usize = 11;

/// Draws findings, then what could not be decided.
pub fn draw(layout: &mut TextLayout, report: &Report) {
    for (index, finding) in report.findings.iter().take(SHOWN).enumerate() {
        // The worst finding's sentence is the answer at the top already.
        let said = index == 0 && finding.severity > Severity::Info;
        draw_finding(layout, finding, said, when(report, finding));
    }
    for undecided in report.undecided.iter().take(SHOWN) {
        draw_undecided(layout, undecided);
    }
    let hidden =
        report.findings.len().saturating_sub(SHOWN) + report.undecided.len().saturating_sub(SHOWN);
    if hidden > 0 {
        let text = format!("{} more: see --format json.", count(hidden as u64));
        layout.paragraph(2, Style::Dim, &text);
        layout.blank();
    }
}

/// Draws one finding in full.
pub fn one(layout: &mut TextLayout, finding: &Finding) {
    draw_finding(layout, finding, false, None);
}

/// Draws one problem whose cause cannot be told.
pub fn one_undecided(layout: &mut TextLayout, undecided: &Undecided) {
    draw_undecided(layout, undecided);
}

fn draw_finding(layout: &mut TextLayout, finding: &Finding, said: bool, when: Option<String>) {
    let style = match finding.severity {
        Severity::Critical => Style::Red,
        Severity::Warning => Style::Yellow,
        Severity::Info => Style::Green,
    };
    layout.title(&[
        (style, finding.severity.name()),
        (Style::Dim, " · "),
        (Style::Bold, finding.rule.name()),
    ]);
    layout.paragraph(2, Style::Cyan, &who(&finding.subject, finding.direction));
    if !said {
        layout.paragraph(2, Style::Plain, &finding.headline);
    }
    layout.blank();
    draw_evidence(layout, &finding.evidence.0);
    if let Some(when) = when {
        layout.labelled(2, "when", LABEL, &when);
    }
    let ruled_out: Vec<String> = finding
        .ruled_out
        .iter()
        .map(|out| format!("{}: {}", out.cause, out.because))
        .collect();
    draw_list(layout, "not this", &ruled_out);
    draw_list(layout, "not seen", &finding.could_not_see);
    let advice: Vec<String> = finding
        .advice
        .iter()
        .map(|advice| advice.0.clone().into_owned())
        .collect();
    draw_steps(layout, "do this", &advice);
    if let Some(win) = &finding.estimated_win {
        let text = format!("{} faster, if {}", estimate(win), win.assumes);
        layout.labelled(2, "gain", LABEL, &text);
    }
    let confidence = &finding.confidence;
    let text = format!("{}: {}", confidence.level.name(), confidence.because);
    layout.labelled(2, "confidence", LABEL, &text);
    layout.blank();
}

/// From when to when a problem was there, where that is less than half of the recording.
fn when(report: &Report, finding: &Finding) -> Option<String> {
    let length_ns = finding.until_ns.saturating_sub(finding.from_ns);
    if finding.severity == Severity::Info || length_ns * 2 >= report.about.span_ns {
        return None;
    }
    let since_start = |ns: u64| duration(ns.saturating_sub(report.about.host.started_ns));
    Some(format!(
        "from {} to {} after the start",
        since_start(finding.from_ns),
        since_start(finding.until_ns)
    ))
}

/// How many times faster, in words.
pub fn estimate(win: &Win) -> String {
    let word = if win.at_least { "at least" } else { "about" };
    format!("{word} {}", times(win.times_faster))
}

fn draw_undecided(layout: &mut TextLayout, undecided: &Undecided) {
    let candidates = undecided.join_candidates(" or ");
    let title = [
        (Style::Yellow, "cannot tell"),
        (Style::Dim, " · "),
        (Style::Bold, &candidates),
    ];
    layout.title(&title);
    layout.paragraph(
        2,
        Style::Cyan,
        &who(&undecided.subject, undecided.direction),
    );
    layout.paragraph(2, Style::Plain, &undecided.headline);
    layout.blank();
    draw_evidence(layout, &undecided.evidence.0);
    layout.labelled(2, "why", LABEL, &undecided.why);
    draw_steps(layout, "to know", &undecided.would_help);
    layout.blank();
}

fn draw_evidence(layout: &mut TextLayout, facts: &[Fact]) {
    let facts = facts.iter().filter(|fact| fact.unit != Unit::Id);
    for (index, fact) in facts.enumerate() {
        let label = if index == 0 { "evidence" } else { "" };
        let value = value(fact);
        let pad = NUMBERS.saturating_sub(columns(&value));
        let head = format!("{label:LABEL$}{}{value}  ", " ".repeat(pad));
        let one = fact.value == Value::Whole(1);
        layout.labelled(2, &head, 0, &plural(fact.label, if one { 1 } else { 2 }));
    }
}

/// Label at the first line, each entry on lines of its own.
fn draw_list(layout: &mut TextLayout, label: &str, entries: &[String]) {
    for (index, entry) in entries.iter().enumerate() {
        layout.labelled(2, if index == 0 { label } else { "" }, LABEL, entry);
    }
}

/// As a list, but numbered when there are several.
fn draw_steps(layout: &mut TextLayout, label: &str, steps: &[String]) {
    for (index, step) in steps.iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        if steps.len() == 1 {
            layout.labelled(2, label, LABEL, step);
        } else {
            let head = format!("{label:LABEL$}{}. ", index + 1);
            layout.labelled(2, &head, 0, step);
        }
    }
}

/// A fact's value with its unit.
fn value(fact: &Fact) -> String {
    match (fact.value, fact.unit) {
        (Value::Is(true), _) => "yes".to_owned(),
        (Value::Is(false), _) => "no".to_owned(),
        (Value::Whole(ns), Unit::Ns) => duration(ns),
        (Value::Whole(number), Unit::Bytes) => bytes(number),
        (Value::Whole(number), _) => count(number),
        (Value::Real(share), Unit::Share) => percent(share),
        (Value::Real(number), Unit::BytesPerS) => rate(number),
        (Value::Real(number), _) => format!("{number:.1}"),
    }
}
