//! Properties of any recording: causes never explain more than there is, neither the order of the rows nor the
//! time of day changes an answer, and what cannot be judged is causes not to be.

use proptest::prelude::*;
use serde_json::{Value, json};
use table::tables::{Activity, ReceivedMessage, Wait};
use table::{Columns, row_of};

use std::rc::Rc;

use super::report::TailReport;
use super::{TailQuery, TailTable};
use crate::causes::Categories;
use crate::report::RecordingState;
use crate::waits::NameTable;

/// Rows of a small recording.
#[derive(Debug, Clone, Default)]
struct Rows {
    received: Vec<ReceivedMessage>,
    activities: Vec<Activity>,
    waits: Vec<Wait>,
}

fn header(started_ns: u64) -> table::manifest::Header {
    let header = json!({
        "format": 1, "whylat": "", "host": "", "boot_id": "", "kernel": "", "cpus": 2,
        "clocksource": "", "detail": "messages", "arguments": [], "started_ns": started_ns,
        "started_realtime_ns": 0, "jiffy_ns": 4_000_000,
    });
    serde_json::from_value(header).expect("a header")
}

/// Returns the groups of the report as JSON.
fn answer(rows: &Rows, started_ns: u64, question: TailQuery) -> Value {
    serde_json::to_value(report(rows, started_ns, question).groups).expect("JSON")
}

fn report(rows: &Rows, started_ns: u64, question: TailQuery) -> TailReport {
    let categories = Categories::built_in().expect("rules");
    let mut table = TailTable::new(header(started_ns), Rc::default());
    // in batches, as from a file
    for row in &rows.received {
        let mut batch = table::tables::ReceivedMessages::default();
        batch.push(row.clone());
        table.add_received(&batch);
    }
    let (mut waits, mut activities) =
        <(table::tables::Waits, table::tables::Activities)>::default();
    rows.waits.iter().for_each(|row| waits.push(row.clone()));
    rows.activities
        .iter()
        .for_each(|row| activities.push(row.clone()));
    table.add_waits(&waits);
    table.add_activities(&activities);
    table
        .into_analysis()
        .report(question, &categories, RecordingState::default())
}

fn message(number: u64, start_ns: u64, done_ns: u64) -> ReceivedMessage {
    let mut row = json!({
        "done_ns": done_ns, "conn": 1, "bytes": 1, "offset_end": number + 1,
        "first_arrival_ns": start_ns, "last_arrival_ns": start_ns, "tcp_ns": start_ns + 10,
        "ready_ns": start_ns + 20, "copy_ns": done_ns - 10, "segments": 1,
        "receive_cpu": 1, "cpu": 0, "tid": 7, "pid": 7,
    });
    row["woken_ns"] = json!(start_ns + 30);
    row["running_ns"] = json!(start_ns + 40);
    row_of(row).expect("a row")
}

fn span(kind: &str, name: &str, tid: u32, depth: u16, times: (u64, u64)) -> Activity {
    let row = json!({
        "begin_ns": times.0, "end_ns": times.1, "depth": depth, "kind": kind, "name": name,
        "tid": tid, "pid": tid, "cpu": 0, "source": "tracepoints", "begin_seen": true,
        "end_seen": true,
    });
    row_of(row).expect("a row")
}

/// Parts of a message's time on its thread's CPU: who has it, how long, and calls within.
type Part = (u8, u64, Vec<u64>);

/// Adds a message that takes as long as its parts, and the activity of its CPU; returns its end.
fn put(rows: &mut Rows, number: u64, begin_ns: u64, parts: &[Part]) -> u64 {
    let mut now_ns = begin_ns;
    rows.activities.push(Activity {
        cpu: Some(1),
        ..span("softirq", "NET_RX", 0, 0, (begin_ns, begin_ns + 20))
    });
    for (who, length_ns, calls) in parts {
        let end_ns = now_ns + length_ns;
        let (tid, name) = [(7, "server"), (8, "neighbour"), (9, "kworker")][usize::from(*who)];
        let thread = span("task", name, tid, 0, (now_ns, end_ns));
        rows.activities.push(thread);
        let each_ns = length_ns / (calls.len() as u64 + 1);
        for (index, call) in calls.iter().enumerate() {
            let at_ns = now_ns + index as u64 * each_ns;
            let name = ["recvfrom", "sendto", "epoll_wait", "no_such_call"][*call as usize];
            let outer = (at_ns, at_ns + each_ns);
            rows.activities.push(span("syscall", name, tid, 1, outer));
            let inner = (at_ns, at_ns + each_ns / 2);
            rows.activities
                .push(span("function", "tcp_v4_rcv", tid, 2, inner));
        }
        now_ns = end_ns;
    }
    rows.received.push(message(number, begin_ns, now_ns));
    now_ns
}

/// Generates one to several parts of a message.
fn parts() -> impl Strategy<Value = Vec<Part>> {
    let calls = prop::collection::vec(0_u64..4, 0..3);
    let part = (0_u8..3, 1_000_u64..20_000, calls);
    prop::collection::vec(part, 1..5)
}

/// Generates rows of messages with activities.
fn rows() -> impl Strategy<Value = Rows> {
    prop::collection::vec((parts(), 0_u64..500), 10..40).prop_map(|messages| {
        let (mut rows, mut now_ns) = (Rows::default(), 1_000_000);
        for (number, (parts, pause_ns)) in messages.iter().enumerate() {
            now_ns = put(&mut rows, number as u64, now_ns + pause_ns, parts);
        }
        rows
    })
}

/// Makes the query for nearly all messages: those above p10.
fn everything() -> TailQuery {
    TailQuery {
        tail: "p10".parse().expect("a band"),
        ..TailQuery::default()
    }
}

proptest! {
    #[test]
    fn causes_explain_at_most_the_deviation(rows in rows()) {
        let groups = answer(&rows, 0, everything());
        for message in groups[0]["explained"].as_array().expect("messages") {
            let causes = message["causes"].as_array().expect("causes").iter();
            let explained: f64 = causes.map(|it| it["ns"].as_f64().expect("ns")).sum();
            let deviation = message["deviation_ns"].as_f64().expect("ns").max(0.0);
            prop_assert!(explained <= deviation * 1.000_001 + 1.0, "{}", message);
            let covered = message["covered"].as_f64().expect("a share");
            prop_assert!((0.0..=1.0).contains(&covered));
        }
    }

    #[test]
    fn row_order_does_not_matter(rows in rows(), turn in any::<prop::sample::Index>()) {
        let mut other = rows.clone();
        let turn_by = turn.index(rows.received.len());
        other.received.rotate_left(turn_by);
        other.received.swap(0, turn_by);
        other.activities.reverse();
        prop_assert_eq!(answer(&rows, 0, everything()), answer(&other, 0, everything()));
    }

    #[test]
    fn a_later_clock_gives_the_same_answer(rows in rows(), later_ns in 1_u64..1 << 50) {
        let mut other = rows.clone();
        for row in &mut other.received {
            row.done_ns += later_ns;
            let stamps = [
                &mut row.first_arrival_ns, &mut row.last_arrival_ns, &mut row.tcp_ns,
                &mut row.ready_ns, &mut row.woken_ns, &mut row.running_ns, &mut row.copy_ns,
            ];
            for stamp in stamps {
                *stamp = stamp.map(|ns| ns + later_ns);
            }
        }
        for row in &mut other.activities {
            row.begin_ns += later_ns;
            row.end_ns += later_ns;
        }
        prop_assert_eq!(answer(&rows, 0, everything()), answer(&other, later_ns, everything()));
    }
}

/// Makes a hundred ordinary messages, and one with the parts `slow`.
fn one_slow(slow: &[Part]) -> Rows {
    let (mut rows, mut now_ns) = (Rows::default(), 1_000_000);
    for number in 0..100 {
        let ordinary = [(0, 5_000 + number * 10, vec![1])];
        now_ns = put(&mut rows, number, now_ns + 100, &ordinary);
    }
    put(&mut rows, 100, now_ns + 100, slow);
    rows
}

/// Returns rule and name of the first cause; demands that one message is slow.
fn first_cause(rows: &Rows) -> (Value, Value) {
    let group = &answer(rows, 0, TailQuery::default())[0];
    assert_eq!(group["tail"]["kept"], 1, "{group:#}");
    let cause = &group["causes"][0];
    (cause["rule"].clone(), cause["what"].clone())
}

/// Returns the depths of the spans that explain the slow message.
fn explaining(rows: &Rows) -> Vec<u16> {
    let report = report(rows, 0, TailQuery::default());
    let spans = report.groups[0].explained[0].spans.iter();
    spans.map(|it| it.span.depth).collect()
}

#[test]
fn neighbour_is_named_whatever_it_runs() {
    let rows = one_slow(&[(1, 90_000, vec![2, 3]), (0, 5_000, vec![1])]);
    assert_eq!(explaining(&rows), [0], "the calls in it do not");
    assert_eq!(
        first_cause(&rows),
        (json!("cpu_contention"), json!("neighbour"))
    );
}

#[test]
fn parent_not_blamed_when_child_explains() {
    let mut rows = one_slow(&[(0, 5_000, vec![1])]);
    let last = rows.received.last_mut().expect("the slow one");
    last.done_ns += 90_000;
    last.copy_ns = Some(last.done_ns - 10);
    let end_ns = last.done_ns;
    let of_slow = rows.activities.len() - 3;
    for (span, before_ns) in rows.activities[of_slow..].iter_mut().zip([0, 100, 200]) {
        span.end_ns = end_ns - before_ns;
    }
    assert_eq!(explaining(&rows), [2], "the call around it does not");
    assert_eq!(
        first_cause(&rows),
        (json!("slow_function"), json!("receive processing"))
    );
}

#[test]
fn nothing_is_judged_without_ordinary_messages() {
    let mut rows = one_slow(&[(1, 90_000, Vec::new()), (0, 5_000, vec![1])]);
    let slow_ns = rows.received[100].first_arrival_ns.expect("it arrived");
    rows.activities.retain(|span| span.begin_ns >= slow_ns);
    let group = &answer(&rows, 0, TailQuery::default())[0];
    assert_eq!(group["body"]["kept"], 0);
    assert_eq!(group["tail"]["kept"], 1);
    assert_eq!(group["causes"], json!([]));
    assert_eq!(group["covered"], Value::Null);
}

#[test]
fn single_message_has_no_cause() {
    let mut rows = Rows::default();
    put(&mut rows, 0, 1_000_000, &[(0, 5_000, vec![1])]);
    let group = &answer(&rows, 0, TailQuery::default())[0];
    assert_eq!(
        (&group["messages"], &group["causes"]),
        (&json!(1), &json!([]))
    );
}

#[test]
fn unrecorded_time_explains_nothing() {
    let mut rows = one_slow(&[(1, 90_000, Vec::new()), (0, 5_000, vec![1])]);
    let gap = rows.activities.iter_mut().find(|span| span.tid == Some(8));
    let gap = gap.expect("the neighbour");
    gap.kind = table::ActivityKind::Untraced;
    gap.tid = None;
    // its start is known
    gap.begin_ns += 1_000;
    let first = span(
        "task",
        "neighbour",
        8,
        0,
        (gap.begin_ns - 1_000, gap.begin_ns),
    );
    rows.activities.push(first);
    let group = &answer(&rows, 0, TailQuery::default())[0];
    let covered = group["covered"]["least"].as_f64().expect("a share");
    assert!(covered < 0.05, "{covered}");
}

#[test]
fn unknown_function_is_named_but_explains_nothing() {
    let rows = one_slow(&[(0, 90_000, vec![3, 3, 3])]);
    let group = &answer(&rows, 0, TailQuery::default())[0];
    let covered = group["covered"]["least"].as_f64().expect("a share");
    assert!(covered < 0.7, "{group:#}");
    let rules = group["causes"].as_array().expect("causes");
    let unknown = rules.iter().find(|it| it["rule"] == "unknown_function");
    assert_eq!(unknown.expect("it is named")["what"], "no_such_call()");
}

/// The slow message of [`one_slow`] loses CPU 0 after 1 µs, to the kernel's thread or to a neighbour, and runs on CPU 1
/// from 51 µs on; at 5 µs it was moved there. CPU 1 was idle until 31 µs, then a neighbour had it, until a softirq
/// interrupted.
fn moved(to: (&str, u32)) -> Rows {
    let mut rows = one_slow(&[(0, 1_000, Vec::new()), (0, 54_000, Vec::new())]);
    let begin_ns = rows.received[100].first_arrival_ns.expect("it arrived");
    let at = |ns| begin_ns + ns;
    rows.activities.pop();
    rows.activities
        .push(span("task", to.0, to.1, 0, (at(1_000), at(5_100))));
    let mut others = vec![
        span("migration", "server", 7, 1, (at(5_000), at(5_000))),
        span("idle", "", 0, 0, (at(0), at(31_000))),
        span("task", "neighbour", 8, 0, (at(31_000), at(51_000))),
        span("syscall", "sendto", 8, 1, (at(35_000), at(50_000))),
        span("softirq", "NET_RX", 8, 2, (at(40_000), at(45_000))),
        span("irq", "timer", 8, 3, (at(41_000), at(42_000))),
        span("task", "server", 7, 0, (at(51_000), at(55_000))),
    ];
    others[1..].iter_mut().for_each(|it| it.cpu = Some(1));
    rows.activities.extend(others);
    rows.received[100].cpu = 1;
    rows
}

/// Returns the rule and the µs of each cause of the slow message.
fn causes(rows: &Rows) -> Vec<(Value, u64)> {
    let group = &answer(rows, 0, TailQuery::default())[0];
    let message = &group["explained"][0];
    let causes = message["causes"].as_array().expect("causes").iter();
    let rule = |it: &Value| {
        let number = it["cause"].as_u64().expect("a cause") as usize;
        group["causes"][number]["rule"].clone()
    };
    let us = |it: &Value| (it["ns"].as_f64().expect("ns") / 1e3).round() as u64;
    causes.map(|it| (rule(it), us(it))).collect()
}

#[test]
fn preempted_thread_waits_for_migration() {
    // 50 µs, but for the softirq
    let expected = [(json!("migration"), 45), (json!("softirq_delay"), 5)];
    assert_eq!(causes(&moved(("migration/0", 17))), expected);
}

#[test]
fn waiting_thread_migrates_to_idle_cpu() {
    let expected = [
        (json!("migration"), 26),
        (json!("cpu_contention"), 19),
        (json!("softirq_delay"), 5),
    ];
    assert_eq!(causes(&moved(("neighbour", 8))), expected);
}

/// The slow message of [`one_slow`] comes 50 µs before it is handed to its socket, on CPU 1; in 40 µs of them that
/// receives a message of another process, or of the same.
fn received_after(pid: u32) -> Rows {
    let mut rows = one_slow(&[(0, 5_000, vec![1])]);
    let slow = rows.received.pop().expect("the slow one");
    let start_ns = slow.first_arrival_ns.expect("it arrived");
    let later = |ns: Option<u64>| ns.map(|ns| ns + 50_000);
    let softirq = rows.activities.iter_mut().rfind(|span| span.cpu == Some(1));
    softirq.expect("its own").end_ns += 50_000;
    for span in rows.activities.iter_mut().rev().take(3) {
        if span.cpu == Some(0) {
            span.begin_ns += 50_000;
            span.end_ns += 50_000;
        }
    }
    rows.activities
        .push(span("idle", "", 0, 0, (start_ns, start_ns + 50_000)));
    let other = message(500, start_ns - 1_000, start_ns + 46_000);
    rows.received.push(ReceivedMessage {
        conn: 2,
        pid,
        tid: pid,
        last_arrival_ns: Some(start_ns + 5_000),
        tcp_ns: Some(start_ns + 6_000),
        ready_ns: Some(start_ns + 45_000),
        woken_ns: None,
        running_ns: None,
        ..other
    });
    rows.received.push(ReceivedMessage {
        done_ns: slow.done_ns + 50_000,
        tcp_ns: later(slow.tcp_ns),
        ready_ns: later(slow.ready_ns),
        woken_ns: later(slow.woken_ns),
        running_ns: later(slow.running_ns),
        copy_ns: later(slow.copy_ns),
        ..slow
    });
    rows
}

/// Returns rule, name and µs of each cause in the group of process 7.
fn causes_of_slowest(rows: &Rows) -> Vec<(Value, Value, u64)> {
    let mut names = NameTable::default();
    let mut processes = table::tables::Processes::default();
    for (pid, comm) in [(7, "server"), (8, "crowd")] {
        let process = json!({"pid": pid, "time_ns": 0, "comm": comm});
        processes.push(row_of(process).expect("a row"));
    }
    names.add_processes(&processes);
    let categories = Categories::built_in().expect("rules");
    let mut table = TailTable::new(header(0), names.complete());
    let (mut received, mut activities) =
        <(table::tables::ReceivedMessages, table::tables::Activities)>::default();
    rows.received
        .iter()
        .for_each(|row| received.push(row.clone()));
    rows.activities
        .iter()
        .for_each(|row| activities.push(row.clone()));
    table.add_received(&received);
    table.add_activities(&activities);
    let tails = table.into_analysis();
    let report = tails.report(TailQuery::default(), &categories, RecordingState::default());
    let report = serde_json::to_value(report.groups).expect("JSON");
    let groups = report.as_array().expect("groups").iter();
    let group = groups
        .clone()
        .find(|group| group["application"] == "server");
    let group = group.expect("the server's");
    let causes = group["explained"][0]["causes"]
        .as_array()
        .expect("causes")
        .iter();
    let parts = |it: &Value| {
        let cause = &group["causes"][it["cause"].as_u64().expect("a cause") as usize];
        let us = (it["ns"].as_f64().expect("ns") / 1e3).round() as u64;
        (cause["rule"].clone(), cause["what"].clone(), us)
    };
    causes.map(parts).collect()
}

#[test]
fn receiving_for_others_is_interference() {
    let expected = [
        (
            json!("receive_interference"),
            json!("messages for crowd"),
            40,
        ),
        (json!("softirq_delay"), json!("receive processing"), 10),
    ];
    assert_eq!(causes_of_slowest(&received_after(8)), expected);
}

#[test]
fn earlier_messages_of_the_program_are_its_queue() {
    let expected = [
        (
            json!("head_of_line_blocking"),
            json!("other messages first"),
            40,
        ),
        (json!("softirq_delay"), json!("receive processing"), 10),
    ];
    assert_eq!(causes_of_slowest(&received_after(7)), expected);
}

#[test]
fn receiving_for_others_on_the_application_core_is_interference() {
    let mut rows = one_slow(&[(0, 95_000, Vec::new())]);
    let slow = rows.received.last().expect("the slow one").clone();
    let at = |ns: u64| slow.first_arrival_ns.map(|start_ns| start_ns + ns);
    let of = |ns: u64| at(ns).expect("it arrived");
    rows.activities
        .push(span("softirq", "NET_RX", 7, 1, (of(20_000), of(80_000))));
    for (conn, pid, ready_ns) in [(2, 8, of(50_000)), (3, 7, of(70_000))] {
        rows.received.push(ReceivedMessage {
            conn,
            pid,
            // another thread takes it
            tid: 10 * pid,
            receive_cpu: Some(0),
            last_arrival_ns: at(20_000),
            tcp_ns: at(20_500),
            ready_ns: Some(ready_ns),
            woken_ns: None,
            running_ns: None,
            ..message(600, of(20_000), of(75_000))
        });
    }
    let causes = causes_of_slowest(&rows);
    assert!(
        causes.contains(&(
            json!("receive_interference"),
            json!("messages for crowd"),
            30
        )),
        "{causes:?}"
    );
    assert!(
        causes.contains(&(json!("softirq_delay"), json!("receive processing"), 30)),
        "{causes:?}"
    );
}
