//! How long bytes wait in a socket until a thread reads them: exact, however they came, and however short it is.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use table::tables::Call;

use testbed::report::{Report, number, text};
use testbed::{finish, program, root};

/// A thread that lets bytes wait: see its head.
const UNREAD: &str = include_str!("programs/unread.py");

/// TCP connections that it makes, and receive calls on each.
const CONNECTIONS: usize = 14;
const RECEIVES: usize = 15;

/// Receive calls on its MPTCP connection.
const MPTCP_RECEIVES: usize = 7;

/// The kernel's stamps, and the recording, are in whole microseconds.
const STEP_NS: i64 = 2_000;

/// Returns what the program noted, and the receive calls that were recorded, by socket and offset.
fn record(detail: &str) -> (Vec<Value>, BTreeMap<(u64, u64), Call>) {
    let scratch = tempfile::tempdir().expect("a directory");
    let place = |name: &str| scratch.path().join(name);
    std::fs::write(place("unread.py"), UNREAD).expect("the source");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", detail, "--output"]);
    run.arg(place("r.whylat")).args(["--", "python3"]);
    finish(run.arg(place("unread.py")).arg(place("truth"))).assert_status(0);
    let truth = std::fs::read_to_string(place("truth")).expect("the truth");
    let calls = Report::at(place("r.whylat")).rows::<Call>().into_iter();
    let receives = calls.filter(|call| !call.is_send && call.result > 0);
    (
        serde_json::from_str(&truth).expect("JSON"),
        receives
            .map(|call| ((call.conn, call.offset_end), call))
            .collect(),
    )
}

fn assert_unread(detail: &str) {
    if !root() {
        return;
    }
    let (truth, mut calls) = record(detail);
    assert_eq!(truth.len(), CONNECTIONS * RECEIVES + MPTCP_RECEIVES);
    let mut wrong = Vec::new();
    for row in truth.iter().filter(|row| text(row, "situation") != "MPTCP") {
        let place = (number(row, "/cookie"), number(row, "/offset_end"));
        let call = calls.remove(&place).expect("a call");
        let unread_ns = call.unread_ns.expect("a time").cast_signed();
        let bounds = |key| row[key].as_i64().expect("a number");
        let (least_ns, most_ns) = (bounds("least_ns") - STEP_NS, bounds("most_ns") + STEP_NS);
        if !(least_ns..=most_ns).contains(&unread_ns) {
            let situation = text(row, "situation");
            wrong.push(format!(
                "{situation}: {unread_ns} ns, not {least_ns} to {most_ns} ns"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    // those on MPTCP are left: absent is not zero
    let unread: Vec<_> = calls.values().map(|call| call.unread_ns).collect();
    assert_eq!(unread, [None; MPTCP_RECEIVES]);
}

#[test]
fn time_unread_is_exact_when_calls_are_recorded() {
    assert_unread("calls");
}

#[test]
fn time_unread_is_exact_when_waits_are_recorded() {
    assert_unread("waits");
}

#[test]
fn time_unread_is_exact_when_messages_are_recorded() {
    assert_unread("messages");
}
