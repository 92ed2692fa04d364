//! `whylat record` under way.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::process::{ChildGuard, program, until, wait};
use crate::report::Report;

/// A `whylat record` under way.
#[derive(Debug)]
pub struct Recorder {
    process: ChildGuard,
    scratch: TempDir,
}

impl Recorder {
    /// Starts `whylat record ARGUMENTS` and waits until everything is attached.
    pub fn start(arguments: &str) -> Self {
        Self::start_as(Command::new(program()), arguments)
    }

    /// Starts a recorder as the last words of another command (`setpriv …`, `unshare …`).
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
        let mut process = ChildGuard::start(command.stdout(Stdio::null()).stderr(stderr));
        until("the recorder ready", || {
            let ended = process.0.try_wait().expect("wait");
            assert!(
                ended.is_none(),
                "the recorder ended: {}",
                stderr_text(&scratch)
            );
            ready.exists().then_some(())
        });
        Recorder { process, scratch }
    }

    /// Returns the recorder's process id.
    pub fn pid(&self) -> u32 {
        self.process.0.id()
    }

    /// Returns the directory of the recording.
    pub fn recording(&self) -> PathBuf {
        self.scratch.path().join("r.whylat")
    }

    /// Sends a signal to the recorder.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Ends the recorder as Ctrl-C does, and reads the report.
    pub fn stop(self) -> Report {
        Report::from_scratch(self.stop_by(Signal::SIGINT))
    }

    /// Ends the recorder by a signal on which it closes the recording; returns the directory.
    pub fn stop_by(mut self, signal: Signal) -> TempDir {
        self.signal(signal);
        let status = wait(&mut self.process.0, "the recorder");
        let code = status.code();
        // 3: records were lost; a test that does not expect it sees it in the report.
        assert!(
            matches!(code, Some(0 | 3)),
            "the recorder ended with {status}: {}",
            stderr_text(&self.scratch)
        );
        self.scratch
    }

    /// Kills the recorder; returns the directory of its recording.
    pub fn kill(mut self) -> TempDir {
        self.signal(Signal::SIGKILL);
        wait(&mut self.process.0, "the recorder");
        self.scratch
    }
}

/// Returns what the recorder printed as errors.
fn stderr_text(scratch: &TempDir) -> String {
    std::fs::read_to_string(scratch.path().join("stderr")).unwrap_or_default()
}
