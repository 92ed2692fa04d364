//! Why a recording could not be made.

use std::io;
use std::path::PathBuf;

use probe::clock::HostError;
use probe::hooks::HooksError;
use probe::processes::{CgroupError, TargetError};
use probe::self_cost::BpfTimeError;
use probe::tcp_stats::PollerError;
use probe::usdt::UsdtError;
use table::WriteError;

use crate::privileges::PrivilegeError;

/// A reason that ends a recording, or keeps it from starting.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The process or command to record does not exist.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The process belongs to another user.
    #[error(
        "process {pid} is not yours: without root, only your own sockets can be recorded\n\
         hint: sudo whylat record -p {pid}"
    )]
    Foreign {
        /// As given.
        pid: u32,
    },
    /// The control group to record does not exist.
    #[error(transparent)]
    Cgroup(#[from] CgroupError),
    /// The host could not be described.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The recording directory could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A loaded BPF program stopped working.
    #[error("{0}\nhint: whylat doctor")]
    Hooks(#[from] HooksError),
    /// A USDT probe is not there, or cannot be attached to.
    #[error(transparent)]
    Usdt(#[from] UsdtError),
    /// The cost of hooks is not known, so that no budget can be kept.
    #[error("cannot keep a budget: {0}\nhint: record with --budget none")]
    Budget(BpfTimeError),
    /// Connections could not be polled.
    #[error("{0}\nhint: whylat doctor")]
    Poll(#[from] PollerError),
    /// The command could not be started.
    #[error("cannot start {command:?}: {source}\nhint: {hint}")]
    Start {
        /// The command as given.
        command: String,
        /// Cause.
        source: io::Error,
        /// The next command.
        hint: &'static str,
    },
    /// The user that whylat was started for does not exist.
    #[error(
        "cannot run the command as user id {uid}: {why}\nhint: --as-root runs it as root instead"
    )]
    User {
        /// From `SUDO_UID`.
        uid: u32,
        /// Cause.
        why: String,
    },
    /// Privileges could not be dropped.
    #[error(transparent)]
    Privileges(#[from] PrivilegeError),
    /// Signals could not be set up.
    #[error("cannot receive signals: {0}\nhint: `whylat doctor` shows what this host allows")]
    Signals(io::Error),
    /// It could not be waited for what is recorded.
    #[error(
        "cannot wait for what the programs record: {0}\nhint: `whylat doctor` shows what this host allows"
    )]
    Wait(io::Error),
    /// The recorder's threads cannot run where the user wants them.
    #[error(
        "cannot run the recorder on CPUs {cpus}: {source}\n\
         hint: name CPUs that are online and that this control group may use (`lscpu`)"
    )]
    Affinity {
        /// As given.
        cpus: String,
        /// Cause.
        source: io::Error,
    },
    /// The thread that stores is no more. What it had sealed is there.
    #[error("the thread that stores the recording {} has ended\nhint: `whylat report {}` shows what was stored \
        before; `whylat bugreport --redact` makes a report for the developers", path.display(), path.display())]
    Stored {
        /// The recording.
        path: PathBuf,
    },
    /// The file that says "recording" could not be written.
    #[error("cannot write ready file {path}: {source}\nhint: name a path that you may write to")]
    Ready {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
}

impl RecordError {
    /// Returns the exit code of a shell if a command cannot be started: 127 if it is not found, 126
    /// if it cannot be executed. `None` for every other error.
    pub fn command_exit_code(&self) -> Option<u8> {
        match self {
            Self::Start { source, .. } if source.kind() == io::ErrorKind::NotFound => Some(127),
            Self::Start { .. } => Some(126),
            _ => None,
        }
    }
}
