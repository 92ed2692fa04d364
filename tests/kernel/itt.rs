//! All that an instrumented program reports by the ITT API is in the recording, exactly. The
//! program is C with Intel's own static part, and prints on stdout what it reported.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::Value;
use table::manifest::ProbeState;
use table::tables::{Counter, Task};
use table::{CounterKind, TaskKind};

use testbed::instrumented::{InstrumentedTools, RunOutcome, ToolRun};
use testbed::report::{ask, groups, number, text};
use testbed::{CommandOutput, finish, program, root, until, wait};

/// Names that `itt_calls` defines before its values: three counters, and the unit of one.
const DEFINITIONS: u64 = 4;
const VALUES_A_ROUND: u64 = 3;
/// Its threads in `values`.
const THREADS: u64 = 2;
const NOBODY: u32 = 65534;

/// The values of a thread's counter, by name.
type Series<'a> = BTreeMap<(u32, &'a str), Vec<&'a Counter>>;

fn series(rows: &[Counter]) -> Series<'_> {
    let mut series = Series::new();
    for row in rows {
        let name = row.name.as_deref().expect("a name");
        series.entry((row.tid, name)).or_default().push(row);
    }
    series
}

/// Every value of a thread of `itt_calls`, in order, in the column of its type.
#[track_caller]
fn assert_series(name: &str, rows: &[&Counter], rounds: u64) {
    assert_eq!(rows.len() as u64, rounds, "{name}");
    for (round, row) in (1..).zip(rows) {
        let (u64, s64, f64) = match name {
            "sent" => (Some(u64::MAX - round), None, None),
            "balance" => (None, Some(i64::MIN + round.cast_signed()), None),
            _ => (None, None, Some(round as f64 / 7.0)),
        };
        assert_eq!(
            (row.value_u64, row.value_s64, row.value_f64),
            (u64, s64, f64)
        );
        assert_eq!(row.domain.as_deref(), Some("whylat.test"));
        assert_eq!(row.unit.as_deref(), (name == "sent").then_some("bytes"));
        assert_eq!((row.kind, row.given_ticks), (CounterKind::Set, None));
    }
    assert!(rows.is_sorted_by_key(|row| row.time_ns), "{name}");
}

/// All that `itt_calls values` reported is there.
#[track_caller]
fn assert_values(truth: &Value, rows: &[Counter], rounds: u64) {
    let pid = number(truth, "/pid");
    let own: Vec<Counter> = rows
        .iter()
        .filter(|row| u64::from(row.pid) == pid)
        .cloned()
        .collect();
    let span = number(truth, "/begin_ns")..=number(truth, "/end_ns");
    assert!(own.iter().all(|row| span.contains(&row.time_ns)));
    let series = series(&own);
    let tids: BTreeSet<u64> = series.keys().map(|(tid, _)| u64::from(*tid)).collect();
    assert_eq!(
        tids,
        [number(truth, "/tids/0"), number(truth, "/tids/1")].into()
    );
    assert_eq!(series.len() as u64, THREADS * VALUES_A_ROUND);
    for ((_, name), rows) in &series {
        assert_series(name, rows, rounds);
    }
}

#[test]
fn values_are_stored_exactly_with_thread_and_time() {
    const ROUNDS: u64 = 4001;
    if !root() {
        return;
    }
    let outcome = ToolRun::itt_calls(&["values", "4001"]).end();
    outcome.output.assert_status(0);
    assert_eq!(outcome.coverage(), ProbeState::On);
    assert_values(&outcome.truths()[0], &outcome.counters(), ROUNDS);
    let account = outcome.account();
    let values = ROUNDS * THREADS * VALUES_A_ROUND;
    assert_eq!((account.stored, account.filtered), (values, DEFINITIONS));
    assert_eq!(account.lost_total(), 0, "{account:?}");
}

#[test]
fn child_processes_send_values() {
    if !root() {
        return;
    }
    let itt_calls = InstrumentedTools::get().itt_calls();
    let script = format!(
        "{0} values 11; {0} values 13; exec {0} values 17",
        itt_calls.display()
    );
    let outcome = ToolRun::new(program(), "--detail waits", &["sh", "-c", &script]).end();
    outcome.output.assert_status(0);
    let (truths, rows) = (outcome.truths(), outcome.counters());
    assert_eq!(truths.len(), 3);
    for (truth, rounds) in truths.iter().zip([11, 13, 17]) {
        assert_values(truth, &rows, rounds);
    }
    assert_eq!(
        outcome.account().stored,
        (11 + 13 + 17) * THREADS * VALUES_A_ROUND
    );
}

/// The first span of a kind and name.
#[track_caller]
fn span<'a>(tasks: &'a [Task], kind: TaskKind, name: Option<&str>) -> &'a Task {
    let is = |task: &&Task| task.kind == kind && task.name.as_deref() == name;
    let found = tasks.iter().find(is);
    found.unwrap_or_else(|| panic!("no {kind} {name:?} in {tasks:?}"))
}

#[test]
fn spans_are_stored_with_both_ends() {
    if !root() {
        return;
    }
    let outcome = ToolRun::itt_calls(&["spans"]).end();
    outcome.output.assert_status(0);
    let (tasks, truths) = (outcome.tasks(), outcome.truths());
    assert_tasks(&tasks, &truths[0]);
    let far = span(&tasks, TaskKind::OverlappedTask, Some("outer"));
    let who = &truths[1];
    assert_eq!(u64::from(far.tid), number(who, "/tids/0"));
    assert_eq!(far.end_tid.map(u64::from), Some(number(who, "/tids/1")));
    let region = span(&tasks, TaskKind::Region, Some("inner"));
    let frame = span(&tasks, TaskKind::Frame, None);
    assert!(region.end_ns.is_some() && frame.end_ns.is_some());
    let marker = span(&tasks, TaskKind::Marker, Some("inner"));
    assert_eq!(marker.end_ns, None);
    assert_eq!(marker.scope.as_deref(), Some("task"));
    let is_open = |task: &&Task| task.kind == TaskKind::Task && task.end_ns.is_none();
    assert_eq!(tasks.iter().filter(is_open).count(), 1);
    assert_groups(&ask(&outcome.scratch.path().join("r.whylat"), "--by task"));
    let account = outcome.account();
    // The domain and three texts, five ends, and what was attached.
    assert_eq!((account.stored, account.filtered), (7, 10), "{account:?}");
    assert_eq!(account.lost_total(), 0, "{account:?}");
}

/// Each name and kind of span is a group, with its spans that have an end, that have none, and that end on another thread.
#[track_caller]
fn assert_groups(answer: &Value) {
    let counts = |group: &Value| {
        let spans = ["count", "unfinished", "handed_over"];
        let counts = spans.map(|name| number(group, &format!("/spans/{name}")));
        (text(group, "name").to_owned(), counts)
    };
    let with_spans = groups(answer)
        .iter()
        .filter(|group| !group["spans"].is_null());
    let found: BTreeMap<String, [u64; 3]> = with_spans.map(counts).collect();
    let expected = [
        ("whylat.test: outer", [1, 0, 0]),
        ("whylat.test: inner", [1, 1, 0]),
        ("whylat.test: outer (overlapped task)", [1, 0, 1]),
        ("whylat.test: inner (region)", [1, 0, 0]),
        ("whylat.test: frame", [1, 0, 0]),
    ];
    let expected = expected.map(|(name, counts)| (name.to_owned(), counts));
    assert_eq!(found, BTreeMap::from(expected));
}

/// The two tasks, one in the other, with the times around the outer one's calls.
#[track_caller]
fn assert_tasks(tasks: &[Task], times: &Value) {
    let outer = span(tasks, TaskKind::Task, Some("outer"));
    let end_ns = outer.end_ns.expect("an end");
    assert!((number(times, "/0")..=number(times, "/1")).contains(&outer.begin_ns));
    assert!((number(times, "/2")..=number(times, "/3")).contains(&end_ns));
    assert_eq!(outer.domain.as_deref(), Some("whylat.test"));
    assert_eq!(outer.id.as_deref(), Some("10:1:0"));
    assert_eq!(outer.parent, None);
    let metadata = format!(r#"[{{"key":"size","values":[{}]}}]"#, u64::MAX);
    assert_eq!(outer.metadata, Some(metadata));
    let inner = span(tasks, TaskKind::Task, Some("inner"));
    assert_eq!(inner.parent.as_deref(), Some("10:1:0"));
    assert!(inner.begin_ns >= outer.begin_ns && inner.end_ns <= outer.end_ns);
}

#[test]
fn values_survive_program_kill() {
    const ROUNDS: u64 = 5003;
    if !root() {
        return;
    }
    let mut talk = ToolRun::itt_calls(&["killed", "5003"]).start();
    talk.line();
    talk.go();
    let truth = talk.line();
    assert_eq!(
        wait(&mut talk.process.0, "whylat run").code(),
        Some(128 + 9)
    );
    let outcome = RunOutcome {
        output: CommandOutput::default(),
        scratch: talk.scratch,
    };
    let rows = outcome.counters();
    let tid = number(&truth, "/tids/0") as u32;
    let begin_ns = number(&truth, "/begin_ns");
    let after: Vec<Counter> = rows
        .iter()
        .filter(|row| row.time_ns >= begin_ns)
        .cloned()
        .collect();
    for name in ["sent", "balance", "ratio"] {
        assert_series(name, &series(&after)[&(tid, name)], ROUNDS);
    }
    let account = outcome.account();
    assert_eq!(account.stored, (ROUNDS + 1) * VALUES_A_ROUND);
    assert_eq!(account.lost_total(), 0, "{account:?}");
}

/// More values than the ring holds, while nobody reads.
#[test]
fn overflow_is_counted() {
    const ROUNDS: u64 = 700_001;
    if !root() {
        return;
    }
    let mut talk = ToolRun::itt_calls(&["on_go", "700001"]).start();
    talk.line();
    talk.process.signal(Signal::SIGSTOP);
    talk.go();
    talk.line();
    talk.process.signal(Signal::SIGCONT);
    assert!(wait(&mut talk.process.0, "whylat run").success());
    let outcome = RunOutcome {
        output: CommandOutput::default(),
        scratch: talk.scratch,
    };
    let account = outcome.account();
    assert_eq!(
        account.produced,
        (ROUNDS + 1) * VALUES_A_ROUND + DEFINITIONS
    );
    let lost = account.lost.get("ring_full").copied().unwrap_or(0);
    assert!(lost > 0 && account.stored > 1_000_000, "{account:?}");
    assert_eq!(lost, account.lost_total(), "{account:?}");
}

/// Whatever the recorder left: its process that has the ring, by the program's own environment.
fn holder_of(pid: u64) -> PathBuf {
    let environment = fs::read(format!("/proc/{pid}/environ")).expect("its environment");
    let mut variables = environment.split(|byte| *byte == 0);
    let ring = variables.find_map(|variable| variable.strip_prefix(b"WHYLAT_ITT_RING="));
    let ring = String::from_utf8(ring.expect("a ring").to_vec()).expect("a path");
    Path::new(&ring)
        .ancestors()
        .nth(2)
        .expect("a process")
        .to_owned()
}

#[test]
fn recorder_kill_leaves_program_running() {
    if !root() {
        return;
    }
    let mut talk = ToolRun::itt_calls(&["on_go", "700001"]).start();
    let pid = number(&talk.line(), "/pid");
    let holder = holder_of(pid);
    assert!(holder.exists());
    talk.process.signal(Signal::SIGKILL);
    wait(&mut talk.process.0, "whylat run");
    until("the ring's path gone", || (!holder.exists()).then_some(()));
    talk.go();
    let truth = talk.line();
    assert_eq!(
        number(&truth, "/pid"),
        pid,
        "it goes on, with more than the ring holds"
    );
    let mut rest = String::new();
    let read = talk.stdout.read_to_string(&mut rest);
    assert_eq!((read.expect("its end"), rest.as_str()), (0, ""));
}

#[test]
fn sudo_records_program_of_invoking_user() {
    const ROUNDS: u64 = 1009;
    if !root() {
        return;
    }
    let tools = InstrumentedTools::get();
    let mut run = ToolRun::itt_calls(&["values", "1009"]);
    run.command.env("SUDO_UID", NOBODY.to_string());
    run.command.env("WHYLAT_ITT_COLLECTOR", tools.collector());
    let outcome = run.end();
    outcome.output.assert_status(0);
    assert_eq!(outcome.coverage(), ProbeState::On);
    assert_values(&outcome.truths()[0], &outcome.counters(), ROUNDS);
    // A collector that the user may not read would fail to load, and take the program's handles
    // with it.
    let hidden = tempfile::tempdir().expect("a directory");
    let collector = hidden.path().join("libwhylat_itt.so");
    fs::copy(tools.collector(), &collector).expect("a copy");
    fs::set_permissions(&collector, fs::Permissions::from_mode(0o600)).expect("chmod");
    let mut run = ToolRun::itt_calls(&["values", "1009"]);
    run.command.env("SUDO_UID", NOBODY.to_string());
    run.command.env("WHYLAT_ITT_COLLECTOR", &collector);
    let outcome = run.end();
    outcome.is_off("user id 65534 cannot read");
    assert_eq!(outcome.truths().len(), 1);
}

#[test]
fn program_runs_without_collector() {
    if !root() {
        return;
    }
    let elsewhere = tempfile::tempdir().expect("a directory");
    let whylat = elsewhere.path().join("whylat");
    fs::copy(program(), &whylat).expect("a copy");
    let itt_calls = InstrumentedTools::get().itt_calls();
    let argv = [itt_calls.to_str().expect("a path"), "values", "101"];
    let outcome = ToolRun::new(&whylat, "--detail waits", &argv).end();
    outcome.is_off("there is no libwhylat_itt.so");
    assert_eq!(outcome.truths().len(), 1);

    let broken = elsewhere.path().join("libwhylat_itt.so");
    fs::write(&broken, "no library").expect("a file");
    let outcome = ToolRun::new(&whylat, "--detail waits", &argv).end();
    outcome.is_off("it is not an ELF file");

    let doctor = finish(Command::new(&whylat).arg("doctor"));
    let row = doctor.out.lines().find(|line| line.contains("itt:"));
    assert!(row.is_some_and(|row| row.contains("no  ")), "{doctor:?}");
    let doctor = finish(Command::new(program()).arg("doctor"));
    assert!(crate::doctor::is_ok(&doctor.out, "itt"), "{doctor:?}");
}

#[test]
fn user_collector_is_kept() {
    if !root() {
        return;
    }
    let script = "echo \"$INTEL_LIBITTNOTIFY64|$WHYLAT_ITT_RING\"";
    let mut run = ToolRun::new(program(), "--detail waits", &["sh", "-c", script]);
    run.command.env("INTEL_LIBITTNOTIFY64", "/opt/other.so");
    let outcome = run.end();
    outcome.is_off("/opt/other.so, which was left alone");
    assert!(
        outcome.output.out.starts_with("/opt/other.so|\n"),
        "{:?}",
        outcome.output
    );
}

#[test]
fn silent_program_has_no_rows() {
    if !root() {
        return;
    }
    let outcome = ToolRun::new(program(), "--detail waits", &["true"]).end();
    outcome.output.assert_status(0);
    assert_eq!(outcome.coverage(), ProbeState::On);
    let account = outcome.account();
    assert_eq!((account.produced, account.stored), (0, 0));
    let itt_calls = InstrumentedTools::get().itt_calls();
    let argv = [itt_calls.to_str().expect("a path"), "values", "7"];
    let outcome = ToolRun::new(program(), "--detail calls", &argv).end();
    outcome.is_off("detail calls leaves it out");
}
