//! The options of a recording: target, detail, duration, output.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use probe::hooks::Detail;
use probe::usdt::Request;

use crate::affinity::CpuList;
use crate::budget::Budget;
use crate::flight_recorder::RetentionPolicy;

/// A command to start and record.
#[derive(Debug, Clone)]
pub struct Command {
    /// Program and arguments.
    pub argv: Vec<OsString>,
    /// Run it as root even when sudo started whylat for another user.
    pub as_root: bool,
}

/// The owners of the recorded connections.
#[derive(Debug, Clone)]
pub enum Target {
    /// A command, started now, with its children.
    Command(Command),
    /// Running processes and what they start.
    Pids(Vec<u32>),
    /// Processes with this command name, running now or started later.
    Comm(String),
    /// Connections with this local or remote port.
    Port(u16),
    /// Processes of this control group.
    Cgroup(String),
    /// Everything on the host.
    All,
}

/// A recording to be made.
#[derive(Debug, Clone)]
pub struct Options {
    /// The owners of the recorded connections.
    pub target: Target,
    /// How much.
    pub detail: Detail,
    /// The choice of windows of the flight recorder; it runs if anything is asked for, and needs detail `messages`.
    pub keep: RetentionPolicy,
    /// Ask network adapters for stamps even if a daemon that steers their clocks may miss some for it.
    pub nic_stamps: bool,
    /// CPUs on which the recorder's own threads run; `None`: on all that it may use.
    pub recorder_cpus: Option<CpuList>,
    /// USDT probes to listen to.
    pub usdt: Vec<Request>,
    /// Share of the recorded processes' CPU time that hooks may take: calls and waits are recorded in windows then; `None`:
    /// all are recorded.
    pub budget: Option<Budget>,
    /// Also record processes of this host that serve the connections which the target opens.
    pub follow: bool,
    /// The directory to create.
    pub output: PathBuf,
    /// Replace an existing recording.
    pub force: bool,
    /// End after this long; otherwise when the command ends or a signal comes.
    pub duration: Option<Duration>,
    /// Mean interval of the polls, which come at random times.
    pub poll_mean: Duration,
    /// Written when everything is attached, for scripts that wait for it.
    pub ready_file: Option<PathBuf>,
    /// The command line, for the header.
    pub arguments: Vec<String>,
}
