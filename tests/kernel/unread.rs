//! How long bytes wait in a socket until a thread reads them: exact, however they came, and however short it is.

use std::collections::BTreeMap;
use std::process::Command;

use serde_json::Value;
use table::tables::{Call, TcpStage, UdpFlow};

use testbed::report::{Report, number, text};
use testbed::{finish, program, root};

/// A thread that lets bytes wait: see its head.
const UNREAD: &str = include_str!("programs/unread.py");

/// The same of datagrams.
const UNREAD_DATAGRAMS: &str = include_str!("programs/unread_datagrams.py");

/// Sockets that it receives from, and receive calls on each that take something.
const SOCKETS: usize = 28;
const DATAGRAMS: usize = 12;

/// TCP connections with requests that it makes, and receive calls on each.
const CONNECTIONS: usize = 14;
const RECEIVES: usize = 22;

/// Receive calls on its stream, and on its connection with a splice.
const STREAM_RECEIVES: usize = 101;
const SPLICE_RECEIVES: usize = 1;

/// Receive calls on its MPTCP connection.
const MPTCP_RECEIVES: usize = 7;

/// The kernel's stamps, and the recording, are in whole microseconds.
const STEP_NS: i64 = 2_000;

/// `MSG_PEEK` (`include/linux/socket.h`).
const PEEK: u32 = 2;

/// Receive calls on the stream that may have no time: segments came in a softirq in which the kernel ran no program.
/// The kernel of a virtual machine did so on top of threads of its host's agent, for less than a millisecond each
/// some seconds.
const STREAM_UNSEEN_MOST: usize = 3;

/// The program's rows of the stream.
const STREAM: &str = "a stream";

/// The program's bytes that wait at the end of a connection.
const AFTER_SPLICE: &str = "after a splice";

/// Socket, offset, and whether the call had `MSG_PEEK`.
type CallKey = (u64, u64, bool);

/// Times that the program noted, and those that were recorded.
struct UnreadTimes {
    truth: Vec<Value>,
    /// Receive calls. Those of a flow of datagrams are of its socket.
    calls: BTreeMap<CallKey, Call>,
    /// How long bytes of each TCP socket waited, ns: all of them together.
    waited: BTreeMap<u64, u64>,
}

/// Records the program.
fn record(source: &str, detail: &str) -> UnreadTimes {
    let scratch = tempfile::tempdir().expect("a directory");
    let place = |name: &str| scratch.path().join(name);
    std::fs::write(place("unread.py"), source).expect("the source");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", detail, "--output"]);
    run.arg(place("r.whylat")).args(["--", "python3"]);
    finish(run.arg(place("unread.py")).arg(place("truth"))).assert_status(0);
    let truth = std::fs::read_to_string(place("truth")).expect("the truth");
    let report = Report::at(place("r.whylat"));
    let flows = report.rows::<UdpFlow>().into_iter();
    let sockets: BTreeMap<u64, u64> = flows.map(|flow| (flow.conn, flow.socket)).collect();
    let socket_of = |call: &Call| sockets.get(&call.conn).copied().unwrap_or(call.conn);
    let calls = report.rows::<Call>().into_iter();
    let receives = calls.filter(|call| !call.is_send && call.result > 0);
    let key = |call: &Call| (socket_of(call), call.offset_end, call.flags & PEEK != 0);
    let mut readings: Vec<TcpStage> = report.rows();
    readings.sort_by_key(|reading| reading.time_ns);
    let waited = readings.iter().map(|it| (it.conn, it.reader_slow_ns));
    UnreadTimes {
        truth: serde_json::from_str(&truth).expect("JSON"),
        calls: receives.map(|call| (key(&call), call)).collect(),
        waited: waited.collect(),
    }
}

/// Returns what is wrong with the time that bytes waited; `None`: it is within its bounds.
fn error_of(truth: &Value, unread_ns: Option<u64>) -> Option<String> {
    let situation = text(truth, "situation");
    let Some(unread_ns) = unread_ns.map(u64::cast_signed) else {
        return Some(format!("{situation}: no time"));
    };
    let bounds = |key| truth[key].as_i64().expect("a number");
    let (least_ns, most_ns) = (bounds("least_ns") - STEP_NS, bounds("most_ns") + STEP_NS);
    let is_right = (least_ns..=most_ns).contains(&unread_ns);
    (!is_right).then(|| format!("{situation}: {unread_ns} ns, not {least_ns} to {most_ns} ns"))
}

fn assert_unread(detail: &str) {
    if !root() {
        return;
    }
    let UnreadTimes {
        truth,
        mut calls,
        waited,
    } = record(UNREAD, detail);
    let receives = CONNECTIONS * RECEIVES + STREAM_RECEIVES + SPLICE_RECEIVES + MPTCP_RECEIVES;
    assert_eq!(truth.len(), receives + 1);
    let mut wrong = Vec::new();
    let mut stream_unseen = 0;
    for row in truth.iter().filter(|row| text(row, "situation") != "MPTCP") {
        let cookie = number(row, "/cookie");
        let is_peek = row["is_peek"].as_bool().expect("a bool");
        let unread_ns = match text(row, "situation") {
            AFTER_SPLICE => waited.get(&cookie).copied(),
            _ => {
                let key = (cookie, number(row, "/offset_end"), is_peek);
                calls.remove(&key).expect("a call").unread_ns
            }
        };
        if unread_ns.is_none() && text(row, "situation") == STREAM {
            stream_unseen += 1;
            continue;
        }
        wrong.extend(error_of(row, unread_ns));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(stream_unseen <= STREAM_UNSEEN_MOST, "{stream_unseen}");
    // those on MPTCP are left: absent is not zero
    let unread: Vec<_> = calls.values().map(|call| call.unread_ns).collect();
    assert_eq!(unread, [None; MPTCP_RECEIVES]);
}

fn assert_datagrams_unread(detail: &str) {
    if !root() {
        return;
    }
    let UnreadTimes {
        truth, mut calls, ..
    } = record(UNREAD_DATAGRAMS, detail);
    assert_eq!(truth.len(), SOCKETS * DATAGRAMS);
    let mut wrong = Vec::new();
    for row in &truth {
        let place = (number(row, "/cookie"), number(row, "/offset_end"), false);
        let call = calls.remove(&place).expect("a call");
        if text(row, "situation").ends_with("first") {
            // its time is known from the first receive call on
            assert_eq!(call.unread_ns, None);
            continue;
        }
        wrong.extend(error_of(row, call.unread_ns));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    calls.retain(|(.., is_peek), _| !is_peek);
    assert!(calls.is_empty(), "{calls:?}");
}

#[test]
fn time_unread_of_datagrams_is_exact_when_waits_are_recorded() {
    assert_datagrams_unread("waits");
}

#[test]
fn time_unread_of_datagrams_is_exact_when_messages_are_recorded() {
    assert_datagrams_unread("messages");
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
