//! Two golden recordings side by side: the stall and a connection without it.

use std::path::Path;

use diagnose::Report;
use diagnose::recording::DiagnosisOptions;
use whylat_view::{ComparedSide, TextOptions, side_by_side};

use crate::fixture::{Outcome, recording};

/// Returns the report of a golden recording.
fn judge(case: &str) -> Outcome<Report> {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let (_scratch, recording) = recording(&golden.join(case))?;
    Ok(diagnose::recording::report(
        &recording,
        DiagnosisOptions::default(),
    )?)
}

#[test]
fn both_sides_and_the_measured_speed_up_are_shown() -> Outcome {
    let (stalled, fixed) = (
        judge("nagle_delayed_ack/fires")?,
        judge("sender_app_limited/fires")?,
    );
    let before = ComparedSide {
        label: "two writes",
        report: &stalled,
        total_ns: 402_000_000,
    };
    let after = ComparedSide {
        label: "with TCP_NODELAY",
        report: &fixed,
        total_ns: 4_020_000,
    };
    let text = side_by_side(&before, &after, &TextOptions::default());
    let line = |start: &str| {
        let found = text
            .lines()
            .find(|line| line.trim_start().starts_with(start));
        found
            .unwrap_or_default()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("two writes"), "two writes with TCP_NODELAY");
    assert_eq!(line("finding"), "finding nagle_delayed_ack none");
    assert_eq!(line("short segments held"), "short segments held 9 0");
    assert_eq!(line("longest hold"), "longest hold 43.8 ms none");
    assert!(text.contains("Measured speed-up: 100×"), "{text}");
    let estimate = "Estimated: at least 18×";
    assert!(text.replace("\n ", "").contains(estimate), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    Ok(())
}
