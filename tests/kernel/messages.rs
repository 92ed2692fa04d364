//! Messages: every call that moved bytes, byte for byte as the program says, and the times of what it moved
//! in the order of its way.

use std::process::Command;

use serde_json::Value;
use table::tables::{ReceivedMessage, SentMessage};

use crate::harness::{finish, program, root};
use crate::report::{Report, number};

/// Sends and reads in random sizes: see its head.
const RANDOM_SIZES: &str = include_str!("programs/random_sizes.py");

/// What the program says of the calls of one way, and the recording.
fn recorded(direction: &str) -> (Vec<Value>, Report) {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("random_sizes.py");
    std::fs::write(&source, RANDOM_SIZES).expect("the source");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "messages", "--output"]);
    run.arg(scratch.path().join("r.whylat"));
    run.args(["--", "sh", "-c", "exec python3 \"$0\" > \"$1\""]);
    run.arg(&source).arg(scratch.path().join("truth"));
    finish(&mut run).ended(0);
    let report = Report::of(scratch);
    report.assert_whole();
    let truth = std::fs::read_to_string(report.beside("truth")).expect("its account");
    let lines = truth.lines();
    let lines = lines.map(|line| serde_json::from_str(line).expect("JSON"));
    let calls = lines.filter(|call: &Value| call["direction"] == direction);
    (calls.collect(), report)
}

/// The times that are there, in the order of the way.
fn stamps_of_received(message: &ReceivedMessage) -> Vec<u64> {
    let stamps = [
        message.first_arrival_ns,
        message.last_arrival_ns,
        message.tcp_ns,
        message.ready_ns,
        message.woken_ns,
        message.running_ns,
        message.copy_ns,
        Some(message.done_ns),
    ];
    stamps.into_iter().flatten().collect()
}

#[test]
fn every_receive_call_is_a_message_with_its_way() {
    if !root() {
        return;
    }
    let (truth, report) = recorded("received");
    let conn = number(&truth[0], "/conn");
    let mut messages: Vec<ReceivedMessage> = report.rows();
    messages.retain(|message| message.conn == conn);
    messages.sort_by_key(|message| message.done_ns);
    assert_eq!(messages.len(), truth.len());
    let mut end = 0;
    let (mut whole, mut woken) = (0, 0);
    for (message, call) in messages.iter().zip(&truth) {
        end += number(call, "/bytes");
        assert_eq!(
            (
                u64::from(message.bytes),
                message.offset_end,
                message.spliced_bytes
            ),
            (number(call, "/bytes"), end, 0),
            "{message:?}"
        );
        let within = number(call, "/begin_ns")..=number(call, "/end_ns");
        assert!(within.contains(&message.done_ns), "{message:?}: {call}");
        assert!(
            message.copy_ns.is_some_and(|ns| within.contains(&ns)),
            "{message:?}: {call}"
        );
        let stamps = stamps_of_received(message);
        assert!(stamps.is_sorted(), "{message:?}");
        let seen = message.first_arrival_ns.is_some() && message.last_arrival_ns.is_some();
        whole += usize::from(seen && message.tcp_ns.is_some() && message.ready_ns.is_some());
        woken += usize::from(message.woken_ns.is_some());
    }
    // The rest came while the thread had the socket, or while 32 segments waited for it.
    println!("{whole} whole, {woken} woken of {}", truth.len());
    assert!(whole * 10 >= truth.len() * 9, "{whole} of {}", truth.len());
    assert!(woken > 0);
}

fn stamps_of_sent(message: &SentMessage) -> Vec<u64> {
    let stamps = [
        message.call_ns,
        message.tcp_ns,
        message.queue_ns,
        message.driver_ns,
        message.acked_ns,
    ];
    stamps.into_iter().flatten().collect()
}

#[test]
fn every_send_call_is_a_message_with_its_way() {
    if !root() {
        return;
    }
    let (truth, report) = recorded("sent");
    let conn = number(&truth[0], "/conn");
    let mut messages: Vec<SentMessage> = report.rows();
    messages.retain(|message| message.conn == conn);
    messages.sort_by_key(|message| message.done_ns);
    assert_eq!(messages.len(), truth.len());
    let (mut end, mut whole) = (0, 0);
    for (message, call) in messages.iter().zip(&truth) {
        end += number(call, "/bytes");
        assert_eq!(
            (
                u64::from(message.bytes),
                message.offset_end,
                message.spliced_bytes
            ),
            (number(call, "/bytes"), end, 0),
            "{message:?}"
        );
        let within = number(call, "/begin_ns")..=number(call, "/end_ns");
        assert!(within.contains(&message.done_ns), "{message:?}: {call}");
        assert!(
            message.call_ns.is_some_and(|ns| within.contains(&ns)),
            "{message:?}: {call}"
        );
        let stamps = stamps_of_sent(message);
        assert!(stamps.is_sorted(), "{message:?}");
        whole += usize::from(stamps.len() == 5);
    }
    // Of the rest 32 later calls were made before it was acknowledged.
    println!("{whole} whole of {}", truth.len());
    assert!(whole * 10 >= truth.len() * 9, "{whole} of {}", truth.len());
}
