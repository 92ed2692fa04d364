//! How fast slow messages are explained: messages of a server on two CPUs, each with a hundred nested spans of what
//! its CPUs did, in batches, in memory; the slowest 1 %, or all, against the fifth in the middle. Prints
//! CPU time and the most memory.
//!
//! ```text
//! cargo run --release -p whylat-diagnose --example tail_speed -- 10000000 50000000
//! ```

use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use table::manifest::Header;
use table::tables::{Activities, Activity, ReceivedMessage, ReceivedMessages};
use table::{ActivityKind, ActivitySource, Columns};
use whylat_diagnose::causes::Categories;
use whylat_diagnose::report::RecordingState;
use whylat_diagnose::tail::{LatencyBand, TailQuery, TailTable};

/// Spans of a message.
const SPANS: u64 = 100;
const BATCH: u64 = 65_536;
const FUNCTIONS: u64 = 997;
/// Time of a message, ns.
const EACH_NS: u64 = 20_000;

fn header() -> Header {
    let header = json!({
        "format": 1, "whylat": "", "host": "", "boot_id": "", "kernel": "", "cpus": 2,
        "clocksource": "", "detail": "messages", "arguments": [], "started_ns": 0,
        "started_realtime_ns": 0, "jiffy_ns": 4_000_000,
    });
    serde_json::from_value(header).expect("a header")
}

fn mix_bits(number: u64) -> u64 {
    number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32
}

/// Makes a message; one of a hundred takes three times as long as the others.
fn message(number: u64) -> ReceivedMessage {
    let start_ns = number * 4 * EACH_NS;
    let slow = if number.is_multiple_of(101) { 3 } else { 1 };
    let done_ns = start_ns + slow * EACH_NS + mix_bits(number) % 997;
    let row = json!({
        "done_ns": done_ns, "conn": number % 64, "bytes": 10, "offset_end": 10 * (number / 64 + 1),
        "first_arrival_ns": start_ns, "last_arrival_ns": start_ns, "tcp_ns": start_ns + 1_000,
        "ready_ns": start_ns + 2_000, "copy_ns": done_ns - 1_000, "segments": 1,
        "receive_cpu": 0, "cpu": 1, "tid": 100, "pid": 100,
    });
    table::row_of(row).expect("a row")
}

/// Makes the activity of both CPUs of a message: a softirq, and a thread with nested calls.
fn spans(number: u64, of: &ReceivedMessage, rows: &mut Activities) {
    let start_ns = number * 4 * EACH_NS;
    let step_ns = (of.done_ns - start_ns) / (SPANS - 2);
    let span = |begin_ns, end_ns, depth, kind, name: Option<String>, cpu| Activity {
        begin_ns,
        end_ns,
        depth,
        kind,
        name,
        pid: None,
        tid: Some(100),
        cpu: Some(cpu),
        source: ActivitySource::Tracepoints,
        begin_seen: true,
        end_seen: true,
    };
    let softirq = Some("NET_RX".to_owned());
    rows.push(span(
        start_ns,
        start_ns + 2_500,
        0,
        ActivityKind::Softirq,
        softirq,
        0,
    ));
    rows.push(span(
        start_ns,
        of.done_ns,
        0,
        ActivityKind::Task,
        Some("server".to_owned()),
        1,
    ));
    for index in 0..SPANS - 2 {
        let begin_ns = start_ns + index * step_ns;
        let depth = 1 + (index % 4) as u16;
        let end_ns = begin_ns + (4 - index % 4) * step_ns;
        let name = format!("function_{}", mix_bits(index) % FUNCTIONS);
        let kind = ActivityKind::Function;
        rows.push(span(
            begin_ns,
            end_ns.min(of.done_ns),
            depth,
            kind,
            Some(name),
            1,
        ));
    }
}

/// Returns the CPU time of this thread so far: the first field of `schedstat`.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|field| field.parse().ok());
    Duration::from_nanos(ns.expect("a kernel with schedstat"))
}

/// Returns the largest memory of this process so far, in MB.
fn memory_mb() -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kb.unwrap_or(f64::NAN) / 1e3
}

fn main() {
    let given = std::env::args().skip(1);
    let given: Vec<u64> = given.map(|it| it.parse().expect("spans")).collect();
    let sizes = if given.is_empty() {
        vec![1_000_000, 10_000_000]
    } else {
        given
    };
    for spans in sizes {
        for tail in ["p99", "p0"] {
            measure_tail(spans / SPANS, tail.parse().expect("a band"));
        }
    }
}

/// Times the tail analysis of this many messages, and prints the cost of each.
fn measure_tail(messages: u64, tail: LatencyBand) {
    let question = TailQuery {
        tail,
        ..TailQuery::default()
    };
    let categories = Categories::built_in().expect("rules");
    let mut table = TailTable::new(header(), Rc::default());
    let mut took = Duration::ZERO;
    let mut from = 0;
    while from < messages {
        let (mut received, mut activities) = <(ReceivedMessages, Activities)>::default();
        while from < messages && (activities.len() as u64) < BATCH {
            let message = message(from);
            spans(from, &message, &mut activities);
            received.push(message);
            from += 1;
        }
        let since = cpu_time();
        table.add_received(&received);
        table.add_activities(&activities);
        took += cpu_time() - since;
    }
    let since = cpu_time();
    let tails = table.into_analysis();
    let report = tails.report(question, &categories, RecordingState::default());
    let reported = cpu_time() - since;
    let group = report.groups.first().expect("a group");
    let spans = (messages * SPANS) as f64;
    println!(
        "{messages:>7} messages, {:>4} M spans, tail {tail:<4}: {:.2} s ({:.2} to take them in), {:.1} M spans/s, {:.0} MB; {} explained",
        spans / 1e6,
        (took + reported).as_secs_f64(),
        took.as_secs_f64(),
        spans / (took + reported).as_secs_f64() / 1e6,
        memory_mb(),
        group.explained.len(),
    );
}
