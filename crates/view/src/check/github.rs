//! Annotations: commands that a job of GitHub Actions prints, by its documentation of workflow commands.

use diagnose::check::report::CheckReport;

use super::headline::headline;
use crate::clean::clean;

/// Writes an error for each failure, a warning for what could not be seen, and a notice with the answer.
pub fn github(report: &CheckReport) -> String {
    let errors = report.failures.iter().map(|it| {
        let text = format!("{}\nhint: {}", it.text, it.hint);
        command("error", &it.name, &text)
    });
    let unseen = report.could_not_see.iter();
    let warnings = unseen.map(|it| command("warning", "not judged", it));
    let notice = std::iter::once(command("notice", "check", &headline(report)));
    errors.chain(warnings).chain(notice).collect()
}

fn command(kind: &str, title: &str, text: &str) -> String {
    format!(
        "::{kind} title=whylat%3A {}::{}\n",
        property(title),
        data(text)
    )
}

/// Line ends stay, escaped; anything else that a terminal would act on goes.
fn data(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(clean).collect();
    lines.join("\n").replace('%', "%25").replace('\n', "%0A")
}

fn property(text: &str) -> String {
    data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn each_failure_is_one_line() {
        let text = github(&fixture::failed_report());
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[0],
            "::error title=whylat%3A serial_round_trips::A <b> sent \"300\": one,%0Aby one%0Ahint: do 100 %25 of it, & well"
        );
        assert_eq!(lines.len(), 5);
        assert_eq!(
            lines[4],
            "::notice title=whylat%3A check::Failed: 3 problems in 3 runs."
        );
        assert_eq!(github(&fixture::passed_report()).lines().count(), 1);
    }
}
