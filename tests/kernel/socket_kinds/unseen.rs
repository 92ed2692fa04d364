//! Programs without a TCP connection: the report says what they used instead.

use std::process::Command;

use serde_json::Value;

use super::{PYTHON_PROGRAM, ROUNDS, SIZE};
use testbed::report::{Report, text};
use testbed::{finish, program, root, whylat};

/// Runs the Python program in a role without any TCP connection; gives the report, and what it says first.
fn without_connection(role: &str, detail: &str) -> (Report, String) {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", detail, "--output"]);
    run.arg(scratch.path().join("r.whylat"));
    finish(run.args(["--", "python3", "-c", PYTHON_PROGRAM, role])).assert_status(0);
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    assert_eq!(report.connections().len(), 0, "{}", report.brief());
    let output = finish(whylat("report").arg(report.path())).out;
    let words: Vec<&str> = output.split_whitespace().collect();
    (report, words.join(" "))
}

/// Of a kind of sockets: sends, their bytes, receives, their bytes.
fn kind_calls(report: &Report, kind: &str) -> Option<[Value; 4]> {
    let lines = report.json["sockets"].as_array().expect("sockets");
    let line = lines.iter().find(|line| line["kind"] == kind)?;
    let fields = ["sends", "sent_bytes", "receives", "received_bytes"];
    Some(fields.map(|field| line[field].clone()))
}

/// A busy neighbour may delay the program: then the report begins with that.
fn used_only(role: &str, title: &str) {
    if !root() {
        return;
    }
    let (report, output) = without_connection(role, "waits");
    let bytes = ROUNDS * SIZE;
    let calls = kind_calls(&report, role).expect("used");
    assert_eq!(calls, [ROUNDS, bytes, ROUNDS, bytes].map(Value::from));
    let why = format!(
        "The recorded processes used only {title} ({ROUNDS} sends of 1.63 kB, {ROUNDS} receives of 1.63 kB)."
    );
    assert_eq!(text(&report.json, "why_unseen"), why);
    let is_problem = |it: &Value| it["severity"] != "info";
    let lists = ["findings", "undecided"].map(|list| report.json[list].as_array().expect("a list"));
    let is_delayed = lists.into_iter().flatten().any(is_problem);
    let sentence = format!("No problem found. {why}");
    assert_eq!(output.contains(&sentence), !is_delayed, "{output}");
}

#[test]
fn report_of_udp_program_names_udp_sockets() {
    used_only("udp", "UDP sockets");
}

#[test]
fn report_of_unix_program_names_unix_sockets() {
    used_only("unix", "UNIX sockets");
}

#[test]
fn report_says_that_program_has_no_sockets() {
    if !root() {
        return;
    }
    let (report, output) = without_connection("nothing", "waits");
    let sockets = report.json["sockets"].as_array().expect("sockets");
    assert!(sockets.iter().all(|line| line["open"] == 0), "{sockets:?}");
    let none = [0; 4].map(Value::from);
    assert_eq!(kind_calls(&report, "unix"), Some(none));
    assert!(
        output.contains("No recorded process sent or received a byte over any socket."),
        "{output}"
    );
    let (report, output) = without_connection("udp", "stats");
    assert_eq!(kind_calls(&report, "udp"), None);
    assert!(
        output.contains("had no socket open when whylat checked"),
        "{output}"
    );
}
