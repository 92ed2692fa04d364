//! From recorded rows to the printed answer: every directory `tests/golden/RULE/CASE/` holds a
//! small recording as text and the answer expected of it, as text and as JSON.
//!
//! The text form is that of `table::write_fixture`: `header.json`, `coverage.json`, `loss.json`,
//! `cost.json` and `close.json` are the manifest, the other files are tables, one row a line.
//! `inherits.txt` names what a case takes from `tests/golden/common/` or from another case; it has files of
//! its own only where it differs.
//! After a wanted change of the answers, rewrite them and read the difference:
//!
//! ```text
//! make golden
//! ```

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use diagnose::Report;
use diagnose::recording::DiagnosisOptions;
use diagnose::report::{RuleId, Severity};
use serde_json::{Value, json};
use whylat_view as view;
use whylat_view::TextOptions;

use crate::fixture::{self, MOST_LINES, Outcome, abridged, document, expect, recording};

/// Folder that cases inherit from.
const COMMON: &str = "common";

/// Returns the directory of the golden recordings.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// Every case as (rule, case, directory), in order.
fn cases() -> Outcome<Vec<(String, String, PathBuf)>> {
    let mut cases = Vec::new();
    for rule in subdirectories(&root())? {
        if rule.ends_with(COMMON) {
            continue;
        }
        for case in subdirectories(&rule)? {
            let name = |path: &Path| {
                path.file_name()
                    .map(|name| name.to_string_lossy().into_owned())
                    .unwrap_or_default()
            };
            cases.push((name(&rule), name(&case), case));
        }
    }
    cases.sort();
    Ok(cases)
}

/// Returns the directories within a directory, sorted.
fn subdirectories(path: &Path) -> Outcome<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(path).map_err(|error| format!("{}: {error}", path.display()))? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Returns every case with the program's report, computed once for all tests.
fn answered() -> &'static [(String, String, Report)] {
    static ANSWERED: OnceLock<Vec<(String, String, Report)>> = OnceLock::new();
    ANSWERED.get_or_init(|| {
        let cases = cases().expect("the cases are there").into_iter();
        let answered = cases.map(|(rule, case, directory)| {
            let report = judge(&directory).expect("a recording is read");
            (rule, case, report)
        });
        answered.collect()
    })
}

/// Returns the relevant part of a case's JSON: the rule's finding or doubt, and the connection with the most
/// harm. One case has the whole report.
fn relevant_json(rule: &str, case: &str, report: &Report) -> Outcome<String> {
    let json = view::json(report);
    if (rule, case) == WHOLE {
        return Ok(fixture::lines(&serde_json::from_str(&json)?));
    }
    if rule == "report" {
        return abridged(&json, 1);
    }
    let whole: Value = serde_json::from_str(&json)?;
    let items = |name: &str| whole[name].as_array().cloned().unwrap_or_default();
    let findings = items("findings");
    let words = |it: &Value| format!("{} {}", text(&it["severity"]), text(&it["rule"]));
    let names_rule = |it: &Value| items_of(&it["candidates"]).any(|it| it == rule);
    let mut connection = whole["connections"][0].clone();
    if let Value::Object(members) = &mut connection {
        members.retain(|name, _| OF_CONNECTION.contains(&name.as_str()));
    }
    let about = json!({
        "rule": rule,
        "case": case,
        "finding": findings.iter().find(|it| it["rule"] == rule),
        "findings": findings.iter().map(words).collect::<Vec<_>>(),
        "undecided": items("undecided").into_iter().find(names_rule),
        "connections": items("connections").len(),
        "first_connection": connection,
    });
    abridged(&about.to_string(), usize::MAX)
}

/// The case with a whole expected report.
const WHOLE: (&str, &str) = ("listen_overflow", "together");

/// Of a connection, what is expected beside the findings.
const OF_CONNECTION: [&str; 6] = [
    "findings",
    "harm_ns",
    "id",
    "lifetime_ns",
    "receive",
    "stages",
];

/// Returns the text of a JSON value; empty if it is none.
fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns the elements of a JSON list; none if it is no list.
fn items_of(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the program's report of a case.
fn judge(directory: &Path) -> Outcome<Report> {
    let (_scratch, recording) = recording(directory)?;
    Ok(diagnose::recording::report(
        &recording,
        DiagnosisOptions::default(),
    )?)
}

#[test]
fn answers_match_golden_files() -> Outcome {
    let mut wrong = Vec::new();
    // Answers that others inherit come first: an update rewrites them before it compares the heirs.
    let mut all: Vec<_> = answered().iter().collect();
    all.sort_by_key(|(rule, case, _)| !root().join(rule).join(case).join("expected.txt").exists());
    for (rule, case, report) in all {
        let directory = root().join(rule).join(case);
        let text = view::text(report, &TextOptions::default());
        wrong.extend(expect(&directory.join("expected.txt"), &text)?);
        let json = relevant_json(rule, case, report)?;
        wrong.extend(expect(&directory.join("expected.json"), &json)?);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn every_rule_has_three_cases() -> Outcome {
    let cases = cases()?;
    for rule in RuleId::ALL {
        for kind in ["fires", "quiet", "undecided"] {
            let there = cases
                .iter()
                .any(|(name, case, _)| name == rule.name() && case == kind);
            assert!(there, "tests/golden/{rule}/{kind} is missing");
        }
    }
    Ok(())
}

/// The answers mean what their directory says, whatever the committed text.
#[test]
fn case_names_match_answers() -> Outcome {
    for (rule, case, report) in answered() {
        let fired = report
            .findings
            .iter()
            .find(|finding| finding.rule.name() == rule);
        let doubted = report.undecided.iter().any(|undecided| {
            undecided
                .candidates
                .iter()
                .any(|candidate| candidate.name() == rule)
        });
        match case.as_str() {
            "fires" => {
                let finding = fired.ok_or_else(|| format!("{rule}/{case}: does not fire"))?;
                let info = diagnose::rules::answer_rules().any(|answer| answer == finding.rule);
                assert_eq!(
                    finding.severity == Severity::Info,
                    info,
                    "{rule}: {finding:?}"
                );
                assert!(!doubted, "{rule}/{case}: fires and doubts");
            }
            "quiet" => assert!(fired.is_none() && !doubted, "{rule}/{case}: {fired:?}"),
            "undecided" => assert!(fired.is_none() && doubted, "{rule}/{case}: {fired:?}"),
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn shares_add_up_and_lines_fit() -> Outcome {
    for (rule, case, report) in answered() {
        for connection in &report.connections {
            if connection.stages.is_empty() {
                continue;
            }
            let sum: f64 = connection.stages.iter().map(|(_, share)| share.share).sum();
            assert!(
                (sum - 1.0).abs() < 1e-9,
                "{rule}/{case}: {} adds up to {sum}",
                connection.id
            );
            let ns: u64 = connection.stages.iter().map(|(_, share)| share.ns).sum();
            assert_eq!(
                ns, connection.lifetime_ns,
                "{rule}/{case}: {}",
                connection.id
            );
        }
        let sizes = [40, 64, 80, 200].into_iter();
        for (width, is_full) in sizes.flat_map(|width| [(width, false), (width, true)]) {
            let text = view::text(
                report,
                &TextOptions {
                    width,
                    is_full,
                    ..TextOptions::default()
                },
            );
            let limit = width.min(80);
            let long = text.lines().find(|line| line.chars().count() > limit);
            assert_eq!(long, None, "{rule}/{case} at {width}");
        }
    }
    Ok(())
}

#[test]
fn nothing_reaches_the_terminal_but_text() -> Outcome {
    for (rule, case, report) in answered() {
        let text = view::text(report, &TextOptions::default());
        let bad = text
            .chars()
            .find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(bad, None, "{rule}/{case}");
        let json = view::json(report);
        let bad = json
            .chars()
            .find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(bad, None, "{rule}/{case}");
    }
    Ok(())
}

#[test]
fn text_begins_with_the_finding_that_json_marks() {
    for (rule, case, report) in answered() {
        let marked: Vec<_> = report.findings.iter().filter(|it| it.is_answer).collect();
        let worst = report.findings.first();
        assert!(marked.len() <= 1, "{rule}/{case}");
        if let Some(worst) = worst.filter(|it| it.severity > Severity::Info) {
            assert!(worst.is_answer, "{rule}/{case}");
        }
        // that the path limited the rate has a sentence of its own
        let Some(answer) = marked.first().filter(|it| it.rule != RuleId::PathLimited) else {
            continue;
        };
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        let text = words(&view::text(report, &TextOptions::default()));
        let begin = text.split("── ").next().unwrap_or_default();
        assert!(
            begin.contains(&words(&answer.headline)),
            "{rule}/{case}: {text}"
        );
    }
}

#[test]
fn damaged_recording_report_starts_with_warning() -> Outcome {
    let mut report = judge(&root().join("slow_reader/fires"))?;
    let part = |table: &str, rows| diagnose::report::OmittedRows::new(table.to_owned(), rows);
    report.about.problems = vec!["r.whylat/tcp_stages/000002.parquet: missing".to_owned()];
    report.about.left_out = vec![part("calls", 1), part("tcp_stages", 1_598)];
    let text = view::text(&report, &TextOptions::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let damage = "This recording is damaged: 1 row of calls, 1,598 rows of tcp_stages are left out. \
                  The diagnosis may be wrong (see \"problem\").";
    let answer = &report.findings[0].headline;
    let places = (text.find(damage), text.find(answer.as_str()));
    assert!(places.0.is_some() && places.0 < places.1, "{text}");
    let part = "tcp_stages in part: without 1,598 rows of tcp_stages";
    assert!(text.contains(part), "{text}");
    let schema: serde_json::Value =
        document(&root().join("../../docs/report.schema.json"))?.ok_or("no schema")?;
    let json = serde_json::from_str(&view::json(&report))?;
    assert_eq!(
        crate::schema::validate(&schema, &json),
        Vec::<String>::new()
    );
    assert_eq!(json["left_out"][1]["rows"], 1_598);
    Ok(())
}

#[test]
fn open_connections_show_observed_time() -> Outcome {
    let mut report = judge(&root().join("slow_reader/fires"))?;
    let text = |report: &Report| view::text(report, &TextOptions::default());
    assert!(text(&report).contains("lasted ") && !text(&report).contains("observed for "));
    for connection in &mut report.connections {
        connection.opened_ns = None;
    }
    assert!(text(&report).contains("observed for ") && !text(&report).contains("lasted "));
    Ok(())
}

#[test]
fn json_keeps_the_published_schema() -> Outcome {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.schema.json");
    let schema = document(&path)?.ok_or("docs/report.schema.json is missing")?;
    for (rule, case, report) in answered() {
        let report = serde_json::from_str(&view::json(report))?;
        let faults = crate::schema::validate(&schema, &report);
        assert!(faults.is_empty(), "{rule}/{case}:\n{}", faults.join("\n"));
    }
    Ok(())
}

/// A copy is a second truth, and a long answer is read by nobody.
#[test]
fn golden_files_are_short_and_unique() -> Outcome {
    if fixture::is_update() {
        return Ok(()); // other tests write answers meanwhile
    }
    let tests = root().join("..");
    let mut seen = HashMap::new();
    let mut wrong = Vec::new();
    let is_golden = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("golden")
    };
    let mut folders: Vec<_> = subdirectories(&tests)?;
    folders.retain(is_golden);
    while let Some(folder) = folders.pop() {
        folders.extend(subdirectories(&folder)?);
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                continue;
            }
            let content = fs::read(&path)?;
            // An empty table says that this case has none of what it inherits.
            if content.is_empty() {
                continue;
            }
            let is_answer = path.extension().is_some_and(|ending| ending == "json");
            let lines = content.iter().filter(|byte| **byte == b'\n').count();
            if is_answer && lines > MOST_LINES {
                wrong.push(format!(
                    "{}: {lines} lines, at most {MOST_LINES}",
                    path.display()
                ));
            }
            if let Some(other) = seen.insert(content, path.clone()) {
                let (path, other) = (path.display(), other.display());
                wrong.push(format!(
                    "{path}: the same as {other}\nhint: name one of them in inherits.txt beside the other"
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
