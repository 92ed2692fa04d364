//! Bytes that move without a receive or send call, or without copying: splice, vmsplice, sendfile, `MSG_ZEROCOPY`,
//! `TCP_ZEROCOPY_RECEIVE`.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::{
    assert_none_unmatched, calls, check_followed, compiled, has_arrival, received, sent,
    stamps_of_received, stamps_of_sent,
};
use table::tables::ReceivedMessage;

use testbed::report::{Report, number};
use testbed::root;

const TRANSFERS: &str = include_str!("../programs/transfers.c");

/// Each message lies in one call of the program, which lasted when it was moved; and together they are its calls,
/// byte for byte. Returns the index of each message's call.
fn assert_parts(messages: &[(u64, u32, u32, u64)], calls: &[Value]) -> Vec<usize> {
    let (mut calls_of, mut offset) = (Vec::new(), 0);
    for (offset_end, bytes, spliced_bytes, done_ns) in messages {
        assert_eq!(
            (offset + u64::from(*bytes), *spliced_bytes),
            (*offset_end, 0)
        );
        let at = calls.partition_point(|call| number(call, "/offset_end") < *offset_end);
        let call = &calls[at];
        let begin = number(call, "/offset_end") - number(call, "/bytes");
        assert!(begin <= offset, "{offset}..{offset_end} is not of {call}");
        assert!(span(call).contains(done_ns), "{done_ns}: {call}");
        calls_of.push(at);
        offset = *offset_end;
    }
    let last = calls.last().expect("a call");
    assert_eq!(offset, number(last, "/offset_end"));
    calls_of
}

fn span(call: &Value) -> RangeInclusive<u64> {
    number(call, "/begin_ns")..=number(call, "/end_ns")
}

fn record(give: &str, take: &str) -> (Vec<Value>, Report) {
    compiled("transfers", TRANSFERS, &[give, take])
}

/// Every call that sends is one message, with the times of its own bytes; sendfile() makes several of what lies in more pages
/// than a pipe holds.
fn check_sent(truth: &[Value], report: &Report, how: &str) {
    let (calls, conn) = calls(truth, "sent");
    let messages = sent(report, conn);
    let found = messages.iter();
    let found = found.map(|it| (it.offset_end, it.bytes, it.spliced_bytes, it.done_ns));
    let calls_of = assert_parts(&found.collect::<Vec<_>>(), &calls);
    for (message, call) in messages.iter().zip(calls_of) {
        let stamps = stamps_of_sent(message);
        assert!(stamps.is_sorted(), "{message:?}");
        assert!(span(&calls[call]).contains(&message.call_ns.expect("it began")));
        assert_eq!(u64::from(message.tid), number(&calls[call], "/tid"));
    }
    println!("{} sent, {} messages", calls.len(), messages.len());
    assert!(messages.len() == calls.len() || how == "sendfile");
    assert_none_unmatched(report, conn, true, messages.len());
    assert!(check_followed(&messages) > 0);
}

/// Every call that takes is one message, or several if bytes came while it took; all of its times are those of its
/// bytes. Returns the messages with the calls that took them.
fn check_received(truth: &[Value], report: &Report) -> Vec<(ReceivedMessage, Value)> {
    let (calls, conn) = calls(truth, "received");
    let messages = received(report, conn);
    let found = messages.iter();
    let found = found.map(|it| (it.offset_end, it.bytes, it.spliced_bytes, it.done_ns));
    let calls_of = assert_parts(&found.collect::<Vec<_>>(), &calls);
    let whole = messages.iter().filter(|it| {
        let stamps = stamps_of_received(it);
        assert!(stamps.is_sorted(), "{it:?}");
        has_arrival(it)
    });
    let (whole, parts) = (whole.count(), messages.len());
    println!("{} received, {parts} messages, {whole} whole", calls.len());
    assert!(whole > 0);
    let calls_of = calls_of.into_iter().map(|at| calls[at].clone());
    let taken: Vec<_> = messages.into_iter().zip(calls_of).collect();
    let by_receive_call = taken.iter().filter(|(_, call)| call["how"] == "recv");
    assert_none_unmatched(report, conn, false, by_receive_call.count());
    taken
}

fn gives(how: &str) {
    if root() {
        let (truth, report) = record(how, "recv");
        check_sent(&truth, &report, how);
    }
}

#[test]
fn splice_into_a_socket_is_timed() {
    gives("splice");
}

#[test]
fn vmsplice_from_program_pages_is_timed() {
    gives("vmsplice");
}

#[test]
fn sendfile_is_timed() {
    gives("sendfile");
}

#[test]
fn zerocopy_send_is_timed() {
    gives("zerocopy");
}

fn takes(give: &str, how: &str) -> Option<Vec<(ReceivedMessage, Value)>> {
    if !root() {
        return None;
    }
    let (truth, report) = record(give, how);
    check_sent(&truth, &report, give);
    let taken = check_received(&truth, &report);
    let asked = |call| number(call, "/tid") as u32;
    let by_others = taken.iter().filter(|(it, call)| it.tid != asked(call));
    assert_eq!(
        by_others.count(),
        if how == "uring" { taken.len() } else { 0 }
    );
    for (message, call) in &taken {
        let copied = call["how"] == "recv" || call["how"] == "zerocopy_copied";
        let may_be = call["how"] == "zerocopy";
        assert!(
            may_be || message.copy_ns.is_some() == copied,
            "{message:?}: {call}"
        );
    }
    Some(taken)
}

#[test]
fn splice_from_a_socket_is_timed() {
    takes("send", "splice");
}

#[test]
fn blocked_splice_is_timed() {
    if let Some(taken) = takes("send", "block") {
        assert!(taken.iter().any(|(it, _)| it.woken_ns.is_some()));
    }
}

#[test]
fn alternating_splice_and_receive_are_timed() {
    takes("send", "mixed");
}

/// A thread that the kernel made waits and does it.
#[test]
fn io_uring_splice_is_timed() {
    if let Some(taken) = takes("send", "uring") {
        assert!(taken.iter().all(|(it, _)| it.woken_ns.is_none()));
    }
}

/// The same call copies, or receives, bytes that do not fill a page.
#[test]
fn zerocopy_receive_is_timed() {
    if let Some(taken) = takes("zerocopy", "zerocopy") {
        assert!(taken.iter().any(|(it, _)| it.copy_ns.is_none()));
    }
}

#[test]
fn zerocopy_receive_falls_back_to_copy() {
    takes("send", "zerocopy");
}
