//! Delays that the tests make themselves appear in the part of the messages' way where they were made, and
//! as long as they were.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use diagnose::messages::ends::{self, EndRecording};
use diagnose::report::RecordingState;
use lab::{Direction, DirectionConfig, Netns, PacketRecord, Wire, WireConfig};
use serde_json::{Value, json};
use table::tables::{ReceivedMessage, SentMessage};
use tempfile::TempDir;

use crate::play::{Judge, Outcome, Play};
use crate::shrink::MESSAGES;
use testbed::report::{Report, ask, number};
use testbed::{compile_c, finish, record_command, write_source};

pub fn plays() -> Vec<Play> {
    let play = |name: &str, record: fn() -> Result<Outcome, String>, judge: Judge| Play {
        name: format!("delays::{name}"),
        record: Box::new(record),
        judge,
        tables: MESSAGES,
        leaves_out: None,
    };
    vec![
        play(
            "cpu_taken_from_a_reader",
            taken_from_a_reader,
            waits_in_the_run_queue,
        ),
        play(
            "cpu_taken_from_a_reader_of_datagrams",
            taken_from_a_reader_of_datagrams,
            waits_in_the_run_queue,
        ),
        play("softirqs_held_back", softirqs_held_back, is_the_softirq),
        play("slow_queue", slow_queue, is_the_qdisc),
        play("lossy_wire", lossy_wire, arrives_late),
    ]
}

/// Allowed error of a time: 5 % or 20 µs.
fn near(found_ns: u64, true_ns: u64) -> bool {
    found_ns.abs_diff(true_ns) <= (true_ns / 20).max(20_000)
}

/// Three of four are near: a virtual machine may be stopped at any time, and a CPU that is given back is not
/// always given to the one that waits here.
fn most_are_near(pairs: &[(u64, u64)]) {
    let near = pairs
        .iter()
        .filter(|(found, truth)| near(*found, *truth))
        .count();
    assert!(near * 4 >= pairs.len() * 3, "{near} of {pairs:?}");
}

fn middle(mut all: Vec<u64>) -> u64 {
    all.sort_unstable();
    all[all.len() / 2]
}

/// Records a command, and returns the report with the lines that the command printed.
fn recorded(scratch: TempDir, command: &[&str]) -> (Report, Vec<Value>) {
    let (report, truth) = record_command(scratch, &["--detail", "messages"], command);
    report.assert_whole();
    (report, truth)
}

fn taken_from_a_reader() -> Result<Outcome, String> {
    received_by(include_str!("../programs/behind.c"), &[])
}

fn taken_from_a_reader_of_datagrams() -> Result<Outcome, String> {
    received_by(include_str!("../programs/behind.c"), &["udp"])
}

fn waits_in_the_run_queue(outcome: &Outcome) {
    let (truth, messages) = received(outcome);
    let (mut run_queue, mut in_place) = (Vec::new(), 0);
    for (message, truth) in messages.iter().zip(truth) {
        let at = |name: &str| number(truth, name);
        let given_back_ns = at("/given_back_ns");
        let (Some(woken_ns), Some(running_ns)) = (message.woken_ns, message.running_ns) else {
            // some kernels run no program while process 1 leaves the CPU to the reader
            run_queue.push((0, given_back_ns - message.ready_ns.expect("it was ready")));
            continue;
        };
        run_queue.push((running_ns - woken_ns, given_back_ns - woken_ns));
        // all before it waits for the CPU is of the call that sends it, and all after it of the reader
        let arrived_ns = message.first_arrival_ns.expect("it arrived");
        let sending = at("/send_ns")..=at("/sent_ns");
        let having = given_back_ns..=at("/had_ns");
        let is_in_place =
            |ns: [u64; 2], within: RangeInclusive<u64>| ns.iter().all(|ns| within.contains(ns));
        if is_in_place([arrived_ns, woken_ns], sending)
            && is_in_place([running_ns, message.done_ns], having)
        {
            in_place += 1;
        }
    }
    most_are_near(&run_queue);
    assert!(
        in_place * 4 >= messages.len() * 3,
        "{in_place} of {messages:#?}: {truth:?}"
    );
}

/// Records a program in C, which says something of each of its messages.
fn received_by(source: &str, arguments: &[&str]) -> Result<Outcome, String> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if cpus < 2 {
        return Err("it needs two CPUs".to_owned());
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let binary = compile_c(scratch.path(), "program", source, &[]);
    let (report, truth) = recorded(scratch, &[&[binary.as_str()], arguments].concat());
    Ok(Outcome {
        report,
        truth: json!({ "messages": truth }),
    })
}

/// The program's record of each of its messages, and of those that it received, in order.
fn received(outcome: &Outcome) -> (&Vec<Value>, Vec<ReceivedMessage>) {
    let truth = outcome.truth["messages"].as_array().expect("messages");
    let mut messages: Vec<ReceivedMessage> = outcome.report.rows();
    messages.sort_by_key(|message| message.done_ns);
    assert_eq!(messages.len(), truth.len());
    (truth, messages)
}

fn softirqs_held_back() -> Result<Outcome, String> {
    let outcome = received_by(include_str!("../programs/softirqs_held.c"), &[])?;
    let messages = outcome.truth["messages"].as_array().expect("messages");
    // a machine that stalled sent it too late
    let in_time = messages.iter().filter(|it| is_in_time(it)).count();
    if in_time * 4 < messages.len() * 3 {
        return Err(format!("{in_time} of {} were sent in time", messages.len()));
    }
    Ok(outcome)
}

fn is_in_time(truth: &Value) -> bool {
    number(truth, "/until_ns") > number(truth, "/sent_ns")
}

fn is_the_softirq(outcome: &Outcome) {
    let (truth, messages) = received(outcome);
    let (mut softirq, mut rest_ns) = (Vec::new(), Vec::new());
    for (message, truth) in messages.iter().zip(truth) {
        let (sent_ns, until_ns) = (number(truth, "/sent_ns"), number(truth, "/until_ns"));
        let (Some(arrived_ns), Some(tcp_ns)) = (message.last_arrival_ns, message.tcp_ns) else {
            panic!("it arrived: {message:?}");
        };
        if is_in_time(truth) {
            softirq.push((tcp_ns - arrived_ns, until_ns - sent_ns));
            rest_ns.push(message.ready_ns.expect("it was ready") - tcp_ns);
        }
    }
    most_are_near(&softirq);
    assert!(middle(rest_ns.clone()) < 100_000, "{rest_ns:?}");
}

const WHOLE_MESSAGES: &str = include_str!("../programs/whole_messages.py");

/// Messages of `size` bytes from `a` to `b`.
fn between(a: &Netns, b: &Netns, address: &str, numbers: [&str; 3]) -> Report {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = write_source(scratch.path(), "whole_messages.py", WHOLE_MESSAGES);
    let (a, b) = (a.path(), b.path());
    let (a, b) = (a.to_str().expect("text"), b.to_str().expect("text"));
    let command = [&["python3", &source, a, b, address], &numbers[..]].concat();
    recorded(scratch, &command).0
}

/// Messages of the connection's end that sent whole ones, in order.
fn sent_of_size(report: &Report, size: u32) -> Vec<SentMessage> {
    let mut sent: Vec<SentMessage> = report.rows();
    sent.retain(|message| message.bytes == size);
    sent.sort_by_key(|message| message.done_ns);
    sent
}

/// Bytes of a message in the slow queue, and what that gives out.
const QUEUED_BYTES: u32 = 1_000;
const RATE_BPS: u64 = 1_000_000;
/// Ethernet, IP, and TCP with time stamps; what tbf counts.
const PACKET_BYTES: u64 = QUEUED_BYTES as u64 + 14 + 20 + 32;

fn slow_queue() -> Result<Outcome, String> {
    let (a, b) = (
        Netns::new().expect("a namespace"),
        Netns::new().expect("a namespace"),
    );
    let peer = b.path();
    let peer = peer.to_str().expect("text");
    a.run_ip(&format!("link add v0 type veth peer name v0 netns {peer}"))
        .expect("devices");
    for (netns, address) in [(&a, "10.99.0.1"), (&b, "10.99.0.2")] {
        netns
            .run_ip(&format!("addr add {address}/24 dev v0"))
            .expect("an address");
        // a message is a packet: none is joined with another to one that exceeds the burst
        netns
            .run_ip(&format!("link set v0 up mtu {}", PACKET_BYTES - 14))
            .expect("it is up");
    }
    let mut tc = a.command("tc");
    tc.args([
        "qdisc", "add", "dev", "v0", "root", "tbf", "burst", "1100", "limit", "100000",
    ]);
    finish(tc.arg("rate").arg(RATE_BPS.to_string())).assert_status(0);
    let size = QUEUED_BYTES.to_string();
    Ok(Outcome {
        report: between(&a, &b, "10.99.0.2", [&size, "6", "5"]),
        truth: json!({}),
    })
}

fn is_the_qdisc(outcome: &Outcome) {
    let sent = sent_of_size(&outcome.report, QUEUED_BYTES);
    assert_eq!(sent.len(), 30);
    let step_ns = PACKET_BYTES * 8 * 1_000_000_000 / RATE_BPS;
    let (mut steps, mut rest_ns) = (Vec::new(), Vec::new());
    for round in sent.chunks(6) {
        // of the first the burst is spent; each after it goes out one step later
        for pair in round.windows(2) {
            let (before_ns, driven_ns) = (pair[0].driver_ns, pair[1].driver_ns);
            let seen = (before_ns, driven_ns, pair[1].queue_ns, pair[1].tcp_ns);
            let (Some(before_ns), Some(driven_ns), Some(queued_ns), Some(tcp_ns)) = seen else {
                continue;
            };
            steps.push((driven_ns - queued_ns, before_ns + step_ns - queued_ns));
            rest_ns.push(queued_ns - tcp_ns);
        }
    }
    assert!(steps.len() >= 23, "{} of 25", steps.len());
    most_are_near(&steps);
    assert!(middle(rest_ns.clone()) < 100_000, "{rest_ns:?}");
}

/// Messages over a lossy wire, their bytes.
const LOSSY: u64 = 20;
const LOSSY_BYTES: u32 = 6_000;

/// From the first to the last segment of the message that ends there, by the wire's own account: the least and the most,
/// as the kernel takes each while it is handed over. Of what was sent twice the first counts.
fn delivery_ns(log: &[PacketRecord], offset_end: u64) -> (u64, u64) {
    let packets = log
        .iter()
        .filter(|packet| packet.direction == Direction::AToB);
    let data = packets.filter_map(|packet| {
        let handed_ns = packet.handing_ns.zip(packet.delivered_ns);
        Some((packet.tcp?, handed_ns))
    });
    let data: Vec<_> = data.filter(|(tcp, _)| tcp.payload_bytes > 0).collect();
    let begin = data.first().expect("data").0.seq;
    let mut own = BTreeMap::new();
    for (tcp, handed_ns) in data {
        let offset = u64::from(tcp.seq.wrapping_sub(begin));
        let from = offset_end - u64::from(LOSSY_BYTES);
        if let (true, Some(ns)) = ((from..offset_end).contains(&offset), handed_ns) {
            own.entry(offset).or_insert(ns);
        }
    }
    let first = own.values().min().expect("it was delivered");
    let last = own.values().max().expect("it was delivered");
    (last.0.saturating_sub(first.1), last.1 - first.0)
}

/// Each message has five segments; some messages lose one.
fn lossy_wire() -> Result<Outcome, String> {
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
    let (size, count) = (LOSSY_BYTES.to_string(), LOSSY.to_string());
    let report = between(&a, &b, &address, [&size, "1", &count]);
    let (_, log) = wire.stop();
    let ends = (1..=LOSSY).map(|number| number * u64::from(LOSSY_BYTES));
    let delivered: Vec<(u64, u64)> = ends.map(|end| delivery_ns(&log, end)).collect();
    let late = delivered
        .iter()
        .filter(|(least_ns, _)| *least_ns > 1_000_000);
    if late.count() < 3 {
        return Err(format!("the losses made nothing late: {delivered:?}"));
    }
    let crossed_ns = log.iter().filter(|packet| packet.tcp.is_some());
    let crossed_ns = crossed_ns.filter_map(|it| Some(it.delivered_ns? - it.time_ns));
    Ok(Outcome {
        report,
        truth: json!({ "delivered_ns": delivered, "crossed_ns": middle(crossed_ns.collect()) }),
    })
}

fn arrives_late(outcome: &Outcome) {
    let report = &outcome.report;
    let mut received: Vec<ReceivedMessage> = report.rows();
    received.retain(|message| message.bytes == LOSSY_BYTES);
    received.sort_by_key(|message| message.done_ns);
    let sent = sent_of_size(report, LOSSY_BYTES);
    assert_eq!((received.len(), sent.len()), (20, 20));
    let delivered = outcome.truth["delivered_ns"].as_array().expect("times");
    let arriving: Vec<_> = received
        .iter()
        .zip(delivered)
        .map(|(message, known)| {
            let (first_ns, last_ns) = (message.first_arrival_ns, message.last_arrival_ns);
            let found_ns = last_ns.expect("it arrived") - first_ns.expect("it arrived");
            let (least_ns, most_ns) = (number(known, "/0"), number(known, "/1"));
            (found_ns, found_ns.clamp(least_ns, most_ns))
        })
        .collect();
    most_are_near(&arriving);
    let resent = sent.iter().filter(|message| message.resent_segments > 0);
    assert_eq!(resent.count(), 4);
    let crossed_ns = number(&outcome.truth, "/crossed_ns");
    the_wire_is_as_long(report, crossed_ns);
    and_so_it_is_with_two_clocks(report, crossed_ns);
}

/// Half of the messages' times on the wire, both ways.
fn on_the_wire_ns(ends: &Value) -> Vec<u64> {
    let groups = ends["groups"].as_array().expect("groups");
    assert!(groups.len() >= 2, "{ends:#}");
    let legs = groups
        .iter()
        .flat_map(|group| group["legs"].as_array().expect("legs"));
    let wires = legs.filter(|leg| leg["leg"] == "wire");
    wires.map(|leg| number(leg, "/p50_ns")).collect()
}

/// The packet is read and written by a program on its way, which takes its time.
fn the_wire_is_as_long(report: &Report, crossed_ns: u64) {
    let path = report.path();
    let other_end = format!("--messages --other-end {}", path.display());
    let ends = ask(path, &other_end);
    assert_eq!(ends["clocks"]["how"], "same");
    for wire_ns in on_the_wire_ns(&ends) {
        assert!(
            near(wire_ns, crossed_ns),
            "{wire_ns} ns, {crossed_ns} by the wire"
        );
    }
}

fn side(report: &Report, boot_id: Option<&str>) -> EndRecording {
    let recording = report.recording();
    let mut header = recording.header().clone();
    if let Some(boot_id) = boot_id {
        boot_id.clone_into(&mut header.boot_id);
    }
    let mut side = EndRecording::new(header);
    recording.feed(table::TableId::ALL, &mut [&mut side]);
    side
}

/// The same recording as if it came from another boot: nothing is known of its clock.
fn and_so_it_is_with_two_clocks(report: &Report, crossed_ns: u64) {
    let (first, other) = (side(report, None), side(report, Some("another")));
    let ends = ends::report(first, other, RecordingState::default(), usize::MAX);
    let ends = serde_json::to_value(ends).expect("JSON");
    let offset = &ends["clocks"]["offsets"][0];
    let error_ns = number(offset, "/error_ns");
    let offset_ns = offset["offset_ns"].as_i64().expect("an offset");
    assert!(offset_ns.unsigned_abs() <= error_ns, "{offset}");
    assert!(error_ns <= crossed_ns + crossed_ns / 10, "{offset}");
    for wire_ns in on_the_wire_ns(&ends) {
        assert!(
            wire_ns.abs_diff(crossed_ns) <= error_ns,
            "{wire_ns} ns: {offset}"
        );
    }
}
