//! The answer to a check in one sentence.

use diagnose::check::report::CheckReport;
use diagnose::units::quantity;

/// Returns the result of the check in one sentence.
pub(super) fn headline(report: &CheckReport) -> String {
    let runs = quantity(report.runs, "run");
    match report.failures.as_slice() {
        [] => {
            let judged = match report.baseline_runs {
                Some(_) => "no finding is new, and no count is beyond its baseline",
                None => "no finding above information; there is no baseline of counts",
            };
            format!("Passed: in {runs} {judged}.")
        }
        [only] => format!("Failed: {} in {runs}.", only.name),
        failures => format!("Failed: {} problems in {runs}.", failures.len()),
    }
}
