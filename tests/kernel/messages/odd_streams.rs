//! Streams that do not go the plain way: read after their end, shared by threads, of a socket that connects again, with
//! calls beside the stream, and of a call that waits in sendfile().

use serde_json::Value;
use table::tables::{Call, ReceivedMessage, SentMessage};

use super::{calls, received, record, sent};
use testbed::report::{Report, number};
use testbed::root;

const ODD_STREAMS: &str = include_str!("../programs/odd_streams.py");

fn record_one(name: &str) -> (Vec<Value>, Report) {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("odd_streams.py");
    std::fs::write(&source, ODD_STREAMS).expect("the source");
    let source = source.to_str().expect("text").to_owned();
    record(scratch, &["python3", &source, name])
}

/// Returns the expected messages: the bytes of each, and where they end.
fn expected(calls: &[Value]) -> Vec<(u64, u64)> {
    let of = |call| (number(call, "/bytes"), number(call, "/offset_end"));
    calls.iter().map(of).collect()
}

fn of_received(messages: &[ReceivedMessage]) -> Vec<(u64, u64)> {
    let of = |it: &ReceivedMessage| (u64::from(it.bytes), it.offset_end);
    messages.iter().map(of).collect()
}

fn of_sent(messages: &[SentMessage]) -> Vec<(u64, u64)> {
    let of = |it: &SentMessage| (u64::from(it.bytes), it.offset_end);
    messages.iter().map(of).collect()
}

fn calls_of(report: &Report, conn: u64, is_send: bool) -> Vec<Call> {
    let mut rows: Vec<Call> = report.rows();
    rows.retain(|call| call.conn == conn && call.is_send == is_send);
    rows.sort_by_key(|call| call.end_ns);
    rows
}

/// An end that has sent its FIN and gets the other's is closed; what had come is still to be read.
#[test]
fn messages_read_after_close_are_timed() {
    if !root() {
        return;
    }
    let (truth, report) = record_one("half-closed");
    let (calls, conn) = calls(&truth, "received");
    let messages = received(&report, conn);
    assert_eq!(of_received(&messages), expected(&calls));
    let rows = calls_of(&report, conn, false);
    assert_eq!(rows.len(), calls.len() + 1, "and that there is no more");
    let last = rows.last().expect("a call");
    assert_eq!((last.result, last.offset_end), (0, 1009));
}

/// A call that waits for room lets others send: it goes on where it was, and they are followed as before.
#[test]
fn calls_of_threads_that_share_a_socket_are_timed() {
    if !root() {
        return;
    }
    let (truth, report) = record_one("shared");
    let (calls, conn) = calls(&truth, "sent");
    let messages = sent(&report, conn);
    let together = usize::try_from(number(&calls[0], "/calls")).expect("a count");
    assert_eq!(messages.len(), together + calls.len() - 1);
    let (first, alone) = messages.split_at(together);
    let bytes: u64 = first.iter().map(|it| u64::from(it.bytes)).sum();
    assert_eq!(bytes, number(&calls[0], "/bytes"), "each once");
    assert_eq!(of_sent(alone), expected(&calls[1..]));
    assert!(alone[1..].iter().all(|it| it.spliced_bytes == 0));
    for message in &alone[..alone.len() - 1] {
        assert!(message.acked_ns.is_some(), "{message:?}");
    }
}

/// The second connection has offsets of its own, and none of its bytes are the first one's.
#[test]
fn second_connection_of_a_socket_has_its_own_offsets() {
    if !root() {
        return;
    }
    let (truth, report) = record_one("again");
    let (calls_sent, conn) = calls(&truth, "sent");
    let messages = sent(&report, conn);
    assert_eq!(of_sent(&messages), expected(&calls_sent));
    assert!(messages.iter().all(|it| it.spliced_bytes == 0));
    let (calls_received, conn) = calls(&truth, "received");
    let messages = received(&report, conn);
    assert_eq!(of_received(&messages), expected(&calls_received));
    assert!(messages.iter().all(|it| it.spliced_bytes == 0));
    assert!(messages.iter().all(|it| it.last_arrival_ns.is_some()));
}

/// Stamps of what was sent come with its headers, and an urgent byte is not taken out of the stream.
#[test]
fn error_queue_reads_are_no_messages() {
    if !root() {
        return;
    }
    let (truth, report) = record_one("error-queue");
    let (calls, conn) = calls(&truth, "received");
    assert_eq!(of_received(&received(&report, conn)), expected(&calls));
}

#[test]
fn sendfile_wait_is_recorded() {
    if !root() {
        return;
    }
    let (truth, report) = record_one("sendfile");
    let (calls, conn) = calls(&truth, "sent");
    let rows = calls_of(&report, conn, true);
    let moved: u64 = rows
        .iter()
        .map(|call| u64::try_from(call.result).unwrap_or(0))
        .sum();
    assert_eq!(moved, number(&calls[0], "/bytes"));
    let waited = rows.iter().filter(|call| call.blocked_ns > Some(0));
    assert!(waited.count() > 0, "{rows:?}");
}
