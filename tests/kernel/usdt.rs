//! All that a program reports by USDT probes is in the recording, exactly. The program is C and C++ with the
//! markers of `include/whylat.h`, and prints on stdout what it reported.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use nix::sys::signal::Signal;
use serde_json::Value;
use table::manifest::{Loss, ProbeState, UsdtProbe};
use table::tables::{Counter, Task};
use table::{Columns, CounterKind, Recording, TaskKind, ValueSource};
use tempfile::TempDir;

use testbed::instrumented::{RunOutcome, ToolRun, open_directory};
use testbed::report::number;
use testbed::sources;
use testbed::{finish, program, root, until, wait};

mod processes;

/// The program in both languages, and the same with a library.
struct Programs(TempDir);

impl Programs {
    fn get() -> &'static Self {
        static PROGRAMS: OnceLock<Programs> = OnceLock::new();
        PROGRAMS.get_or_init(Self::build)
    }

    fn build() -> Self {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let source = repository.join("tests/kernel/programs/marks.c");
        let include = format!("-I{}", repository.join("include").display());
        let scratch = open_directory();
        let at = |name: &str| scratch.path().join(name);
        let compile = |variable, compiler, output: &str, more: &[&str]| {
            let mut all = vec!["-Wall", "-Wextra", "-Werror", "-O2", &include, "-pthread"];
            all.extend(more);
            sources::compile(variable, compiler, &at(output), &source, &all);
        };
        compile("CC", "cc", "marks", &[]);
        compile("CXX", "c++", "marks-cxx", &["-xc++"]);
        compile("CC", "cc", "libmarks.so", &["-shared", "-DLIBRARY"]);
        let directory = scratch.path().to_str().expect("a path");
        let (search, load) = (format!("-L{directory}"), format!("-Wl,-rpath,{directory}"));
        let with_library = ["-DWITH_LIBRARY", &search, &load, "-lmarks"];
        compile("CC", "cc", "marks-with-library", &with_library);
        Programs(scratch)
    }

    fn path(name: &str) -> PathBuf {
        Self::get().0.path().join(name)
    }
}

/// Copies a program to a directory of its own: the kernel raises the semaphores of a file in all its processes while
/// anybody records one of them.
fn own_copy(name: &str) -> (TempDir, PathBuf) {
    let scratch = open_directory();
    let path = scratch.path().join(name);
    std::fs::copy(Programs::path(name), &path).expect("a copy");
    (scratch, path)
}

/// `whylat run -u …` of a program with arguments.
fn run(options: &str, name: &str, arguments: &[&str]) -> ToolRun {
    run_path(options, &Programs::path(name), arguments)
}

fn run_path(options: &str, path: &Path, arguments: &[&str]) -> ToolRun {
    let mut argv = vec![path.to_str().expect("a path")];
    argv.extend(arguments);
    ToolRun::new(program(), &format!("--detail stats {options}"), &argv)
}

/// The account of USDT probes.
#[track_caller]
fn account(recording: &Recording) -> Loss {
    testbed::instrumented::account(recording, "usdt")
}

fn rows<T: table::Table>(recording: &Recording) -> Vec<T> {
    let rows = recording.read_all::<T>();
    (0..rows.len()).map(|row| rows.row(row)).collect()
}

/// How often a probe fired.
#[track_caller]
fn fired(recording: &Recording, name: &str) -> u64 {
    let mut of_name = recording.usdt().iter().filter(|probe| probe.name == name);
    match (of_name.next(), of_name.next()) {
        (Some(UsdtProbe { fired, .. }), None) => fired.expect("a closed recording"),
        other => panic!("{name}: {other:?} in {:?}", recording.usdt()),
    }
}

/// All that `fire` of the program reports in a thread is there.
#[track_caller]
fn assert_fired(truth: &Value, tid: u64, counters: &[Counter], tasks: &[Task], rounds: u64) {
    let span = number(truth, "/begin_ns")..=number(truth, "/end_ns");
    let own: Vec<&Counter> = counters
        .iter()
        .filter(|row| u64::from(row.tid) == tid)
        .collect();
    assert_eq!(own.len() as u64, rounds);
    for (round, row) in (1..).zip(&own) {
        assert_eq!(row.value_s64, Some(round));
        assert_eq!((row.value_u64, row.value_f64), (None, None));
        assert_eq!(row.source, ValueSource::Usdt);
        assert_eq!(u64::from(row.pid), number(truth, "/pid"));
        assert_eq!(row.domain.as_deref(), Some("whylat"));
        assert_eq!(row.name.as_deref(), Some("sent"));
        assert_eq!(row.kind, CounterKind::Set);
        assert!(span.contains(&row.time_ns), "{row:?}");
    }
    let sum: i64 = own.iter().filter_map(|row| row.value_s64).sum();
    assert_eq!(sum as u64, rounds * (rounds + 1) / 2);
    assert!(own.is_sorted_by_key(|row| row.time_ns));
    let tasks: Vec<&Task> = tasks
        .iter()
        .filter(|task| u64::from(task.tid) == tid)
        .collect();
    assert_eq!(tasks.len() as u64, rounds);
    for (task, value) in tasks.iter().zip(&own) {
        assert_eq!(
            (task.kind, task.source),
            (TaskKind::Task, ValueSource::Usdt)
        );
        let end_ns = task.end_ns.expect("an end");
        assert!(
            (task.begin_ns..=end_ns).contains(&value.time_ns),
            "{task:?}"
        );
        assert_eq!(task.end_tid.map(u64::from), Some(tid));
    }
}

fn values_of(outcome: &RunOutcome, rounds: u64) {
    let recording = outcome.recording();
    let (counters, tasks) = (rows(&recording), rows(&recording));
    let truth = &outcome.truths()[0];
    assert_fired(truth, number(truth, "/tids/0"), &counters, &tasks, rounds);
    assert_eq!(
        (fired(&recording, "sent"), fired(&recording, "work")),
        (rounds, 2 * rounds)
    );
    let account = account(&recording);
    assert_eq!((account.produced, account.filtered), (3 * rounds, rounds));
    assert_eq!(account.lost_total(), 0, "{account:?}");
    let comms: Vec<table::tables::Process> = rows(&recording);
    let is_known = |process: &table::tables::Process| process.pid == counters[0].pid;
    assert!(comms.iter().any(is_known), "{comms:?}");
}

#[test]
fn values_and_tasks_are_stored_exactly() {
    if !root() {
        return;
    }
    for name in ["marks", "marks-cxx"] {
        let outcome = run("-u whylat:sent -u whylat:work", name, &["values", "1009"]).end();
        outcome.output.assert_status(0);
        assert!(
            outcome.output.err.contains("fired 1009 times"),
            "{:?}",
            outcome.output
        );
        values_of(&outcome, 1009);
    }
    let outcome = run("-u whylat:*", "marks", &["values", "1009"]);
    values_of(&outcome.end(), 1009);
}

/// Variables that the compiler keeps below the stack pointer stay as they are.
#[test]
fn usdt_does_not_change_program_results() {
    if !root() {
        return;
    }
    let outcome = run("-u whylat:leaf", "marks", &["leaves", "1009"]).end();
    outcome.output.assert_status(0);
    assert_eq!(number(&outcome.truths()[0], "/computed"), 1009);
    assert_eq!(fired(&outcome.recording(), "leaf"), 1009);
}

#[test]
fn values_carry_thread_ids() {
    if !root() {
        return;
    }
    let outcome = run("-u whylat:*", "marks", &["threads", "1009"]).end();
    outcome.output.assert_status(0);
    let recording = outcome.recording();
    let (counters, tasks) = (rows(&recording), rows(&recording));
    let truth = &outcome.truths()[0];
    for tid in ["/tids/0", "/tids/1"] {
        assert_fired(truth, number(truth, tid), &counters, &tasks, 1009);
    }
    assert_eq!(account(&recording).stored, 4 * 1009);
}

#[test]
fn every_marker_kind_is_stored() {
    if !root() {
        return;
    }
    let outcome = run("-u whylat:*", "marks", &["kinds"]).end();
    outcome.output.assert_status(0);
    let recording = outcome.recording();
    let counters: Vec<Counter> = rows(&recording);
    let values: Vec<_> = counters
        .iter()
        .map(|row| {
            (
                row.name.as_deref().expect("a name"),
                row.value_u64,
                row.value_s64,
            )
        })
        .collect();
    let expected = [
        ("most", Some(u64::MAX), None),
        ("least", None, Some(i8::MIN.into())),
        ("constant", Some(17), None),
    ];
    assert_eq!(values, expected);
    let tasks: Vec<Task> = rows(&recording);
    let found = |name| {
        let task = tasks.iter().find(|task| task.name.as_deref() == Some(name));
        task.unwrap_or_else(|| panic!("no {name} in {tasks:?}"))
    };
    let (outer, inner) = (found("outer"), found("inner"));
    assert!(outer.begin_ns <= inner.begin_ns && inner.end_ns <= outer.end_ns);
    assert_eq!(found("never_ends").end_ns, None);
    let miss = found("miss");
    assert_eq!((miss.kind, miss.end_ns), (TaskKind::Marker, None));
    let metadata = r#"[{"key":"value","values":[5]}]"#;
    assert_eq!(miss.metadata.as_deref(), Some(metadata));
    let account = account(&recording);
    assert_eq!((account.stored, account.filtered), (7, 2), "{account:?}");
    assert_eq!(account.lost["no_begin"], 1, "{account:?}");
}

/// A probe as SystemTap's header makes it, of arguments of several sizes, one of them in memory.
#[test]
fn semaphore_is_raised_during_recording() {
    const ROUNDS: u64 = 503;
    if !root() {
        return;
    }
    let (_scratch, marks) = own_copy("marks");
    let options = "-u app:guarded:bytes,,left -u whylat:queue";
    let outcome = run_path(options, &marks, &["guarded", "503"]).end();
    outcome.output.assert_status(0);
    let truth = &outcome.truths()[0];
    assert_eq!(number(truth, "/computed"), ROUNDS);
    assert_eq!(number(truth, "/tids/1"), 1, "listeners by the semaphore");
    let recording = outcome.recording();
    let counters: Vec<Counter> = rows(&recording);
    let of = |name: &str| {
        let is = |row: &&Counter| row.name.as_deref() == Some(name);
        counters.iter().filter(is).cloned().collect::<Vec<_>>()
    };
    for (round, row) in (1..).zip(of("guarded.bytes")) {
        assert_eq!(row.value_u64, Some(u64::from(u32::MAX) - round));
        assert_eq!(row.domain.as_deref(), Some("app"));
    }
    for (round, row) in (1..).zip(of("guarded.left")) {
        assert_eq!(row.value_s64, Some(-round));
    }
    for name in ["guarded.bytes", "guarded.left", "queue"] {
        assert_eq!(of(name).len() as u64, ROUNDS, "{name}");
    }
    assert_eq!(counters.len() as u64, 3 * ROUNDS);
    assert_eq!(account(&recording).lost_total(), 0);
    let alone = finish(Command::new(&marks).args(["guarded", "503"]));
    let truth: Value = serde_json::from_str(&alone.assert_status(0).out).expect("JSON");
    assert_eq!(
        (number(&truth, "/computed"), number(&truth, "/tids/1")),
        (0, 0)
    );
}

#[test]
fn unnamed_arguments_are_numbered() {
    if !root() {
        return;
    }
    let outcome = run("-u app:guarded", "marks", &["guarded", "3"]).end();
    let counters: Vec<Counter> = rows(&outcome.recording());
    let names: Vec<&str> = counters
        .iter()
        .filter_map(|row| row.name.as_deref())
        .take(3)
        .collect();
    assert_eq!(names, ["guarded.arg1", "guarded.arg2", "guarded.arg3"]);
    let begin_ns = number(&outcome.truths()[0], "/begin_ns");
    assert_eq!(counters[1].value_u64, Some(begin_ns));
    assert_eq!(account(&outcome.recording()).stored, 9);
}

#[test]
fn unknown_probe_error_lists_probes() {
    if !root() {
        return;
    }
    let refused = |options: &str, name: &str| {
        let outcome = run(options, name, &["values", "3"]).end();
        assert!(!outcome.scratch.path().join("r.whylat").exists());
        assert_eq!(outcome.output.out, "", "the program was started");
        outcome.output.assert_status(1);
        outcome.output
    };
    let output = refused("-u whylat:snet", "marks");
    output.explains("no USDT probe whylat:snet in ");
    assert!(
        output.err.contains("there are app:guarded, whylat:"),
        "{}",
        output.err
    );
    assert!(
        output.err.contains(", whylat:sent, whylat:work"),
        "{}",
        output.err
    );
    refused("-u app:guarded:a,b,c,d", "marks").explains("has 3 arguments (4@%");
    refused("-u whylat:sent:bytes", "marks").explains("has no arguments to name");
    refused("-u /nowhere:whylat:sent", "marks").explains("cannot read USDT probes of /nowhere");
    let outcome = ToolRun::new(program(), "-u whylat:sent", &["true"]).end();
    outcome
        .output
        .assert_status(1)
        .explains("-u /path/of/file:whylat:sent");
    let outcome = ToolRun::new(program(), "-u whylat:sent", &["no-such-program"]).end();
    outcome
        .output
        .assert_status(127)
        .explains("no-such-program");
    let outcome = ToolRun::new(program(), "-u whylat", &["true"]).end();
    outcome.output.assert_status(2);
    assert!(
        outcome.output.err.contains("hint: PROVIDER:NAME"),
        "{:?}",
        outcome.output
    );
    let mut all = Command::new(program());
    all.args(["record", "--all", "-d", "1", "-u", "whylat:sent"]);
    let output = finish(all.current_dir(Programs::get().0.path()));
    output
        .assert_status(1)
        .explains("name the file: -u /path/of/program:whylat:sent");
}

/// More firings than the ring holds, while nobody reads.
#[test]
fn overflow_is_counted() {
    const ROUNDS: u64 = 100_003;
    if !root() {
        return;
    }
    let mut talk = run("-u whylat:*", "marks", &["on_go", "100003"]).start();
    talk.line();
    talk.process.signal(Signal::SIGSTOP);
    talk.go();
    talk.line();
    talk.process.signal(Signal::SIGCONT);
    assert!(wait(&mut talk.process.0, "whylat run").success());
    let path = talk.scratch.path().join("r.whylat");
    let recording = Recording::open(path).expect("it opens");
    assert_eq!(fired(&recording, "sent"), ROUNDS);
    let account = account(&recording);
    assert_eq!(account.produced, 3 * ROUNDS);
    let lost = account.lost.get("ring_full").copied().unwrap_or(0);
    assert!(lost > 0 && account.stored > 10_000, "{account:?}");
}

/// Returns whether the program that USDT probes start is among a recorder's, by id and name.
fn is_usdt_loaded(programs: &BTreeMap<u32, String>) -> bool {
    programs.values().any(|name| name == "handle_usdt")
}

/// The program goes on, and nobody listens to it any more.
#[test]
fn killed_recorder_leaves_nothing() {
    if !root() {
        return;
    }
    let arguments = ["guarded_on_go", "1009"];
    let (_scratch, marks) = own_copy("marks");
    let mut talk = run_path("-u app:guarded -u whylat:queue", &marks, &arguments).start();
    assert_eq!(
        number(&talk.line(), "/tids/1"),
        1,
        "listeners by the semaphore"
    );
    let programs = crate::bpf::programs_of(talk.process.0.id());
    assert!(is_usdt_loaded(&programs), "{programs:?}");
    talk.process.signal(Signal::SIGKILL);
    wait(&mut talk.process.0, "whylat run");
    until("the programs unloaded", || {
        let held = crate::bpf::objects();
        let mut ids = programs.keys();
        ids.all(|id| !held.contains(&("program", *id)))
            .then_some(())
    });
    talk.go();
    let truth = talk.line();
    assert_eq!(
        (number(&truth, "/computed"), number(&truth, "/tids/1")),
        (0, 0)
    );
    let path = talk.scratch.path().join("r.whylat");
    let recording = Recording::open(path).expect("it opens");
    // Nobody counted; the kill may even have come before the probes were named.
    assert!(recording.usdt().iter().all(|probe| probe.fired.is_none()));
}

/// ITT and USDT fill the same tables, each with its own account.
#[test]
fn itt_and_usdt_losses_are_separate() {
    if !root() {
        return;
    }
    let tools = testbed::instrumented::InstrumentedTools::get();
    let script = format!(
        "{} values 11; {} values 101",
        tools.itt_calls().display(),
        Programs::path("marks").display()
    );
    let options = format!(
        "--detail waits -u {}:whylat:*",
        Programs::path("marks").display()
    );
    let mut run = ToolRun::new(program(), &options, &["sh", "-c", &script]);
    run.command.env("WHYLAT_ITT_COLLECTOR", tools.collector());
    let outcome = run.end();
    outcome.output.assert_status(0);
    let recording = outcome.recording();
    let counters: Vec<Counter> = rows(&recording);
    let of = |source| counters.iter().filter(|row| row.source == source).count();
    assert_eq!(
        (of(ValueSource::Usdt), of(ValueSource::Itt)),
        (101, 11 * 2 * 3)
    );
    for loss in recording.loss() {
        assert_eq!(loss.residual(), 0, "{loss:?}");
    }
    let stored = |probe: &str| {
        let found = recording.loss().iter().find(|loss| loss.probe == probe);
        found.map(|loss| loss.stored)
    };
    assert_eq!((stored("usdt"), stored("itt")), (Some(202), Some(66)));
}

#[test]
fn coverage_and_doctor_list_usdt() {
    if !root() {
        return;
    }
    let outcome = run("-u whylat:sent", "marks", &["values", "3"]).end();
    let recording = outcome.recording();
    let coverage = recording
        .coverage()
        .iter()
        .find(|line| line.probe == "usdt");
    assert_eq!(coverage.map(|line| &line.state), Some(&ProbeState::On));
    let without = run("", "marks", &["values", "3"]).end().recording();
    assert!(without.coverage().iter().all(|line| line.probe != "usdt"));
    assert!(without.usdt().is_empty() && without.loss().iter().all(|loss| loss.probe != "usdt"));
    let doctor = finish(Command::new(program()).arg("doctor"));
    assert!(crate::doctor::is_ok(&doctor.out, "usdt"), "{doctor:?}");
}

/// While nobody listens, nothing of it is loaded.
#[test]
fn other_processes_are_not_probed() {
    if !root() {
        return;
    }
    let is_loaded = |run: ToolRun| {
        let mut talk = run.start();
        talk.line();
        let programs = crate::bpf::programs_of(talk.process.0.id());
        assert!(!programs.is_empty());
        talk.go();
        talk.line();
        assert!(wait(&mut talk.process.0, "whylat run").success());
        is_usdt_loaded(&programs)
    };
    assert!(is_loaded(run("-u whylat:sent", "marks", &["on_go", "3"])));
    assert!(!is_loaded(run("", "marks", &["on_go", "3"])));
}
