//! Requests over UNIX stream sockets, of real servers, unchanged: as many as were answered, at both ends.

use std::process::Command;

use serde_json::Value;
use table::tables::{Call, UnixSocket};
use testbed::report::Report;
use testbed::{finish, program, root, whylat};

/// Starts, drives and ends them: see its head.
const SERVERS: &str = include_str!("programs/unix_servers.py");

/// Returns the recording, what the program counted, and what the report says of its requests.
fn recorded(server: &str) -> (Report, Value, Value) {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("servers.py");
    std::fs::write(&source, SERVERS).expect("the source");
    // its path must have room in a socket's name
    let directory = tempfile::tempdir_in("/tmp").expect("a directory");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--output"]);
    run.arg(scratch.path().join("r.whylat"))
        .args(["--", "python3"]);
    let output = finish(run.arg(&source).arg(server).arg(directory.path()));
    let truth = output.assert_status(0).out.lines().next().expect("a line");
    let truth = serde_json::from_str(truth).expect("JSON");
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    let output = finish(
        whylat("report")
            .args(["--requests", "--format", "json"])
            .arg(report.path()),
    );
    let requests = serde_json::from_str(&output.assert_status(0).out).expect("JSON");
    (report, truth, requests)
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn requests(report: &Value, name: &str, role: &str, address: &str) -> u64 {
    let services = report["services"].as_array().expect("services").iter();
    let is_it = |it: &&Value| it["name"] == name && it["role"] == role && it["address"] == address;
    services
        .filter(is_it)
        .map(|it| number(&it["requests"]))
        .sum()
}

/// Counts the requests with the first byte of a connection. One that follows a log-in begins later.
fn count_first(report: &Value, service: &str) -> u64 {
    let all = report["requests"].as_array().expect("requests").iter();
    let is_first = |it: &&Value| it["service"] == service && it["request"][0] == 0;
    all.filter(is_first).count() as u64
}

/// Each request that was answered is found at the client, and at the server if that has no other clients. A log-in may be a
/// request of its own: nothing shows one if the thread found the answer at once.
fn check(server: &str) -> (Report, Value, Value) {
    let (report, truth, found) = recorded(server);
    let address = format!("unix:{}", truth["path"].as_str().expect("a path"));
    let answered = number(&truth["requests"]);
    assert!(answered > 0);
    let client = truth["client"].as_str().expect("a name");
    let sent = requests(&found, client, "client", &address);
    let log_ins = match truth["log_ins"].as_bool() {
        Some(true) => count_first(&found, &format!("{client} → {address}")),
        _ => 0,
    };
    assert_eq!(sent - log_ins, answered, "{}", found["services"]);
    if let Some(server) = truth["server"].as_str() {
        let served = requests(&found, server, "server", &address);
        assert_eq!(served, answered, "{}", found["services"]);
    }
    for row in found["requests"].as_array().expect("requests") {
        let parts = row["parts"].as_object().expect("parts");
        let sum: u64 = parts.values().map(number).sum();
        assert_eq!(sum, number(&row["duration_ns"]), "{row}");
    }
    (report, truth, found)
}

/// Both ends of each pair are recorded, and name each other.
fn assert_paired(report: &Report, path: Option<&str>) {
    let sockets: Vec<UnixSocket> = report.rows();
    let calls: Vec<Call> = report.rows();
    let inodes: Vec<_> = sockets.iter().filter_map(|it| it.inode).collect();
    let of_path = sockets.iter().filter(|it| it.path.as_deref() == path);
    let paired = of_path.clone().filter_map(|it| it.peer_inode);
    assert!(paired.clone().count() > 1, "{sockets:#?}");
    assert!(paired.clone().all(|inode| inodes.contains(&inode)));
    for socket in of_path {
        assert!(
            calls.iter().any(|call| call.conn == socket.conn),
            "{socket:?}"
        );
    }
}

#[test]
fn redis_connections_are_paired_by_path() {
    if !root() {
        return;
    }
    let (report, truth, _) = check("redis");
    assert_paired(&report, truth["path"].as_str());
    let output = finish(whylat("report").arg(report.path())).out;
    // a finding before it moves the ends of lines
    let text: Vec<&str> = output.split_whitespace().collect();
    let text = text.join(" ");
    assert!(
        text.contains(" requests from redis-benchmark to unix:"),
        "{output}"
    );
    assert!(!text.contains("No TCP connection"), "{output}");
}

#[test]
fn postgresql_connections_are_paired_by_path() {
    if root() {
        check("postgresql");
    }
}

/// The application's time is a part of the proxy's requests.
#[test]
fn gunicorn_time_is_a_part_of_nginx_time() {
    if !root() {
        return;
    }
    let (_, truth, found) = check("nginx");
    let of_nginx = |it: &&Value| {
        let service = it["service"].as_str().expect("a service");
        service.starts_with("nginx at 127.0.0.1:")
    };
    let all = found["requests"].as_array().expect("requests").iter();
    let all: Vec<_> = all.filter(of_nginx).collect();
    assert_eq!(all.len() as u64, number(&truth["requests"]));
    for row in all {
        assert!(row["parts"]["upstream"].as_u64() > Some(0), "{row:#}");
    }
}

#[test]
fn requests_between_parent_and_child_are_found() {
    if !root() {
        return;
    }
    let (report, ..) = check("pair");
    assert_paired(&report, None);
    let sockets: Vec<UnixSocket> = report.rows();
    assert!(sockets.iter().any(|it| it.is_seqpacket));
}
