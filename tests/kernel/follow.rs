//! `--follow host`: the processes of this host to which a recorded client's connections lead are recorded, with every call
//! and their waits; nobody else is.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command};

use serde_json::Value;
use table::manifest::ProbeState;
use table::tables::Call;
use tempfile::TempDir;

use crate::masters::waiting_processes;
use testbed::report::Report;
use testbed::{ChildGuard, Recorder, finish, root, whylat};

/// A client, three servers in a row, and others: see its head.
const CHAIN: &str = include_str!("programs/chain.py");

/// A server with a process for each connection, and its client: see its head.
const MANY: &str = include_str!("programs/many_servers.py");

/// Processes that are followed at a time.
const FOLLOW_MOST: usize = 64;

/// A program that prints a line of JSON when all is ready, and another one after it has read one.
struct Program {
    _directory: TempDir,
    _process: ChildGuard,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Program {
    fn start(source: &str) -> Self {
        // a socket's name has room for a short path
        let directory = tempfile::tempdir_in("/tmp").expect("a directory");
        let program = directory.path().join("program.py");
        std::fs::write(&program, source).expect("the source");
        let mut command = Command::new("python3");
        command.arg(&program).arg(directory.path().join("socket"));
        let mut process = ChildGuard::start_talking(&mut command);
        Program {
            input: process.0.stdin.take().expect("its input"),
            output: BufReader::new(process.0.stdout.take().expect("its output")),
            _directory: directory,
            _process: process,
        }
    }

    fn read(&mut self) -> Value {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).expect("JSON")
    }

    fn go_on(&mut self) {
        self.input.write_all(b"\n").expect("go on");
    }
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

fn pid(pids: &Value, name: &str) -> u32 {
    number(&pids[name]).try_into().expect("a pid")
}

/// Calls that moved bytes, of each process: sends, receives.
fn moved(report: &Report) -> BTreeMap<u32, [u64; 2]> {
    let mut moved = BTreeMap::new();
    for call in report.rows::<Call>() {
        if call.result > 0 {
            moved.entry(call.pid).or_insert([0; 2])[usize::from(!call.is_send)] += 1;
        }
    }
    moved
}

fn state(report: &Report) -> Option<ProbeState> {
    let recording = report.recording();
    let mut coverage = recording.coverage().iter();
    let found = coverage.rfind(|it| it.probe == "inventory.follow");
    found.map(|it| it.state.clone())
}

/// Records the client of the chain with these options. Returns the processes, and how often both clients asked.
fn record_chain(options: &str) -> (Report, Value, u64, u64) {
    let mut program = Program::start(CHAIN);
    let pids = program.read();
    let recorder = Recorder::start(&format!("-p {} {options}", pid(&pids, "client")));
    program.go_on();
    let asked = program.read();
    let report = recorder.stop();
    report.assert_whole();
    let (client, other) = (number(&asked["client"]), number(&asked["other"]));
    (report, pids, client, other)
}

#[test]
fn servers_of_servers_are_recorded() {
    if !root() {
        return;
    }
    let (report, pids, client, other) = record_chain("--follow host");
    let chain = ["client", "front", "middle", "back"].map(|name| pid(&pids, name));
    assert_eq!(waiting_processes(&report), BTreeSet::from(chain));
    let mut moved = moved(&report);
    // Calls on UNIX sockets show who serves there: those that end before the asking call has ended come too early. Each of
    // two connections has two of them.
    let served = client + other;
    let back = moved.remove(&chain[3]).expect("calls of the last one");
    assert!(back.iter().all(|of| (served - 2..=served).contains(of)));
    // All that the others did: a server asks once for each request, of whomever it is.
    let expected = [client, 2 * served, 2 * served].map(|calls| [calls; 2]);
    assert_eq!(moved, chain.into_iter().zip(expected).collect());
    assert_eq!(state(&report), Some(ProbeState::On));
    let (requests, found) = requests_by(&report, chain[0], "upstream");
    assert!(
        requests == client && 2 * found > client,
        "{found} of {requests}"
    );
}

/// Returns how many requests of the client there are, and how many have this part. Some switches run no
/// program (docs/principles.md), and leave a request without the wait that it is.
fn requests_by(report: &Report, client: u32, part: &str) -> (u64, u64) {
    let mut command = whylat("report --requests --format json --pid");
    let output = finish(command.arg(client.to_string()).arg(report.path()));
    let found: Value = serde_json::from_str(&output.assert_status(0).out).expect("JSON");
    let requests = found["requests"].as_array().expect("requests");
    let has_part = |it: &&Value| it["parts"][part].as_u64() > Some(0);
    let with_part = requests.iter().filter(has_part).count();
    (requests.len() as u64, with_part as u64)
}

#[test]
fn options_that_exclude_follow_are_refused() {
    for options in [
        "--all",
        "--port 1",
        "-p 1 --detail stats",
        "-p 1 --budget 5%",
    ] {
        let output = finish(&mut whylat(&format!("record --follow host {options}")));
        output.assert_status(2).explains("--follow none");
    }
}

#[test]
fn no_process_is_followed_without_the_option() {
    if !root() {
        return;
    }
    let (report, pids, client, _) = record_chain("");
    let recorded = pid(&pids, "client");
    assert_eq!(waiting_processes(&report), BTreeSet::from([recorded]));
    assert_eq!(moved(&report), BTreeMap::from([(recorded, [client; 2])]));
    assert_eq!(state(&report), None);
    let (requests, found) = requests_by(&report, recorded, "remote");
    assert!(
        requests == client && 2 * found > client,
        "{found} of {requests}"
    );
}

#[test]
fn followed_processes_are_limited() {
    if !root() {
        return;
    }
    let mut program = Program::start(MANY);
    let pids = program.read();
    let client = pid(&pids, "client");
    let servers = pids["servers"].as_array().expect("pids").iter();
    let servers: BTreeSet<u32> = servers
        .map(|pid| number(pid).try_into().expect("a pid"))
        .collect();
    let recorder = Recorder::start(&format!("-p {client} --follow host"));
    program.go_on();
    program.read();
    let report = recorder.stop();
    report.assert_whole();
    let mut recorded = waiting_processes(&report);
    assert!(recorded.remove(&client));
    assert!(recorded.is_subset(&servers));
    assert_eq!(recorded.len(), FOLLOW_MOST);
    let Some(ProbeState::Fallback { which, why }) = state(&report) else {
        panic!("all were followed");
    };
    assert_eq!(which, "64 processes at a time, 64 in all");
    let left_out = servers.len() - FOLLOW_MOST;
    assert!(why.contains(&format!("lead to {left_out} more")), "{why}");
}
