//! The demo shop (`packaging/demo`): its script, recorded as a user would do it, in a network namespace of its own. Without root
//! only the file for containers is checked.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use testbed::report::Report;
use testbed::{finish, program, root};

/// Orders of one run.
const ORDERS: u64 = 40;

/// Causes that neighbours of the test may have.
const OF_NEIGHBOURS: [&str; 5] = [
    "cpu_contention",
    "cpu_quota",
    "softirq_delay",
    "memory_stall",
    "disk_wait",
];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/demo")
}

/// Records the script, with the planted fault or without.
fn recorded(fixed: &str) -> Report {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut command = Command::new("unshare");
    command
        .args([
            "--net",
            "sh",
            "-c",
            "ip link set lo up && exec \"$@\"",
            "sh",
        ])
        .arg(program())
        .args(["run", "--as-root", "--no-report", "-o"])
        .arg(scratch.path().join("r.whylat"))
        .arg("--")
        .arg(folder().join("run"));
    command
        .env("FIXED", fixed)
        .env("ORDERS", ORDERS.to_string());
    finish(&mut command).assert_status(0);
    Report::from_scratch(scratch)
}

/// Returns the findings above information that no neighbour can cause, in the order of the report.
fn problems(report: &Report) -> Vec<&Value> {
    let findings = report.json["findings"].as_array().expect("findings");
    let is_own = |it: &&Value| !OF_NEIGHBOURS.iter().any(|rule| it["rule"] == *rule);
    let problems = findings.iter().filter(|it| it["severity"] != "info");
    problems.filter(is_own).collect()
}

#[test]
fn planted_fault_is_the_first_finding() {
    if !root() {
        return;
    }
    let report = recorded("0");
    let problems = problems(&report);
    let first = problems.first().expect("a finding");
    assert_eq!(first["rule"], "nagle_delayed_ack", "{problems:?}");
    let remote = first["subject"]["remote"].as_str().expect("an address");
    assert_eq!(remote, "127.0.0.1:7002", "{first}");
}

#[test]
fn fixed_shop_has_no_such_finding() {
    if !root() {
        return;
    }
    let report = recorded("1");
    let findings = report.json["findings"].as_array().expect("findings");
    let found: Vec<_> = findings
        .iter()
        .filter(|it| it["rule"] == "nagle_delayed_ack")
        .collect();
    assert!(found.is_empty(), "{found:?}");
}

#[test]
fn containers_run_the_same_programs() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/demo/compose.py");
    let output = finish(Command::new("python3").arg(script).arg(folder()));
    output.assert_status(0);
    println!("{}", output.out);
}
