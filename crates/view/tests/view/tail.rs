//! From recorded messages, and what CPUs did meanwhile, to the printed causes of slow ones: the recordings are made
//! here, the answers are in `tests/golden_tail/`. Each rule fires once; none does where all messages are alike;
//! and gaps are reported.
//!
//! After a wanted change of the answers, rewrite them and read the difference:
//!
//! ```text
//! make golden
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use diagnose::Evidence;
use diagnose::recording::TailOptions;
use diagnose::report::SlowMessages;
use diagnose::tail::TailQuery;
use diagnose::tail::report::TailReport;
use serde_json::{Value, json};
use table::manifest::Header;
use table::tables::{
    Activities, Activity, Process, Processes, ReceivedMessage, ReceivedMessages, Wait, Waits,
};
use table::{Columns, Recording, row_of};
use tempfile::TempDir;
use whylat_view as view;
use whylat_view::TextOptions;

use crate::fixture::{Outcome, abridged, document, expect, recording, write_rows};

/// The application core, and that of the kernel's part.
const CPU: u16 = 0;
const KERNEL_CPU: u16 = 1;
const SERVER: u32 = 7;
/// Another program; the kernel's core receives its messages, too.
const CROWD: u32 = 88;
const BEGIN_NS: u64 = 1_000_000;

/// A recording of a server's received messages, one after the other.
#[derive(Default)]
struct Made {
    received: ReceivedMessages,
    waits: Waits,
    activities: Activities,
    now_ns: u64,
    keeps: bool,
}

impl Made {
    /// Begins a recording without messages.
    fn new() -> Self {
        Self {
            now_ns: BEGIN_NS,
            keeps: true,
            ..Self::default()
        }
    }

    /// Adds CPU activity; without a name the CPU was idle.
    fn span(&mut self, cpu: u16, depth: u16, what: (&str, Option<&str>, u32), times: (u64, u64)) {
        let (kind, name, tid) = what;
        let row = json!({
            "begin_ns": times.0, "end_ns": times.1, "depth": depth, "kind": kind, "name": name,
            "tid": tid, "pid": tid, "cpu": cpu, "source": "tracepoints", "begin_seen": true,
            "end_seen": true,
        });
        if self.keeps {
            self.activities.push(row_of(row).expect("a row"));
        }
    }

    /// Adds a span on the application's CPU from now on; returns its start and end.
    fn on_cpu(&mut self, what: (&str, Option<&str>, u32), length_ns: u64) -> (u64, u64) {
        let times = (self.now_ns, self.now_ns + length_ns);
        self.span(CPU, 0, what, times);
        self.now_ns = times.1;
        times
    }

    /// Adds time in which the server has the CPU, with a call that takes all but 2 µs.
    fn server(&mut self, call: &str, length_ns: u64) {
        let times = self.on_cpu(("task", Some("server"), SERVER), length_ns);
        let call = ("syscall", Some(call), SERVER);
        self.span(CPU, 1, call, (times.0 + 1_000, times.1 - 1_000));
    }

    /// Adds the arrival of a message: the kernel's part of 3 µs, longer by `more_ns`; then the
    /// thread may run.
    fn arrives(&mut self, more_ns: u64) -> Arrival {
        let start_ns = self.now_ns;
        let ready_ns = start_ns + 3_000 + more_ns;
        let task = ("task", Some("client"), 9);
        self.span(KERNEL_CPU, 0, task, (start_ns, ready_ns + 1_000));
        let softirq = ("softirq", Some("NET_RX"), 9);
        self.span(KERNEL_CPU, 1, softirq, (start_ns + 500, ready_ns));
        // the thread's CPU is known all the time
        self.span(CPU, 0, ("idle", None, 0), (start_ns, ready_ns));
        self.now_ns = ready_ns;
        Arrival { start_ns, ready_ns }
    }

    /// Adds the end of a message: the thread has read it.
    fn taken(&mut self, arrived: Arrival, running_ns: Option<u64>) {
        let number = self.received.len() as u64;
        let row = json!({
            "done_ns": self.now_ns, "conn": 1, "bytes": 100, "offset_end": 100 * (number + 1),
            "first_arrival_ns": arrived.start_ns, "last_arrival_ns": arrived.start_ns,
            "tcp_ns": arrived.ready_ns - 1_000, "ready_ns": arrived.ready_ns,
            "woken_ns": running_ns.map(|_| arrived.ready_ns + 200), "running_ns": running_ns,
            "copy_ns": self.now_ns - 1_000, "segments": 1, "receive_cpu": KERNEL_CPU, "cpu": CPU,
            "tid": SERVER, "pid": SERVER,
        });
        self.received.push(row_of(row).expect("a row"));
    }

    /// Adds an arrival as [`Made::arrives`], after a message for another program.
    fn arrives_after(&mut self, other_ns: u64) -> Arrival {
        let arrived = self.arrives(other_ns);
        let (start_ns, ready_ns) = (arrived.start_ns, arrived.start_ns + 500 + other_ns);
        let other = json!({
            "done_ns": ready_ns + 2_000, "conn": 2, "bytes": 100, "offset_end": 100,
            "first_arrival_ns": start_ns, "last_arrival_ns": start_ns, "tcp_ns": ready_ns - 1_000,
            "ready_ns": ready_ns, "copy_ns": ready_ns + 1_000, "segments": 1,
            "receive_cpu": KERNEL_CPU, "cpu": KERNEL_CPU, "tid": CROWD, "pid": CROWD,
        });
        self.received.push(row_of(other).expect("a row"));
        arrived
    }

    /// Adds a message without waits, of 10 µs and a little.
    fn ordinary(&mut self, little_ns: u64) {
        let arrived = self.arrives(0);
        self.delayed(arrived, little_ns, |_| ());
    }

    /// Adds a message that `delay` holds up before its thread runs for 7 µs and a little.
    fn delayed(&mut self, arrived: Arrival, little_ns: u64, delay: impl FnOnce(&mut Self)) {
        delay(self);
        let running_ns = self.now_ns.max(arrived.ready_ns + 300);
        self.server("recvfrom", 7_000 + little_ns);
        self.taken(arrived, Some(running_ns));
        self.pause();
    }

    /// Lets the thread wait 5 µs for the next message.
    fn pause(&mut self) {
        let times = (self.now_ns, self.now_ns + 5_000);
        self.waits("epoll", times);
        self.on_cpu(("idle", None, 0), 5_000);
    }

    /// Adds a wait of the receiving thread.
    fn waits(&mut self, kind: &str, (start_ns, woken_ns): (u64, u64)) {
        let row = json!({
            "start_ns": start_ns, "woken_ns": woken_ns, "end_ns": woken_ns, "tid": SERVER,
            "pid": SERVER, "kind": kind, "waker": "thread", "cpu": CPU, "uninterruptible": false,
        });
        self.waits.push(row_of(row).expect("a row"));
    }

    /// Returns the report on slow messages.
    fn answer(&self) -> Outcome<TailReport> {
        let (_scratch, recording) = self.recorded()?;
        let asked = TailOptions {
            question: Some(TailQuery {
                tail: "p90".parse()?,
                ..TailQuery::default()
            }),
            categories: None,
        };
        Ok(diagnose::recording::explain_tail(&recording, None, &asked)?)
    }

    /// Writes the rows as a recording.
    fn recorded(&self) -> Outcome<(TempDir, Recording)> {
        let mut processes = Processes::default();
        for (pid, comm) in [(SERVER, "server"), (CROWD, "crowd")] {
            let process = json!({"pid": pid, "time_ns": BEGIN_NS, "comm": comm});
            processes.push(row_of::<Process>(process)?);
        }
        let text = tempfile::tempdir()?;
        write_rows::<Process>(text.path(), &processes)?;
        write_rows::<ReceivedMessage>(text.path(), &self.received)?;
        write_rows::<Wait>(text.path(), &self.waits)?;
        write_rows::<Activity>(text.path(), &self.activities)?;
        let close = json!({"ended_ns": self.now_ns, "in_order": true});
        fs::write(text.path().join("close.json"), close.to_string())?;
        let header = serde_json::to_string(&header()?)?;
        fs::write(text.path().join("header.json"), header)?;
        recording(text.path())
    }
}

fn header() -> Outcome<Header> {
    let header = json!({
        "format": 1, "whylat": "0.1.0", "host": "lab", "boot_id": "b", "kernel": "6.18.0",
        "cpus": 2, "clocksource": "tsc", "detail": "messages", "arguments": [],
        "started_ns": BEGIN_NS, "started_realtime_ns": 0, "jiffy_ns": 4_000_000,
    });
    Ok(serde_json::from_value(header)?)
}

/// A message that came.
#[derive(Clone, Copy)]
struct Arrival {
    start_ns: u64,
    ready_ns: u64,
}

/// Makes ninety ordinary messages, and eleven that each wait for something else.
fn every_rule() -> Made {
    let mut made = Made::new();
    (0..90).for_each(|number| made.ordinary(number * 3));
    let neighbour = ("task", Some("neighbour"), 55);
    for _ in 0..2 {
        let arrived = made.arrives(0);
        made.delayed(arrived, 0, |it| {
            it.on_cpu(neighbour, 200_000);
        });
    }
    let arrived = made.arrives(0);
    made.delayed(arrived, 0, |it| {
        it.on_cpu(("idle", None, 0), 90_000);
    });
    let arrived = made.arrives(0);
    let whylat = ("task", Some("whylat"), 66);
    made.delayed(arrived, 0, |it| {
        it.on_cpu(whylat, 80_000);
    });
    let arrived = made.arrives(70_000);
    made.delayed(arrived, 0, |_| ());
    let arrived = made.arrives_after(65_000);
    made.delayed(arrived, 0, |_| ());
    let arrived = made.arrives(0);
    made.delayed(arrived, 0, |it| it.server("read", 60_000));
    let arrived = made.arrives(0);
    made.delayed(arrived, 0, |it| it.server("no_such_call", 50_000));
    let arrived = made.arrives(0);
    made.delayed(arrived, 0, |it| {
        it.server("futex", 3_000);
        let times = it.on_cpu(("idle", None, 0), 100_000);
        it.waits("futex", times);
    });
    // two come while the thread is at another
    let first = made.arrives(0);
    let second = made.arrives(0);
    made.server("recvfrom", 7_000);
    made.taken(first, Some(first.ready_ns + 300));
    made.server("write", 120_000);
    made.server("recvfrom", 7_000);
    made.taken(second, None);
    made.pause();
    made
}

/// Makes a hundred messages of equal duration.
fn all_alike() -> Made {
    let mut made = Made::new();
    (0..100).for_each(|_| made.ordinary(0));
    made
}

/// Makes messages with CPU activity recorded for a slow one only.
fn no_ordinary() -> Made {
    let mut made = Made::new();
    made.keeps = false;
    (0..99).for_each(|number| made.ordinary(number));
    made.keeps = true;
    let arrived = made.arrives(0);
    let neighbour = ("task", Some("neighbour"), 55);
    made.delayed(arrived, 0, |it| {
        it.on_cpu(neighbour, 200_000);
    });
    made
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden_tail")
}

#[test]
fn answers_match_golden_files() -> Outcome {
    let mut wrong = Vec::new();
    let schema = root().join("../../docs/tail.schema.json");
    let schema: Value = document(&schema)?.ok_or("the schema is missing")?;
    for (name, made, most) in [
        ("every_rule", every_rule(), 1),
        ("all_alike", all_alike(), 4),
        ("no_ordinary", no_ordinary(), 4),
    ] {
        let report = made.answer()?;
        let text = view::tail_text(&report, 20, &TextOptions::default());
        wrong.extend(expect(&root().join(format!("{name}.txt")), &text)?);
        let json = view::json(&report);
        let short = abridged(&json, most)?;
        wrong.extend(expect(&root().join(format!("{name}.json")), &short)?);
        let faults = crate::schema::validate(&schema, &serde_json::from_str(&json)?);
        assert!(faults.is_empty(), "{name}:\n{}", faults.join("\n"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

#[test]
fn every_tail_rule_fires() -> Outcome {
    let report = serde_json::to_value(every_rule().answer()?)?;
    let causes = report["groups"][0]["causes"].as_array().ok_or("causes")?;
    for rule in [
        "cpu_contention",
        "idle_wakeup",
        "probe_overhead",
        "softirq_delay",
        "receive_interference",
        "slow_function",
        "unknown_function",
        "blocked_in_call",
        "head_of_line_blocking",
    ] {
        let first = causes
            .iter()
            .filter(|cause| cause["rule"] == rule && cause["first"].as_u64() > Some(0));
        assert_eq!(first.count(), 1, "{rule}: {causes:#?}");
    }
    Ok(())
}

/// Makes a server with ten slow messages that waited 20 ms for a neighbour: half of the time of all.
fn starved() -> Made {
    let mut made = Made::new();
    (0..90).for_each(|number| made.ordinary(number * 3));
    for _ in 0..10 {
        let arrived = made.arrives(0);
        made.delayed(arrived, 0, |it| {
            it.on_cpu(("task", Some("neighbour"), 55), 20_000_000);
        });
    }
    made
}

#[test]
fn costly_slow_messages_are_in_report() -> Outcome {
    let schema = root().join("../../docs/report.schema.json");
    let schema: Value = document(&schema)?.ok_or("the schema is missing")?;
    let mut wrong = Vec::new();
    for (name, made) in [("starved", starved()), ("calm", every_rule())] {
        let evidence = Evidence::new(header()?, Vec::new(), Vec::new(), None, None, Vec::new());
        let mut report = diagnose::diagnose(evidence);
        report.slow_messages = Some(SlowMessages::from_report(&made.answer()?));
        let text = view::text(&report, &TextOptions::default());
        wrong.extend(expect(&root().join(format!("{name}.report.txt")), &text)?);
        let faults = crate::schema::validate(&schema, &serde_json::from_str(&view::json(&report))?);
        assert!(faults.is_empty(), "{name}:\n{}", faults.join("\n"));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}
