//! SARIF 2.1.0 (OASIS), for tools that collect the results of analyses.

use std::collections::BTreeSet;

use diagnose::check::report::{CheckFailure, CheckReport};
use serde::Serialize;
use serde_json::{Value, json};

use crate::clean::remove_controls;

/// Version of the format.
const VERSION: &str = "2.1.0";

/// A check as a log of one run.
#[derive(Debug, Serialize)]
struct SarifLog {
    version: &'static str,
    runs: [Value; 1],
}

/// Writes the check as a SARIF log. `artifact` is the file that results point at, relative to the
/// repository: the baseline, or the program.
///
/// # Errors
/// None: everything in it has a form in JSON.
pub fn write_sarif(
    report: &CheckReport,
    artifact: &str,
    version: &str,
) -> serde_json::Result<String> {
    let names: BTreeSet<&str> = report.failures.iter().map(|it| it.name.as_str()).collect();
    let rules: Vec<_> = names.iter().map(|it| json!({ "id": it })).collect();
    let results: Vec<_> = report
        .failures
        .iter()
        .map(|it| make_result(it, artifact))
        .collect();
    let unseen = report.could_not_see.iter();
    let notifications: Vec<_> = unseen
        .map(|it| json!({ "level": "warning", "message": { "text": remove_controls(it) } }))
        .collect();
    let log = SarifLog {
        version: VERSION,
        runs: [json!({
            "tool": { "driver": { "name": "whylat", "semanticVersion": version, "rules": rules } },
            "invocations": [{
                "executionSuccessful": true,
                "toolExecutionNotifications": notifications,
            }],
            "results": results,
        })],
    };
    serde_json::to_string_pretty(&log).map(|text| text + "\n")
}

/// Makes the SARIF result of a failed check; `artifact` is the file that it names.
fn make_result(failure: &CheckFailure, artifact: &str) -> Value {
    let [text, hint] = [&failure.text, &failure.hint].map(|it| remove_controls(it));
    let text = format!(
        "{}. {}.",
        text.trim_end_matches('.'),
        hint.trim_end_matches('.')
    );
    json!({
        "ruleId": failure.name,
        "level": "error",
        "message": { "text": text },
        "locations": [{ "physicalLocation": { "artifactLocation": { "uri": artifact } } }],
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture;
    use super::*;

    #[test]
    fn every_failure_is_a_result_with_a_place() {
        let text = write_sarif(&fixture::failed_report(), "baseline.json", "0.1.0").expect("JSON");
        let log: Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(log["version"], "2.1.0");
        let results = log["runs"][0]["results"].as_array().expect("a list");
        assert_eq!(results.len(), 3);
        let place = &results[1]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"];
        assert_eq!(place, "baseline.json");
        let rules = log["runs"][0]["tool"]["driver"]["rules"].as_array();
        assert_eq!(rules.map(Vec::len), Some(3));
        let passed =
            write_sarif(&fixture::passed_report(), "baseline.json", "0.1.0").expect("JSON");
        assert!(passed.contains("\"results\": []"), "{passed}");
    }
}
