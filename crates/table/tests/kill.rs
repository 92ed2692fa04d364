//! A recorder that is killed at any moment leaves a recording that opens, holds every row that
//! was sealed, and says that it was not closed.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Random, header};
use whylat_table::tables::{Call, Calls};
use whylat_table::{Columns, Recording, WriteOptions, Writer, recover, validate};

/// Rounds of writing and killing.
const KILLS: u64 = 200;
/// Tells the child where to write; without it [`child_writes_until_killed`] does nothing.
const CHILD_DIR: &str = "WHYLAT_TABLE_TEST_CHILD";

/// The call with this number: `offset_end` counts, the rest follows from it.
fn call(number: u64) -> Call {
    Call {
        conn: number % 7,
        end_ns: number * 1_000,
        start_ns: (number % 3 == 0).then_some(number),
        blocked_ns: Some(number % 11),
        runq_ns: None,
        is_send: number % 2 == 0,
        asked_bytes: Some(number * number),
        result: number as i32,
        offset_end: number,
        flags: 0,
        tid: 1,
        pid: 1,
        cpu: 0,
    }
}

fn calls(from: u64, count: u64) -> Calls {
    let mut calls = Calls::default();
    (from..from + count).for_each(|number| calls.push(call(number)));
    calls
}

/// Run as a child process: writes and seals without end, and tells the number of sealed rows.
#[test]
fn child_writes_until_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let mut writer =
        Writer::create(Path::new(&dir), &header(), WriteOptions::default()).expect("create");
    let mut random = Random::new(u64::from(std::process::id()));
    let mut number = 0;
    loop {
        for _ in 0..random.below(4) {
            let count = 1 + random.below(6_000);
            writer.append(calls(number, count)).expect("append");
            number += count;
        }
        writer.seal().expect("seal");
        println!("sealed {number}");
        std::io::stdout().flush().expect("flush");
    }
}

fn start(dir: &Path) -> Child {
    Command::new(std::env::current_exe().expect("own path"))
        .args([
            "--exact",
            "child_writes_until_killed",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(CHILD_DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("start child")
}

/// Kills the child a random moment after a random number of seals; returns how many rows it
/// had said were sealed.
fn kill_at_random(mut child: Child, random: &mut Random) -> u64 {
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let seals = 1 + random.below(5);
    let mut sealed = 0;
    let mut take_line = |output: &mut BufReader<_>| {
        let mut line = String::new();
        if output.read_line(&mut line).expect("read") == 0 {
            return None;
        }
        // The harness prints lines of its own, and the last one may be cut.
        let number = line
            .strip_prefix("sealed ")
            .filter(|number| number.ends_with('\n'));
        if let Some(number) = number.and_then(|number| number.trim().parse().ok()) {
            sealed = number;
            return Some(true);
        }
        Some(false)
    };
    let mut seen = 0;
    while seen < seals {
        seen += u64::from(take_line(&mut output).expect("the child writes until killed"));
    }
    let moment = Duration::from_micros(random.below(4_000));
    let since = Instant::now();
    while since.elapsed() < moment {
        std::hint::spin_loop();
    }
    child.kill().expect("kill");
    child.wait().expect("wait");
    while take_line(&mut output).is_some() {}
    sealed
}

#[test]
fn a_kill_at_any_moment_loses_no_sealed_row() {
    let mut random = Random::new(200);
    let (mut torn, mut left_over) = (0, 0);
    for round in 0..KILLS {
        let temporary = tempfile::tempdir().expect("temporary directory");
        let dir = temporary.path().join("r.whylat");
        let sealed = kill_at_random(start(&dir), &mut random);

        let recording = Recording::open(&dir).expect("a killed recording opens");
        assert!(recording.closed().is_none(), "round {round}");
        assert!(!recording.live(), "round {round}");
        assert_eq!(recording.problems(), [], "round {round}");
        let rows = recording.rows::<Call>();
        assert!(
            rows >= sealed,
            "round {round}: {rows} rows of {sealed} sealed"
        );
        let found = recording.read_all::<Call>();
        assert!(found == calls(0, rows), "round {round}: rows differ");

        torn += u64::from(recording.torn());
        let recovered = recover(&dir).expect("recover");
        left_over += (recovered.removed.len() + recovered.set_aside.len()) as u64;
        let recording = Recording::open(&dir).expect("a recovered recording opens");
        assert!(
            recording.closed().is_some_and(|close| !close.in_order),
            "round {round}"
        );
        assert!(
            recording.read_all::<Call>() == found,
            "round {round}: rows differ"
        );
        assert_eq!(validate(&dir).expect("opens"), [], "round {round}");
    }
    println!("{KILLS} kills: {torn} torn lines, {left_over} left-over files");
}
