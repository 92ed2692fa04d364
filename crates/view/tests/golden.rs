//! From recorded rows to the printed answer: every directory `tests/golden/RULE/CASE/` holds a
//! small recording as text and the answer expected of it, as text and as JSON.
//!
//! `header.json` is the manifest's header; `coverage.jsonl`, `loss.jsonl`, `cost.json` and
//! `close.json` are the rest of it (absent: not recorded); the other files are tables, one row a
//! line. After a wanted change of the answers, rewrite them and read the difference:
//!
//! ```text
//! WHYLAT_GOLDEN_UPDATE=1 cargo test --release -p whylat-view --test golden
//! ```

mod schema;

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use diagnose::report::Severity;
use diagnose::{Evidence, Report};
use serde::de::DeserializeOwned;
use table::tables::{Calls, Connections, Processes, TcpEvents, TcpSamples, TcpStages};
use table::{Columns, Table};
use whylat_view as view;
use whylat_view::TextOptions;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

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

/// The lines of a JSON-lines file; none when it is absent.
fn lines<T: DeserializeOwned>(path: &Path) -> Outcome<Vec<T>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let text = fs::read_to_string(path)?;
    let parse = |(number, line): (usize, &str)| {
        serde_json::from_str(line)
            .map_err(|error| format!("{}:{}: {error}", path.display(), number + 1).into())
    };
    text.lines().enumerate().map(parse).collect()
}

/// A JSON file; `None` when it is absent.
fn document<T: DeserializeOwned>(path: &Path) -> Outcome<Option<T>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = fs::read_to_string(path)?;
    let value = serde_json::from_str(&text);
    Ok(Some(
        value.map_err(|error| format!("{}: {error}", path.display()))?,
    ))
}

fn columns<C: Columns>(directory: &Path) -> Outcome<C>
where
    C::Row: DeserializeOwned,
{
    let mut columns = C::default();
    for row in lines::<C::Row>(&directory.join(format!("{}.jsonl", C::Row::NAME)))? {
        columns.push(row);
    }
    Ok(columns)
}

fn judge(directory: &Path) -> Outcome<Report> {
    let file = |name: &str| directory.join(name);
    let header = document(&file("header.json"))?.ok_or("header.json is missing")?;
    let mut evidence = Evidence::new(
        header,
        lines(&file("coverage.jsonl"))?,
        lines(&file("loss.jsonl"))?,
        document(&file("cost.json"))?,
        document(&file("close.json"))?,
        Vec::new(),
    );
    evidence.add_processes(&columns::<Processes>(directory)?);
    evidence.add_connections(&columns::<Connections>(directory)?);
    evidence.add_samples(&columns::<TcpSamples>(directory)?);
    evidence.add_stages(&columns::<TcpStages>(directory)?);
    evidence.add_events(&columns::<TcpEvents>(directory)?);
    evidence.add_calls(&columns::<Calls>(directory)?);
    Ok(diagnose::diagnose(evidence))
}

/// Compares with the committed answer, or rewrites it when asked to.
fn expect(path: &Path, actual: &str) -> Outcome<Option<String>> {
    if std::env::var_os("WHYLAT_GOLDEN_UPDATE").is_some() {
        fs::write(path, actual)?;
        return Ok(None);
    }
    let expected =
        fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    if expected == actual {
        return Ok(None);
    }
    let differing = expected
        .lines()
        .zip(actual.lines())
        .position(|(a, b)| a != b);
    let line = differing.unwrap_or_else(|| expected.lines().count().min(actual.lines().count()));
    let at = |text: &str| text.lines().nth(line).unwrap_or("(end)").to_owned();
    Ok(Some(format!(
        "{}:{}: expected {:?}, found {:?}",
        path.display(),
        line + 1,
        at(&expected),
        at(actual)
    )))
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
                let info = rule == "sender_app_limited";
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
