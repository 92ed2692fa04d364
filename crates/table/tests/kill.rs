//! A recorder that is killed at any moment leaves a recording that opens, holds every row that
//! was sealed, and says that it was not closed.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Random, header};
use whylat_table::tables::{Call, Calls};
use whylat_table::{Columns, Recording, WriteOptions, Writer, recover_recording, validate};

/// Rounds of writing and killing.
const KILLS: u64 = 200;
/// Gives the child the place to write; without it [`child_writes_until_killed`] does nothing.
const CHILD_DIR: &str = "WHYLAT_TABLE_TEST_CHILD";

/// Makes the call with this number: `offset_end` counts, the rest follows from it.
fn call(number: u64) -> Call {
    Call {
        conn: number % 7,
        end_ns: number * 1_000,
        start_ns: number.is_multiple_of(3).then_some(number),
        blocked_ns: Some(number % 11),
        runq_ns: None,
        unread_ns: Some(number % 13),
        tcp_ns: number.is_multiple_of(5).then_some(number),
        is_send: number.is_multiple_of(2),
        asked_bytes: Some(number * number),
        result: number as i32,
        offset_end: number,
        flags: 0,
        tid: 1,
        pid: 1,
        cpu: 0,
    }
}

/// Makes `count` calls with numbers from `from` on.
fn calls(from: u64, count: u64) -> Calls {
    let mut calls = Calls::default();
    (from..from + count).for_each(|number| calls.push(call(number)));
    calls
}

/// Run as a child process: writes and seals a few times, closes, and waits for the kill. Prints
/// the number of sealed rows, and that it has closed.
#[test]
fn child_writes_until_killed() {
    let Some(dir) = std::env::var_os(CHILD_DIR) else {
        return;
    };
    let mut writer =
        Writer::create(Path::new(&dir), &header(), WriteOptions::default()).expect("create");
    let mut random = Random::new(u64::from(std::process::id()));
    let mut number = 0;
    for _ in 0..1 + random.below(12) {
        for _ in 0..random.below(4) {
            let count = 1 + random.below(6_000);
            writer.append(calls(number, count)).expect("append");
            number += count;
        }
        writer.seal().expect("seal");
        print_line(&format!("sealed {number}"));
    }
    let closed = writer.close(number * 1_000).expect("close");
    assert!(closed.failures.is_empty());
    print_line("closed");
    loop {
        std::thread::park();
    }
}

/// Prints a line at once.
fn print_line(line: &str) {
    println!("{line}");
    std::io::stdout().flush().expect("flush");
}

/// Starts this test again as a child that writes a recording until it is killed.
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

/// Counts that the child printed before it was killed.
#[derive(Default)]
struct ChildReport {
    seals: u64,
    sealed_rows: u64,
    closed: bool,
}

impl ChildReport {
    /// Takes in a line; false at the end of the output. The harness prints lines of its own,
    /// and the last one may be cut.
    fn listen(&mut self, output: &mut impl BufRead) -> bool {
        let mut line = String::new();
        if output.read_line(&mut line).expect("read") == 0 {
            return false;
        }
        let Some(line) = line.strip_suffix('\n') else {
            return true;
        };
        self.closed |= line == "closed";
        if let Some(rows) = line.strip_prefix("sealed ") {
            self.sealed_rows = rows.parse().expect("a number");
            self.seals += 1;
        }
        true
    }
}

/// Kills the child a random moment after a random number of seals.
fn kill_at_random(mut child: Child, random: &mut Random) -> ChildReport {
    let mut output = BufReader::new(child.stdout.take().expect("piped"));
    let seals = 1 + random.below(6);
    let mut report = ChildReport::default();
    while report.seals < seals && !report.closed {
        assert!(report.listen(&mut output), "the child waits to be killed");
    }
    let moment = Duration::from_micros(random.below(9_000));
    let since = Instant::now();
    while since.elapsed() < moment {
        std::hint::spin_loop();
    }
    child.kill().expect("kill");
    child.wait().expect("wait");
    while report.listen(&mut output) {}
    report
}

#[test]
fn a_kill_at_any_moment_loses_no_sealed_row() {
    let mut random = Random::new(200);
    let (mut closed, mut left_over) = (0, 0);
    for round in 0..KILLS {
        let temporary = tempfile::tempdir().expect("temporary directory");
        let dir = temporary.path().join("r.whylat");
        let report = kill_at_random(start(&dir), &mut random);

        let recording = Recording::open(&dir).expect("a killed recording opens");
        assert!(!recording.is_live(), "round {round}");
        assert_eq!(recording.problems(), [], "round {round}");
        let in_order = recording.closed().is_some();
        assert!(in_order || !report.closed, "round {round}");
        let rows = recording.rows::<Call>();
        assert!(
            rows >= report.sealed_rows,
            "round {round}: {rows} of {} rows",
            report.sealed_rows
        );
        let found = recording.read_all::<Call>();
        assert!(found == calls(0, rows), "round {round}: rows differ");

        closed += u64::from(in_order);
        let recovered = recover_recording(&dir).expect("recover");
        assert_eq!(recovered.was_closed, in_order, "round {round}");
        left_over += (recovered.removed.len() + recovered.set_aside.len()) as u64;
        let recording = Recording::open(&dir).expect("a recovered recording opens");
        let close = recording.closed().expect("closed now");
        assert_eq!(close.in_order, in_order, "round {round}");
        assert!(
            recording.read_all::<Call>() == found,
            "round {round}: rows differ"
        );
        assert_eq!(validate(&dir).expect("opens"), [], "round {round}");
    }
    assert!(
        closed > 0 && closed < KILLS,
        "kills come before and after the close"
    );
    println!("{KILLS} kills: {closed} after the close, {left_over} left-over files");
}
