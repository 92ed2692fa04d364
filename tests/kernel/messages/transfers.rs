//! What moves without a receive or send call, or without copying: splice, vmsplice, sendfile, `MSG_ZEROCOPY`,
//! `TCP_ZEROCOPY_RECEIVE`.

use std::ops::RangeInclusive;

use serde_json::Value;

use super::{calls, compiled, received, sent, stamps_of_received, stamps_of_sent};
use crate::harness::root;
use crate::report::{Report, number, text};

const TRANSFERS: &str = include_str!("../programs/transfers.c");

/// Each message lies in one call of the program, which lasted when it was moved; and together they are its calls,
/// byte for byte. Returns of which call each is a part.
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

/// Every call that sends is one message, with all of its times; sendfile() makes several of what lies in more pages
/// than a pipe holds.
fn check_sent(truth: &[Value], report: &Report, how: &str) {
    let (calls, conn) = calls(truth, "sent");
    let messages = sent(report, conn);
    let found = messages.iter();
    let found = found.map(|it| (it.offset_end, it.bytes, it.spliced_bytes, it.done_ns));
    let calls_of = assert_parts(&found.collect::<Vec<_>>(), &calls);
    let mut whole = 0;
    for (message, call) in messages.iter().zip(calls_of) {
        let stamps = stamps_of_sent(message);
        assert!(stamps.is_sorted(), "{message:?}");
        assert!(span(&calls[call]).contains(&message.call_ns.expect("it began")));
        assert_eq!(u64::from(message.tid), number(&calls[call], "/tid"));
        whole += usize::from(stamps.len() == 5);
    }
    println!(
        "{} sent, {} messages, {whole} whole",
        calls.len(),
        messages.len()
    );
    assert!(messages.len() == calls.len() || how == "sendfile");
    assert!(whole * 10 >= messages.len() * 9, "{whole}");
}

fn gives(how: &str) {
    if root() {
        let (truth, report) = record(how, "recv");
        check_sent(&truth, &report, how);
    }
}

#[test]
fn spliced_into_a_socket() {
    gives("splice");
}

#[test]
fn spliced_from_the_programs_own_pages() {
    gives("vmsplice");
}

#[test]
fn of_a_file() {
    gives("sendfile");
}

#[test]
fn sent_without_copying() {
    gives("zerocopy");
}
