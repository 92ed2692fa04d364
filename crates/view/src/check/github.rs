//! Annotations: commands that a job of GitHub Actions prints, by its documentation of workflow commands.

use diagnose::check::report::CheckReport;

use super::headline::headline;
use crate::clean::remove_controls;

/// Writes an error for each failure, a warning for what could not be seen, and a notice with the answer.
pub fn write_github(report: &CheckReport) -> String {
    let errors = report.failures.iter().map(|it| {
        let text = format!("{}\nhint: {}", it.text, it.hint);
        workflow_command("error", &it.name, &text)
    });
    let unseen = report.could_not_see.iter();
    let warnings = unseen.map(|it| workflow_command("warning", "not judged", it));
    let notice = std::iter::once(workflow_command("notice", "check", &headline(report)));
    errors.chain(warnings).chain(notice).collect()
}

/// Makes a command that GitHub shows beside the run: `::error title=…::TEXT`.
fn workflow_command(kind: &str, title: &str, text: &str) -> String {
    format!(
        "::{kind} title=whylat%3A {}::{}\n",
        escape_property(title),
        escape_data(text)
    )
}

/// Escapes line ends for a workflow command, and removes control characters.
fn escape_data(text: &str) -> String {
    let lines: Vec<_> = text.lines().map(remove_controls).collect();
    lines.join("\n").replace('%', "%25").replace('\n', "%0A")
}

/// Escapes a title for a workflow command.
fn escape_property(text: &str) -> String {
    escape_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn each_failure_is_one_line() {
        let text = write_github(&fixture::failed_report());
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
        assert_eq!(write_github(&fixture::passed_report()).lines().count(), 1);
    }
}
