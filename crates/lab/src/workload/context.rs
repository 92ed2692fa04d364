//! Common to all roles: a time limit, a CPU, and the ready line.

use std::io::{self, BufRead};
use std::path::PathBuf;

use clap::Args;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use serde_json::json;

use super::cpu;
use crate::error::LabError;
use crate::output::print_json;

/// Limit of rounds with times that a role keeps; its totals count all.
pub(super) const ROUNDS_KEPT: usize = 100_000;

/// Options of every role.
#[derive(Debug, Args)]
pub(super) struct CommonOptions {
    /// Give up after this many seconds.
    #[arg(long, global = true, default_value_t = 60)]
    limit_s: u32,
    /// Clients: connect, print the ready line, then wait for a line on stdin.
    #[arg(long, global = true)]
    start_on_stdin: bool,
    /// Run only on the CPU at this place (from 0) among those that may be used.
    #[arg(long, global = true)]
    cpu: Option<usize>,
    /// Also write the ready line to this file.
    #[arg(long, global = true)]
    ready_file: Option<PathBuf>,
    /// Run in a control group of its own, with so much CPU time: 100 is one CPU.
    #[arg(long, global = true)]
    cpu_quota_percent: Option<u64>,
}

/// Settings that all roles share: when to start, the ready file, the CPUs.
pub(crate) struct Context {
    start_on_stdin: bool,
    ready_file: Option<PathBuf>,
    /// CPUs that may be used, before `--cpu` leaves one.
    pub(super) cpus: Vec<usize>,
}

impl Context {
    /// Begins a role: sets its time limit, and moves it to its CPU.
    pub(super) fn new(options: CommonOptions) -> Result<Self, LabError> {
        let CommonOptions {
            limit_s,
            start_on_stdin,
            ready_file,
            cpu,
            cpu_quota_percent,
        } = options;
        limit_time(limit_s)?;
        let context = Context {
            start_on_stdin,
            ready_file,
            cpus: cpu::allowed_cpus()?,
        };
        if let Some(percent) = cpu_quota_percent {
            super::quota::enter_group(percent)?;
        }
        if let Some(place) = cpu {
            cpu::pin_thread(context.cpu_at(place))?;
        }
        Ok(context)
    }

    /// Returns the number of the CPU at this place; beyond the last, the last.
    pub(crate) fn cpu_at(&self, place: usize) -> usize {
        let last = self.cpus.last().copied().unwrap_or(0);
        self.cpus.get(place).copied().unwrap_or(last)
    }

    /// Prints the port of a server that listens.
    pub(crate) fn ready(&self, port: u16) -> Result<(), LabError> {
        let line = json!({ "ready": port, "pid": std::process::id() });
        if let Some(path) = &self.ready_file {
            // Renamed, so that whoever waits for the file never reads half of it.
            let whole = path.with_extension("part");
            std::fs::write(&whole, format!("{line}\n"))
                .and_then(|()| std::fs::rename(&whole, path))
                .map_err(|why| {
                    LabError::os("write", path.display().to_string(), why, "check the path")
                })?;
        }
        print_json(&line)
    }

    /// Holds a connected client under `--start-on-stdin`: prints the ready line, and waits for a line.
    pub(crate) fn start(&self, port: u16) -> Result<(), LabError> {
        if !self.start_on_stdin {
            return Ok(());
        }
        self.ready(port)?;
        let mut line = String::new();
        io::stdin()
            .lock()
            .read_line(&mut line)
            .map(drop)
            .map_err(|why| LabError::os("read", "stdin", why, "send a line to start the workload"))
    }
}

/// Ends the process with a message after `limit_s`. A signal and not a watching thread,
/// because the thread's sleep would be recorded as the program's own waiting.
fn limit_time(limit_s: u32) -> Result<(), LabError> {
    /// Ends the process at its time limit, with an error.
    extern "C" fn over(_: libc::c_int) {
        const TEXT: &[u8] = b"error: the workload reached its time limit\n\
            hint: raise --limit-s, or see why its peer does not go on\n";
        // SAFETY: write and _exit are async-signal-safe; TEXT is static.
        unsafe {
            libc::write(2, TEXT.as_ptr().cast(), TEXT.len());
            libc::_exit(1);
        }
    }
    let action = SigAction::new(SigHandler::Handler(over), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler only makes async-signal-safe calls.
    unsafe { sigaction(Signal::SIGALRM, &action) }
        .map_err(|why| LabError::os("set", "the time limit", why, "report this"))?;
    nix::unistd::alarm::set(limit_s.max(1));
    Ok(())
}
