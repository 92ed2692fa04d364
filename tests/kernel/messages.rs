//! Messages: every call that moved bytes, byte for byte as the program says, and the times of what it moved
//! in the order of its way, on every kind of path.

mod odd_streams;
mod transfers;
mod uring;

use lab::{DirectionConfig, Netns, Wire, WireConfig};
use serde_json::Value;
use table::tables::{Call, ReceivedMessage, SentMessage};
use tempfile::TempDir;

use testbed::report::{Report, number};
use testbed::{compile_c, record_command, root, write_source};

/// Sends and reads in random sizes: see its head.
const RANDOM_SIZES: &str = include_str!("programs/random_sizes.py");

/// Where it does: arguments for the program.
fn over(site: &[&str]) -> (Vec<Value>, Report) {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = write_source(scratch.path(), "random_sizes.py", RANDOM_SIZES);
    record(scratch, &[&["python3", &source], site].concat())
}

/// Compiles a program of `programs`, records it, and returns its account.
fn compiled(name: &str, source: &str, arguments: &[&str]) -> (Vec<Value>, Report) {
    let scratch = tempfile::tempdir().expect("a directory");
    let binary = compile_c(scratch.path(), name, source, &[]);
    record(scratch, &[&[binary.as_str()], arguments].concat())
}

/// Records a program that prints its calls, a line of JSON each.
fn record(scratch: TempDir, command: &[&str]) -> (Vec<Value>, Report) {
    let (report, calls) = record_command(scratch, &["--detail", "messages"], command);
    report.assert_whole();
    (calls, report)
}

/// The calls of one way, and their connection.
fn calls(truth: &[Value], direction: &str) -> (Vec<Value>, u64) {
    let calls = truth.iter().filter(|call| call["direction"] == direction);
    let calls: Vec<Value> = calls.cloned().collect();
    let conn = number(&calls[0], "/conn");
    (calls, conn)
}

fn check_call(message: (u32, u64, u32), stamps: &[u64], within: [u64; 2], call: &Value, end: u64) {
    let (bytes, offset_end, spliced_bytes) = message;
    let expected = (number(call, "/bytes"), end, 0);
    let found = (u64::from(bytes), offset_end, spliced_bytes);
    assert_eq!(found, expected, "{call}");
    let span = number(call, "/begin_ns")..=number(call, "/end_ns");
    for ns in within {
        assert!(span.contains(&ns), "{ns} is not in {call}");
    }
    assert!(stamps.is_sorted(), "{stamps:?}: {call}");
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

/// Takes nothing.
const MSG_PEEK: u32 = 2;

/// Every call that moved bytes of a connection, this way, is a message.
fn assert_none_unmatched(report: &Report, conn: u64, is_send: bool, messages: usize) {
    let mut moved: Vec<Call> = report.rows();
    moved.retain(|call| call.conn == conn && call.is_send == is_send && call.result > 0);
    moved.retain(|call| call.flags & MSG_PEEK == 0);
    assert_eq!(moved.len(), messages);
}

fn received(report: &Report, conn: u64) -> Vec<ReceivedMessage> {
    let mut messages: Vec<ReceivedMessage> = report.rows();
    messages.retain(|message| message.conn == conn);
    messages.sort_by_key(|message| message.done_ns);
    messages
}

fn sent(report: &Report, conn: u64) -> Vec<SentMessage> {
    let mut messages: Vec<SentMessage> = report.rows();
    messages.retain(|message| message.conn == conn);
    messages.sort_by_key(|message| message.done_ns);
    messages
}

/// Checks what is known of the segments of a message. Returns whether all is known.
///
/// TCP's time is missing if more than 64 segments with gaps waited, or if the kernel showed no hook a packet: then
/// nothing is known. An arrival alone is missing if another packet of the host took its place. How often that happens
/// depends on what else the host does.
pub(crate) fn has_arrival(message: &ReceivedMessage) -> bool {
    let arrivals = [message.first_arrival_ns, message.last_arrival_ns];
    if message.tcp_ns.is_none() {
        assert_eq!(arrivals, [None; 2], "{message:?}");
        assert_eq!(message.ready_ns, None, "{message:?}");
    }
    arrivals.iter().all(Option::is_some) && message.ready_ns.is_some()
}

/// Checks received messages, and returns how many of them have a wake-up time.
fn check_received(truth: &[Value], report: &Report) -> usize {
    let (calls, conn) = calls(truth, "received");
    let messages = received(report, conn);
    assert_eq!(messages.len(), calls.len());
    assert_none_unmatched(report, conn, false, messages.len());
    let (mut end, mut whole, mut woken) = (0, 0, 0);
    for (message, call) in messages.iter().zip(&calls) {
        end += number(call, "/bytes");
        let found = (message.bytes, message.offset_end, message.spliced_bytes);
        let stamps = stamps_of_received(message);
        assert_eq!(message.copy_ns.is_none(), call["thrown"] == true, "{call}");
        let copy_ns = message.copy_ns.unwrap_or(message.done_ns);
        check_call(found, &stamps, [copy_ns, message.done_ns], call, end);
        whole += usize::from(has_arrival(message));
        woken += usize::from(message.woken_ns.is_some());
    }
    println!("{whole} whole, {woken} woken of {} received", calls.len());
    assert!(whole > 0);
    woken
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

/// So many calls of a socket are followed at a time.
const FOLLOWED: usize = 32;

/// Checks that what is missing of the messages of a socket has one of the reasons of the table. Returns how many lack
/// nothing. The messages are in the order of the stream.
///
/// A reader that gets no CPU makes the calls wait: then many are not followed, and many are not acknowledged when the
/// sender closes the socket. So no share of whole messages is demanded.
pub(super) fn check_followed(messages: &[SentMessage]) -> usize {
    let mut followed: Vec<&SentMessage> = Vec::new();
    let (mut whole, mut unseen, mut is_closed) = (0, 0, false);
    for message in messages {
        let stamps = stamps_of_sent(message).len();
        let call_ns = message.call_ns.expect("it began");
        let outstanding = followed
            .iter()
            .filter(|it| it.acked_ns.is_none_or(|ns| ns > call_ns));
        if outstanding.count() == FOLLOWED {
            assert_eq!(stamps, 1, "32 calls were under way: {message:?}");
            continue;
        }
        followed.push(message);
        // the socket closed, or the recording ended: ACKs come in the order of the stream
        is_closed |= message.acked_ns.is_none();
        assert_eq!(message.acked_ns.is_none(), is_closed, "{message:?}");
        whole += usize::from(stamps == 5);
        // the kernel showed no hook its packet (docs/principles.md)
        unseen += usize::from(stamps < 5 && !is_closed);
    }
    println!(
        "{whole} whole of {} sent, {} followed, {unseen} unseen",
        messages.len(),
        followed.len()
    );
    whole
}

/// Checks sent messages, and returns how many of them have all times.
fn check_sent(truth: &[Value], report: &Report) -> usize {
    let (calls, conn) = calls(truth, "sent");
    let messages = sent(report, conn);
    assert_eq!(messages.len(), calls.len());
    assert_none_unmatched(report, conn, true, messages.len());
    let mut end = 0;
    for (message, call) in messages.iter().zip(&calls) {
        end += number(call, "/bytes");
        let found = (message.bytes, message.offset_end, message.spliced_bytes);
        let stamps = stamps_of_sent(message);
        let call_ns = message.call_ns.expect("it began");
        check_call(found, &stamps, [call_ns, message.done_ns], call, end);
    }
    let whole = check_followed(&messages);
    assert!(whole > 0);
    whole
}

fn check(site: &[&str]) -> Report {
    let (truth, report) = over(site);
    assert!(check_received(&truth, &report) > 0);
    check_sent(&truth, &report);
    report
}

#[test]
fn messages_are_timed_over_loopback() {
    if root() {
        check(&["127.0.0.1"]);
    }
}

/// The sender closes its socket while most of what it gave waits for the reader: what a reader without a CPU does to it.
#[test]
fn late_reader_leaves_calls_unfollowed() {
    if root() {
        let (truth, report) = over(&["127.0.0.1", "late"]);
        check_received(&truth, &report);
        let (calls, _) = calls(&truth, "sent");
        assert!(check_sent(&truth, &report) + FOLLOWED < calls.len());
    }
}

/// Two namespaces, joined by devices of this name.
const DEVICE: &str = "veth0";

fn text_of(netns: &Netns) -> String {
    netns.path().to_str().expect("text").to_owned()
}

/// Two namespaces that are so joined.
fn joined() -> [Netns; 2] {
    let both = [
        Netns::new().expect("a namespace"),
        Netns::new().expect("a namespace"),
    ];
    let other = text_of(&both[1]);
    ip(
        &both[0],
        &format!("link add {DEVICE} type veth peer name {DEVICE} netns {other}"),
    );
    for (netns, last) in both.iter().zip(1..) {
        ip(netns, &format!("addr add 10.99.0.{last}/24 dev {DEVICE}"));
        ip(netns, &format!("link set {DEVICE} up"));
    }
    both
}

fn ip(netns: &Netns, command: &str) {
    netns.run_ip(command).expect("it is set up");
}

fn over_veth(more: &[&str]) -> Option<Report> {
    if !root() {
        return None;
    }
    let both = joined();
    let [a, b] = both.each_ref().map(text_of);
    Some(check(&[&["10.99.0.2", &a, &b], more].concat()))
}

#[test]
fn messages_are_timed_over_veth() {
    over_veth(&[]);
}

/// A packet to the device of a tunnel comes to the device below inside another packet.
#[test]
fn messages_are_timed_through_a_tunnel() {
    if !root() {
        return;
    }
    let both = joined();
    for (netns, last) in both.iter().zip(1..) {
        let ends = format!("local 10.99.0.{last} remote 10.99.0.{}", 3 - last);
        ip(
            netns,
            &format!("link add vx0 type vxlan id 7 {ends} dstport 4789 dev {DEVICE}"),
        );
        ip(netns, &format!("addr add 10.98.0.{last}/24 dev vx0"));
        ip(netns, "link set vx0 up");
    }
    let [a, b] = both.each_ref().map(text_of);
    check(&["10.98.0.2", &a, &b]);
}

/// Packets of one segment each, joined on arrival.
#[test]
fn messages_are_timed_over_veth_with_gro() {
    let Some(report) = over_veth(&[DEVICE]) else {
        return;
    };
    let joined: Vec<ReceivedMessage> = report.rows();
    assert!(joined.iter().any(|message| message.segments > 1));
}

#[test]
fn messages_are_timed_over_a_lossy_wire() {
    if !root() {
        return;
    }
    let direction = DirectionConfig {
        loss_ppm: 10_000,
        jitter_us: 200,
        ..DirectionConfig::delay(2_000)
    };
    let (a, b) = (
        Netns::new().expect("a namespace"),
        Netns::new().expect("a namespace"),
    );
    let (a_path, b_path) = (a.path(), b.path());
    let wire = Wire::between(WireConfig::both(direction), a, b).expect("a wire");
    let address = wire.address_b().to_string();
    let netns = [a_path, b_path];
    let netns = netns.each_ref().map(|path| path.to_str().expect("text"));
    let report = check(&[&address, netns[0], netns[1]]);
    let sent: Vec<SentMessage> = report.rows();
    let resent = sent.iter().filter(|message| message.resent_segments > 0);
    assert!(resent.count() > 0, "nothing was retransmitted");
}
