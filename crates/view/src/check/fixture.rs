//! Answers for the tests of the formats.

use diagnose::check::report::{
    CheckFailure, CheckReport, CountResult, CountState, FailureKind, SCHEMA,
};

/// Makes a report with a failure of each kind, and texts that the formats must escape.
pub(crate) fn failed_report() -> CheckReport {
    let failure = |kind, name: &str, text: &str| CheckFailure {
        kind,
        name: name.to_owned(),
        text: text.to_owned(),
        hint: "do 100 % of it, & well".to_owned(),
    };
    let count = CountResult {
        name: "connections",
        title: "connections opened",
        values: vec![41.0, 40.0, 40.0],
        median: Some(40.0),
        baseline: Some((1.0, 1.0)),
        limit: Some(1.0),
        state: CountState::Worse,
    };
    CheckReport {
        schema: SCHEMA,
        command: vec!["./client".to_owned(), "--fast".to_owned()],
        runs: 3,
        baseline_runs: Some(5),
        is_passed: false,
        is_complete: true,
        failures: vec![
            failure(
                FailureKind::Finding,
                "serial_round_trips",
                "A <b> sent \"300\": one,\nby one",
            ),
            failure(
                FailureKind::Count,
                "connections",
                "connections opened: 40, the baseline has 1",
            ),
            failure(
                FailureKind::Limit,
                "share.nagle",
                "share.nagle is 0.50, the limit is 0.10",
            ),
        ],
        counts: vec![count],
        findings: Vec::new(),
        could_not_see: vec!["The recordings do not have | bytes.".to_owned()],
    }
}

/// Makes a report without a failure.
pub(crate) fn passed_report() -> CheckReport {
    CheckReport {
        is_passed: true,
        failures: Vec::new(),
        counts: Vec::new(),
        could_not_see: Vec::new(),
        ..failed_report()
    }
}
