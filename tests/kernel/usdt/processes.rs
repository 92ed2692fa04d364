//! Processes and files with USDT probes that are recorded: children, libraries, chosen processes, those of another user.

use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use table::Recording;
use table::manifest::UsdtProbe;
use table::tables::Counter;
use testbed::instrumented::ToolRun;
use testbed::report::number;
use testbed::{ChildGuard, Recorder, program, root};

use super::{Programs, account, assert_fired, fired, rows, run, values_of};

const NOBODY: u32 = 65534;

/// Children by fork and by exec, in a program that the command only starts.
#[test]
fn child_processes_are_recorded() {
    if !root() {
        return;
    }
    let marks = Programs::path("marks");
    let options = format!(
        "--detail stats -u {0}:whylat:sent -u {0}:whylat:work",
        marks.display()
    );
    let script = format!("{0} children 1009; exec {0} values 1009", marks.display());
    let outcome = ToolRun::new(program(), &options, &["sh", "-c", &script]).end();
    outcome.output.assert_status(0);
    let recording = outcome.recording();
    let (counters, tasks) = (rows(&recording), rows(&recording));
    let truths = outcome.truths();
    assert_eq!(truths.len(), 4);
    for truth in &truths {
        assert_fired(truth, number(truth, "/tids/0"), &counters, &tasks, 1009);
    }
    assert_eq!(account(&recording).stored, 4 * 2 * 1009);
}

#[test]
fn libraries_are_searched() {
    if !root() {
        return;
    }
    let outcome = run(
        "-u library:call:left",
        "marks-with-library",
        &["library", "101"],
    )
    .end();
    outcome.output.assert_status(0);
    let recording = outcome.recording();
    let [UsdtProbe { path, places, .. }] = recording.usdt() else {
        panic!("{:?}", recording.usdt());
    };
    assert!(path.ends_with("libmarks.so"), "{path}");
    assert_eq!(*places, 1);
    let counters: Vec<Counter> = rows(&recording);
    let values: Vec<_> = counters.iter().filter_map(|row| row.value_s64).collect();
    assert_eq!(values, (1..=101).map(|round| -round).collect::<Vec<i64>>());
}

/// A program that runs already, while another one that is not recorded fires the same probe.
#[test]
fn only_chosen_running_processes_are_recorded() {
    if !root() {
        return;
    }
    let start = || {
        let mut command = Command::new(Programs::path("marks"));
        let mut process = ChildGuard::start_talking(command.args(["on_go", "1009"]));
        let stdout = process.0.stdout.take().expect("stdout");
        let mut lines = std::io::BufRead::lines(std::io::BufReader::new(stdout));
        let mut line = move || -> Value {
            let line = lines.next().expect("a line").expect("text");
            serde_json::from_str(&line).expect("JSON")
        };
        line();
        (process, line)
    };
    let ((mut own, mut own_line), (mut other, mut other_line)) = (start(), start());
    let options = "-u whylat:sent -u whylat:work --detail stats";
    let recorder = Recorder::start(&format!("--pid {} {options}", own.0.id()));
    let go = |process: &mut ChildGuard| {
        let stdin = process.0.stdin.as_mut().expect("stdin");
        std::io::Write::write_all(stdin, b".").expect("it listens");
    };
    go(&mut other);
    other_line();
    go(&mut own);
    let truth = own_line();
    let scratch = recorder.stop_by(Signal::SIGINT);
    let recording = Recording::open(scratch.path().join("r.whylat")).expect("it opens");
    let (counters, tasks) = (rows(&recording), rows(&recording));
    assert_fired(&truth, number(&truth, "/tids/0"), &counters, &tasks, 1009);
    assert_eq!(account(&recording).stored, 2 * 1009);
    assert_eq!(fired(&recording, "sent"), 1009);
}

#[test]
fn sudo_records_program_of_invoking_user() {
    if !root() {
        return;
    }
    let mut run = run(
        "-u whylat:sent -u whylat:work",
        "marks",
        &["values", "1009"],
    );
    run.command.env("SUDO_UID", NOBODY.to_string());
    let outcome = run.end();
    outcome.output.assert_status(0);
    values_of(&outcome, 1009);
}
