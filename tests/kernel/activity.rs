//! The flight recorder keeps the moments of slow messages, whole and exact, and little else.

use std::collections::BTreeMap;

use probe::clock::monotonic_ns;
use serde_json::{Value, json};
use table::Why;
use table::tables::{Activity, ActivityWindow, ReceivedMessage};

use testbed::report::{Report, number};
use testbed::{Recorder, finish, record_command, root, whylat, write_source};

const MOMENTS: &str = include_str!("programs/moments.py");
/// As in the program.
const MARKS: usize = 13;
/// Holds what two CPUs do in ten seconds and more, whatever runs beside the test.
const MEMORY: &str = "memory=256M";

/// Runs it with `messages` messages; what it says of those that it held up, and the recording.
fn recorded(messages: &str, keep: &[&str]) -> (Vec<Value>, Report) {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = write_source(scratch.path(), "moments.py", MOMENTS);
    let options = [&["--detail", "messages"], keep].concat();
    let (report, truth) = record_command(scratch, &options, &["python3", &source, messages]);
    report.assert_whole();
    (truth, report)
}

/// Spans of a CPU lie within each other as deep as they say, none twice.
fn assert_nested(spans: &[Activity]) {
    let mut by_cpu: BTreeMap<Option<u16>, Vec<&Activity>> = BTreeMap::new();
    for span in spans {
        assert!(span.begin_ns <= span.end_ns, "{span:?}");
        by_cpu.entry(span.cpu).or_default().push(span);
    }
    for spans in by_cpu.values_mut() {
        spans.sort_by_key(|span| (span.begin_ns, span.depth));
        let mut around: Vec<&Activity> = Vec::new();
        for span in spans {
            // one that ends where another begins may be empty, and the other way round
            around.truncate(span.depth.into());
            assert_eq!(around.len(), usize::from(span.depth), "{span:?}");
            if let Some(outer) = around.last() {
                let inside = outer.begin_ns <= span.begin_ns && span.end_ns <= outer.end_ns;
                assert!(inside, "{span:?} in {outer:?}");
            }
            around.push(span);
        }
    }
}

/// How many marks there are of a message that was held up. The edge of what was kept for another message
/// may cut one in two, which end and begin unseen at one time.
fn marks(spans: &[Activity], truth: &Value) -> usize {
    let (begin_ns, end_ns) = (number(truth, "/begin_ns"), number(truth, "/end_ns"));
    let within = spans
        .iter()
        .filter(|span| begin_ns <= span.begin_ns && span.end_ns <= end_ns);
    let own = within.filter(|span| span.tid.map(u64::from) == Some(number(truth, "/tid")));
    let marks = own.filter(|span| span.name.as_deref() == Some("getpgid"));
    let (whole, pieces): (Vec<_>, Vec<_>) =
        marks.partition(|span| span.begin_seen && span.end_seen);
    let first = pieces.iter().filter(|piece| piece.begin_seen);
    let cut = first.filter(|piece| {
        pieces
            .iter()
            .any(|other| other.begin_ns == piece.end_ns && other.end_seen)
    });
    whole.len() + cut.count()
}

#[test]
fn windows_of_slow_messages_are_complete() {
    if !root() {
        return;
    }
    let (truth, report) = recorded("1997", &["--keep", &format!("p95,sample=101,{MEMORY}")]);
    assert_eq!(truth.len(), 39);
    let spans: Vec<Activity> = report.rows();
    let windows: Vec<ActivityWindow> = report.rows();
    let received: Vec<ReceivedMessage> = report.rows();
    assert_nested(&spans);
    // what is slow is known after a while
    for slow in &truth[4..] {
        let (end_ns, offset_end) = (number(slow, "/end_ns"), number(slow, "/offset_end"));
        let of_it = |window: &&ActivityWindow| {
            window.begin_ns <= end_ns && end_ns <= window.end_ns && window.is_send == Some(false)
        };
        let window = windows.iter().filter(of_it);
        let window = window.filter(|window| window.offset_end == Some(offset_end));
        let window = window.collect::<Vec<_>>();
        let [window] = window[..] else {
            panic!("{slow}: {window:?}");
        };
        assert_eq!(window.why, Why::Slow);
        assert_eq!(marks(&spans, slow), MARKS, "{slow}");
    }
    assert!(windows.iter().any(|window| window.why == Why::Sample));
    let all = received.len() * 2;
    assert!(windows.len() * 5 < all, "{} of {all}", windows.len());
    let total_ns: u64 = spans
        .iter()
        .filter(|span| span.depth == 0)
        .map(|span| span.end_ns - span.begin_ns)
        .sum();
    let windows_ns: u64 = windows
        .iter()
        .map(|window| window.end_ns - window.begin_ns)
        .sum();
    assert!(total_ns <= 2 * windows_ns, "of two CPUs at most");
}

#[test]
fn trigger_keeps_every_cpu() {
    if !root() {
        return;
    }
    let (truth, report) = recorded("53", &["--keep", MEMORY, "--trigger", "latency>2ms"]);
    let [slow] = &truth[..] else {
        panic!("{truth:?}");
    };
    let spans: Vec<Activity> = report.rows();
    assert_nested(&spans);
    assert_eq!(marks(&spans, slow), MARKS);
    let windows: Vec<ActivityWindow> = report.rows();
    let offset_end = Some(number(slow, "/offset_end"));
    assert!(windows.iter().any(|window| window.offset_end == offset_end));
    assert!(windows.iter().all(|window| window.why == Why::Trigger));
    // a busy machine may have held up another message first, but everything is kept once
    let all = windows.iter().filter(|window| window.first_cpu.is_none());
    assert_eq!(all.count(), 1, "{windows:?}");
    // and not only the moment of a message: what each CPU did before, idle too
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let moment_ns = number(slow, "/end_ns") - number(slow, "/begin_ns");
    for cpu in 0..cpus as u16 {
        let own = spans.iter().filter(|span| span.cpu == Some(cpu));
        let first_ns = own.clone().map(|span| span.begin_ns).min();
        let last_ns = own.map(|span| span.end_ns).max();
        let length_ns = last_ns.expect("it did something") - first_ns.expect("it did");
        assert!(length_ns > 3 * moment_ns, "CPU {cpu}: {length_ns} ns");
    }
}

#[test]
fn snapshot_keeps_buffered_activity() {
    if !root() {
        return;
    }
    finish(&mut whylat("snapshot --pid 1"))
        .assert_status(1)
        .explains("hint: ");
    let recorder = Recorder::start(&format!("--all --detail messages --keep p99,{MEMORY}"));
    let tid = nix::unistd::gettid().as_raw().cast_unsigned();
    let begin_ns = monotonic_ns();
    for _ in 0..MARKS {
        nix::unistd::getpgid(None).expect("it never fails");
    }
    let output = finish(whylat("snapshot --pid").arg(recorder.pid().to_string()));
    output.assert_status(0);
    assert!(output.out.contains(" spans of "), "{}", output.out);
    let end_ns = monotonic_ns();
    let report = recorder.stop();
    let windows: Vec<ActivityWindow> = report.rows();
    let snapshot = windows.iter().filter(|window| window.why == Why::Snapshot);
    assert_eq!(snapshot.count(), 1);
    let truth = json!({"begin_ns": begin_ns, "end_ns": end_ns, "tid": tid});
    let spans: Vec<Activity> = report.rows();
    assert_nested(&spans);
    assert_eq!(marks(&spans, &truth), MARKS);
}
