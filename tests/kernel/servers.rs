//! Messages of real servers, unchanged: each call that moved bytes is a message, and what is missing of
//! their times is counted and explained.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use table::tables::{Call, Connection, ReceivedMessage, SentMessage, UnixSocket};

use crate::messages::has_arrival;

use testbed::report::Report;
use testbed::{finish, program, root};

/// Starts, drives and ends them: see its head.
const SERVERS: &str = include_str!("programs/servers.py");

/// `include/linux/socket.h`.
const MSG_PEEK: u32 = 2;

fn recorded(server: &str) -> Report {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("servers.py");
    std::fs::write(&source, SERVERS).expect("the source");
    let directory = tempfile::tempdir().expect("a directory");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "messages", "--output"]);
    run.arg(scratch.path().join("r.whylat"))
        .arg("--")
        .arg("python3");
    finish(run.arg(&source).arg(server).arg(directory.path())).assert_status(0);
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    report
}

/// Where in the stream each call that moved bytes ended, and how many it moved, by connection.
type StreamRanges = BTreeMap<u64, Vec<(u64, u32)>>;

fn in_order(all: impl Iterator<Item = (u64, (u64, u32))>) -> StreamRanges {
    let mut moved = StreamRanges::new();
    for (conn, range) in all {
        moved.entry(conn).or_default().push(range);
    }
    moved.values_mut().for_each(|ranges| ranges.sort_unstable());
    moved
}

fn of_calls(calls: &[Call], is_send: bool) -> StreamRanges {
    let moved = calls
        .iter()
        .filter(|call| call.is_send == is_send && call.result > 0 && call.flags & MSG_PEEK == 0);
    in_order(moved.map(|call| {
        let bytes = u32::try_from(call.result).expect("not negative");
        (call.conn, (call.offset_end, bytes))
    }))
}

fn check(server: &str) {
    if !root() {
        return;
    }
    let report = recorded(server);
    let mut calls: Vec<Call> = report.rows();
    // a server's processes may talk over UNIX sockets, which have calls and no messages
    let others: Vec<UnixSocket> = report.rows();
    calls.retain(|call| others.iter().all(|other| other.conn != call.conn));
    let received: Vec<ReceivedMessage> = report.rows();
    let sent: Vec<SentMessage> = report.rows();
    let messages = received.iter();
    let messages = in_order(messages.map(|it| (it.conn, (it.offset_end, it.bytes))));
    assert_same(&of_calls(&calls, false), &messages);
    let messages = sent.iter();
    let messages = in_order(messages.map(|it| (it.conn, (it.offset_end, it.bytes))));
    let mut sends = of_calls(&calls, true);
    let connections: Vec<Connection> = report.rows();
    forget_unseen_ends(&mut sends, &messages, &connections);
    assert_same(&sends, &messages);
    assert!(received.len() > 100 && sent.len() > 100);
    let whole_received = received.iter().filter(|it| has_arrival(it)).count();
    // a server has 32 and more calls on their way where the other end reads late: those are not followed
    let is_whole = |it: &&SentMessage| it.driver_ns.is_some() && it.acked_ns.is_some();
    let whole_sent = sent.iter().filter(is_whole).count();
    println!(
        "{server}: {whole_received} of {} received whole",
        received.len()
    );
    println!("{server}: {whole_sent} of {} sent whole", sent.len());
    assert!(whole_received > 0 && whole_sent > 0);
    assert!(connections.iter().any(|it| it.closed_ns.is_some()));
}

/// Takes out the last call of a connection with an end that no program saw (see docs/principles.md), if it has no message:
/// with its socket went what was not acknowledged.
fn forget_unseen_ends(
    sends: &mut StreamRanges,
    messages: &StreamRanges,
    connections: &[Connection],
) {
    let ended = connections.iter().filter(|it| it.closed_ns.is_some());
    let ended: BTreeSet<u64> = ended.map(|it| it.conn).collect();
    for (conn, ranges) in sends.iter_mut().filter(|(conn, _)| !ended.contains(conn)) {
        let is_known = |last| messages.get(conn).is_some_and(|it| it.contains(last));
        if ranges.last().is_some_and(|last| !is_known(last)) {
            ranges.pop();
        }
    }
}

fn assert_same(calls: &StreamRanges, messages: &StreamRanges) {
    for conn in calls.keys().chain(messages.keys()) {
        let none = Vec::new();
        let calls = calls.get(conn).unwrap_or(&none);
        let messages = messages.get(conn).unwrap_or(&none);
        let missing: Vec<_> = calls.iter().filter(|it| !messages.contains(it)).collect();
        let more: Vec<_> = messages.iter().filter(|it| !calls.contains(it)).collect();
        let numbers = (calls.len(), messages.len());
        assert!(
            missing.is_empty() && more.is_empty() && numbers.0 == numbers.1,
            "connection {conn}, {numbers:?}: without a message {missing:?}, without a call {more:?}"
        );
    }
}

#[test]
fn redis_messages_match_its_calls() {
    check("redis");
}

#[test]
fn memcached_messages_match_its_calls() {
    check("memcached");
}

#[test]
fn nginx_sendfile_messages_match_its_calls() {
    check("nginx");
}

#[test]
fn postgresql_messages_match_its_calls() {
    check("postgresql");
}

#[test]
fn iperf3_messages_match_its_calls() {
    check("iperf3");
}
