//! Waits: what a thread waited for, for how long, and who ended it, against the program's own account.

use std::process::Command;

use serde_json::{Value, json};
use table::tables::Wait;
use table::{WaitObject, Waker};
use tempfile::TempDir;

use crate::play::{Judge, Outcome, Play};
use crate::shrink::WAITS;
use testbed::report::{Report, number};
use testbed::{finish, program};

pub fn plays() -> Vec<Play> {
    let play = |name: &str, record: fn() -> Outcome, judge: Judge| Play {
        name: format!("waits::{name}"),
        record: Box::new(move || came_about(record())),
        judge,
        tables: WAITS,
        leaves_out: None,
    };
    vec![
        play(
            "every_object_from_ten_microseconds_on",
            || record(compiled(), "./plant_waits 1 all 11 1009 20011"),
            are_right,
        ),
        play(
            "two_seconds",
            || record(compiled(), "./plant_waits 1 futex,unix 2000003"),
            are_right,
        ),
        play(
            "objects_however_the_thread_came_by_them",
            || record_objects(""),
            are_named,
        ),
    ]
}

/// Plants waits: see its head.
const PLANT_WAITS: &str = include_str!("../programs/plant_waits.cc");
/// Plants them on descriptors that came by other ways than open().
const OBJECTS: &str = include_str!("../programs/objects.py");

/// Records `command`, a line of a shell, run in `scratch`, at detail `waits`. What it prints is kept in
/// the file `truth`.
fn record(scratch: TempDir, command: &str) -> Outcome {
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "waits", "--output"]);
    run.arg(scratch.path().join("r.whylat"))
        .current_dir(scratch.path());
    run.args(["--", "sh", "-c", &format!("exec {command} > truth")]);
    finish(&mut run).assert_status(0);
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    let account =
        std::fs::read_to_string(report.file_beside("truth")).expect("the program's account");
    let waits: Vec<Value> = account
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    Outcome {
        report,
        truth: json!({ "waits": waits }),
    }
}

/// Records threads that wait for objects which came by other ways than open().
pub fn record_objects(arguments: &str) -> Outcome {
    let scratch = tempfile::tempdir().expect("a directory");
    std::fs::write(scratch.path().join("objects.py"), OBJECTS).expect("the program");
    record(scratch, &format!("python3 objects.py {arguments}"))
}

/// The program's record of each of its waits.
pub fn truth(outcome: &Outcome) -> &Vec<Value> {
    outcome.truth["waits"].as_array().expect("waits")
}

fn compiled() -> TempDir {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("plant_waits.cc");
    std::fs::write(&source, PLANT_WAITS).expect("the source");
    let mut compiler = Command::new("c++");
    compiler.args(["-O2", "-std=c++17", "-pthread", "-o"]);
    compiler.arg(scratch.path().join("plant_waits")).arg(source);
    finish(&mut compiler).assert_status(0);
    scratch
}

/// All waits, by thread and time.
pub fn waits(report: &Report) -> Vec<Wait> {
    let mut waits: Vec<Wait> = report.rows();
    waits.sort_by_key(|wait| (wait.tid, wait.start_ns));
    waits
}

/// The waits of a planted one's thread within its own times.
pub fn within<'a>(waits: &'a [Wait], plant: &Value) -> Vec<&'a Wait> {
    let of = |name| number(plant, name);
    let first = (of("/tid"), of("/start_ns"));
    let from = waits.partition_point(|wait| (u64::from(wait.tid), wait.start_ns) < first);
    let is_within =
        |wait: &&Wait| u64::from(wait.tid) == of("/tid") && wait.end_ns <= of("/end_ns");
    waits[from..].iter().take_while(is_within).collect()
}

/// Whether the recorded waits last as long as the program's own, to 0.3 ms or 1 %, whichever is more,
/// but for what its thread was on the CPU or waited for one, as the scheduler counts it.
fn check_length(plant: &Value, found: &[&Wait]) -> Result<(), String> {
    let took_ns = number(plant, "/end_ns") - number(plant, "/start_ns");
    let seen_ns: u64 = found.iter().map(|wait| wait.end_ns - wait.start_ns).sum();
    let allowed_ns = (took_ns / 100).max(300_000) + number(plant, "/ran_ns");
    if took_ns.abs_diff(seen_ns) > allowed_ns {
        return Err(format!("{plant}: {seen_ns} ns recorded: {found:?}"));
    }
    Ok(())
}

/// Whether the longest of the recorded waits has the planted one's object.
pub fn check_object(plant: &Value, found: &[&Wait]) -> Result<(), String> {
    let longest = found.iter().max_by_key(|wait| wait.end_ns - wait.start_ns);
    let wait = longest.ok_or_else(|| format!("{plant}: nothing recorded"))?;
    let (object, conn) = (number(plant, "/object"), number(plant, "/conn"));
    let fd = plant["fd"].as_i64().filter(|fd| *fd >= 0);
    let connection = match wait.kind {
        WaitObject::Epoll | WaitObject::Poll | WaitObject::Select => wait.ready_conn,
        _ => wait.conn,
    };
    let is_same = wait.kind.name() == plant["kind"]
        && (object == 0 || wait.object == Some(object))
        && (conn == 0 || connection == Some(conn))
        && wait.fd.map(i64::from) == fd;
    if is_same {
        Ok(())
    } else {
        Err(format!("{plant}: {wait:?}"))
    }
}

/// Whether the one who ended it is the one that can.
fn check_waker(plant: &Value, found: &[&Wait]) -> Result<(), String> {
    let longest = found.iter().max_by_key(|wait| wait.end_ns - wait.start_ns);
    let wait = longest.ok_or_else(|| format!("{plant}: nothing recorded"))?;
    let wanted = match wait.kind {
        WaitObject::Pipe | WaitObject::Unix | WaitObject::Futex | WaitObject::Child => {
            Waker::Thread
        }
        WaitObject::Sleep => Waker::Interrupt,
        _ => return Ok(()),
    };
    let woken_ns = wait.woken_ns.unwrap_or(0);
    let in_time = wait.start_ns <= woken_ns && woken_ns <= wait.end_ns;
    if wait.waker == wanted
        && in_time
        && (wanted != Waker::Thread || wait.waker_tid != Some(wait.tid))
    {
        return Ok(());
    }
    Err(format!("{plant}: {wait:?}"))
}

/// How long a wait is that a thread has left the CPU for: one that is over before is none.
const LEAST_NS: u64 = 1_000_000;

/// By its own clock it did not wait: its CPU was stalled, and the thread came when the wait was over.
fn is_late(plant: &Value) -> bool {
    let took_ns = number(plant, "/end_ns") - number(plant, "/start_ns");
    plant["asked_ns"]
        .as_u64()
        .is_some_and(|asked_ns| took_ns < asked_ns / 2)
}

fn came_about(outcome: Outcome) -> Result<Outcome, String> {
    let asked = truth(&outcome)
        .iter()
        .filter(|it| it["asked_ns"].as_u64() >= Some(LEAST_NS));
    let late = asked.clone().filter(|plant| is_late(plant)).count();
    let asked = asked.count();
    match late * 10 > asked {
        true => Err(format!("{late} of {asked} waits did not come about")),
        false => Ok(outcome),
    }
}

/// Each is as long as the program knows, names its object, and who ended it.
fn are_right(outcome: &Outcome) {
    let waits = waits(&outcome.report);
    for plant in truth(outcome) {
        let found = within(&waits, plant);
        check_length(plant, &found).unwrap_or_else(|why| panic!("{why}"));
        if number(plant, "/asked_ns") >= LEAST_NS && !is_late(plant) {
            let named = check_object(plant, &found).and_then(|()| check_waker(plant, &found));
            named.unwrap_or_else(|why| panic!("{why}"));
        }
    }
}

/// Duplicated, inherited and passed descriptors, sockets of another namespace, a thread that ends, and
/// a process that becomes another program while it is recorded.
fn are_named(outcome: &Outcome) {
    assert_eq!(truth(outcome).len(), 8);
    each_is_named(outcome);
}

/// Each wait has the object that the program says.
pub fn each_is_named(outcome: &Outcome) {
    let waits = waits(&outcome.report);
    for plant in truth(outcome) {
        let named = check_object(plant, &within(&waits, plant));
        named.unwrap_or_else(|why| panic!("{why}"));
    }
}
