//! Spins: threads that ask what is ready without waiting, and the calls in which they do.

use std::process::Command;

use serde_json::Value;
use table::WaitObject;
use table::tables::Spin;

use testbed::report::{Report, number, text};
use testbed::{compile_c, finish, program, record_command, root};

/// Spins in every way there is: see its head.
const SPIN: &str = include_str!("programs/spin.c");

/// Runs it at detail `waits`; what it says of itself, and the recording.
fn recorded() -> (Vec<Value>, Report) {
    let scratch = tempfile::tempdir().expect("a directory");
    let binary = compile_c(scratch.path(), "spin", SPIN, &["-g"]);
    let (report, truth) = record_command(scratch, &["--detail", "waits"], &[&binary]);
    report.assert_whole();
    (truth, report)
}

/// A clock looks at its CPU so often (`crates/probe/src/busy_poll/mod.rs`).
const LOOKS_PER_S: u64 = 99;

/// Every look that found a call which was asked not to wait shows that call; the other phases have none. How many looks
/// find one depends on the neighbours: a call of 80 ns is mostly its way into the kernel and out, where interrupts are
/// off, so that a look comes after it. At most each clock finds one at each of its looks, the first of them late.
fn check(phase: &Value, spins: &[Spin]) {
    let span = number(phase, "/start_ns")..number(phase, "/end_ns");
    let kind = text(phase, "kind");
    let within = spins.iter().filter(|spin| span.contains(&spin.time_ns));
    let found: Vec<&Spin> = within.collect();
    println!("{phase}: {} looks", found.len());
    if kind.is_empty() {
        assert!(found.is_empty(), "{phase}: {found:?}");
        return;
    }
    let (right, other): (Vec<&Spin>, _) = found.iter().partition(|spin| spin.kind.name() == kind);
    assert!(!right.is_empty(), "{phase}: {other:?}");
    // select() leaves its answer where the question was: a look that comes then finds no descriptor
    let is_answered = |spin: &&Spin| spin.kind == WaitObject::Select && spin.fd.is_none();
    let is_select = text(phase, "name") == "select";
    assert!(
        other.iter().all(|spin| is_select && is_answered(spin)),
        "{phase}: {other:?}"
    );
    let looks_most = (span.end - span.start) * LOOKS_PER_S / 1_000_000_000 + 2;
    for cpu in found.iter().map(|spin| spin.cpu) {
        let looks = found.iter().filter(|spin| spin.cpu == cpu).count() as u64;
        assert!(looks <= looks_most, "{phase}: {looks} looks at CPU {cpu}");
    }
}

#[test]
fn busy_poll_samples_show_the_call() {
    if !root() {
        return;
    }
    let (truth, report) = recorded();
    assert_eq!(truth.len(), 7, "{truth:?}");
    let spins: Vec<Spin> = report.rows();
    for phase in &truth {
        check(phase, &spins);
    }
    let mut view = Command::new(program());
    view.args(["report", "--by", "stack", "--format", "json"]);
    let output = finish(view.arg(report.file_beside("r.whylat")));
    let by_stack: Value = serde_json::from_str(&output.assert_status(0).out).expect("JSON");
    let groups = by_stack["groups"].as_array().expect("groups");
    for function in ["ask_epoll", "ask_poll", "ask_ppoll", "ask_select"] {
        let spins_there = |group: &&Value| {
            let frames = group["stack"]["frames"].as_array().into_iter().flatten();
            let mut names = frames.map(|frame| text(frame, "function"));
            names.any(|name| name == function) && group["spinning"]["looks"].as_u64() > Some(0)
        };
        assert!(
            groups.iter().any(|it| spins_there(&it)),
            "{function}: {groups:#?}"
        );
    }
}
