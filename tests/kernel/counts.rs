//! What is counted is exact: calls, bytes, stream offsets, connections and retransmissions of
//! workloads that know their own (prime) numbers.

use std::collections::{BTreeMap, HashSet};

use lab::wire::PacketRecord;
use lab::{Direction, DirectionConfig, Netns};
use serde_json::Value;
use table::TcpEventKind;
use table::tables::{Call, TcpEvent};

use crate::harness::{Recorder, Site, role, root};
use crate::report::{Report, number};
use crate::verdicts::start;

const EAGAIN: i32 = -11;

/// Records `count-calls` from before its first call.
fn count_calls(arguments: &str) -> (Report, Value) {
    let netns = Netns::new().expect("a namespace");
    let mut calls = role(&netns, &format!("count-calls --start-on-stdin {arguments}"));
    calls.port().expect("connected");
    let recorder = Recorder::start(&format!("-p {}", calls.pid()));
    calls.go().expect("go");
    let truth = calls.finish().expect("truth");
    (recorder.stop(), truth)
}

/// The stream offsets `[first, last)` of calls that moved bytes join without a gap.
#[track_caller]
fn assert_contiguous(calls: &[&Call], bytes: u64) {
    let mut at = 0;
    for call in calls.iter().filter(|call| call.result > 0) {
        let first = call.offset_end - u64::try_from(call.result).expect("positive");
        assert_eq!(first, at, "a gap before {call:?}");
        at = call.offset_end;
    }
    assert_eq!(at, bytes);
}

#[test]
fn every_call_and_every_byte() {
    if !root() {
        return;
    }
    let (report, truth) = count_calls("--pairs 3 --sends 1009 --size 67 --empty-reads 2");
    report.assert_whole();
    let rows: Vec<Call> = report.rows();
    let mut by_socket: BTreeMap<u64, Vec<&Call>> = BTreeMap::new();
    for row in &rows {
        by_socket.entry(row.conn).or_default().push(row);
    }
    let truths = truth["connections"].as_array().expect("connections");
    assert_eq!((truths.len(), by_socket.len()), (6, 6));
    for end in truths {
        let calls = &mut by_socket.remove(&number(end, "/cookie")).expect("calls");
        calls.sort_by_key(|call| call.offset_end);
        let (sends, receives): (Vec<&Call>, Vec<&Call>) =
            calls.iter().partition(|call| call.is_send);
        for (calls, way) in [(sends, "send"), (receives, "recv")] {
            let want = |key| number(end, &format!("/{way}/{key}"));
            assert_eq!(calls.len() as u64, want("calls"), "{way} calls of {end}");
            let again = calls.iter().filter(|call| call.result == EAGAIN).count();
            assert_eq!(again as u64, want("again"), "{way} EAGAIN of {end}");
            let moved = calls.iter().filter(|call| call.result > 0).count();
            assert_eq!(moved as u64, want("moved"), "{way} of {end}");
            assert_contiguous(&calls, want("bytes"));
        }
    }
    assert_eq!(number(&truth, "/send_calls"), 3 * 1009);
}

#[test]
fn every_short_connection() {
    if !root() {
        return;
    }
    for (detail, life_us) in [("calls", 5000), ("stats", 5000), ("stats", 0)] {
        let site = Site::loopback("cubic");
        let recorded = site.record_with(
            &format!("--detail {detail}"),
            "reply-server --connections 211",
            &format!("short-lived --count 211 --life-us {life_us}"),
            || (),
        );
        let report = &recorded.report;
        report.assert_whole();
        let ids: HashSet<u64> = report.connections().iter().map(|c| number(c, "/id")).collect();
        assert_eq!(ids.len(), report.connections().len(), "a socket is twice in the report");
        assert_eq!(ids.len(), 422, "--detail {detail}, {life_us} us each");
        for truth in [&recorded.client, &recorded.server] {
            for end in truth["connections"].as_array().expect("connections") {
                let connection = report.by_cookie(number(end, "/cookie"));
                assert_eq!(connection["totals"]["bytes_sent"], 100, "{connection:#}");
                assert!(connection["closed_ns"].is_u64(), "{connection:#}");
            }
        }
    }
}

/// Data segments that the wire saw before, by its own log.
fn sent_again(log: &[PacketRecord]) -> u64 {
    let mut seen = HashSet::new();
    let data = log
        .iter()
        .filter(|row| row.direction == Direction::AToB)
        .filter_map(|row| row.tcp.filter(|tcp| tcp.payload_bytes > 0));
    data.filter(|tcp| !seen.insert(tcp.seq)).count() as u64
}

/// Loses chosen data segments of a transfer; gives the events by kind, and the wire's count of
/// segments sent again.
fn lose(chosen: Vec<std::ops::Range<u64>>, stream: &str) -> (Report, BTreeMap<&'static str, u64>, u64) {
    let wire = start(
        "cubic",
        DirectionConfig {
            lose_data: chosen,
            ..DirectionConfig::delay(10_000)
        },
    );
    let recorded = Site::over(&wire).record("sink", stream);
    let id = number(recorded.client_end(), "/id");
    let (_, log) = wire.stop();
    let mut segments = BTreeMap::new();
    for event in recorded.report.rows::<TcpEvent>() {
        if event.conn == id {
            *segments.entry(event.kind.name()).or_default() += u64::from(event.segments.unwrap_or(0));
        }
    }
    let counted = number(recorded.report.by_cookie(id), "/totals/retransmits");
    let again = sent_again(&log);
    eprintln!("wire: {again} segments again; counted {counted}; events {segments:?}");
    assert_eq!(counted, again, "totals.retransmits against the wire's log");
    (recorded.report, segments, again)
}

fn of(segments: &BTreeMap<&'static str, u64>, kind: TcpEventKind) -> u64 {
    segments.get(kind.name()).copied().unwrap_or(0)
}

#[test]
fn every_fast_retransmission() {
    if !root() {
        return;
    }
    // Three holes of 1, 2 and 2 segments in a transfer that goes on long after.
    let (report, segments, again) = lose(vec![101..102, 211..213, 307..309], "stream --bytes 3000017");
    report.assert_whole();
    assert_eq!(again, 5, "the wire lost five segments once");
    assert_eq!(of(&segments, TcpEventKind::FastRetransmit), 5);
    assert_eq!(of(&segments, TcpEventKind::TailLossProbe), 0);
    assert_eq!(of(&segments, TcpEventKind::TimeoutRetransmit), 0);
}

#[test]
fn a_tail_loss_probe_and_a_timeout() {
    if !root() {
        return;
    }
    // Five messages, each alone on its way. The third's tail-loss probe arrives; the fourth
    // is lost with its probe, and a timeout mends it.
    let stream = "stream --bytes 5000 --write-size 1000 --pause-us 900000";
    let (report, segments, again) = lose(vec![2..3, 4..6], stream);
    report.assert_whole();
    assert_eq!(again, 3);
    assert_eq!(of(&segments, TcpEventKind::TailLossProbe), 2);
    assert_eq!(of(&segments, TcpEventKind::TimeoutRetransmit), 1);
    assert_eq!(of(&segments, TcpEventKind::FastRetransmit), 0);
    let id = report.connections().iter().find(|c| c["role"] == "client");
    let client = id.expect("the client");
    assert_eq!(number(client, "/totals/timeouts"), 1);
    assert_eq!(number(client, "/totals/tail_loss_probes"), 2);
}
