//! Requests of real programs: as many as the program itself counted, each within the times that it noted, and with parts
//! that add up.

use std::process::Command;

use serde_json::Value;
use table::WaitObject;
use table::tables::Wait;

use testbed::report::Report;
use testbed::{finish, program, root};

/// A server and its client, which note what they do: see its head.
const REQUESTS: &str = include_str!("programs/requests.py");

/// Its requests: on one connection, and those with a connection each.
const KEPT: usize = 211;
const SINGLE: usize = 53;

/// Returns what the program noted, what the report says, and the sleeps that were recorded.
fn record() -> (Value, Value, Vec<Wait>) {
    let scratch = tempfile::tempdir().expect("a directory");
    let place = |name: &str| scratch.path().join(name);
    std::fs::write(place("requests.py"), REQUESTS).expect("the source");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--output"]);
    run.arg(place("r.whylat")).args(["--", "python3"]);
    finish(run.arg(place("requests.py")).arg(place("truth"))).assert_status(0);
    let truth = std::fs::read_to_string(place("truth")).expect("the truth");
    let mut report = Command::new(program());
    report.args(["report", "--requests", "--format", "json"]);
    let output = finish(report.arg(place("r.whylat")));
    let recorded = Report::at(place("r.whylat")).rows::<Wait>().into_iter();
    let sleeps = recorded.filter(|wait| wait.kind == WaitObject::Sleep);
    (
        serde_json::from_str(&truth).expect("JSON"),
        serde_json::from_str(&output.assert_status(0).out).expect("JSON"),
        sleeps.collect(),
    )
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// Requests of a side of the program's port, in the order of time.
fn of_side<'a>(report: &'a Value, side: &str, port: u64) -> Vec<&'a Value> {
    let title = match side {
        "client" => format!("→ 127.0.0.1:{port}"),
        _ => format!("at 127.0.0.1:{port}"),
    };
    let all = report["requests"].as_array().expect("requests").iter();
    let is_of = |row: &&Value| {
        row["service"]
            .as_str()
            .is_some_and(|it| it.ends_with(&title))
    };
    let mut rows: Vec<_> = all.filter(is_of).collect();
    rows.sort_by_key(|row| number(&row["begin_ns"]));
    rows
}

fn part(row: &Value, name: &str) -> u64 {
    row["parts"][name].as_u64().unwrap_or(0)
}

#[test]
fn every_request_is_found_once() {
    if !root() {
        return;
    }
    let (truth, report, sleeps) = record();
    let port = number(&truth["port"]);
    let requests = truth["requests"].as_array().expect("requests");
    assert_eq!(requests.len(), KEPT + SINGLE);
    let clients = of_side(&report, "client", port);
    let servers = of_side(&report, "server", port);
    assert_eq!(
        (clients.len(), servers.len()),
        (requests.len(), requests.len())
    );
    // Each lies within the times that the program noted.
    for (row, noted) in clients.iter().zip(requests) {
        let (begin_ns, end_ns) = (number(&noted[0]), number(&noted[1]));
        let ends_ns = number(&row["begin_ns"]) + number(&row["duration_ns"]);
        assert!(
            begin_ns <= number(&row["begin_ns"]) && ends_ns <= end_ns,
            "{row} {noted}"
        );
    }
    for row in clients.iter().chain(&servers) {
        let parts = row["parts"].as_object().expect("parts");
        let sum: u64 = parts.values().map(number).sum();
        assert_eq!(sum, number(&row["duration_ns"]), "{row}");
    }
    // A sleep of the server is a timer at both ends, as both are recorded. Some switches run no program
    // (docs/principles.md): a sleep without a row of its own is no timer at either end.
    assert!(!sleeps.is_empty());
    for (index, noted) in requests.iter().enumerate() {
        let (begin_ns, end_ns) = (number(&noted[0]), number(&noted[1]));
        let is_within = |wait: &&Wait| begin_ns <= wait.start_ns && wait.end_ns <= end_ns;
        let is_recorded = sleeps.iter().any(|wait| is_within(&wait));
        assert!(!is_recorded || noted[2] == true, "{noted}");
        for row in [clients[index], servers[index]] {
            let is_shown = part(row, "timer") > 0;
            assert_eq!(is_shown, is_recorded, "{row} {noted}");
        }
    }
    // A new connection is part of the request that it was opened for.
    let connected = clients.iter().filter(|row| part(row, "connect") > 0);
    assert!(connected.clone().count() > 0);
    assert!(connected.clone().all(|row| number(&row["request"][0]) == 0));
    // What nobody answers is no request, at either end.
    let others = report["not_requests"].as_array().expect("a list");
    let ends: Vec<_> = others.iter().map(|it| it["why"].as_str()).collect();
    let why = "only one end sent";
    assert!(
        ends.iter().flatten().all(|it| it.ends_with(why)),
        "{ends:?}"
    );
    assert_eq!(ends.len(), 2, "{ends:?}");
}
