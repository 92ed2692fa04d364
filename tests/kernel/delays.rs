//! Delays that the tests make themselves appear in the part of the messages' way where they were made, and
//! as long as they were.

use std::path::Path;
use std::process::Command;

use lab::{Direction, DirectionConfig, Netns, Wire, WireConfig};
use serde_json::Value;
use table::tables::{ReceivedMessage, SentMessage};

use crate::harness::{finish, program, root};
use crate::report::{Report, number};

/// What a time may be off: 5 % or 20 µs.
fn near(found_ns: u64, true_ns: u64) -> bool {
    found_ns.abs_diff(true_ns) <= (true_ns / 20).max(20_000)
}

/// All but one of ten are near: a virtual machine may be stopped at any time.
fn most_are_near(pairs: &[(u64, u64)]) {
    let near = pairs
        .iter()
        .filter(|(found, truth)| near(*found, *truth))
        .count();
    assert!(near * 10 >= pairs.len() * 9, "{near} of {pairs:?}");
}

fn middle(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all[all.len() / 2]
}

fn recorded(command: &[&str]) -> Report {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "messages", "--output"]);
    run.arg(scratch.path().join("r.whylat"));
    run.args(["--", "sh", "-c", "exec \"$@\" > \"$0\""]);
    finish(run.arg(scratch.path().join("truth")).args(command)).ended(0);
    let report = Report::of(scratch);
    report.assert_whole();
    report
}

/// A file with the source of a program.
fn written(source: &str, name: &str, directory: &Path) -> String {
    let path = directory.join(name);
    std::fs::write(&path, source).expect("the source");
    path.to_str().expect("text").to_owned()
}

#[test]
fn a_reader_whose_cpu_is_taken_waits_in_the_run_queue() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if !root() || cpus < 2 {
        eprintln!("skipped: it needs root and two CPUs");
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let source = written(
        include_str!("programs/behind.c"),
        "behind.c",
        scratch.path(),
    );
    let binary = scratch.path().join("behind");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-O2", "-pthread", "-o"])
        .arg(&binary)
        .arg(&source);
    finish(&mut compiler).ended(0);
    let report = recorded(&[binary.to_str().expect("text")]);
    let truth = std::fs::read_to_string(report.beside("truth")).expect("its account");
    let given_back_ns: Vec<u64> = truth
        .lines()
        .map(|line| {
            number(
                &serde_json::from_str::<Value>(line).expect("JSON"),
                "/given_back_ns",
            )
        })
        .collect();
    let mut messages: Vec<ReceivedMessage> = report.rows();
    messages.sort_by_key(|message| message.done_ns);
    assert_eq!(messages.len(), given_back_ns.len());
    let (mut run_queue, mut rest_ns) = (Vec::new(), Vec::new());
    for (message, given_back_ns) in messages.iter().zip(given_back_ns) {
        let woken_ns = message.woken_ns.expect("it waited");
        let running_ns = message.running_ns.expect("it ran");
        run_queue.push((running_ns - woken_ns, given_back_ns - woken_ns));
        let whole_ns = message.done_ns - message.first_arrival_ns.expect("it arrived");
        rest_ns.push(whole_ns - (running_ns - woken_ns));
    }
    most_are_near(&run_queue);
    assert!(middle(rest_ns.clone()) < 100_000, "{rest_ns:?}");
}

const WHOLE_MESSAGES: &str = include_str!("programs/whole_messages.py");

/// Messages of `size` bytes from `a` to `b`.
fn between(a: &Netns, b: &Netns, address: &str, numbers: [&str; 3]) -> Report {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = written(WHOLE_MESSAGES, "whole_messages.py", scratch.path());
    let (a, b) = (a.path(), b.path());
    let (a, b) = (a.to_str().expect("text"), b.to_str().expect("text"));
    recorded(&[&["python3", &source, a, b, address], &numbers[..]].concat())
}

/// Messages of the connection's end that sent whole ones, in order.
fn sent_of_size(report: &Report, size: u32) -> Vec<SentMessage> {
    let mut sent: Vec<SentMessage> = report.rows();
    sent.retain(|message| message.bytes == size);
    sent.sort_by_key(|message| message.done_ns);
    sent
}

#[test]
fn a_queue_that_gives_out_slowly_is_the_qdisc() {
    const SIZE: u32 = 1_000;
    const RATE_BPS: u64 = 1_000_000;
    // Ethernet, IP, and TCP with time stamps; what tbf counts
    const PACKET_BYTES: u64 = SIZE as u64 + 14 + 20 + 32;
    if !root() {
        return;
    }
    let (a, b) = (
        Netns::new().expect("a namespace"),
        Netns::new().expect("a namespace"),
    );
    let peer = b.path();
    let peer = peer.to_str().expect("text");
    a.ip(&format!("link add v0 type veth peer name v0 netns {peer}"))
        .expect("devices");
    for (netns, address) in [(&a, "10.99.0.1"), (&b, "10.99.0.2")] {
        netns
            .ip(&format!("addr add {address}/24 dev v0"))
            .expect("an address");
        // a message is a packet: none is joined with another to one that exceeds the burst
        netns
            .ip(&format!("link set v0 up mtu {}", PACKET_BYTES - 14))
            .expect("it is up");
    }
    let mut tc = a.command("tc");
    tc.args([
        "qdisc", "add", "dev", "v0", "root", "tbf", "burst", "1100", "limit", "100000",
    ]);
    finish(tc.arg("rate").arg(RATE_BPS.to_string())).ended(0);
    let report = between(&a, &b, "10.99.0.2", [&SIZE.to_string(), "6", "5"]);
    let sent = sent_of_size(&report, SIZE);
    assert_eq!(sent.len(), 30);
    let step_ns = PACKET_BYTES * 8 * 1_000_000_000 / RATE_BPS;
    let driven_ns = |message: &SentMessage| message.driver_ns.expect("it went out");
    let queued_ns = |message: &SentMessage| message.queue_ns.expect("it was queued");
    let (mut steps, mut rest_ns) = (Vec::new(), Vec::new());
    for round in sent.chunks(6) {
        // of the first the burst is spent; each after it goes out one step later
        for pair in round.windows(2) {
            let queued_ns = queued_ns(&pair[1]);
            let due_ns = driven_ns(&pair[0]) + step_ns;
            steps.push((driven_ns(&pair[1]) - queued_ns, due_ns - queued_ns));
            rest_ns.push(queued_ns - pair[1].tcp_ns.expect("it was sent"));
        }
    }
    most_are_near(&steps);
    assert!(middle(rest_ns.clone()) < 100_000, "{rest_ns:?}");
}

/// Each message has five segments, of some of which one is lost.
#[test]
fn what_the_wire_loses_arrives_late() {
    const SIZE: u32 = 6_000;
    if !root() {
        return;
    }
    let forward = DirectionConfig {
        lose_data: vec![2..3, 11..12, 23..24, 36..37],
        ..DirectionConfig::delay(3_000)
    };
    let config = WireConfig {
        a_to_b: forward,
        b_to_a: DirectionConfig::delay(3_000),
        ..WireConfig::default()
    };
    let (a, b) = (
        Netns::new().expect("a namespace"),
        Netns::new().expect("a namespace"),
    );
    let wire = Wire::between(config, a.clone(), b.clone()).expect("a wire");
    let address = wire.address_b().to_string();
    let report = between(&a, &b, &address, [&SIZE.to_string(), "1", "20"]);
    let (_, log) = wire.stop();
    let mut received: Vec<ReceivedMessage> = report.rows();
    received.retain(|message| message.bytes == SIZE);
    received.sort_by_key(|message| message.done_ns);
    let sent = sent_of_size(&report, SIZE);
    assert_eq!((received.len(), sent.len()), (20, 20));
    // When the packets with data of each message were handed over, by the wire's own account.
    let mut deliveries = log
        .iter()
        .filter(|packet| packet.direction == Direction::AToB);
    let mut delivered = Vec::new();
    let data = deliveries
        .by_ref()
        .filter(|it| it.tcp.is_some_and(|tcp| tcp.payload_bytes > 0));
    delivered.extend(data.filter_map(|it| it.delivered_ns));
    delivered.sort_unstable();
    let (mut arriving, mut late) = (Vec::new(), 0);
    for (message, next) in received.iter().zip(1..) {
        let (first_ns, last_ns) = (message.first_arrival_ns, message.last_arrival_ns);
        let (first_ns, last_ns) = (first_ns.expect("it arrived"), last_ns.expect("it arrived"));
        let until_ns = received
            .get(next)
            .map_or(u64::MAX, |it| it.first_arrival_ns.unwrap_or(0));
        let own = delivered
            .iter()
            .filter(|ns| **ns + 1_000_000 > first_ns && **ns < until_ns);
        let own: Vec<u64> = own.copied().collect();
        let (Some(first), Some(last)) =
            (own.first(), own.iter().rfind(|ns| **ns <= message.done_ns))
        else {
            panic!("{message:?}: {own:?}");
        };
        arriving.push((last_ns - first_ns, last - first));
        late += usize::from(last - first > 1_000_000);
    }
    most_are_near(&arriving);
    assert!(late >= 3, "{arriving:?}");
    let resent = sent.iter().filter(|message| message.resent_segments > 0);
    assert_eq!(resent.count(), 4);
}
