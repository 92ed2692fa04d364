//! Spins: threads that ask what is ready without waiting, against the CPU time that they used for it.

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

/// A call of 80 ns is mostly its way into the kernel and out, where interrupts are off: a look that comes
/// then is made after it, in the program. Of what these loops do, 47 to 67 % were met; no fewer than a
/// quarter, and no more than its CPU time and four looks.
fn check(phase: &Value, spins: &[Spin]) -> Result<(), String> {
    let span = number(phase, "/start_ns")..number(phase, "/end_ns");
    let within = spins.iter().filter(|spin| span.contains(&spin.time_ns));
    let (kind, cpu_ns) = (text(phase, "kind"), number(phase, "/cpu_ns"));
    let found: Vec<&Spin> = within.collect();
    let spun_ns: u64 = found.iter().map(|spin| spin.length_ns).sum();
    let four_ns = 4 * 1_000_000_000 / 99;
    let allowed = match kind.is_empty() {
        true => 0..=0,
        false => cpu_ns / 4..=cpu_ns + four_ns,
    };
    if !allowed.contains(&spun_ns) {
        return Err(format!(
            "{phase}: {spun_ns} ns spun in {} looks",
            found.len()
        ));
    }
    // select() leaves its answer where the question was: a look that comes then finds no descriptor
    let (right, other): (Vec<&Spin>, _) = found.iter().partition(|spin| spin.kind.name() == kind);
    let may_be_late = text(phase, "name") == "select" && right.len() > other.len();
    match other
        .iter()
        .find(|spin| !may_be_late || spin.kind != WaitObject::Select)
    {
        Some(other) => Err(format!("{phase}: {other:?}")),
        None => Ok(()),
    }
}

#[test]
fn busy_poll_samples_match_cpu_time() {
    if !root() {
        return;
    }
    let (truth, report) = recorded();
    assert_eq!(truth.len(), 7, "{truth:?}");
    let spins: Vec<Spin> = report.rows();
    for phase in &truth {
        check(phase, &spins).unwrap_or_else(|error| panic!("{error}"));
    }
    let mut view = Command::new(program());
    view.args(["report", "--by", "stack", "--format", "json"]);
    let said = finish(view.arg(report.beside("r.whylat")));
    let by_stack: Value = serde_json::from_str(&said.ended(0).out).expect("JSON");
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
