//! What is counted is exact: calls, bytes, stream offsets, connections and retransmissions of
//! workloads that know their own (prime) numbers.

use std::collections::{BTreeMap, HashSet};

use lab::wire::PacketRecord;
use lab::{Direction, DirectionConfig, Netns};
use serde_json::Value;
use table::TcpEventKind;
use table::tables::{Call, TcpEvent};

use crate::harness::{Recorder, Site, finish, planted, program, role, root};
use crate::report::{Report, number};
use crate::verdicts::start;

const EAGAIN: i32 = -11;

/// Records `count-calls` with sockets that were open before, or from their birth.
fn count_calls(arguments: &str, open_before: bool) -> (Report, Value) {
    let netns = Netns::new().expect("a namespace");
    if open_before {
        let mut calls = role(&netns, &format!("count-calls --start-on-stdin {arguments}"));
        calls.port().expect("connected");
        let recorder = Recorder::start(&format!("-p {}", calls.pid()));
        calls.go().expect("go");
        let truth = calls.finish().expect("truth");
        return (recorder.stop(), truth);
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let truth = scratch.path().join("truth");
    let mut command = netns.command(program());
    command.args(["run", "--as-root", "--output"]);
    command.arg(scratch.path().join("r.whylat"));
    let script = format!(
        "exec \"$0\" lab workload count-calls {arguments} > '{}'",
        truth.display()
    );
    command.args(["--", "sh", "-c", &script, program()]);
    finish(&mut command).ended(0);
    let truth = std::fs::read_to_string(&truth).expect("truth");
    (
        Report::of(scratch),
        serde_json::from_str(&truth).expect("JSON"),
    )
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
    if root() {
        assert_every_call(false);
    }
}

#[test]
fn every_call_and_every_byte_of_sockets_that_were_open_before() {
    if root() {
        assert_every_call(true);
    }
}

fn assert_every_call(open_before: bool) {
    let arguments = "--pairs 3 --sends 1009 --size 67 --empty-reads 2";
    let (report, truth) = count_calls(arguments, open_before);
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
        let ids: HashSet<u64> = report
            .connections()
            .iter()
            .map(|c| number(c, "/id"))
            .collect();
        assert_eq!(
            ids.len(),
            report.connections().len(),
            "a socket is twice in the report"
        );
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

/// The kernel's own counters of a namespace (`/proc/net/netstat`), which was new.
fn netstat(netns: &Netns) -> BTreeMap<String, u64> {
    let text = netns.run(|| std::fs::read_to_string("/proc/thread-self/net/netstat"));
    let text = text.expect("enter").expect("netstat");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("TcpExt:"))
        .collect();
    let [names, values] = lines[..] else {
        panic!("no TcpExt in {text}");
    };
    let values = values
        .split(' ')
        .skip(1)
        .map(|value| value.parse().unwrap_or(0));
    names
        .split(' ')
        .skip(1)
        .map(str::to_owned)
        .zip(values)
        .collect()
}

/// What became of a transfer that lost chosen data segments.
struct Lost {
    report: Report,
    /// Retransmitted segments by kind of event.
    events: BTreeMap<TcpEventKind, u64>,
    /// Segments that the wire saw again.
    again: u64,
    /// The sending namespace's counters.
    netstat: BTreeMap<String, u64>,
}

/// Loses chosen data segments of a transfer. What a timer sends again may pass no hook: see
/// [`planted`].
fn lose(chosen: &[std::ops::Range<u64>], stream: &str) -> Lost {
    planted(|| {
        let lost = transfer(chosen, stream);
        let seen = lost.events.values().sum::<u64>();
        assert!(seen <= lost.again, "{:?} of {}", lost.events, lost.again);
        if seen == lost.again {
            return Ok(lost);
        }
        Err(format!("events {:?} of {}", lost.events, lost.again))
    })
}

fn transfer(chosen: &[std::ops::Range<u64>], stream: &str) -> Lost {
    let path = DirectionConfig {
        lose_data: chosen.to_vec(),
        ..DirectionConfig::delay(10_000)
    };
    let wire = start("cubic", path);
    let recorded = Site::over(&wire).record("sink", stream);
    let report = recorded.report;
    report.assert_whole();
    let id = number(&recorded.client, "/connections/0/cookie");
    let netstat = netstat(&wire.a);
    let again = sent_again(&wire.stop().1);
    let mut events = BTreeMap::new();
    for event in report.rows::<TcpEvent>() {
        if let (true, Some(segments)) = (event.conn == id, event.segments) {
            *events.entry(event.kind).or_default() += u64::from(segments);
        }
    }
    let counted = number(report.by_cookie(id), "/totals/retransmits");
    assert_eq!(counted, again, "totals.retransmits against the wire's log");
    Lost {
        report,
        events,
        again,
        netstat,
    }
}

impl Lost {
    fn events(&self, kind: TcpEventKind) -> u64 {
        self.events.get(&kind).copied().unwrap_or(0)
    }
}

#[test]
fn every_fast_retransmission() {
    if !root() {
        return;
    }
    // Three holes of 1, 2 and 2 segments in a transfer that goes on long after.
    let lost = lose(&[101..102, 211..213, 307..309], "stream --bytes 3000017");
    assert_eq!(lost.again, 5, "the wire lost five segments once");
    assert_eq!(lost.netstat["TCPFastRetrans"], 5);
    assert_eq!(lost.events(TcpEventKind::FastRetransmit), 5);
}

#[test]
fn every_tail_loss_probe_and_timeout() {
    if !root() {
        return;
    }
    // Messages that are each alone on their way. The third is lost once, which a tail-loss
    // probe mends; the fourth is lost three times, which takes a timeout.
    let stream = "stream --bytes 5000 --write-size 1000 --pause-us 1300000";
    let lost = lose(&[2..3, 4..7], stream);
    assert_eq!(lost.again, 4);
    let (probes, timeouts) = (lost.netstat["TCPLossProbes"], lost.netstat["TCPTimeouts"]);
    assert!(probes >= 1 && timeouts >= 1, "{:?}", lost.netstat);
    assert_eq!(lost.events(TcpEventKind::TailLossProbe), probes);
    assert_eq!(lost.events(TcpEventKind::TimeoutRetransmit), timeouts);
    let mut all = lost.report.connections().iter();
    let client = all.find(|c| c["role"] == "client");
    let client = client.expect("the client");
    assert_eq!(number(client, "/totals/timeouts"), timeouts);
    assert_eq!(number(client, "/totals/tail_loss_probes"), probes);
}
