//! Events around the calls: threads, forks, plug-ins, crashes, full rings, no recorder.

mod support;

use std::collections::{HashMap, HashSet};
use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use support::{SMALL, Session, bodies, collector, names, programs};
use whylat_itt::{Body, Losses, RING_VARIABLE, Record, RingShape, Value};

/// Values of 24 bytes in a chunk of 8 KiB.
const VALUES_A_CHUNK: u64 = 8192 / 24;
const TINY: RingShape = RingShape {
    chunks: 3,
    definition_chunks: 2,
    chunk_bytes: 8192,
};

/// Returns the sum of a counter's changes by process.
fn totals(records: &[Record]) -> HashMap<u32, u64> {
    let mut totals = HashMap::new();
    for record in records {
        if let Body::CounterDelta { delta, .. } = record.body {
            *totals.entry(record.pid).or_default() += delta;
        }
    }
    totals
}

/// Returns the values of all counters.
fn values(records: &[Record]) -> Vec<u64> {
    let value = |record: &Record| match record.body {
        Body::CounterValue {
            value: Value::U64(value),
            ..
        } => Some(value),
        _ => None,
    };
    records.iter().filter_map(value).collect()
}

#[test]
fn the_collector_is_loadable() {
    whylat_itt::check_loadable(&collector()).expect("loadable");
}

#[test]
fn unloadable_collector_is_refused() {
    let missing = Path::new("/nonexistent/libwhylat_itt.so");
    let text = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
    let relative = Path::new("libwhylat_itt.so");
    // A library, but no collector.
    let other = programs().path("plugin.so");
    for path in [missing, &text, relative, &other] {
        let error = whylat_itt::check_loadable(path)
            .expect_err("refused")
            .to_string();
        assert!(error.contains("\nhint: "), "{error}");
        assert!(error.contains(&path.display().to_string()), "{error}");
    }
}

#[test]
fn killed_program_keeps_its_records() {
    let mut session = Session::new(SMALL);
    let status = session.run(["killed", "1009"]);
    assert_eq!(status.signal(), Some(libc::SIGKILL));
    session.read();
    assert_eq!(values(&session.records), (1..=1009).collect::<Vec<_>>());
    assert_eq!(session.ring.losses(), Losses::default());
}

#[test]
fn program_killed_during_read_keeps_prefix() {
    let mut session = Session::new(SMALL);
    let mut child = session
        .command("program")
        .args(["count", "1000000000"])
        .spawn()
        .expect("it runs");
    while session.records.len() < 10_007 {
        session.read();
    }
    child.kill().expect("killed");
    child.wait().expect("a status");
    session.read();
    let values = values(&session.records);
    // Values that found no room are left out; there is none twice, none torn.
    assert!(values.is_sorted_by(|one, next| one < next));
    let losses = session.ring.losses();
    let last = *values.last().expect("values");
    let before_last = values.len() as u64 + losses.full;
    assert!(before_last >= last, "{last} {losses:?}");
    assert_eq!(losses.damaged_chunks, 0);
}

#[test]
fn overflow_is_counted_exactly() {
    let mut session = Session::new(TINY);
    session.record(["count", "100003"]);
    let room = TINY.chunks as u64 * VALUES_A_CHUNK;
    assert_eq!(values(&session.records), (1..=room).collect::<Vec<_>>());
    let losses = session.ring.losses();
    assert_eq!(losses.full, 100_003 - room);
    assert_eq!(losses.missing_definitions, 0);
}

#[test]
fn ring_space_is_reused() {
    let mut session = Session::new(TINY);
    session.record(["count", "100003"]);
    let first = session.ring.losses().full;
    session.read();
    session.records.clear();
    session.record(["count", "101"]);
    assert_eq!(values(&session.records), (1..=101).collect::<Vec<_>>());
    assert_eq!(session.ring.losses().full, first);
}

/// Makes a ring with all chunks for definitions in use, and not read.
fn without_room_for_names() -> Session {
    let session = Session::new(TINY);
    for _ in 0..TINY.definition_chunks {
        assert!(session.run(["count", "1"]).success());
    }
    session
}

#[test]
fn dropped_names_are_counted() {
    let mut session = without_room_for_names();
    session.record(["count", "7"]);
    assert_eq!(session.ring.losses().missing_definitions, 1);
    assert_eq!(names(&session.records).len(), TINY.definition_chunks);
    // Values have chunks of their own: they are there without the name.
    let expected = TINY.definition_chunks + 7;
    assert_eq!(values(&session.records).len(), expected);
}

#[test]
fn dropped_names_are_written_at_next_use() {
    let mut session = without_room_for_names();
    let mut command = session.command("program");
    let command = command
        .arg("named_later")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut byte = [0];
    let output = child.stdout.as_mut().expect("a pipe");
    output
        .read_exact(&mut byte)
        .expect("it says that it has named");
    assert_eq!(session.ring.losses().missing_definitions, 1);
    // Frees the chunks of those that have ended.
    session.read();
    session.records.clear();
    let input = child.stdin.as_mut().expect("a pipe");
    input.write_all(&byte).expect("the program listens");
    assert!(child.wait().expect("a status").success());
    session.read();
    assert_eq!(session.ring.losses().missing_definitions, 0);
    let names: Vec<String> = names(&session.records).into_values().collect();
    assert_eq!(names, ["late"]);
    assert_eq!(values(&session.records), [2]);
}

#[test]
fn many_threads_count_exactly() {
    let mut session = Session::new(RingShape::default());
    let child = session
        .command("program")
        .args(["hammer", "8", "50021"])
        .spawn()
        .expect("it runs");
    assert!(session.follow(child).success());
    let read: u64 = totals(&session.records).values().sum();
    let losses = session.ring.losses();
    assert_eq!(read + losses.full, 8 * 50_021, "{losses:?}");
    assert_eq!(losses.full, 0);
    let threads: HashSet<u32> = session.records.iter().map(|record| record.tid).collect();
    assert!(threads.len() >= 8);
}

#[test]
fn threads_lose_exact_overflow() {
    let mut session = Session::new(TINY);
    session.record(["hammer", "8", "10007"]);
    let read: u64 = totals(&session.records).values().sum();
    let losses = session.ring.losses();
    assert!(read > 0 && losses.full > 0);
    assert_eq!(read + losses.full, 8 * 10_007);
}

#[test]
fn calls_of_signal_handlers_are_kept_or_counted() {
    let mut session = Session::new(SMALL);
    let mut command = session.command("program");
    let command = command.args(["interrupts", "307"]).stdout(Stdio::piped());
    let mut child = command.spawn().expect("it runs");
    let mut output = child.stdout.take().expect("a pipe");
    assert!(session.follow(child).success());
    let mut output_text = String::new();
    output.read_to_string(&mut output_text).expect("read");
    let (calls, signals) = output_text.trim().split_once(' ').expect("two numbers");
    let [calls, signals] = [calls, signals].map(|it| it.parse::<u64>().expect("a number"));
    let read: u64 = totals(&session.records).values().sum();
    let losses = session.ring.losses();
    assert_eq!(read + losses.full + losses.interrupted, calls, "{losses:?}");
    assert!(
        signals >= 307 && losses.interrupted <= signals,
        "{losses:?}"
    );
    assert_eq!(losses.damaged_chunks, 0);
}

#[test]
fn records_of_a_thread_come_in_its_order() {
    let mut session = Session::new(RingShape::default());
    let child = session
        .command("program")
        .args(["count", "300007"])
        .spawn()
        .expect("it runs");
    assert!(session.follow(child).success());
    assert_eq!(values(&session.records), (1..=300_007).collect::<Vec<_>>());
}

#[test]
fn more_threads_than_chunks_are_recorded() {
    let mut session = Session::new(SMALL);
    let child = session
        .command("program")
        .args(["first_in_thread", "503"])
        .spawn()
        .expect("it runs");
    assert!(session.follow(child).success());
    let read: u64 = totals(&session.records).values().sum();
    assert_eq!(read + session.ring.losses().full, 503);
    // All have ended: all chunks are free again.
    session.records.clear();
    session.record(["first_in_thread", "13"]);
    assert_eq!(totals(&session.records).values().sum::<u64>(), 13);
}

#[test]
fn parent_and_child_write_for_themselves() {
    for mode in ["fork", "clone"] {
        let mut session = Session::new(RingShape::default());
        let records = session.record_all([mode, "20011"]);
        let totals = totals(&records);
        assert_eq!(totals.len(), 2, "{mode}: two processes");
        assert!(totals.values().all(|total| *total == 20_011), "{totals:?}");
        let defined: HashMap<u32, String> = names(&records);
        let used = records.iter().filter_map(|record| match record.body {
            Body::CounterDelta { counter, .. } => Some(defined[&counter].as_str()),
            _ => None,
        });
        let used: HashSet<&str> = used.collect();
        assert_eq!(used.contains("of the child"), mode == "fork");
    }
}

#[test]
fn chunks_of_killed_processes_are_reused() {
    let mut session = Session::new(SMALL);
    let child = session
        .command("program")
        .args(["many_die", "101"])
        .spawn()
        .expect("it runs");
    assert!(session.follow(child).success());
    let read = values(&session.records).len() as u64;
    assert_eq!(read + session.ring.losses().full, 101);
    session.records.clear();
    session.record(["many_die", "7"]);
    assert_eq!(values(&session.records), (0..7).collect::<Vec<_>>());
}

#[test]
fn plugin_static_part_shares_names() {
    let plugin = programs().path("plugin.so");
    let plugin = plugin.to_str().expect("a path");
    for (mode, expected) in [("plugin", vec![1, 2, 3]), ("plugin_first", vec![2, 3])] {
        let mut session = Session::new(SMALL);
        let records = session.record_all([mode, plugin]);
        assert_eq!(values(&records), expected);
        let counters = bodies(&records).into_iter().filter_map(|body| match body {
            Body::CounterValue { counter, .. } => Some(*counter),
            _ => None,
        });
        let counters: HashSet<u32> = counters.collect();
        assert_eq!(counters.len(), 1, "{mode}: one counter");
        let domains = bodies(&records).into_iter().filter_map(|body| match body {
            Body::TaskBegin { domain, .. } => Some(*domain),
            _ => None,
        });
        let domains: Vec<u32> = domains.collect();
        assert_eq!(domains.len(), 2);
        assert_eq!(
            domains[0], domains[1],
            "{mode}: one domain, also after unloading"
        );
    }
}

#[test]
fn older_static_parts_are_read_within_bounds() {
    for (build, calls) in [("20101001", 0), ("20111111", 1), ("20151119", 2)] {
        let mut session = Session::new(SMALL);
        let status = session.command("old_part").arg(build).status();
        assert!(status.expect("it runs").success(), "build {build}");
        session.read();
        assert_eq!(totals(&session.records).values().sum::<u64>(), calls);
        assert_eq!(session.ring.losses(), Losses::default());
    }
}

/// Makes the command of the program as pid 1 of another pid namespace.
fn in_a_pid_namespace(session: &Session, args: [&str; 2]) -> Command {
    let program = session.command("program");
    let mut command = Command::new("unshare");
    command.args(["--pid", "--fork", "--"]);
    command.arg(program.get_program()).args(args);
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Pids of a container say nothing to the recorder: it must not take them for dead.
#[test]
fn another_pid_namespace_is_recorded_too() {
    // SAFETY: the call takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return eprintln!("skipped: only root can make a pid namespace");
    }
    let mut session = Session::new(SMALL);
    let mut command = in_a_pid_namespace(&session, ["first_in_thread", "503"]);
    let child = command.spawn().expect("it runs");
    assert!(session.follow(child).success());
    let read: u64 = totals(&session.records).values().sum();
    let losses = session.ring.losses();
    assert_eq!(read + losses.full, 503);
    assert_eq!(losses.damaged_chunks, 0);
    // Chunks of threads that have ended come back, without asking for pids.
    session.records.clear();
    let mut command = in_a_pid_namespace(&session, ["first_in_thread", "13"]);
    assert!(command.status().expect("it runs").success());
    session.read();
    assert_eq!(totals(&session.records), HashMap::from([(1, 13)]));
}

#[test]
fn program_runs_without_a_ring() {
    let session = Session::new(SMALL);
    let short = session.ring.path().with_file_name("short");
    std::fs::write(&short, b"whylatit").expect("written");
    let foreign = session.ring.path().with_file_name("foreign");
    std::fs::write(&foreign, vec![0xa5; 1 << 20]).expect("written");
    let cut = session.ring.path().with_file_name("cut");
    let whole = std::fs::read(session.ring.path()).expect("read");
    std::fs::write(&cut, &whole[..whole.len() - 4096]).expect("written");
    let directory = session
        .ring
        .path()
        .parent()
        .expect("a directory")
        .to_owned();
    let missing = directory.join("missing");
    let paths = [short, foreign, cut, directory, missing];
    for path in paths.iter().map(Some).chain([None]) {
        let mut command = session.command("program");
        match path {
            Some(path) => command.env(RING_VARIABLE, path),
            None => command.env_remove(RING_VARIABLE),
        };
        let output = command
            .args(["hammer", "4", "1009"])
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{path:?}: {}", output.status);
        assert!(output.stdout.is_empty() && output.stderr.is_empty());
    }
}

#[test]
fn after_closing_nothing_is_written() {
    let mut session = Session::new(SMALL);
    session.ring.close();
    assert!(session.run(["count", "1009"]).success());
    session.read();
    assert_eq!(values(&session.records), Vec::<u64>::new());
    assert_eq!(session.ring.losses(), Losses::default());
}

#[test]
fn a_program_outlives_its_recorder() {
    let mut session = Session::new(TINY);
    let child = session
        .command("program")
        .args(["count", "1000003"])
        .spawn();
    let mut child = child.expect("it runs");
    while session.records.is_empty() {
        session.read();
    }
    let Session { ring, .. } = session;
    drop(ring);
    assert!(child.wait().expect("a status").success());
}
