//! Sockets that are not what they seem, each with a real program that counts its own calls: MPTCP, which Go listens with
//! by default; sockets that another process opened; and programs without any TCP connection: the report says
//! what they used instead.

mod inherited;
mod mptcp;
mod unseen;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command};
use std::sync::OnceLock;

use lab::Netns;
use serde_json::Value;
use table::tables::{Call, Listener};

use testbed::report::{Report, number};
use testbed::{ChildGuard, Recorder, record_command, root, wait};

const GO_PROGRAM: &str = include_str!("programs/sockets.go");
const PYTHON_PROGRAM: &str = include_str!("programs/sockets.py");

/// Requests of a client; messages of the Python program (`ROUNDS` there), and their bytes.
const REQUESTS: u64 = 13;
const ROUNDS: u64 = 23;
const SIZE: u64 = 71;

/// The compiled Go program, for all tests of this process.
fn go_program() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let (source, binary) = (folder.join("sockets.go"), folder.join("sockets"));
        std::fs::write(&source, GO_PROGRAM).expect("the source");
        // compiles Go's library the first time
        let mut build = Command::new("go");
        build.args(["build", "-o"]).arg(&binary).arg(&source);
        let built = build
            .output()
            .expect("go, for which `make setup-test` asks");
        let why = String::from_utf8_lossy(&built.stderr);
        assert!(built.status.success(), "{why}");
        binary
    })
}

/// A program that says where it is, waits for a line or the end of its input, and prints counts when it ends.
struct Talker {
    process: ChildGuard,
    stdout: BufReader<ChildStdout>,
    /// The words of its first line.
    words: Vec<String>,
}

impl Talker {
    fn start(command: &mut Command) -> Self {
        let mut talker = Self::start_silent(command);
        let line = talker.line();
        talker.words = line.split_whitespace().map(str::to_owned).collect();
        talker
    }

    /// Starts one that prints nothing before a client comes.
    fn start_silent(command: &mut Command) -> Self {
        let mut process = ChildGuard::start_talking(command);
        let stdout = process.0.stdout.take().expect("its output is ours");
        Talker {
            process,
            stdout: BufReader::new(stdout),
            words: Vec::new(),
        }
    }

    fn go(netns: &Netns, arguments: &str) -> Self {
        let mut command = netns.command(go_program());
        Self::start(command.args(arguments.split_whitespace()))
    }

    fn python(netns: &Netns, arguments: &str) -> Self {
        let mut command = netns.command("python3");
        Self::start(
            command
                .args(["-c", PYTHON_PROGRAM])
                .args(arguments.split_whitespace()),
        )
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        line
    }

    fn port(&self) -> u16 {
        self.words[0].parse().expect("a port")
    }

    fn pid(&self) -> u32 {
        self.process.0.id()
    }

    fn let_go(&mut self) {
        let input = self.process.0.stdin.as_mut().expect("its input is ours");
        input.write_all(b"\n").expect("it waits for a line");
    }

    /// Ends its input, if that is still open; gives the counts that it prints, if it does.
    fn finish(mut self) -> Value {
        drop(self.process.0.stdin.take());
        let line = self.line();
        assert!(wait(&mut self.process.0, "the program").success());
        serde_json::from_str(&line).unwrap_or_default()
    }
}

/// Calls of one process that moved bytes, on connections with this local port: receives, sends, and their bytes.
fn moved(report: &Report, local: u16) -> [u64; 4] {
    let conns = conns(report, local);
    let calls: Vec<Call> = report.rows();
    let mut sums = [0; 4];
    for call in calls
        .iter()
        .filter(|it| it.result > 0 && conns.contains(&it.conn))
    {
        let which = usize::from(call.is_send);
        sums[which] += 1;
        sums[2 + which] += u64::try_from(call.result).expect("positive");
    }
    sums
}

fn conns(report: &Report, local: u16) -> Vec<u64> {
    let found = report.by_ports(Some(local), None).into_iter();
    found.map(|it| number(it, "/id")).collect()
}

/// Returns the same counts, as a Go program prints them.
fn counted(truth: &Value) -> [u64; 4] {
    ["/reads", "/writes", "/read_bytes", "/written_bytes"].map(|name| number(truth, name))
}

/// Every call of the program is there, in its place in the stream of its connection.
#[track_caller]
fn assert_calls(report: &Report, local: u16, truth: &Value) {
    report.assert_whole();
    assert_eq!(moved(report, local), counted(truth), "{}", report.brief());
    let conns = conns(report, local);
    let calls: Vec<Call> = report.rows();
    for conn in conns {
        for is_send in [false, true] {
            let of_one = |it: &&Call| it.conn == conn && it.is_send == is_send && it.result > 0;
            let mut calls: Vec<&Call> = calls.iter().filter(of_one).collect();
            calls.sort_by_key(|call| call.end_ns);
            let places = calls
                .windows(2)
                .map(|two| two[1].offset_end - two[0].offset_end);
            let sizes = calls
                .iter()
                .skip(1)
                .map(|call| u64::from(call.result.unsigned_abs()));
            assert!(places.eq(sizes), "connection {conn}: {calls:?}");
        }
    }
}

#[track_caller]
fn assert_owned(report: &Report, local: u16, pid: u32) {
    for connection in report.by_ports(Some(local), None) {
        assert_eq!(connection["process"]["pid"], pid, "{connection:#}");
    }
}

/// A listening Go server with default settings, recorded in these ways, before plain TCP clients come.
fn go_server_recorded_by(selector: impl FnOnce(&Talker) -> String) {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let server = Talker::go(&netns, "server :0");
    let (port, pid) = (server.port(), server.pid());
    let recorder = Recorder::start(&selector(&server));
    for _ in 0..3 {
        let client = format!("client 127.0.0.1:{port} {REQUESTS} tcp");
        let mut client = Talker::go(&netns, &client);
        client.let_go();
        client.finish();
    }
    let truth = server.finish();
    let report = recorder.stop();
    assert_eq!(number(&truth, "/connections"), 3);
    assert_eq!(conns(&report, port).len(), 3, "{}", report.brief());
    assert_calls(&report, port, &truth);
    assert_owned(&report, port, pid);
    for connection in report.by_ports(Some(port), None) {
        assert_eq!(connection["role"], "server");
        assert_eq!(connection["mptcp"], Value::Null, "the client asked for TCP");
    }
    let listeners: Vec<Listener> = report.rows();
    let own = listeners
        .iter()
        .filter(|it| it.local.ends_with(&format!(":{port}")));
    assert!(
        own.clone().count() > 0 && own.clone().all(|it| it.pid == Some(pid)),
        "{listeners:?}"
    );
}

#[test]
fn go_server_is_recorded_by_process() {
    go_server_recorded_by(|server| format!("-p {}", server.pid()));
}

#[test]
fn go_server_is_recorded_by_port() {
    go_server_recorded_by(|server| format!("--port {}", server.port()));
}

#[test]
fn go_server_is_recorded_by_command_name() {
    go_server_recorded_by(|_| "--comm sockets".to_owned());
}

/// Records the Go program from its start; gives what was recorded, and its own counts.
fn go_program_run(arguments: &str) -> (Report, Value) {
    let scratch = tempfile::tempdir().expect("a directory");
    let go_program = go_program().to_str().expect("text").to_owned();
    let mut command = vec![go_program.as_str()];
    command.extend(arguments.split_whitespace());
    let (report, counts) = record_command(scratch, &[], &command);
    report.assert_whole();
    (report, counts.into_iter().next().expect("its counts"))
}

#[test]
fn go_server_is_recorded_by_run() {
    if !root() {
        return;
    }
    let (report, truth) = go_program_run(&format!("self {REQUESTS}"));
    assert_eq!(report.connections().len(), 2, "{}", report.brief());
    let calls: Vec<Call> = report.rows();
    let moved = |is_send| {
        let of_one = |it: &&Call| it.is_send == is_send && it.result > 0;
        calls.iter().filter(of_one).count() as u64
    };
    let counted = [number(&truth, "/reads"), number(&truth, "/writes")];
    assert_eq!([moved(false), moved(true)], counted);
}

/// A connection that the kernel encrypts, where the kernel can (`CONFIG_TLS`): its calls count the program's bytes.
#[test]
fn kernel_tls_calls_are_counted() {
    if !root() {
        return;
    }
    let (report, truth) = go_program_run(&format!("ktls {REQUESTS}"));
    assert_eq!(report.connections().len(), 2, "{}", report.brief());
    if truth["token"] == -1 {
        eprintln!("skipped: this kernel has no TLS (CONFIG_TLS)");
        return;
    }
    for end in report.connections() {
        assert_eq!(end["tcp"]["ulp"], "tls", "{end:#}");
    }
    let calls: Vec<Call> = report.rows();
    let bytes = |is_send| {
        let moved = calls
            .iter()
            .filter(|it| it.is_send == is_send && it.result > 0);
        moved
            .map(|it| u64::from(it.result.unsigned_abs()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        [bytes(true), bytes(false)],
        [const { [97; REQUESTS as usize] }; 2].map(Vec::from)
    );
}
