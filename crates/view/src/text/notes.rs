//! Findings that are no problem, one entry each: those of severity `info`, and undecided ones that cannot have
//! cost much.

use diagnose::Report;
use diagnose::report::{Finding, FindingSubject, UndecidedFinding};
use diagnose::units::count;

use super::parts::{draw_more, process};
use super::{findings, slow};
use crate::layout::{Style, TextLayout, TextOptions};

/// Entries drawn unless the user asks for more.
const SHOWN: usize = 6;

/// Draws the section of notes; with `--full` each entry with its evidence.
pub fn draw(layout: &mut TextLayout, report: &Report, options: &TextOptions) {
    let known = report.findings.iter().filter(|it| it.is_note());
    let open = report.undecided.iter().filter(|it| it.is_minor());
    if options.is_full {
        known.for_each(|it| findings::draw_whole_finding(layout, it));
        open.for_each(|it| findings::draw_one_undecided(layout, it));
        if let Some((name, sentence)) = slow::note(report) {
            layout.bullet(2, (Style::Green, &name), &sentence);
            layout.blank();
        }
        return;
    }
    let known = known.map(finding);
    let mut all: Vec<(String, String)> = known.chain(open.map(undecided_note)).collect();
    let has_evidence = !all.is_empty();
    all.extend(slow::note(report));
    if all.is_empty() {
        return;
    }
    layout.title(&[(Style::Bold, "information"), (Style::Dim, ", no problem")]);
    let shown = options.limit.unwrap_or(SHOWN).min(all.len());
    for (rule, sentence) in &all[..shown] {
        layout.bullet(2, (Style::Green, rule), sentence);
    }
    draw_more(layout, shown, all.len());
    if has_evidence {
        layout.paragraph(2, Style::Dim, "--full shows the evidence.");
    }
    layout.blank();
}

/// Returns rule and first sentence of a finding.
fn finding(finding: &Finding) -> (String, String) {
    let sentence = first_sentence(&finding.headline);
    let text = format!("{}: {sentence}", describe_subject(&finding.subject));
    (finding.rule.to_string(), text)
}

/// Returns rule and first sentence of what could not be decided.
fn undecided_note(undecided: &UndecidedFinding) -> (String, String) {
    let rules = undecided.candidates_title();
    let sentence = first_sentence(&undecided.headline);
    let text = format!("{}: {sentence}", describe_subject(&undecided.subject));
    (format!("perhaps {rules}"), text)
}

/// Returns process and remote address of a finding.
fn describe_subject(subject: &FindingSubject) -> String {
    let process = process(subject.process.as_ref());
    match subject.connections {
        _ if subject.requests.is_some() => process,
        0 | 1 => process,
        number => format!("{process}, {} connections", count(number)),
    }
}

/// Returns the text up to its first full stop.
fn first_sentence(text: &str) -> &str {
    text.find(". ").map_or(text, |end| &text[..=end])
}

#[cfg(test)]
mod tests {
    use super::first_sentence;

    #[test]
    fn first_sentence_keeps_decimals() {
        assert_eq!(first_sentence("79.5 % idle. The rest."), "79.5 % idle.");
        assert_eq!(first_sentence("79.5 % idle."), "79.5 % idle.");
    }
}
