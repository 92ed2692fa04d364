//! The first sentence of a report: why is it slow?

use diagnose::Report;
use diagnose::report::{ReportAnswer, has_other_sockets};
use diagnose::units::{count, duration, percent};

use super::{imports, requests, slow};

use crate::layout::{Style, TextLayout};

/// Draws the report's answer in one paragraph.
pub fn draw(layout: &mut TextLayout, report: &Report) {
    layout.paragraph(0, Style::Bold, &answer_sentence(report));
    layout.blank();
}

/// Returns the sentence alone.
pub fn answer_sentence(report: &Report) -> String {
    match report.answer() {
        ReportAnswer::Imported(trace) => imports::headline(trace),
        ReportAnswer::Problem(worst) => worst.headline.clone(),
        ReportAnswer::SlowMessages(slow) => slow::headline(slow),
        ReportAnswer::Undecided(undecided) => format!(
            "Undecided: {} Possible harm: {}.",
            undecided.headline,
            duration(undecided.possible_harm_ns)
        ),
        ReportAnswer::OtherEnd(waits) => {
            format!("No problem found at this end. {}", waits.headline)
        }
        ReportAnswer::NoConnection => explain_nothing(report),
        ReportAnswer::OnlyReceived(receive) => format!(
            "No problem found: the connection only received; it waited for the sender {} of the time.",
            percent(receive.waiting_for_peer.share)
        ),
        ReportAnswer::PathLimited(_) => "No problem found: the path limited the rate.".to_owned(),
        ReportAnswer::LocalQueue(queue) => format!("No problem found. {}", queue.headline),
        ReportAnswer::ClientPace(pace) => format!("{} {}", describe_calm(report), pace.headline),
        ReportAnswer::NoProblem => describe_calm(report),
    }
}

/// Returns why no connection was seen, or what was seen instead.
fn explain_nothing(report: &Report) -> String {
    if report.requests.as_ref().is_some_and(|it| it.count() > 0) {
        return describe_calm(report);
    }
    if let Some(why) = &report.why_unseen
        && has_other_sockets(&report.sockets, &report.about.coverage)
    {
        return format!("No problem found. {why}");
    }
    let seen = match selection_option(&report.about.host.arguments) {
        Some(filter) => format!("No TCP connection was seen that matches {filter}."),
        None => "No TCP connection was seen.".to_owned(),
    };
    match &report.why_unseen {
        Some(why) => format!("{seen} {why}"),
        None => seen,
    }
}

/// Returns the option of `whylat record` that selected processes or connections.
fn selection_option(arguments: &[String]) -> Option<String> {
    const OPTIONS: [&str; 5] = ["--comm", "--port", "--cgroup", "--pid", "-p"];
    let mut words = arguments.iter().skip(1);
    if words.next()? != "record" {
        return None;
    }
    while let Some(word) = words.next() {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word.as_str(), None),
        };
        if OPTIONS.contains(&option) {
            let value = value.or_else(|| words.next().map(String::as_str))?;
            return Some(format!("{option} {value}"));
        }
    }
    None
}

/// Returns that no problem was found, and what the connections did.
fn describe_calm(report: &Report) -> String {
    if let Some(requests) = report.requests.as_ref().filter(|it| it.count() > 0) {
        return format!("No problem found in {}", requests::headline(requests));
    }
    let all = &report.connections;
    let judged = all.iter().any(|it| !it.stages.is_empty());
    let unknown = all.iter().filter(|it| it.is_mostly_unknown()).count();
    match (judged, all.len()) {
        (true, 1) if unknown == 1 => {
            "No problem found, but the stage of the connection is unknown most of the time.".into()
        }
        (true, _) if unknown > 0 => format!(
            "No problem found, but the stage of {} of {} connections is unknown most of the time.",
            count(unknown as u64),
            count(all.len() as u64)
        ),
        (false, _) => "No problem found, but no connection sent enough data for a verdict.".into(),
        (true, 1) => "No problem found: TCP did not delay the connection.".into(),
        (true, number) => {
            let number = count(number as u64);
            format!("No problem found: TCP delayed none of the {number} connections.")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_is_target_option() {
        let of = |words: &str| {
            let words: Vec<String> = words.split(' ').map(str::to_owned).collect();
            selection_option(&words)
        };
        let comm = Some("--comm nosuch".to_owned());
        assert_eq!(of("whylat record -d 1 --comm nosuch"), comm);
        assert_eq!(of("whylat record --comm=nosuch -d 1"), comm);
        assert_eq!(of("whylat record -p 1,2"), Some("-p 1,2".to_owned()));
        assert_eq!(of("whylat record --all -d 1"), None);
        assert_eq!(of("whylat run -- x --comm nosuch"), None);
    }
}
