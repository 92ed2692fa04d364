//! A recorder that is killed at any moment leaves a recording that opens, holds every sealed
//! row and says that it was not closed; and it leaves nothing else: no BPF object, no pin, no
//! namespace, no file.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::time::Duration;

use lab::Netns;
use nix::sys::signal::Signal;
use serde_json::Value;
use table::Recording;

use crate::bpf;
use testbed::{Recorder, Site, finish, program, role, root, until, whylat};

/// Kills, if WHYLAT_KILLS says no other number; `make faults` kills 200 times.
const KILLS: usize = 24;
/// Recorders at once: each waits most of its duration.
const AT_ONCE: usize = 8;
/// Segments are sealed at this interval.
const SEALING_MS: u64 = 2_000;
/// Longest life after everything is attached; and what lives that do not end before the first interval have after the
/// first sealing at least, so that they end around the second one.
const LONGEST_MS: u64 = 3_000;
const AFTER_SEALING_MS: u64 = 1_500;

/// Uniform numbers that are the same in every run (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }
}

/// Sealed rows of each table by the manifest's own lines, without the code that reads them
/// otherwise. The line that a kill tore does not count.
fn sealed(recording: &Path) -> BTreeMap<String, u64> {
    let text = fs::read_to_string(recording.join("manifest.jsonl")).expect("manifest");
    let mut rows = BTreeMap::new();
    for line in text
        .split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
    {
        let line: Value = serde_json::from_str(line).expect("a whole line");
        assert!(line.get("merged").is_none(), "merged before it was closed");
        if let Some(segment) = line.get("segment") {
            let table = segment["table"].as_str().expect("a table").to_owned();
            *rows.entry(table).or_default() += segment["rows"].as_u64().expect("rows");
        }
    }
    rows
}

/// Rows that can be read, by table.
fn readable(recording: &Path) -> BTreeMap<String, u64> {
    use table::Table;
    let recording = Recording::open(recording).expect("it opens");
    assert!(recording.closed().is_none(), "closed, though it was killed");
    assert!(!recording.is_live(), "its recorder is dead");
    let mut rows = BTreeMap::new();
    macro_rules! read {
        ($($row:ty),+ $(,)?) => {$(
            let count = recording.scan::<$row>(|_| ());
            if count > 0 {
                rows.insert(<$row>::NAME.to_owned(), count);
            }
        )+};
    }
    table::for_each_table!(read);
    assert!(
        recording.problems().is_empty(),
        "{:?}",
        recording.problems()
    );
    rows
}

/// One recording, killed; gives how many rows had been sealed. Lives of more than an interval are counted from the first
/// sealing, with which a machine that runs many recorders at once, and others' programs, may be late.
fn record_and_kill(arguments: &str, life_ms: u64) -> u64 {
    let recorder = Recorder::start(arguments);
    let path = recorder.recording();
    if life_ms < SEALING_MS {
        std::thread::park_timeout(Duration::from_millis(life_ms));
    } else {
        until("sealed rows of calls", || {
            sealed(&path).contains_key("calls").then_some(())
        });
        let left_ms = AFTER_SEALING_MS + life_ms - SEALING_MS;
        std::thread::park_timeout(Duration::from_millis(left_ms));
    }
    let scratch = recorder.kill();
    let sealed = sealed(&path);
    assert_eq!(readable(&path), sealed);
    if life_ms >= SEALING_MS {
        assert!(sealed.contains_key("calls"), "sealed rows went away");
    }
    let json = finish(whylat("report --format json").arg(&path));
    json.assert_status(3);
    let json: Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!(json["closed"], "not_closed");
    let text = finish(whylat("report").arg(&path));
    text.assert_status(3);
    assert!(text.out.contains("whylat recover"), "{}", text.out);
    finish(whylat("recover").arg(&path)).assert_status(3);
    finish(whylat("validate").arg(&path)).assert_status(3);
    assert_only(scratch.path(), &["r.whylat", "ready", "stderr"]);
    sealed.values().sum()
}

#[track_caller]
fn assert_only(directory: &Path, names: &[&str]) {
    let found: BTreeSet<String> = fs::read_dir(directory)
        .expect("the directory")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    assert_eq!(found, names.iter().map(|name| (*name).to_owned()).collect());
}

/// A pair of programs that exchange messages until they are dropped.
fn load() -> (Vec<lab::LabProcess>, u32) {
    let site = Site::loopback("cubic");
    let (server, port) = site.serve("reply-server --limit-s 300");
    let rounds = "request-reply --rounds 100000000 --pause-us 300 --limit-s 300";
    let client = site.connect(rounds, port);
    let pid = client.pid();
    (vec![server, client], pid)
}

fn kills() -> usize {
    let number = std::env::var("WHYLAT_KILLS").ok();
    number.map_or(KILLS, |it| it.parse().expect("WHYLAT_KILLS is a number"))
}

#[test]
fn kills_at_random_moments() {
    if !root() {
        return;
    }
    let kills = kills();
    let before = bpf::objects();
    let pins = pins();
    let (load, pid) = load();
    let moments: Vec<u64> = {
        let mut random = Random(200);
        (0..kills).map(|_| random.below(LONGEST_MS)).collect()
    };
    let left = Mutex::new(moments);
    let next = || left.lock().expect("lock").pop();
    let rows: Vec<u64> = std::thread::scope(|scope| {
        let worker = || {
            let mut rows = Vec::new();
            while let Some(moment) = next() {
                rows.push(record_and_kill(&format!("-p {pid}"), moment));
            }
            rows
        };
        let workers: Vec<_> = (0..AT_ONCE).map(|_| scope.spawn(worker)).collect();
        let joined = workers
            .into_iter()
            .map(|worker| worker.join().expect("a worker"));
        joined.flatten().collect()
    });
    drop(load);
    assert_eq!(rows.len(), kills);
    let with_rows = rows.iter().filter(|rows| **rows > 0).count();
    let total: u64 = rows.iter().sum();
    eprintln!("{kills} kills; {with_rows} recordings had sealed rows, {total} together");
    // a third of the lives end after the first sealing
    assert!(
        with_rows * 10 > kills,
        "{with_rows} of {kills} had sealed rows"
    );
    until_gone(&before);
    assert_eq!(self::pins(), pins, "a pin was left behind");
}

/// Segments are sealed while the recording goes on, and outlives a kill.
#[test]
fn segments_are_sealed_during_recording() {
    if !root() {
        return;
    }
    let (_load, pid) = load();
    let recorder = Recorder::start(&format!("-p {pid}"));
    let path = recorder.recording();
    let before = until("sealed calls", || sealed(&path).get("calls").copied());
    let scratch = recorder.kill();
    let after = sealed(&scratch.path().join("r.whylat"));
    assert!(after["calls"] >= before, "{before} calls, then {after:?}");
}

/// Waits until no BPF object of ours is left beside those that were there before. The kernel
/// frees them a moment after the process that held them has ended.
fn until_gone(before: &BTreeSet<bpf::Object>) {
    until("no BPF program, link or map of a recorder left", || {
        let new = bpf::objects().difference(before).count();
        (new == 0).then_some(())
    });
}

/// Names below the places where BPF objects can be pinned.
fn pins() -> BTreeSet<String> {
    let Ok(entries) = fs::read_dir("/sys/fs/bpf") else {
        return BTreeSet::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .map(|name| name.to_string_lossy().into_owned())
        .collect()
}

/// Returns whether a process has a socket of protocol `NETLINK_SOCK_DIAG` in the network namespace of `pid`; the
/// kernel's own has port 0.
fn is_polled(pid: u32) -> bool {
    let sockets = fs::read_to_string(format!("/proc/{pid}/net/netlink")).expect("its sockets");
    sockets.lines().any(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        words.next() == Some("4") && words.next() != Some("0")
    })
}

const ENDS: [Signal; 4] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGKILL,
];

/// Ends a recorder by a signal: all but the kill close the recording.
fn end(recorder: Recorder, how: Signal) {
    if how == Signal::SIGKILL {
        drop(recorder.kill());
        return;
    }
    let scratch = recorder.stop_by(how);
    assert_only(scratch.path(), &["r.whylat", "ready", "stderr"]);
    let path = scratch.path().join("r.whylat");
    assert!(readable_and_closed(&path), "{how}");
}

/// However a recorder ends, it lets go of its BPF objects and of everything outside its directory.
#[test]
fn every_exit_leaves_nothing() {
    if !root() {
        return;
    }
    for how in ENDS {
        let before = bpf::objects();
        let recorder = Recorder::start("-a");
        let made = bpf::objects();
        let ours = made.difference(&before).count();
        assert!(
            ours > 10,
            "only {ours} BPF objects of the recorder were seen"
        );
        end(recorder, how);
        until("its BPF objects gone", || {
            let still = bpf::objects();
            made.difference(&before)
                .all(|object| !still.contains(object))
                .then_some(())
        });
    }
}

/// Without BPF it has a socket in every namespace, to read the sockets there.
#[test]
fn every_exit_releases_namespaces() {
    if !root() {
        return;
    }
    for how in ENDS {
        let netns = Netns::new().expect("a namespace");
        let held = role(&netns, "hold-open 3");
        let mut command = Command::new("unshare");
        let without_btf = "mount -t tmpfs none /sys/kernel/btf && exec \"$0\" \"$@\"";
        command.args(["--mount", "--propagation", "private", "sh", "-c"]);
        command.args([without_btf, program()]);
        let recorder = Recorder::start_as(command, "-a");
        until("the recorder in the namespace", || {
            is_polled(held.pid()).then_some(())
        });
        end(recorder, how);
        until("the namespace let go", || {
            (!is_polled(held.pid())).then_some(())
        });
    }
}

fn readable_and_closed(path: &Path) -> bool {
    let recording = Recording::open(path).expect("it opens");
    recording.closed().is_some_and(|close| close.in_order)
}

/// A command that kills the recorder above it: the recording is as after any other kill.
#[test]
fn command_kills_recorder() {
    if !root() {
        return;
    }
    let before = bpf::objects();
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("r.whylat");
    let mut command = Command::new(program());
    command.args(["run", "--as-root", "--output"]).arg(&path);
    command.args(["--", "sh", "-c", "kill -KILL $PPID"]);
    let output = finish(&mut command);
    assert_eq!(output.signal, Some(9), "{output:?}");
    assert_eq!(readable(&path), sealed(&path));
    finish(whylat("recover").arg(&path)).assert_status(3);
    finish(whylat("validate").arg(&path)).assert_status(3);
    until_gone(&before);
    assert_only(scratch.path(), &["r.whylat"]);
}

/// A recorder that cannot begin once its command runs leaves neither the command nor a recording.
#[test]
fn failed_start_leaves_nothing() {
    let scratch = tempfile::tempdir().expect("a directory");
    let path = scratch.path().join("r.whylat");
    let mut command = whylat("run --detail stats --ready-file /proc/none/ready");
    command.arg("-o").arg(&path).args(["--", "sleep", "3600"]);
    // until all who have its standard output are gone; it is killed, which is another end, if the command goes on
    let output = finish(&mut command);
    output.assert_status(1);
    assert!(
        output.err.contains("cannot write ready file"),
        "{}",
        output.err
    );
    assert!(output.err.contains("hint: "), "{}", output.err);
    assert_only(scratch.path(), &[]);
}
