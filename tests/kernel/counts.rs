//! The counts are exact: calls, bytes, stream offsets and connections of workloads that know
//! their own (prime) numbers.

use std::collections::{BTreeMap, HashSet};

use lab::Netns;
use serde_json::Value;
use table::tables::Call;

use testbed::report::{Report, number};
use testbed::{Recorder, Site, finish, program, role, root};

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
    finish(&mut command).assert_status(0);
    let truth = std::fs::read_to_string(&truth).expect("truth");
    (
        Report::from_scratch(scratch),
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
fn every_call_and_byte_is_counted() {
    if root() {
        assert_every_call(false);
    }
}

#[test]
fn every_call_of_open_sockets_is_counted() {
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
        for (calls, direction) in [(sends, "send"), (receives, "recv")] {
            let want = |key| number(end, &format!("/{direction}/{key}"));
            assert_eq!(
                calls.len() as u64,
                want("calls"),
                "{direction} calls of {end}"
            );
            let again = calls.iter().filter(|call| call.result == EAGAIN).count();
            assert_eq!(again as u64, want("again"), "{direction} EAGAIN of {end}");
            let moved = calls.iter().filter(|call| call.result > 0).count();
            assert_eq!(moved as u64, want("moved"), "{direction} of {end}");
            assert_contiguous(&calls, want("bytes"));
        }
    }
    assert_eq!(number(&truth, "/send_calls"), 3 * 1009);
}

#[test]
fn every_short_connection_is_counted() {
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
