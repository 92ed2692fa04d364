//! Two recordings side by side, as text and as JSON: a stall that is gone, and requests that are faster. Answers are in
//! `tests/golden_diff/`; `make golden` rewrites them.

use std::path::{Path, PathBuf};

use diagnose::difference::report::DiffReport;
use diagnose::recording::{DiagnosisOptions, compare_recordings};
use whylat_view as view;
use whylat_view::TextOptions;

use crate::fixture::{Outcome, abridged, document, expect, recording};

/// Name of a case, and its recordings.
const CASES: [(&str, [&str; 2]); 3] = [
    (
        "stall",
        [
            "golden/nagle_delayed_ack/fires",
            "golden/nagle_delayed_ack/quiet",
        ],
    ),
    (
        "requests",
        ["golden_requests/recording", "golden_diff/faster"],
    ),
    (
        "nothing_in_common",
        [
            "golden_requests/recording",
            "golden/nagle_delayed_ack/quiet",
        ],
    ),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests")
}

/// Compares two golden recordings.
fn compared([before, after]: [&str; 2]) -> Outcome<DiffReport> {
    let (_first, before) = recording(&root().join(before))?;
    let (_second, after) = recording(&root().join(after))?;
    Ok(compare_recordings(
        &before,
        &after,
        DiagnosisOptions::default(),
    ))
}

fn json(value: &impl serde::Serialize) -> Outcome<String> {
    Ok(serde_json::to_string(value)?)
}

#[test]
fn answers_match_golden_files() -> Outcome {
    let mut wrong = Vec::new();
    for (name, folders) in CASES {
        let report = compared(folders)?;
        let names = ["before.whylat", "after.whylat"];
        let text = view::diff_text(&report, names, &TextOptions::default());
        let json = abridged(&view::json(&report), 1)?;
        for (kind, answer) in [("txt", &text), ("json", &json)] {
            let path = root().join(format!("golden_diff/{name}.{kind}"));
            wrong.extend(expect(&path, answer)?);
        }
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn json_keeps_the_published_schema() -> Outcome {
    let path = root().join("../docs/diff.schema.json");
    let schema = document(&path)?.ok_or("docs/diff.schema.json is missing")?;
    for (name, folders) in CASES {
        let json = serde_json::from_str(&view::json(&compared(folders)?))?;
        let faults = crate::schema::validate(&schema, &json);
        assert!(faults.is_empty(), "{name}: {}", faults.join("\n"));
    }
    Ok(())
}

/// Sums do not depend on the side: a recording beside itself has no change.
#[test]
fn a_recording_beside_itself_has_no_change() -> Outcome {
    for (_, [folder, _]) in CASES {
        let report = compared([folder, folder])?;
        for service in &report.services {
            assert_eq!(service.change, None);
            assert_eq!(json(&service.before)?, json(&service.after)?);
        }
        for finding in &report.findings {
            assert_eq!(json(&finding.before)?, json(&finding.after)?);
        }
        assert!(report.stages.iter().all(|it| it.before == it.after));
        assert!(report.waits.iter().all(|it| it.before == it.after));
    }
    Ok(())
}
