//! `whylat check`: counts of a real program beside its baseline, and each way to fail.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testbed::{CommandOutput, finish, program, root, whylat};

/// A client and its server: see its head.
const QUESTIONER: &str = include_str!("programs/questioner.py");

const QUESTIONS: u64 = 11;

/// Runs `whylat check` on the program.
fn check(options: &[&str], how: &str, questions: u64) -> CommandOutput {
    let mut command = whylat("check");
    command
        .args(["--as-root", "--format", "json"])
        .args(options);
    command.args([
        "--",
        "python3",
        "-c",
        QUESTIONER,
        how,
        &questions.to_string(),
    ]);
    finish(&mut command)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

/// Names of the failures of a kind. Findings depend on neighbours of the test; counts do not.
fn failures(report: &Value, kind: &str) -> Vec<String> {
    let all = report["failures"].as_array().expect("failures").iter();
    let of_kind = all.filter(|it| it["kind"] == kind);
    of_kind
        .map(|it| it["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// Returns the answer of a check that ended as it says.
fn judged(output: &CommandOutput) -> Value {
    let report = json(&output.out);
    let passed = report["is_passed"].as_bool().expect("whether it passed");
    output.assert_status(if passed { 0 } else { 4 });
    report
}

fn write_baseline(scratch: &Path) -> PathBuf {
    let path = scratch.join("whylat-baseline.json");
    let written = path.to_str().expect("a path");
    let options = ["--repeat", "2", "--write-baseline", written];
    let output = check(&options, "kept", QUESTIONS);
    output.assert_status(0);
    assert!(output.err.contains("asked 11"), "{}", output.err);
    path
}

#[test]
fn counts_are_compared_with_the_baseline() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let path = write_baseline(scratch.path());
    let baseline = json(&fs::read_to_string(&path).expect("a baseline"));
    assert_eq!(baseline["runs"], 2);
    let counts = &baseline["counts"];
    for (name, each) in [
        ("connections", 1),
        ("requests", QUESTIONS),
        ("requests_served", QUESTIONS),
    ] {
        assert_eq!(
            counts[name]["events"],
            Value::from(vec![each, each]),
            "{name}"
        );
    }
    let directory = scratch.path().to_str().expect("a path");
    let same = judged(&check(&["--baseline", directory], "kept", QUESTIONS));
    assert_eq!(failures(&same, "count"), [""; 0]);
    // a question more: as little as a query too many
    let more = judged(&check(&["--baseline", directory], "kept", QUESTIONS + 1));
    let of_program = |report: &Value| {
        let names = failures(report, "count").into_iter();
        names
            .filter(|it| it.starts_with("requests") || it == "connections")
            .collect::<Vec<_>>()
    };
    assert_eq!(of_program(&more), ["requests", "requests_served"]);
    let each = judged(&check(&["--baseline", directory], "each", QUESTIONS));
    assert_eq!(of_program(&each), ["connections"]);
}

#[test]
fn user_limits_decide_exit_code() {
    if !root() {
        return;
    }
    let options = [
        "--limit",
        "connections=1",
        "--limit",
        "requests=10",
        "--limit",
        "calls=1000000",
    ];
    let report = judged(&check(&options, "kept", QUESTIONS));
    assert_eq!(failures(&report, "limit"), ["requests"]);
    assert_eq!(failures(&report, "count"), [""; 0]);
}

#[test]
fn bad_input_is_named() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("other.json");
    fs::write(&path, r#"{"schema": "whylat.baseline/99"}"#).expect("a file");
    let named = path.to_str().expect("a path");
    let refused = check(&["--baseline", named], "kept", 1);
    refused.assert_status(1);
    assert!(
        refused.err.contains("whylat.baseline/99"),
        "{}",
        refused.err
    );
    assert!(!refused.err.contains("asked"), "{}", refused.err);
    let failed = finish(whylat("check").args(["--as-root", "--", "false"]));
    failed.assert_status(1);
    assert!(
        failed.err.contains("hint: check a command that succeeds"),
        "{}",
        failed.err
    );
    finish(whylat("check").args(["--allow", "nothing", "--", "true"])).assert_status(2);
    finish(whylat("check").args(["--limit", "nothing=1", "--", "true"])).assert_status(2);
}

#[test]
fn formats_are_written_to_a_file() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    for (format, part) in [
        ("github", "::error title=whylat%3A requests::"),
        (
            "junit",
            "<testcase classname=\"whylat.limits\" name=\"requests\">",
        ),
        ("sarif", "\"ruleId\": \"requests\""),
        ("markdown", "| `requests` |"),
        ("text", "requests"),
    ] {
        let path = scratch.path().join(format);
        let mut command = whylat("check");
        command.args([
            "--as-root",
            "--limit",
            "requests=0",
            "--format",
            format,
            "-o",
        ]);
        command.arg(&path);
        let also = scratch.path().join(format!("{format}.also"));
        command
            .arg("--also")
            .arg(format!("{format}={}", also.display()));
        command.args(["--", "python3", "-c", QUESTIONER, "kept", "1"]);
        let output = finish(&mut command);
        output.assert_status(4);
        assert_eq!(output.out, "", "{format}");
        let text = fs::read_to_string(&path).expect("a file");
        assert!(text.contains(part), "{format}: {text}");
        assert_eq!(fs::read_to_string(&also).expect("a file"), text);
    }
}

/// The action of GitHub by its contract: inputs in the environment, annotations on stdout, a summary in a file.
#[test]
fn action_annotates_and_sums_up() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let path = |name: &str| scratch.path().join(name);
    fs::write(path("questioner.py"), QUESTIONER).expect("a program");
    fs::write(path("summary.md"), "before\n").expect("a summary");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/github-action/run");
    let mut command = Command::new(script);
    command.current_dir(scratch.path());
    command.env("WHYLAT", program());
    command.env("WHYLAT_COMMAND", "python3 questioner.py kept 3");
    command.env("WHYLAT_LIMIT", "requests=2 connections=1");
    command.env("WHYLAT_SARIF", path("whylat.sarif"));
    command.env("GITHUB_STEP_SUMMARY", path("summary.md"));
    for (name, value) in [
        ("BASELINE", ""),
        ("REPEAT", "1"),
        ("ALLOW", "computes remote_slow"),
    ] {
        command.env(format!("WHYLAT_{name}"), value);
    }
    let output = finish(&mut command);
    output.assert_status(4);
    let error = "::error title=whylat%3A requests::requests is 3, the limit is 2%0Ahint: ";
    assert!(output.out.contains(error), "{}", output.out);
    let summary = fs::read_to_string(path("summary.md")).expect("a summary");
    assert!(
        summary.starts_with("before\n### whylat check\n"),
        "{summary}"
    );
    let log = json(&fs::read_to_string(path("whylat.sarif")).expect("a log"));
    let mut results = log["runs"][0]["results"]
        .as_array()
        .expect("results")
        .iter();
    assert!(results.any(|it| it["ruleId"] == "requests"), "{log:#}");
}
