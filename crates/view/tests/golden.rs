//! From recorded rows to the printed answer: every directory `tests/golden/RULE/CASE/` holds a
//! small recording as text and the answer expected of it, as text and as JSON.
//!
//! The text form is that of `table::write_fixture`: `header.json`, `coverage.json`, `loss.json`,
//! `cost.json` and `close.json` are the manifest, the other files are tables, one row a line.
//! After a wanted change of the answers, rewrite them and read the difference:
//!
//! ```text
//! WHYLAT_GOLDEN_UPDATE=1 cargo test --release -p whylat-view --test golden
//! ```

mod fixture;
mod schema;

use std::fs;
use std::path::{Path, PathBuf};

use diagnose::report::Severity;
use diagnose::{Evidence, Report};
use table::Recording;
use table::manifest::Close;
use table::tables::{
    Call, Connection, CpuSample, Listener, Process, ProcessSample, TcpEvent, TcpSample, TcpStage,
};
use whylat_view as view;
use whylat_view::TextOptions;

use fixture::{Outcome, document, expect, rows};

/// Directory of the golden recordings.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden")
}

/// Every case as (rule, case, directory), in order.
fn cases() -> Outcome<Vec<(String, String, PathBuf)>> {
    let mut cases = Vec::new();
    for rule in subdirectories(&root())? {
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

fn judge(directory: &Path) -> Outcome<Report> {
    let file = |name: &str| directory.join(name);
    let mut evidence = Evidence::new(
        document(&file("header.json"))?.ok_or("header.json is missing")?,
        document(&file("coverage.json"))?.unwrap_or_default(),
        document(&file("loss.json"))?.unwrap_or_default(),
        document(&file("cost.json"))?,
        document::<Option<Close>>(&file("close.json"))?.flatten(),
        Vec::new(),
    );
    evidence.add_processes(&rows::<Process>(directory)?);
    evidence.add_connections(&rows::<Connection>(directory)?);
    evidence.add_listeners(&rows::<Listener>(directory)?);
    evidence.add_samples(&rows::<TcpSample>(directory)?);
    evidence.add_stages(&rows::<TcpStage>(directory)?);
    evidence.add_events(&rows::<TcpEvent>(directory)?);
    evidence.add_calls(&rows::<Call>(directory)?);
    evidence.add_process_samples(&rows::<ProcessSample>(directory)?);
    evidence.add_cpu_samples(&rows::<CpuSample>(directory)?);
    if evidence.wants_calls_again() {
        evidence.add_calls_again(&rows::<Call>(directory)?);
    }
    Ok(diagnose::diagnose(evidence))
}

/// The same recording from its directory on disk.
fn judge_recording(directory: &Path) -> Outcome<Report> {
    let scratch = tempfile::tempdir()?;
    let (text, path) = (
        scratch.path().join("text"),
        scratch.path().join("golden.whylat"),
    );
    fs::create_dir(&text)?;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with("expected.") {
            fs::copy(entry.path(), text.join(entry.file_name()))?;
        }
    }
    table::write_fixture(&text, &path)?;
    let recording = Recording::open(&path)?;
    let mut evidence = Evidence::new(
        recording.header().clone(),
        recording.coverage().to_vec(),
        recording.loss().to_vec(),
        recording.cost().cloned(),
        recording.closed().cloned(),
        Vec::new(),
    );
    // Another order of the tables than above: the answer does not depend on it.
    recording.scan::<Call>(|rows| evidence.add_calls(&rows));
    recording.scan::<TcpStage>(|rows| evidence.add_stages(&rows));
    recording.scan::<TcpEvent>(|rows| evidence.add_events(&rows));
    recording.scan::<TcpSample>(|rows| evidence.add_samples(&rows));
    recording.scan::<Connection>(|rows| evidence.add_connections(&rows));
    recording.scan::<Listener>(|rows| evidence.add_listeners(&rows));
    recording.scan::<Process>(|rows| evidence.add_processes(&rows));
    recording.scan::<ProcessSample>(|rows| evidence.add_process_samples(&rows));
    recording.scan::<CpuSample>(|rows| evidence.add_cpu_samples(&rows));
    if evidence.wants_calls_again() {
        recording.scan::<Call>(|rows| evidence.add_calls_again(&rows));
    }
    Ok(diagnose::diagnose(evidence))
}

#[test]
fn answers_are_as_committed() -> Outcome {
    let mut wrong = Vec::new();
    for (_, _, directory) in cases()? {
        let report = judge(&directory)?;
        let text = view::text(&report, &TextOptions::default());
        wrong.extend(expect(&directory.join("expected.txt"), &text)?);
        wrong.extend(expect(
            &directory.join("expected.json"),
            &view::json(&report),
        )?);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn a_recording_on_disk_gives_the_same_answer() -> Outcome {
    for (rule, case, directory) in cases()? {
        let text = |report: &Report| view::text(report, &TextOptions::default());
        let (memory, disk) = (judge(&directory)?, judge_recording(&directory)?);
        assert_eq!(text(&memory), text(&disk), "{rule}/{case}");
        assert_eq!(view::json(&memory), view::json(&disk), "{rule}/{case}");
    }
    Ok(())
}

#[test]
fn every_rule_has_a_firing_a_quiet_and_an_undecided_case() -> Outcome {
    let cases = cases()?;
    for rule in diagnose::rules::RULES {
        for kind in ["fires", "quiet", "cannot_tell"] {
            let there = cases
                .iter()
                .any(|(name, case, _)| name == rule.name() && case == kind);
            assert!(there, "tests/golden/{}/{kind} is missing", rule.name());
        }
    }
    Ok(())
}

/// The answers mean what their directory says, whatever the committed text.
#[test]
fn cases_answer_as_they_are_named() -> Outcome {
    for (rule, case, directory) in cases()? {
        let report = judge(&directory)?;
        let fired = report.findings.iter().find(|finding| finding.rule == rule);
        let doubted = report.undecided.iter().any(|undecided| {
            undecided
                .candidates
                .iter()
                .any(|candidate| *candidate == rule)
        });
        match case.as_str() {
            "fires" => {
                let finding = fired.ok_or_else(|| format!("{rule}/{case}: does not fire"))?;
                let info = diagnose::rules::ANSWERS.contains(&rule.as_str());
                assert_eq!(
                    finding.severity == Severity::Info,
                    info,
                    "{rule}: {finding:?}"
                );
                assert!(!doubted, "{rule}/{case}: fires and doubts");
            }
            "quiet" => assert!(fired.is_none() && !doubted, "{rule}/{case}: {fired:?}"),
            "cannot_tell" => assert!(fired.is_none() && doubted, "{rule}/{case}: {fired:?}"),
            _ => {}
        }
    }
    Ok(())
}

#[test]
fn shares_add_up_and_lines_fit() -> Outcome {
    for (rule, case, directory) in cases()? {
        let report = judge(&directory)?;
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
        for width in [40, 64, 80, 200] {
            let text = view::text(
                &report,
                &TextOptions {
                    colour: false,
                    width,
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
    for (rule, case, directory) in cases()? {
        let report = judge(&directory)?;
        let text = view::text(&report, &TextOptions::default());
        let bad = text
            .chars()
            .find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(bad, None, "{rule}/{case}");
        let json = view::json(&report);
        let bad = json
            .chars()
            .find(|c| c.is_control() && *c != '\n' || *c == '\u{202e}');
        assert_eq!(bad, None, "{rule}/{case}");
    }
    Ok(())
}

#[test]
fn a_damaged_recording_says_so_first_everywhere() -> Outcome {
    let mut report = judge(&root().join("slow_reader/fires"))?;
    let part = |table: &str, rows| diagnose::report::LeftOut::new(table.to_owned(), rows);
    report.about.problems = vec!["r.whylat/tcp_stages/000002.parquet: missing".to_owned()];
    report.about.left_out = vec![part("calls", 1), part("tcp_stages", 1_598)];
    let text = view::text(&report, &TextOptions::default());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let damage = "This recording is damaged: 1 row of calls, 1,598 rows of tcp_stages are left out, \
                  so that the diagnosis may be wrong (see \"problem\").";
    let answer = &report.findings[0].headline;
    let places = (text.find(damage), text.find(answer.as_str()));
    assert!(places.0.is_some() && places.0 < places.1, "{text}");
    let part = "tcp_stages in part: 1,598 rows of tcp_stages are left out";
    assert!(text.contains(part), "{text}");
    let schema: serde_json::Value =
        document(&root().join("../../docs/report.schema.json"))?.ok_or("no schema")?;
    let json = serde_json::from_str(&view::json(&report))?;
    assert_eq!(schema::validate(&schema, &json), Vec::<String>::new());
    assert_eq!(json["left_out"][1]["rows"], 1_598);
    Ok(())
}

#[test]
fn what_was_open_before_was_watched_and_did_not_live_so_long() -> Outcome {
    let mut report = judge(&root().join("slow_reader/fires"))?;
    let text = |report: &Report| view::text(report, &TextOptions::default());
    assert!(text(&report).contains("lived ") && !text(&report).contains("watched "));
    for connection in &mut report.connections {
        connection.opened_ns = None;
    }
    assert!(text(&report).contains("watched ") && !text(&report).contains("lived "));
    Ok(())
}

#[test]
fn json_keeps_the_published_schema() -> Outcome {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/report.schema.json");
    let schema = document(&path)?.ok_or("docs/report.schema.json is missing")?;
    for (rule, case, directory) in cases()? {
        let report = serde_json::from_str(&view::json(&judge(&directory)?))?;
        let faults = schema::validate(&schema, &report);
        assert!(faults.is_empty(), "{rule}/{case}:\n{}", faults.join("\n"));
    }
    Ok(())
}
