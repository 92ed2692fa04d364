//! Checks of kept recordings: the schema of the answer, a baseline that is read back, and what depends on the machine.

use std::path::{Path, PathBuf};

use diagnose::check::baseline::Baseline;
use diagnose::check::count::CheckedRecording;
use diagnose::check::report::{CheckReport, CountState, FailureKind, FindingVerdict};
use diagnose::check::{Check, CheckOptions};
use diagnose::recording::{self, DiagnosisOptions};
use whylat_view as view;

use crate::fixture::{Outcome, document, recording as opened};

const STALL: &str = "golden/nagle_delayed_ack/fires";
const HEALTHY: &str = "golden/nagle_delayed_ack/quiet";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

/// Checks these recordings as runs, one after the other.
fn check(options: CheckOptions, runs: &[&str]) -> Outcome<Check> {
    let mut check = Check::new(options);
    for folder in runs {
        let (_open, recording) = opened(&root().join(folder))?;
        let report = recording::report(&recording, DiagnosisOptions::default())?;
        check.add(&CheckedRecording {
            recording: &recording,
            report: &report,
        });
    }
    Ok(check)
}

/// Checks these runs.
fn report(options: CheckOptions, runs: &[&str]) -> Outcome<CheckReport> {
    Ok(check(options, runs)?.report(vec!["./client".to_owned()]))
}

/// Makes options with a baseline of these runs.
fn with_baseline(runs: &[&str]) -> Outcome<CheckOptions> {
    let written =
        serde_json::to_string(&check(CheckOptions::default(), runs)?.to_baseline("0.1.0"))?;
    let baseline: Baseline = serde_json::from_str(&written)?;
    Ok(CheckOptions {
        baseline: Some(baseline),
        ..CheckOptions::default()
    })
}

#[test]
fn json_keeps_the_published_schemas() -> Outcome {
    let of = |name: &str| -> Outcome<_> {
        let schema = document(&root().join("../docs").join(name))?;
        Ok(schema.ok_or(format!("docs/{name} is missing"))?)
    };
    let (schema, of_baseline) = (of("check.schema.json")?, of("baseline.schema.json")?);
    for options in [CheckOptions::default(), with_baseline(&[HEALTHY])?] {
        let json = serde_json::from_str(&view::json(&report(options, &[STALL])?))?;
        let faults = crate::schema::validate(&schema, &json);
        assert!(faults.is_empty(), "{}", faults.join("\n"));
    }
    let baseline = check(CheckOptions::default(), &[STALL])?.to_baseline("0.1.0");
    let json = serde_json::to_value(&baseline)?;
    let json = serde_json::from_str(&json.to_string())?;
    let faults = crate::schema::validate(&of_baseline, &json);
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    Ok(())
}

#[test]
fn stall_fails_as_finding_and_as_count() -> Outcome {
    // of one healthy run, eight waits may be chance; of five they are not
    let failed = report(with_baseline(&[HEALTHY; 5])?, &[STALL])?;
    let has = |kind, name: &str| {
        let mut failures = failed.failures.iter();
        failures.any(|it| it.kind == kind && it.name == name)
    };
    assert!(!failed.is_passed);
    assert!(
        has(FailureKind::Finding, "nagle_delayed_ack"),
        "{:#?}",
        failed.failures
    );
    assert!(
        has(FailureKind::Count, "delayed_acks"),
        "{:#?}",
        failed.counts
    );
    Ok(())
}

#[test]
fn same_recording_passes_beside_its_own_baseline() -> Outcome {
    for folder in [STALL, HEALTHY] {
        let same = report(with_baseline(&[folder, folder])?, &[folder])?;
        assert!(same.is_passed, "{:#?}", same.failures);
        assert!(
            same.counts
                .iter()
                .all(|it| matches!(it.state, CountState::Within | CountState::Absent))
        );
        assert!(
            same.findings
                .iter()
                .all(|it| it.state == FindingVerdict::InBaseline)
        );
    }
    Ok(())
}

/// One stall in three runs is no regression, two are.
#[test]
fn median_of_runs_counts() -> Outcome {
    let once = report(with_baseline(&[HEALTHY])?, &[STALL, HEALTHY, HEALTHY])?;
    assert!(once.is_passed, "{:#?}", once.failures);
    assert!(
        once.findings
            .iter()
            .any(|it| it.state == FindingVerdict::InFewRuns)
    );
    let twice = report(with_baseline(&[HEALTHY])?, &[STALL, HEALTHY, STALL])?;
    assert!(!twice.is_passed);
    Ok(())
}
