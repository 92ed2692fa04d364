//! Waits: what a thread waited for, for how long, and who ended it, against the program's own account.

use std::process::Command;

use serde_json::Value;
use table::tables::Wait;
use table::{WaitObject, Waker};
use tempfile::TempDir;

use crate::harness::{finish, planted, program, root};
use crate::report::{Report, number};

/// Plants waits: see its head.
const PLANT_WAITS: &str = include_str!("programs/plant_waits.cc");
/// Plants them on descriptors that came by other ways than open().
const OBJECTS: &str = include_str!("programs/objects.py");

/// What the program says of each of its waits.
fn truth(report: &Report, name: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(report.beside(name)).expect("the program's account");
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Records `command`, a line of a shell, run in `scratch`, at detail `waits`. What it prints is kept in
/// the file `truth`.
fn record(scratch: TempDir, command: &str) -> Report {
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "waits", "--output"]);
    run.arg(scratch.path().join("r.whylat"))
        .current_dir(scratch.path());
    run.args(["--", "sh", "-c", &format!("exec {command} > truth")]);
    finish(&mut run).ended(0);
    let report = Report::of(scratch);
    report.assert_whole();
    report
}

fn compiled() -> TempDir {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = scratch.path().join("plant_waits.cc");
    std::fs::write(&source, PLANT_WAITS).expect("the source");
    let mut compiler = Command::new("c++");
    compiler.args(["-O2", "-std=c++17", "-pthread", "-o"]);
    compiler.arg(scratch.path().join("plant_waits")).arg(source);
    finish(&mut compiler).ended(0);
    scratch
}

/// All waits, by thread and time.
fn waits(report: &Report) -> Vec<Wait> {
    let mut waits: Vec<Wait> = report.rows();
    waits.sort_by_key(|wait| (wait.tid, wait.start_ns));
    waits
}

/// The waits of a planted one's thread within its own times.
fn within<'a>(waits: &'a [Wait], plant: &Value) -> Vec<&'a Wait> {
    let of = |name| number(plant, name);
    let first = (of("/tid"), of("/start_ns"));
    let from = waits.partition_point(|wait| (u64::from(wait.tid), wait.start_ns) < first);
    let is_within =
        |wait: &&Wait| u64::from(wait.tid) == of("/tid") && wait.end_ns <= of("/end_ns");
    waits[from..].iter().take_while(is_within).collect()
}

/// Whether the recorded waits last as long as the program's own, to 0.3 ms or 1 %, whichever is more,
/// but for what its thread was on the CPU or waited for one, as the scheduler tells it.
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
fn check_object(plant: &Value, found: &[&Wait]) -> Result<(), String> {
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

fn check_planted(kinds: &str, lengths_us: &str, rounds: u32) -> Result<(), String> {
    let scratch = compiled();
    let command = format!("./plant_waits {rounds} {kinds} {lengths_us}");
    let report = record(scratch, &command);
    let waits = waits(&report);
    let (mut asked, mut late) = (0, 0);
    for plant in truth(&report, "truth") {
        let found = within(&waits, &plant);
        check_length(&plant, &found)?;
        let asked_ns = number(&plant, "/asked_ns");
        // A wait that is over before the thread has left the CPU is none.
        if asked_ns < 1_000_000 {
            continue;
        }
        asked += 1;
        // By its own clock it did not wait: a thread whose CPU stood still came when it was over.
        if number(&plant, "/end_ns") - number(&plant, "/start_ns") < asked_ns / 2 {
            late += 1;
            continue;
        }
        check_object(&plant, &found)?;
        check_waker(&plant, &found)?;
    }
    if late * 10 > asked {
        return Err(format!("{late} of {asked} waits did not come about"));
    }
    Ok(())
}

#[test]
fn every_object_from_ten_microseconds_on() {
    if root() {
        planted(|| check_planted("all", "10 103 1009 10007 101009", 2));
    }
}

#[test]
fn two_seconds() {
    if root() {
        planted(|| check_planted("futex,unix", "2000003", 1));
    }
}

/// Duplicated, inherited and passed descriptors, sockets of another namespace, a thread that ends, and
/// a process that becomes another program while it is recorded.
#[test]
fn objects_are_named_however_the_thread_came_by_them() {
    if !root() {
        return;
    }
    planted(|| {
        let scratch = tempfile::tempdir().expect("a directory");
        std::fs::write(scratch.path().join("objects.py"), OBJECTS).expect("the program");
        let report = record(scratch, "python3 objects.py");
        let waits = waits(&report);
        let planted = truth(&report, "truth");
        assert_eq!(planted.len(), 8, "{planted:?}");
        planted
            .iter()
            .try_for_each(|plant| check_object(plant, &within(&waits, plant)))
    });
}

/// Ten thousand sockets, each waited for once: where the byte is there before the thread has left the
/// CPU, there is no wait.
#[test]
fn ten_thousand_sockets() {
    if !root() {
        return;
    }
    planted(|| {
        let scratch = tempfile::tempdir().expect("a directory");
        std::fs::write(scratch.path().join("objects.py"), OBJECTS).expect("the program");
        let report = record(scratch, "python3 objects.py many 10007");
        let waits = waits(&report);
        let planted = truth(&report, "truth");
        assert_eq!(planted.len(), 10_007);
        let mut sockets = 0;
        for plant in &planted {
            let found = within(&waits, plant);
            let of_sockets: Vec<&Wait> =
                found.into_iter().filter(|wait| wait.fd.is_some()).collect();
            if !of_sockets.is_empty() {
                check_object(plant, &of_sockets)?;
                sockets += 1;
            }
        }
        if sockets * 2 > planted.len() {
            return Ok(());
        }
        Err(format!("only {sockets} of {} waits", planted.len()))
    });
}

/// A thousand threads, each blocked a known number of times.
#[test]
fn a_thousand_threads() {
    if !root() {
        return;
    }
    planted(|| {
        let scratch = tempfile::tempdir().expect("a directory");
        std::fs::write(scratch.path().join("objects.py"), OBJECTS).expect("the program");
        let report = record(scratch, "python3 objects.py threads 1009");
        let waits = waits(&report);
        let planted = truth(&report, "truth");
        assert_eq!(planted.len(), 1009);
        planted
            .iter()
            .try_for_each(|plant| check_object(plant, &within(&waits, plant)))
    });
}
