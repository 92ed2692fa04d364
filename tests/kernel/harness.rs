//! What the tests share: starting recordings and workloads, waiting for conditions, and finding
//! connections and findings in a report.

// Tests of the kernel and of the diagnosis use a part each.
#![allow(dead_code)]

use std::ops::Deref;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use lab::{Netns, Running, Wire, tie_to_parent};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;

use crate::report::Report;

/// Nothing that a test waits for takes longer, however busy the machine is: what does hangs.
pub const LONGEST: Duration = Duration::from_secs(240);

/// Nor does a role; a little less, so that it says itself that its time is up.
const LIMIT_S: u32 = 220;

/// Whether the test may run; says why not.
pub fn root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped: namespaces and BPF need root; run the tests as root");
    }
    root
}

/// The program under test.
pub fn program() -> &'static str {
    env!("CARGO_BIN_EXE_whylat")
}

/// `whylat` with arguments separated by white space.
pub fn whylat(arguments: &str) -> Command {
    let mut command = Command::new(program());
    command.args(arguments.split_whitespace());
    command
}

/// Waits until `condition` gives something.
pub fn until<T>(what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + LONGEST;
    loop {
        if let Some(found) = condition() {
            return found;
        }
        assert!(Instant::now() < end, "never saw: {what}");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Waits for a process to end, and kills it if it does not.
pub fn wait(child: &mut Child, what: &str) -> ExitStatus {
    let end = Instant::now() + LONGEST;
    loop {
        if let Some(status) = child.try_wait().expect("wait") {
            return status;
        }
        if Instant::now() >= end {
            let _ = child.kill();
            let _ = child.wait();
            panic!("{what} did not end");
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// A process that dies with its handle.
#[derive(Debug)]
pub struct Tied(pub Child);

impl Tied {
    /// Starts `command`; its output is thrown away unless it was directed somewhere.
    pub fn start(command: &mut Command) -> Self {
        let child = tie_to_parent(command).stdin(Stdio::null()).spawn();
        Tied(child.unwrap_or_else(|why| panic!("{command:?}: {why}")))
    }

    /// The same, with its stdin and stdout in our hands.
    pub fn start_talking(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = tie_to_parent(command).spawn();
        Tied(child.unwrap_or_else(|why| panic!("{command:?}: {why}")))
    }

    pub fn signal(&self, signal: Signal) {
        signal_process(self.0.id(), signal);
    }
}

impl Drop for Tied {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Signals a process that this test started.
pub fn signal_process(pid: u32, signal: Signal) {
    let pid = Pid::from_raw(pid.try_into().expect("a pid"));
    kill(pid, signal).unwrap_or_else(|why| panic!("signal {signal} to {pid}: {why}"));
}

/// Runs a command to its end and gives what it said; the end is bounded.
pub fn finish(command: &mut Command) -> Said {
    let child = tie_to_parent(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|why| panic!("{command:?}: {why}"));
    let pid = child.id();
    let (ended, end) = std::sync::mpsc::channel::<()>();
    let watch = std::thread::spawn(move || {
        if end.recv_timeout(LONGEST) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            signal_process(pid, Signal::SIGKILL);
        }
    });
    let output = child.wait_with_output().expect("output");
    drop(ended);
    watch.join().expect("watch");
    Said::of(output)
}

/// What a command said and how it ended.
#[derive(Debug, Default)]
pub struct Said {
    pub code: Option<i32>,
    pub signal: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Said {
    fn of(output: Output) -> Self {
        Said {
            code: output.status.code(),
            signal: output.status.signal(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// The exit code, and a message without a panic.
    #[track_caller]
    pub fn ended(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }

    /// An error that names `what` and gives a hint.
    #[track_caller]
    pub fn explains(&self, what: &str) -> &Self {
        assert!(
            self.err.contains("error: ") && self.err.contains(what) && self.err.contains("hint:"),
            "expected an error about {what:?} with a hint, got: {}",
            self.err
        );
        self
    }
}

/// Starts a workload role. `arguments` are separated by white space.
pub fn role(netns: &Netns, arguments: &str) -> Running {
    role_as(netns, program(), arguments)
}

/// The same, by another name of the program.
pub fn role_as(netns: &Netns, name: &str, arguments: &str) -> Running {
    let mut command = netns.command(name);
    command.args(["lab", "workload", "--limit-s", &LIMIT_S.to_string()]);
    command.args(arguments.split_whitespace());
    Running::start(command).expect("start a workload")
}

/// A site of the lab at which the program under test runs; what fails there fails the test.
#[derive(Debug, Clone)]
pub struct Site(lab::Site);

impl Deref for Site {
    type Target = lab::Site;

    fn deref(&self) -> &lab::Site {
        &self.0
    }
}

impl Site {
    /// The client at `a`, the server at `b`.
    pub fn over(wire: &Wire) -> Self {
        Site(lab::Site::over(wire, program().as_ref()).limited(LIMIT_S))
    }

    /// Both in one new namespace.
    pub fn loopback(congctl: &str) -> Self {
        let site = lab::Site::loopback(congctl, program().as_ref());
        Site(site.expect("a namespace").limited(LIMIT_S))
    }

    /// Starts a server role; gives it and its port.
    pub fn serve(&self, role: &str) -> (Running, u16) {
        self.0.serve(role).expect("a server")
    }

    /// Starts a client role.
    pub fn connect(&self, role: &str, port: u16) -> Running {
        self.0.connect(role, port).expect("a client")
    }

    /// Records a server and a client by the server's port, from before the client starts
    /// until both have ended.
    pub fn record(&self, server: &str, client: &str) -> Recorded {
        self.record_with("", server, client, || ())
    }

    /// As [`Site::record`], with more options of `whylat record`, and something to do once
    /// the client has started.
    pub fn record_with(
        &self,
        options: &str,
        server: &str,
        client: &str,
        meanwhile: impl FnOnce(),
    ) -> Recorded {
        let (server, port) = self.serve(server);
        let recorder = Recorder::start(&format!("--port {port} {options}"));
        let client = self.connect(client, port);
        meanwhile();
        let client = client.finish().expect("the client's truth");
        let server = server.finish().expect("the server's truth");
        Recorded {
            report: recorder.stop(),
            client,
            server,
        }
    }
}

/// A recorded exchange and what the two programs know of it.
#[derive(Debug)]
pub struct Recorded {
    pub report: Report,
    pub client: Value,
    pub server: Value,
}

/// A `whylat record` under way.
#[derive(Debug)]
pub struct Recorder {
    process: Tied,
    scratch: TempDir,
}

impl Recorder {
    /// Starts `whylat record ARGUMENTS` and waits until everything is attached.
    pub fn start(arguments: &str) -> Self {
        Self::start_as(Command::new(program()), arguments)
    }

    /// The same, as the last words of another command (`setpriv …`, `unshare …`).
    pub fn start_as(mut command: Command, arguments: &str) -> Self {
        let scratch = tempfile::tempdir().expect("a temporary directory");
        let ready = scratch.path().join("ready");
        command
            .arg("record")
            .args(arguments.split_whitespace())
            .arg("--output")
            .arg(scratch.path().join("r.whylat"))
            .arg("--ready-file")
            .arg(&ready);
        let stderr = std::fs::File::create(scratch.path().join("stderr")).expect("a file");
        let mut process = Tied::start(command.stdout(Stdio::null()).stderr(stderr));
        until("the recorder ready", || {
            let ended = process.0.try_wait().expect("wait");
            assert!(ended.is_none(), "the recorder ended: {}", said(&scratch));
            ready.exists().then_some(())
        });
        Recorder { process, scratch }
    }

    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// The directory that it records to.
    pub fn recording(&self) -> PathBuf {
        self.scratch.path().join("r.whylat")
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Ends it as Ctrl-C does, and reads the report.
    pub fn stop(self) -> Report {
        Report::of(self.stop_by(Signal::SIGINT))
    }

    /// Ends it by a signal on which it closes the recording; gives the directory.
    pub fn stop_by(mut self, signal: Signal) -> TempDir {
        self.signal(signal);
        let status = wait(&mut self.process.0, "the recorder");
        let code = status.code();
        // 3: records were lost; a test that does not expect it sees it in the report.
        assert!(
            matches!(code, Some(0 | 3)),
            "the recorder ended with {status}: {}",
            said(&self.scratch)
        );
        self.scratch
    }

    /// Kills it, and gives the directory that it recorded to.
    pub fn kill(mut self) -> TempDir {
        self.signal(Signal::SIGKILL);
        wait(&mut self.process.0, "the recorder");
        self.scratch
    }
}

fn said(scratch: &TempDir) -> String {
    std::fs::read_to_string(scratch.path().join("stderr")).unwrap_or_default()
}
