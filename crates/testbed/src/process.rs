//! Processes of a test: the program under test and others, which end with the test at the latest.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use lab::tie_to_parent;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Nothing that a test waits for takes longer, however busy the machine is: what does hangs.
pub const LONGEST: Duration = Duration::from_secs(240);

/// Returns whether the test may run; says why not.
pub fn root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped: namespaces and BPF need root; run the tests as root");
    }
    root
}

/// Returns the path of the program under test: cargo puts it beside the folder of the test binary.
pub fn program() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let test: PathBuf = std::env::current_exe().expect("the test's own path");
        let profile = test.ancestors().nth(2).expect("a folder of cargo's");
        let program = profile.join("whylat");
        assert!(program.is_file(), "{}: make build", program.display());
        program
            .into_os_string()
            .into_string()
            .expect("a path of text")
    })
}

/// Makes the command `whylat` with arguments separated by white space.
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
pub struct ChildGuard(pub Child);

impl ChildGuard {
    /// Starts `command`; its output is thrown away unless it was directed somewhere.
    pub fn start(command: &mut Command) -> Self {
        let child = tie_to_parent(command).stdin(Stdio::null()).spawn();
        ChildGuard(child.unwrap_or_else(|why| panic!("{command:?}: {why}")))
    }

    /// Starts the command with its stdin and stdout connected to this process.
    pub fn start_talking(command: &mut Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let child = tie_to_parent(command).spawn();
        ChildGuard(child.unwrap_or_else(|why| panic!("{command:?}: {why}")))
    }

    /// Sends a signal to the process.
    pub fn signal(&self, signal: Signal) {
        signal_process(self.0.id(), signal);
    }
}

impl Drop for ChildGuard {
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

/// Runs a command to its end and returns its output; the end is bounded.
pub fn finish(command: &mut Command) -> CommandOutput {
    let child = tie_to_parent(command)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|why| panic!("{command:?}: {why}"));
    finish_child(child)
}

/// Waits for a process to end, and returns what is left of its output; the end is bounded.
pub(crate) fn finish_child(child: Child) -> CommandOutput {
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
    CommandOutput::new(output)
}

/// The output of a command, and how it ended.
#[derive(Debug, Default)]
pub struct CommandOutput {
    /// Its exit code, unless a signal ended it.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Its stdout.
    pub out: String,
    /// Its stderr.
    pub err: String,
}

impl CommandOutput {
    /// Keeps status, output and errors of a command.
    fn new(output: Output) -> Self {
        CommandOutput {
            code: output.status.code(),
            signal: output.status.signal(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            err: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    /// Demands this exit code, and no panic message.
    #[track_caller]
    pub fn assert_status(&self, code: i32) -> &Self {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert!(!self.err.contains("panicked"), "{self:?}");
        self
    }

    /// Demands an error that names `what` and has a hint.
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
