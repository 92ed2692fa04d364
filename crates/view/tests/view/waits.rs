//! From recorded waits to the printed groups: `tests/golden_waits/recording/` is a small recording as
//! text, the files beside it are what `whylat report --by …` answers, as text and as JSON. Calls and
//! counters that go before its waits, and tasks around them, are in directories of their own: in `associated/` slow waits go with
//! small sends, in `quiet/` with nothing. In `spins/` a thread polls without waiting; `quiet/` has a probe for that
//! and no such thread; the others have no probe for it.
//!
//! After a wanted change of the answers, rewrite them and read the difference:
//!
//! ```text
//! make golden
//! ```

use std::path::{Path, PathBuf};

use diagnose::waits::{Grouping, WaitFilter, WaitReport};
use whylat_view as view;
use whylat_view::TextOptions;

use crate::fixture::{Outcome, abridged, document, expect, recording};

const MS: u64 = 1_000_000;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden_waits")
}

type Case = (&'static str, Grouping, WaitFilter, usize);

/// Returns each case: the name of its files, grouping and filter, and the number of groups. The
/// recording is in the directory with the first word of the name, if there is one.
fn cases() -> Vec<Case> {
    let slow_ones_of_the_connection = WaitFilter {
        from_ns: Some(100 * MS),
        to_ns: Some(900 * MS),
        pid: Some(4242),
        object: Some("127.0.0.1:9000".to_owned()),
        longer_than_ns: Some(10 * MS),
        ..WaitFilter::default()
    };
    let none = WaitFilter {
        tid: Some(1),
        ..WaitFilter::default()
    };
    let all = WaitFilter::default();
    let longer = WaitFilter {
        longer_than_ns: Some(30 * MS),
        ..WaitFilter::default()
    };
    let longer_ones = longer.clone();
    let server = WaitFilter {
        pid: Some(4243),
        to_ns: Some(500 * MS),
        ..WaitFilter::default()
    };
    vec![
        ("object", Grouping::Object, all.clone(), 10),
        ("thread", Grouping::Thread, all.clone(), 10),
        ("stack", Grouping::Stack, all.clone(), 10),
        ("waker", Grouping::Waker, all, 2),
        ("filter", Grouping::Object, slow_ones_of_the_connection, 10),
        ("none", Grouping::Thread, none, 10),
        ("associated", Grouping::Object, WaitFilter::default(), 1),
        ("associated_filter", Grouping::Object, longer, 1),
        ("quiet", Grouping::Object, WaitFilter::default(), 1),
        ("spins_object", Grouping::Object, WaitFilter::default(), 3),
        ("spins_thread", Grouping::Thread, WaitFilter::default(), 1),
        ("spins_stack", Grouping::Stack, server, 2),
        ("spins_filter", Grouping::Object, longer_ones, 1),
        ("tasks", Grouping::Task, WaitFilter::default(), 10),
    ]
}

/// Returns how many elements of each list the expected JSON has.
fn shown(name: &str) -> usize {
    match name {
        "object" | "associated" | "associated_filter" => 2,
        "tasks" | "thread" | "stack" | "waker" | "spins_object" | "spins_stack" => 1,
        _ => 4,
    }
}

/// Returns the report of waits with this grouping, filter and limit.
fn answer((name, grouping, filter, limit): Case) -> Outcome<WaitReport> {
    let own = root().join(name.split('_').next().unwrap_or_default());
    let text = if own.is_dir() {
        own
    } else {
        root().join("recording")
    };
    let (_scratch, recording) = recording(&text)?;
    let report = diagnose::recording::waits(&recording, grouping, filter, limit);
    Ok(report.ok_or("nobody waited for that")?)
}

#[test]
fn answers_match_golden_files() -> Outcome {
    let mut wrong = Vec::new();
    for case in cases() {
        let name = case.0;
        let report = answer(case)?;
        let text = view::waits_text(&report, &TextOptions::default());
        wrong.extend(expect(&root().join(format!("{name}.txt")), &text)?);
        let json = abridged(&view::json(&report), shown(name))?;
        wrong.extend(expect(&root().join(format!("{name}.json")), &json)?);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn json_keeps_the_published_schema() -> Outcome {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/waits.schema.json");
    let schema = document(&path)?.ok_or("docs/waits.schema.json is missing")?;
    for case in cases() {
        let name = case.0;
        let report = serde_json::from_str(&view::json(&answer(case)?))?;
        let faults = crate::schema::validate(&schema, &report);
        assert!(faults.is_empty(), "{name}:\n{}", faults.join("\n"));
    }
    Ok(())
}

#[test]
fn lines_fit() -> Outcome {
    for case in cases() {
        let name = case.0;
        let report = answer(case)?;
        for width in [40, 64, 80, 200] {
            let options = TextOptions {
                width,
                ..TextOptions::default()
            };
            let text = view::waits_text(&report, &options);
            let long = text
                .lines()
                .find(|line| line.chars().count() > width.min(80));
            assert_eq!(long, None, "{name} at {width}");
        }
    }
    Ok(())
}
