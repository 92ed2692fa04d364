//! Requests over UDP: as many as were answered, at both ends, however often they were asked.

use std::process::Command;

use serde_json::Value;
use table::tables::UdpFlow;
use testbed::report::Report;
use testbed::{finish, program, root, whylat};

/// A client and its server: see its head.
const QUESTIONS: &str = include_str!("programs/questions.py");

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn requests(report: &Value, role: &str, address: &str) -> u64 {
    let services = report["services"].as_array().expect("services").iter();
    let is_it = |it: &&Value| it["role"] == role && it["address"] == address;
    services
        .filter(is_it)
        .map(|it| number(&it["requests"]))
        .sum()
}

#[test]
fn questions_become_requests() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--output"]);
    run.arg(scratch.path().join("r.whylat"));
    let output = finish(run.args(["--", "python3", "-c", QUESTIONS]));
    let truth = output.assert_status(0).out.lines().next().expect("a line");
    let truth: Value = serde_json::from_str(truth).expect("JSON");
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    let mut ask = whylat("report");
    ask.args(["--requests", "--format", "json"])
        .arg(report.path());
    let found: Value = serde_json::from_str(&finish(&mut ask).assert_status(0).out).expect("JSON");
    let rounds = number(&truth["rounds"]);
    let [server, sink] = ["server", "sink"].map(|end| truth[end].as_str().expect("an address"));
    let address = format!("udp:{server}");
    for role in ["client", "server"] {
        assert_eq!(
            requests(&found, role, &address),
            2 * rounds,
            "{role}: {found:#}"
        );
    }
    for row in found["requests"].as_array().expect("requests") {
        let parts = row["parts"].as_object().expect("parts");
        let sum: u64 = parts.values().map(number).sum();
        assert_eq!(sum, number(&row["duration_ns"]), "{row}");
    }
    let others = found["not_requests"].as_array().expect("a list").iter();
    let sink_address = format!("udp:{sink}");
    let mut of_sink = others.filter(|it| it["address"] == sink_address.as_str());
    let why = of_sink.next().expect("named")["why"].as_str();
    assert!(why.is_some_and(|it| it.starts_with("one_way")), "{why:?}");
    let flows: Vec<UdpFlow> = report.rows();
    let asking = flows
        .iter()
        .filter(|it| it.remote.as_deref() == Some(server));
    assert_eq!(asking.count() as u64, rounds + 1);
}
