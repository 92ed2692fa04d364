//! An agent that is killed at any moment, with a target that comes and goes, has delivered every interval that it had
//! stored, whole and once, when it is let finish; and of the one that it was storing all or nothing.

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use common::*;
use whylat_agent::Interval;

/// Kills.
const KILLS: u64 = 100;
/// Most that a child stores before it waits for its end.
const INTERVALS: i64 = 12;
/// Names the directory for the child's files.
const DIR: &str = "WHYLAT_AGENT_TEST_DIR";
/// Has the number of its first interval.
const FIRST: &str = "WHYLAT_AGENT_TEST_FIRST";

/// Makes an interval of half a minute with this number.
fn numbered(number: i64) -> Interval {
    interval(HOUR_NS + number * MINUTE_NS / 2, 2)
}

/// Run as a child process: says a number when its interval is stored.
#[test]
fn child_stores_until_killed() {
    let (Some(dir), Ok(first)) = (std::env::var_os(DIR), std::env::var(FIRST)) else {
        return;
    };
    let first: i64 = first.parse().expect("a number");
    let shipper = start(&config_of(Path::new(&dir)));
    for number in first..first + INTERVALS {
        put(&shipper, numbered(number));
        let stored = (number - first + 1).cast_unsigned();
        until(&shipper, |state| state.stored_intervals == stored);
        println!("\nstored {number}");
        std::io::stdout().flush().expect("stdout");
    }
    // the kill comes, or the parent's end
    let _ = std::io::stdin().lines().next();
}

/// Returns the configuration as [`config`], without making the target.
fn config_of(dir: &Path) -> whylat_agent::config::ShipConfig {
    let target = dir.join("dataset");
    whylat_agent::config::ShipConfig {
        target: target.to_str().expect("a path").to_owned(),
        spool: dir.join("spool"),
        spool_max_bytes: 1 << 30,
    }
}

/// Starts a child that ships intervals from `first` on.
fn spawn(dir: &Path, first: i64) -> Child {
    Command::new(std::env::current_exe().expect("own path"))
        .args([
            "--exact",
            "child_stores_until_killed",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(DIR, dir)
        .env(FIRST, first.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .expect("start child")
}

/// Reads the next number that the child says; `None` at its end.
fn next_stored(output: &mut BufReader<ChildStdout>) -> Option<i64> {
    let mut line = String::new();
    while output.read_line(&mut line).expect("child's output") > 0 {
        if let Some(number) = line.trim().strip_prefix("stored ") {
            return Some(number.parse().expect("a number"));
        }
        line.clear();
    }
    None
}

/// Numbers that look random and are the same each time.
struct Random(u64);

impl Random {
    /// Returns a random number below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        // Marsaglia's xorshift
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

/// Waits by a busy loop: a sleep could not be this short.
fn spin(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn kills_lose_and_duplicate_nothing() {
    let temporary = memory_dir();
    let dir = temporary.path();
    let (target, away) = (dir.join("dataset"), dir.join("away"));
    fs::create_dir(&target).expect("target");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut stored = BTreeSet::new();
    let mut first = 0;
    for _ in 0..KILLS {
        if random.below(4) == 0 {
            let (from, to) = if target.exists() {
                (&target, &away)
            } else {
                (&away, &target)
            };
            fs::rename(from, to).expect("move the target");
        }
        let mut child = spawn(dir, first);
        let mut output = BufReader::new(child.stdout.take().expect("stdout"));
        for _ in 0..random.below(INTERVALS.cast_unsigned()) {
            stored.extend(next_stored(&mut output));
        }
        spin(Duration::from_micros(random.below(8_000)));
        child.kill().expect("kill");
        child.wait().expect("wait");
        while let Some(number) = next_stored(&mut output) {
            stored.insert(number);
        }
        // what a child was storing when it was killed is not stored again: time goes on
        first += INTERVALS;
    }
    if !target.exists() {
        fs::rename(&away, &target).expect("target is back");
    }
    let shipper = start(&config_of(dir));
    let last = numbered(first + 10_000);
    put(&shipper, last.clone());
    let state = stop(shipper);
    assert_eq!((state.spooled_files, state.error), (0, None));

    let numbers: BTreeSet<i64> = watched(&target)
        .iter()
        .map(|begin_ns| (begin_ns - HOUR_NS) / (MINUTE_NS / 2))
        .collect();
    assert!(
        numbers.is_superset(&stored),
        "lost: {:?}",
        stored.difference(&numbers)
    );
    println!(
        "{KILLS} kills, {} intervals stored, {} found",
        stored.len(),
        numbers.len()
    );
    let found: Vec<Interval> = numbers.into_iter().map(numbered).collect();
    assert_holds(&target, &found);
    let spool = dir.join("spool");
    for root in [&target, &spool] {
        assert_eq!(half_files(root), Vec::<String>::new(), "what a kill left");
    }
    // all hours but the last are merged, and nothing is left of them
    let names = files(&target);
    let minutes = names
        .iter()
        .filter(|name| name.rsplit('.').nth(1).is_some_and(|time| time.len() == 4));
    assert_eq!(minutes.count(), 5, "{names:?}");
    assert_eq!(files(&spool).len(), 5 + 2, "{:?}", files(&spool));
}

/// Files that each kind of kill leaves half written, put there by hand: the next start removes all of them, and no others.
#[test]
fn restart_removes_partial_files() {
    let temporary = memory_dir();
    let dir = temporary.path();
    let config = config(dir);
    let (agents, spool) = (dir.join("dataset/.agents"), dir.join("spool"));
    stop(start(&config));
    let boot = format!("{HOST}.0a1b2c3d.tmp");
    let before = format!("{HOST}.ffffffff.tmp");
    for name in [&*boot, &*before, "web-10.0a1b2c3d.tmp"] {
        fs::write(agents.join(name), "half").expect("a file");
    }
    fs::create_dir(spool.join("staging")).expect("a directory");
    for name in ["staging/x", "merging.tmp", "state.tmp", "uploads.tmp"] {
        fs::write(spool.join(name), "half").expect("a file");
    }
    // an agent that was never given anything writes nothing, so none of these can have been replaced
    stop(start(&config));
    assert_eq!(
        half_files(&dir.join("dataset")),
        [".agents/web-10.0a1b2c3d.tmp"],
        "another host's stays"
    );
    assert_eq!(half_files(&spool), Vec::<String>::new());
}
