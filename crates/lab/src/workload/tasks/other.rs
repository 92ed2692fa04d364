//! Processes that take part in the work of a `task-server`: who reads its output, who answers it, and who stops it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::parent_id;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, PoisonError};

use clap::Args;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, pipe};
use serde::Serialize;

use crate::error::LabError;
use crate::netns::tie_to_parent;
use crate::process::ChildGuard;
use crate::workload::context::Context;
use crate::workload::peer::pause_us;
use crate::workload::until_end::is_readable;

const HINT: &str = "free processes or file descriptors";

/// Smallest room of a pipe: a page.
const PIPE_BYTES: i32 = 4_096;

/// Starts a role beside this one, which ends with this process.
pub(in crate::workload) fn start(words: &[&str], stdin: Stdio) -> Result<ChildGuard, LabError> {
    start_between(words, stdin, Stdio::null())
}

/// Starts this program again between two pipes.
fn start_between(words: &[&str], stdin: Stdio, stdout: Stdio) -> Result<ChildGuard, LabError> {
    let program = std::env::current_exe();
    let program =
        program.map_err(|why| LabError::os("find", "this program's file", why, "mount /proc"))?;
    let mut command = Command::new(program);
    command.args(["lab", "workload"]).args(words);
    command.stdin(stdin).stdout(stdout);
    let started = tie_to_parent(&mut command).spawn();
    started
        .map(ChildGuard)
        .map_err(|why| LabError::os("start", words.join(" "), why, HINT))
}

/// A pipe with room for a page, and a process that reads it.
pub(super) struct DrainedPipe {
    pipe: File,
    _reader: ChildGuard,
}

impl DrainedPipe {
    /// The reader pauses so long after each page.
    pub(super) fn new(pause_us: u64) -> Result<Self, LabError> {
        let failed = |why: nix::Error| LabError::os("make", "a pipe", why, HINT);
        let (read, write) = pipe().map_err(failed)?;
        fcntl(&write, FcntlArg::F_SETPIPE_SZ(PIPE_BYTES)).map_err(failed)?;
        fcntl(&write, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).map_err(failed)?;
        let pause = pause_us.to_string();
        let reader = start(&["drain", "--page-pause-us", &pause], Stdio::from(read))?;
        Ok(DrainedPipe {
            pipe: write.into(),
            _reader: reader,
        })
    }

    /// Writes a page into the pipe.
    pub(super) fn write(&self) -> Result<(), LabError> {
        let page = [0x78; PIPE_BYTES as usize];
        let written = (&self.pipe).write_all(&page);
        written.map_err(|why| LabError::os("write to", "the pipe", why, "its reader ended"))
    }
}

/// A process that answers a byte with a byte, by two pipes.
pub(super) struct HelperProcess {
    /// One question at a time.
    pipes: Mutex<(ChildStdin, ChildStdout)>,
    _process: ChildGuard,
}

impl HelperProcess {
    /// Starts a helper that pauses this long before each answer.
    pub(super) fn new(pause_us: u64) -> Result<Self, LabError> {
        let words = ["helper", "--answer-pause-us", &pause_us.to_string()];
        let mut process = start_between(&words, Stdio::piped(), Stdio::piped())?;
        let pipes = process.0.stdin.take().zip(process.0.stdout.take());
        let none = || {
            LabError::os(
                "open",
                "the pipes",
                io::Error::from(io::ErrorKind::BrokenPipe),
                HINT,
            )
        };
        Ok(HelperProcess {
            pipes: Mutex::new(pipes.ok_or_else(none)?),
            _process: process,
        })
    }

    /// Sends a byte, and waits for the answer.
    pub(super) fn ask(&self) -> Result<(), LabError> {
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        let (question, answer) = &mut *pipes;
        let asked = question.write_all(&[0x71]);
        let answered = asked.and_then(|()| answer.read_exact(&mut [0]));
        answered.map_err(|why| LabError::os("ask", "the helper", why, "it ended first"))
    }
}

/// Options of `helper`.
#[derive(Debug, Args)]
pub(crate) struct Helper {
    /// Sleeps this long before each answer.
    #[arg(long, default_value_t = 0)]
    answer_pause_us: u64,
}

/// Truth that `helper` prints where its answers went: how many there were.
#[derive(Debug, Serialize)]
pub(crate) struct HelperTruth {
    answers: u64,
}

impl Helper {
    /// Answers the parent: a byte for each byte, after a pause.
    pub(crate) fn run(&self, _: &Context) -> Result<HelperTruth, LabError> {
        let mut answers = 0;
        let (mut byte, mut stdout) = ([0], std::io::stdout());
        while std::io::stdin().read_exact(&mut byte).is_ok() {
            pause_us(self.answer_pause_us);
            let written = stdout.write_all(&byte).and_then(|()| stdout.flush());
            written.map_err(|why| LabError::os("answer", "the parent", why, "it ended first"))?;
            answers += 1;
        }
        Ok(HelperTruth { answers })
    }
}

/// A process that stops this one, or another, again and again.
pub(super) struct StoppedParent {
    stopper: ChildGuard,
}

impl Drop for StoppedParent {
    /// Lets the process that stops this one end by itself: who kills it may stand still for ever,
    /// by its last signal.
    fn drop(&mut self) {
        drop(self.stopper.0.stdin.take());
        // fails only for a process that has been waited for
        let _ = self.stopper.0.wait();
    }
}

impl StoppedParent {
    /// Stops for so long at a time, with pauses of half of that. `is_other`: not this process, but one that has nothing to do.
    pub(super) fn new(stop_us: u64, is_other: bool) -> Result<Self, LabError> {
        let stop = stop_us.to_string();
        let words = match is_other {
            true => ["drain", "--stopped-us", &stop],
            false => ["stop-parent", "--stop-us", &stop],
        };
        let stopper = start(&words, Stdio::piped())?;
        Ok(StoppedParent { stopper })
    }
}

/// Options of `drain`.
#[derive(Debug, Args)]
pub(crate) struct Drain {
    /// Sleeps this long after each page.
    #[arg(long, default_value_t = 0)]
    page_pause_us: u64,
    /// Lets a child stop this process again and again for so long.
    #[arg(long)]
    stopped_us: Option<u64>,
}

/// Truth that `drain` prints: the bytes that it read from the pipe.
#[derive(Debug, Serialize)]
pub(crate) struct DrainTruth {
    bytes: u64,
}

impl Drain {
    /// Reads a pipe until its end, with pauses.
    pub(crate) fn run(&self, _: &Context) -> Result<DrainTruth, LabError> {
        let stopper = self.stopped_us.map(|us| StoppedParent::new(us, false));
        let _stopper = stopper.transpose()?;
        let mut page = [0; PIPE_BYTES as usize];
        let mut bytes = 0;
        loop {
            match std::io::stdin().lock().read(&mut page) {
                Ok(0) | Err(_) => return Ok(DrainTruth { bytes }),
                Ok(read) => bytes += read as u64,
            }
            pause_us(self.page_pause_us);
        }
    }
}

/// Options of `stop-parent`.
#[derive(Debug, Args)]
pub(crate) struct StopParent {
    /// Stops it for so long at a time.
    #[arg(long)]
    stop_us: u64,
}

/// Truth that `stop-parent` prints: how often it stopped its parent.
#[derive(Debug, Serialize)]
pub(crate) struct StopTruth {
    stops: u64,
}

impl StopParent {
    /// Stops the parent process and lets it go on.
    pub(crate) fn run(&self, _: &Context) -> Result<StopTruth, LabError> {
        let parent = i32::try_from(parent_id()).unwrap_or(0);
        let signal = |signal| {
            let sent = kill(Pid::from_raw(parent), signal);
            sent.map_err(|why| LabError::os("stop", "the parent", why, "it ended first"))
        };
        let mut stops = 0;
        while !is_readable(&std::io::stdin(), Some(self.stop_us / 2))? {
            signal(Signal::SIGSTOP)?;
            pause_us(self.stop_us);
            signal(Signal::SIGCONT)?;
            stops += 1;
        }
        Ok(StopTruth { stops })
    }
}
