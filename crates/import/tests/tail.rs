//! Imported Intel PT traces as what the CPU did while messages were slow: their functions explain them.

mod common;
mod data;

use std::rc::Rc;

use common::{check, rows};
use data::sample;
use diagnose::causes::Categories;
use diagnose::report::RecordingState;
use diagnose::tail::{LatencyBand, TailQuery, TailTable};
use serde_json::{Value, json};
use table::tables::{Activities, Activity, ReceivedMessage, ReceivedMessages};
use table::{Columns, row_of};

/// Messages without anything but their thread, and how long each takes.
const ORDINARY: u64 = 101;
const ORDINARY_NS: u64 = 101;
/// Before the trace, so that they do not meet it.
const BETWEEN_NS: u64 = 10_007;

fn header() -> table::manifest::Header {
    let header = json!({
        "format": 1, "whylat": "", "host": "", "boot_id": "", "kernel": "", "cpus": 2,
        "clocksource": "", "detail": "messages", "arguments": [], "started_ns": 0,
        "started_realtime_ns": 0, "jiffy_ns": 4_000_000,
    });
    serde_json::from_value(header).expect("a header")
}

/// Makes a message that a thread takes on CPU 0 at once, and the thread's activity.
fn message(number: u64, tid: u32, (start_ns, done_ns): (u64, u64)) -> (ReceivedMessage, Activity) {
    let row = json!({
        "done_ns": done_ns, "conn": 1, "bytes": 1, "offset_end": number + 1,
        "first_arrival_ns": start_ns, "last_arrival_ns": start_ns, "tcp_ns": start_ns,
        "ready_ns": start_ns, "copy_ns": start_ns, "segments": 1,
        "receive_cpu": 1, "cpu": 0, "tid": tid, "pid": tid,
    });
    let task = json!({
        "begin_ns": start_ns, "end_ns": done_ns, "depth": 0, "kind": "task", "name": "server",
        "tid": tid, "pid": tid, "cpu": 0, "source": "intel_pt", "begin_seen": true,
        "end_seen": true,
    });
    (
        row_of(row).expect("a message"),
        row_of(task).expect("a span"),
    )
}

/// Returns the explanation of a message that lasts as long as a trace, beside ordinary ones.
fn explained(file: &str) -> Option<Value> {
    let imported = whylat_import::read_perf(&sample(file)?).expect("a branch trace");
    check(&imported);
    let spans: Vec<Activity> = rows(&imported);
    let begin_ns = spans.iter().map(|span| span.begin_ns).min().expect("spans");
    let end_ns = spans.iter().map(|span| span.end_ns).max().expect("spans");
    let tid = spans.iter().find_map(|span| span.tid).expect("a thread");
    let mut received = ReceivedMessages::default();
    let mut activities = Activities::default();
    let mut put = |(message, task): (ReceivedMessage, Activity)| {
        received.push(message);
        activities.push(task);
    };
    for number in 0..ORDINARY {
        let start_ns = begin_ns - (ORDINARY - number) * BETWEEN_NS;
        put(message(number, tid, (start_ns, start_ns + ORDINARY_NS)));
    }
    put(message(ORDINARY, tid, (begin_ns, end_ns)));
    // all of it on the message's CPU, within its thread
    for span in spans {
        let depth = span.depth + 1;
        activities.push(Activity {
            cpu: Some(0),
            tid: Some(tid),
            depth,
            ..span
        });
    }
    let question = TailQuery {
        tail: "p99.5".parse::<LatencyBand>().expect("a band"),
        ..TailQuery::default()
    };
    let categories = Categories::built_in().expect("rules");
    let mut table = TailTable::new(header(), Rc::default());
    table.add_received(&received);
    table.add_activities(&activities);
    let tails = table.into_analysis();
    let report = tails.report(question, &categories, RecordingState::default());
    let report = serde_json::to_value(report.groups).expect("JSON");
    Some(report[0].clone())
}

#[test]
fn page_fault_explains_slow_message() {
    let Some(group) = explained("magic-trace/page_fault.perf") else {
        return;
    };
    let message = &group["explained"][0];
    assert!(
        message["covered"].as_f64().expect("a share") >= 0.69,
        "{message:#}"
    );
    let first = message["causes"][0]["cause"].as_u64().expect("a cause") as usize;
    assert_eq!(group["causes"][first]["category"], "paging", "{group:#}");
}

#[test]
fn unknown_functions_are_named() {
    let Some(group) = explained("magic-trace/ocaml_demo_sampling.perf") else {
        return;
    };
    let message = &group["explained"][0];
    assert_eq!(message["covered"], 0.0, "{message:#}");
    let causes = group["causes"].as_array().expect("causes");
    let is_unknown = |cause: &Value| cause["rule"] == "unknown_function";
    assert!(
        !causes.is_empty() && causes.iter().all(is_unknown),
        "{group:#}"
    );
    assert!(causes.iter().any(|cause| cause["what"] == "memmove@plt()"));
}
