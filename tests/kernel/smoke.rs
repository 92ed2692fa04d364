//! A recording of today looks like the recordings that are kept (`tests/replay/recordings`), on which the diagnosis is
//! tested: for each probe a tiny workload with known numbers. No verdict is asked for.
//!
//! Every table of the kept recording is in the new one, with its columns and their types; the new one names
//! the probes of the kept one in its coverage; and there are as many rows as the workload makes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use lab::{DirectionConfig, Wire, WireConfig};
use parquet::file::reader::{FileReader, SerializedFileReader};

use table::tables::{
    Activity, ActivityWindow, Call, ClockPair, Connection, Counter, CpuSample, Listener,
    OnCpuSample, PacketDrop, Preemption, Process, ProcessSample, ReceivedMessage, SentMessage,
    StackFrame, Symbol, Task, TcpEvent, TcpSample, TcpStage, UdpFlow, UdpSocket, UnixSocket, Wait,
};
use table::{DropKind, Recording, TcpEventKind, WaitObject};

use testbed::instrumented::ToolRun;
use testbed::report::{Report, number};
use testbed::{RecordedExchange, Site, finish, program, root};

/// Requests, and answers.
const ROUNDS: u64 = 101;

/// The kept recording of a play.
fn kept(play: &str) -> PathBuf {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/replay/recordings");
    kept.join(play).join("r.whylat")
}

/// Names and types of the columns of each table.
fn columns(recording: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for table in std::fs::read_dir(recording).expect("a recording") {
        let table = table.expect("an entry").path();
        for file in std::fs::read_dir(&table).into_iter().flatten() {
            let file = File::open(file.expect("an entry").path()).expect("it opens");
            let reader = SerializedFileReader::new(file).expect("Parquet");
            let schema = reader.metadata().file_metadata().schema_descr_ptr();
            let columns = schema.columns().iter();
            let columns = columns.map(|it| format!("{} {}", it.name(), it.physical_type()));
            let name = table.file_name().and_then(|name| name.to_str());
            let known = all.entry(name.expect("text").to_owned()).or_default();
            known.extend(columns);
        }
    }
    all
}

/// Probes of the coverage.
fn probes(path: &Path) -> BTreeSet<String> {
    let recording = Recording::open(path).expect("it opens");
    let coverage = recording.coverage().iter();
    coverage.map(|line| line.probe.clone()).collect()
}

/// All that the kept recording of this play has is in the new one.
#[track_caller]
fn assert_looks_like(report: &Report, play: &str) {
    let kept = kept(play);
    let now = columns(report.path());
    for (table, columns) in columns(&kept) {
        let found = now
            .get(&table)
            .unwrap_or_else(|| panic!("no rows in {table}"));
        let missing: Vec<_> = columns.difference(found).collect();
        assert!(missing.is_empty(), "{table} does not have {missing:?}");
    }
    let now = probes(report.path());
    let missing: Vec<_> = probes(&kept).difference(&now).cloned().collect();
    assert!(missing.is_empty(), "coverage does not have {missing:?}");
}

/// Requests and answers over a loopback of their own.
fn exchange(detail: &str) -> RecordedExchange {
    let client = format!("request-reply --rounds {ROUNDS}");
    let detail = format!("--detail {detail}");
    Site::loopback("cubic").record_with(&detail, "reply-server", &client, || ())
}

/// The ends' own counts of what they did, added up.
fn counted(recorded: &RecordedExchange, what: &str) -> u64 {
    let ends = [&recorded.client, &recorded.server];
    let counts = ends.map(|end| number(end, &format!("/connections/0/{what}")));
    counts.iter().sum()
}

#[test]
fn connections_look_like_the_kept_recording() {
    if !root() {
        return;
    }
    let client = format!("short-lived --count {ROUNDS}");
    let server = format!("reply-server --connections {ROUNDS}");
    let site = Site::loopback("cubic");
    let recorded = site.record_with("--detail stats", &server, &client, || ());
    let report = &recorded.report;
    assert_looks_like(report, "verdicts/cubic/connections_of_5_ms_by_stats");
    let conns: BTreeSet<u64> = report
        .rows::<Connection>()
        .iter()
        .map(|row| row.conn)
        .collect();
    assert_eq!(conns.len() as u64, 2 * ROUNDS);
    let sampled: BTreeSet<u64> = report
        .rows::<TcpSample>()
        .iter()
        .map(|row| row.conn)
        .collect();
    assert_eq!(sampled, conns, "each has a last reading");
    let processes: BTreeSet<u32> = report.rows::<Process>().iter().map(|row| row.pid).collect();
    assert_eq!(processes.len(), 2);
    assert_eq!(report.rows::<Call>(), []);
}

#[test]
fn calls_stages_and_samples_look_like_the_kept_recording() {
    if !root() {
        return;
    }
    let recorded = exchange("waits");
    let report = &recorded.report;
    assert_looks_like(report, "verdicts/cubic/quick_request_and_reply");
    let calls = counted(&recorded, "send/calls") + counted(&recorded, "recv/calls");
    assert_eq!(report.rows::<Call>().len() as u64, calls);
    let staged: BTreeSet<u64> = report
        .rows::<TcpStage>()
        .iter()
        .map(|row| row.conn)
        .collect();
    assert_eq!(staged.len(), 2);
    assert!(!report.rows::<ProcessSample>().is_empty());
    assert!(!report.rows::<CpuSample>().is_empty());
    let listener = number(&recorded.server, "/listener/cookie");
    let listeners = report.rows::<Listener>();
    assert!(!listeners.is_empty() && listeners.iter().all(|row| row.conn == listener));
}

/// Segments that the path loses are retransmitted: no event is there without a loss.
#[test]
fn tcp_events_look_like_the_kept_recording() {
    const LOST: u64 = 5;
    if !root() {
        return;
    }
    let wire = Wire::start(WireConfig {
        a_to_b: DirectionConfig {
            lose_data: vec![101..102, 211..213, 307..309],
            ..DirectionConfig::delay(10_000)
        },
        b_to_a: DirectionConfig::delay(10_000),
        congctl: Some("cubic".to_owned()),
        ..WireConfig::default()
    });
    let wire = wire.expect("a wire");
    let site = Site::over(&wire);
    let recorded = site.record("sink", "stream --bytes 1000003");
    let report = &recorded.report;
    assert_looks_like(report, "losses/cubic/every_fast_retransmission");
    let events = report.rows::<TcpEvent>();
    let fast = events
        .iter()
        .filter(|row| row.kind == TcpEventKind::FastRetransmit);
    let segments: u64 = fast.filter_map(|row| row.segments).map(u64::from).sum();
    assert!((1..=LOST).contains(&segments), "{events:#?}");
}

/// Runs a program in Python under a recording.
fn run_python(options: &str, source: &str) -> Report {
    let scratch = tempfile::tempdir().expect("a directory");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--output"]);
    run.arg(scratch.path().join("r.whylat"));
    run.args(options.split_whitespace());
    finish(run.args(["--", "python3", "-c", source])).assert_status(0);
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    report
}

/// A wait that ends while the agent of a sandbox is the current task passes no hook: a tenth at most.
#[test]
fn waits_and_stacks_look_like_the_kept_recording() {
    if !root() {
        return;
    }
    let source = format!("import time\nfor _ in range({ROUNDS}): time.sleep(0.003)");
    let report = run_python("--detail waits", &source);
    let waits = report.rows::<Wait>();
    let sleeps = waits
        .iter()
        .filter(|row| row.kind == WaitObject::Sleep)
        .count() as u64;
    assert!(
        (ROUNDS - ROUNDS / 10..=ROUNDS).contains(&sleeps),
        "{sleeps}"
    );
    let kept = columns(&kept("waits_view/known_waits"));
    let now = columns(report.path());
    for table in ["waits", "stacks", "symbols"] {
        let missing: Vec<_> = kept[table].difference(&now[table]).collect();
        assert!(missing.is_empty(), "{table} does not have {missing:?}");
    }
    assert!(!report.rows::<StackFrame>().is_empty() && !report.rows::<Symbol>().is_empty());
}

/// Of 0.5 s of CPU time there are about 50 samples, of a sleep none.
#[test]
fn on_cpu_samples() {
    if !root() {
        return;
    }
    let source = "import time\n\
         while time.thread_time() < 0.5: pass\n\
         time.sleep(0.5)";
    let report = run_python("--detail waits", source);
    let rows = report.rows::<OnCpuSample>();
    assert!((15..=85).contains(&rows.len()), "{rows:#?}");
    let mut in_program = rows.iter().filter(|row| !row.in_kernel);
    assert!(in_program.all(|row| row.stack.is_some()), "{rows:#?}");
}

/// Two processes take turns on one CPU; the first says how often the kernel took it from that.
#[test]
fn preemptions() {
    if !root() {
        return;
    }
    let source = "import os, time, resource, sys\n\
         os.sched_setaffinity(0, {0})\n\
         first = os.fork()\n\
         while time.thread_time() < 0.2: pass\n\
         if not first: os._exit(0)\n\
         switches = resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw\n\
         os.waitpid(first, 0)\n\
         os.execlp('sh', 'sh', '-c', f'exit {min(switches, 99)}')";
    let scratch = tempfile::tempdir().expect("a directory");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "waits", "--output"]);
    run.arg(scratch.path().join("r.whylat"));
    let output = finish(run.args(["--", "python3", "-c", source]));
    let switches = output.code.expect("it ended by itself");
    let report = Report::from_scratch(scratch);
    report.assert_whole();
    let rows = report.rows::<Preemption>();
    let count: u32 = rows.iter().map(|row| row.count).sum();
    assert!(switches > 0 && count >= switches as u32, "{rows:#?}");
}

#[test]
fn messages_look_like_the_kept_recording() {
    if !root() {
        return;
    }
    let recorded = exchange("messages");
    let report = &recorded.report;
    assert_looks_like(report, "delays/slow_queue");
    assert_eq!(report.rows::<SentMessage>().len() as u64, 2 * ROUNDS);
    assert_eq!(report.rows::<ReceivedMessage>().len() as u64, 2 * ROUNDS);
    assert!(!report.rows::<ClockPair>().is_empty());
}

#[test]
fn datagrams_look_like_the_kept_recording() {
    if !root() {
        return;
    }
    let source = format!(
        "import socket\n\
         one, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))\n\
         one.bind(('127.0.0.1', 0))\n\
         for _ in range({ROUNDS}):\n other.sendto(b'x' * 100, one.getsockname())\n one.recv(200)"
    );
    let report = run_python("--detail messages", &source);
    assert_looks_like(&report, "delays/cpu_taken_from_a_reader_of_datagrams");
    assert_eq!(report.rows::<SentMessage>().len() as u64, ROUNDS);
    assert_eq!(report.rows::<ReceivedMessage>().len() as u64, ROUNDS);
    let sockets: BTreeSet<u64> = report
        .rows::<UdpSocket>()
        .iter()
        .map(|row| row.conn)
        .collect();
    assert_eq!(sockets.len(), 2);
}

/// Datagrams to a port that nobody has are dropped.
#[test]
fn drops() {
    if !root() {
        return;
    }
    let source = format!(
        "import socket\n\
         one, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))\n\
         one.bind(('127.0.0.1', 0))\n\
         to = one.getsockname()\n\
         other.sendto(b'the first shows the ports', to)\n\
         one.close()\n\
         for _ in range({ROUNDS}): other.sendto(b'x' * 100, to)"
    );
    let report = run_python("--detail calls", &source);
    let rows = report.rows::<PacketDrop>();
    // what lay in the queue of the closed socket is no problem
    let is_dropped = |row: &&PacketDrop| row.kind == DropKind::Packet && !row.ordinary;
    let dropped = rows.iter().filter(is_dropped).count();
    assert_eq!(dropped as u64, ROUNDS, "{rows:#?}");
    let mut icmp = rows.iter().filter(|row| row.kind == DropKind::IcmpSent);
    assert!(icmp.all(|row| row.protocol == Some(17)), "{rows:#?}");
}

#[test]
fn unix_sockets() {
    if !root() {
        return;
    }
    let source = format!(
        "import socket\n\
         one, other = socket.socketpair()\n\
         for _ in range({ROUNDS}):\n other.send(b'x' * 100)\n one.recv(200)"
    );
    let report = run_python("--detail waits", &source);
    let rows = report.rows::<UnixSocket>();
    let sockets: BTreeSet<u64> = rows.iter().map(|row| row.conn).collect();
    assert_has_calls(&report, "unix_sockets", &sockets);
}

#[test]
fn udp_flows() {
    if !root() {
        return;
    }
    let source = format!(
        "import socket\n\
         one, other = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))\n\
         one.bind(('127.0.0.1', 0))\n\
         for _ in range({ROUNDS}):\n other.sendto(b'x' * 100, one.getsockname())\n one.recvfrom(200)"
    );
    let report = run_python("--detail waits", &source);
    let rows = report.rows::<UdpFlow>();
    let flows: BTreeSet<u64> = rows.iter().map(|row| row.conn).collect();
    assert_has_calls(&report, "udp_flows", &flows);
}

/// Both ends of one pair are there, and a row of each call on them: one end sends, the other receives.
#[track_caller]
fn assert_has_calls(report: &Report, probe: &str, conns: &BTreeSet<u64>) {
    assert_eq!(conns.len(), 2);
    let calls = report.rows::<Call>();
    let sent = calls.iter().filter(|call| call.is_send).count() as u64;
    assert_eq!((sent, calls.len() as u64), (ROUNDS, 2 * ROUNDS));
    assert!(calls.iter().all(|call| conns.contains(&call.conn)));
    assert!(probes(report.path()).contains(probe));
}

#[test]
fn activity_around_messages() {
    if !root() {
        return;
    }
    let recorded = exchange("messages --keep p60,sample=7");
    let report = &recorded.report;
    assert_looks_like(report, "tail/none");
    let windows = report.rows::<ActivityWindow>();
    let of_messages = windows.iter().filter(|row| row.conn.is_some()).count() as u64;
    assert!((1..=4 * ROUNDS).contains(&of_messages), "{of_messages}");
    assert!(!report.rows::<Activity>().is_empty());
}

/// An instrumented program reports counters and tasks.
#[test]
fn counters_and_tasks() {
    if !root() {
        return;
    }
    let words = "lab fault vtune_startup --variant healthy";
    let mut argv = vec![program()];
    argv.extend(words.split_whitespace());
    let outcome = ToolRun::new(program(), "--detail waits", &argv).end();
    outcome.output.assert_status(0);
    let commands = &outcome.truths()[0]["roles"][0]["server"]["commands"];
    let commands = commands.as_u64().expect("a number") as usize;
    let report = Report::from_scratch(outcome.scratch);
    assert_looks_like(&report, "startup/cubic/is_named");
    let named = |name: Option<&str>, wanted: &str| name == Some(wanted);
    let tasks = report.rows::<Task>();
    let asked = tasks
        .iter()
        .filter(|row| named(row.name.as_deref(), "command"))
        .count();
    assert_eq!(asked, 2 * commands, "at both ends");
    let counters = report.rows::<Counter>();
    let answered = counters
        .iter()
        .filter(|row| named(row.name.as_deref(), "sent bytes"));
    assert!(answered.count() >= 2 * commands);
}
