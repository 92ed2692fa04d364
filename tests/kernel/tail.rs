//! Why slow messages are slow: what a test plants is the first cause of the messages that it hits.

use std::process::Command;

use serde_json::Value;
use table::tables::ReceivedMessage;

use crate::harness::{finish, program, root, whylat};
use crate::report::{Report, number};

/// Of the messages hit, those whose first cause is to be the one planted (the issue's own bar), %.
const RIGHT_PERCENT: usize = 95;

/// A reader whose messages are slow for a reason, recorded.
struct Planted {
    report: Report,
    /// When each slow receive call began and ended.
    calls: Vec<(u64, u64)>,
}

fn record(kind: &str) -> Planted {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("slow_messages.c");
    std::fs::write(&source, include_str!("programs/slow_messages.c")).expect("the source");
    let binary = scratch.path().join("slow_messages");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-pthread", "-o"]).arg(&binary);
    finish(compiler.arg(&source)).ended(0);
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "messages"]);
    run.args(["--keep", "p90,sample=7", "--output"]);
    run.arg(scratch.path().join("r.whylat"));
    run.args(["--", "sh", "-c", "exec \"$@\" > \"$0\""]);
    run.arg(scratch.path().join("truth"));
    finish(run.arg(&binary).arg(kind)).ended(0);
    let report = Report::of(scratch);
    report.assert_whole();
    let truth = std::fs::read_to_string(report.beside("truth")).expect("its account");
    let calls = truth.lines().map(|line| {
        let call: Value = serde_json::from_str(line).expect("JSON");
        (number(&call, "/begin_ns"), number(&call, "/end_ns"))
    });
    Planted {
        calls: calls.collect(),
        report,
    }
}

impl Planted {
    /// Asserts that a rule is the first cause of the messages hit, and that these are explained.
    fn assert_named(&self, rule: &str) {
        let received: Vec<ReceivedMessage> = self.report.rows();
        let hit = |message: &&ReceivedMessage| {
            let (end_ns, mut calls) = (message.done_ns, self.calls.iter());
            calls.any(|(begin, end)| (*begin..=*end).contains(&end_ns))
        };
        let ids: Vec<String> = received
            .iter()
            .filter(hit)
            .map(|message| format!("{}:r{}", message.conn, message.offset_end))
            .collect();
        assert_eq!(ids.len(), self.calls.len());
        let slow = 100.0 * (1.0 - ids.len() as f64 / received.len() as f64);
        let mut report = whylat(&format!("report --format json --tail p{slow:.3}"));
        let report = finish(report.arg(self.report.beside("r.whylat")));
        report.ended(0);
        let report: Value = serde_json::from_str(&report.out).expect("JSON");
        let groups = report["groups"].as_array().expect("groups");
        let group = groups.iter().find(|group| {
            group["application"] == "slow_messages" && group["direction"] == "received"
        });
        let group = group.expect("the reader's");
        let explained = group["explained"].as_array().expect("messages");
        let of_hit: Vec<&Value> = explained
            .iter()
            .filter(|it| ids.iter().any(|id| it["id"] == id.as_str()))
            .collect();
        let first = |it: &Value| {
            let cause = it["causes"][0]["cause"].as_u64().expect("a cause");
            group["causes"][cause as usize]["rule"].clone()
        };
        let right = of_hit.iter().filter(|it| first(it) == rule).count();
        let covered = group["covered"]["median"].as_f64().expect("coverage");
        eprintln!(
            "{rule}: first cause of {right} of {}, of {} hit; {:.1} % explained",
            of_hit.len(),
            ids.len(),
            100.0 * covered
        );
        assert!(of_hit.len() * 10 >= ids.len() * 8, "too few are known");
        assert!(right * 100 >= of_hit.len() * RIGHT_PERCENT, "{:?}", {
            let wrong = of_hit.iter().filter(|it| first(it) != rule);
            wrong.collect::<Vec<_>>()
        });
    }
}

fn planted(kind: &str, rule: &str) {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if !root() || cpus < 2 {
        eprintln!("skipped: it needs root and two CPUs");
        return;
    }
    record(kind).assert_named(rule);
}

#[test]
fn a_neighbour_of_higher_priority_is_cpu_contention() {
    planted("neighbour", "cpu_contention");
}

#[test]
fn messages_at_once_are_head_of_line_blocking() {
    planted("queue", "head_of_line_blocking");
}

#[test]
fn a_long_call_is_a_slow_function() {
    planted("call", "slow_function");
}

#[test]
fn a_lock_that_another_has_is_a_wait_in_a_call() {
    planted("lock", "blocked_in_call");
}

#[test]
fn computing_is_the_program_itself() {
    planted("compute", "slow_function");
}
