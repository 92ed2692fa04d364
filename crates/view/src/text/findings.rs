//! Findings and undecided problems, each with its evidence, the causes that were ruled out, and the fix.

use diagnose::Report;
use diagnose::report::{
    EstimatedWin, Fact, FactUnit, FactValue, Finding, Severity, UndecidedFinding,
};
use diagnose::units::{
    count, duration, format_bytes, format_rate, format_ratio, percent, pluralize,
};

use super::parts::{LABEL, describe_subject, draw_more};
use crate::layout::{Style, TextLayout, TextOptions, pad_begin};

/// Findings drawn unless the user asks for more.
const SHOWN: usize = 6;

/// Column in which the numbers of evidence end.
const NUMBERS: usize = 11;

/// Draws warnings, then undecided problems that may cost as much.
pub fn draw(layout: &mut TextLayout, report: &Report, options: &TextOptions) {
    let limit = options.limit.unwrap_or(SHOWN);
    let findings = report.findings.iter().filter(|it| !it.is_note());
    let findings: Vec<&Finding> = findings.collect();
    for finding in findings.iter().take(limit) {
        draw_finding(layout, finding, interval_text(report, finding));
    }
    let undecided = report.undecided.iter().filter(|it| !it.is_minor());
    let undecided: Vec<&UndecidedFinding> = undecided.collect();
    for undecided in undecided.iter().take(limit) {
        draw_undecided(layout, undecided);
    }
    let shown = findings.len().min(limit) + undecided.len().min(limit);
    let all = findings.len() + undecided.len();
    if all > shown {
        draw_more(layout, shown, all);
        layout.blank();
    }
}

/// Draws one finding with all its evidence.
pub fn draw_whole_finding(layout: &mut TextLayout, finding: &Finding) {
    draw_finding(layout, finding, None);
}

/// Draws one undecided finding.
pub fn draw_one_undecided(layout: &mut TextLayout, undecided: &UndecidedFinding) {
    draw_undecided(layout, undecided);
}

/// Writes a finding: headline, evidence, causes ruled out, fix. A report that answers with it has its headline at the top.
fn draw_finding(layout: &mut TextLayout, finding: &Finding, when: Option<String>) {
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
    let subject = describe_subject(&finding.subject, finding.direction);
    layout.paragraph(2, Style::Cyan, &subject);
    if !finding.is_answer || finding.is_note() {
        layout.paragraph(2, Style::Plain, &finding.headline);
    }
    layout.blank();
    draw_evidence(layout, &finding.evidence.0);
    draw_list(layout, "involved", &finding.involved);
    if let Some(when) = when {
        layout.entry(2, "when", LABEL, &when);
    }
    let ruled_out: Vec<String> = finding
        .ruled_out
        .iter()
        .map(|out| format!("{}: {}", out.cause, out.because))
        .collect();
    draw_list(layout, "ruled out", &ruled_out);
    draw_list(layout, "not seen", &finding.could_not_see);
    let advice: Vec<String> = finding
        .advice
        .iter()
        .map(|advice| advice.0.clone().into_owned())
        .collect();
    draw_steps(layout, "fix", &advice);
    if let Some(win) = &finding.estimated_win {
        let bound = match win.at_least {
            true => " (a lower bound)",
            false => "",
        };
        let text = format!(
            "{} faster{bound}, if {}",
            describe_estimate(win),
            win.assumes
        );
        layout.entry(2, "gain", LABEL, &text);
    }
    let confidence = &finding.confidence;
    let text = format!("{}: {}", confidence.level.name(), confidence.because);
    layout.entry(2, "confidence", LABEL, &text);
    layout.blank();
}

/// Returns when a problem began and ended, if it lasted for less than half of the recording.
fn interval_text(report: &Report, finding: &Finding) -> Option<String> {
    let length_ns = finding.until_ns.saturating_sub(finding.from_ns);
    if finding.is_note() || length_ns * 2 >= report.about.span_ns {
        return None;
    }
    let since_start = |ns: u64| duration(ns.saturating_sub(report.about.host.started_ns));
    Some(format!(
        "from {} to {} after the start",
        since_start(finding.from_ns),
        since_start(finding.until_ns)
    ))
}

/// Returns an estimated gain in words.
pub fn describe_estimate(win: &EstimatedWin) -> String {
    let word = match (win.at_least, win.at_most) {
        (true, _) => "at least",
        (false, true) => "at most",
        (false, false) => "about",
    };
    format!("{word} {}", format_ratio(win.times_faster))
}

/// Writes what could not be decided, and why not.
fn draw_undecided(layout: &mut TextLayout, undecided: &UndecidedFinding) {
    let candidates = undecided.candidates_title();
    let title = [
        (Style::Yellow, "undecided"),
        (Style::Dim, " · "),
        (Style::Bold, &candidates),
    ];
    layout.title(&title);
    let subject = describe_subject(&undecided.subject, undecided.direction);
    layout.paragraph(2, Style::Cyan, &subject);
    layout.paragraph(2, Style::Plain, &undecided.headline);
    layout.blank();
    draw_evidence(layout, &undecided.evidence.0);
    layout.entry(2, "why", LABEL, &undecided.why);
    if undecided.candidates.len() > 2 {
        layout.entry(2, "may be", LABEL, &undecided.join_candidates(", "));
    }
    draw_steps(layout, "to find out", &undecided.would_help);
    layout.blank();
}

/// Writes the figures, one a line.
fn draw_evidence(layout: &mut TextLayout, facts: &[Fact]) {
    let facts = facts.iter().filter(|fact| fact.unit != FactUnit::Id);
    for (index, fact) in facts.enumerate() {
        let label = if index == 0 { "evidence" } else { "" };
        let value = value(fact);
        let head = format!("{label:LABEL$}{}  ", pad_begin(&value, NUMBERS));
        let one = fact.value == FactValue::Whole(1);
        layout.entry(2, &head, 0, &pluralize(fact.label, if one { 1 } else { 2 }));
    }
}

/// Draws the label beside the first entry, and each entry on lines of its own.
fn draw_list(layout: &mut TextLayout, label: &str, entries: &[String]) {
    for (index, entry) in entries.iter().enumerate() {
        layout.entry(2, if index == 0 { label } else { "" }, LABEL, entry);
    }
}

/// Draws a list, with numbers if it has several entries.
fn draw_steps(layout: &mut TextLayout, label: &str, steps: &[String]) {
    for (index, step) in steps.iter().enumerate() {
        let label = if index == 0 { label } else { "" };
        if steps.len() == 1 {
            layout.entry(2, label, LABEL, step);
        } else {
            let head = format!("{label:LABEL$}{}. ", index + 1);
            layout.entry(2, &head, 0, step);
        }
    }
}

/// Returns a fact's value with its unit.
fn value(fact: &Fact) -> String {
    match (fact.value, fact.unit) {
        (FactValue::Is(true), _) => "yes".to_owned(),
        (FactValue::Is(false), _) => "no".to_owned(),
        (FactValue::Whole(ns), FactUnit::Ns) => duration(ns),
        (FactValue::Whole(number), FactUnit::Bytes) => format_bytes(number),
        (FactValue::Whole(number), _) => count(number),
        (FactValue::Real(share), FactUnit::Share) => percent(share),
        (FactValue::Real(number), FactUnit::BytesPerS) => format_rate(number),
        (FactValue::Real(number), _) => format!("{number:.1}"),
    }
}
