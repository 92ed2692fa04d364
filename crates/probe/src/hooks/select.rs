//! Describes what is to be recorded.

use std::time::Duration;

use crate::nic::Nics;

/// How much is recorded. Each level includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Polled statistics, events, last statistics of every connection.
    Stats,
    /// Also every send and receive call, and the exact stage ledger.
    Calls,
    /// Also every interval in which a thread was blocked, and on what.
    Waits,
    /// Also every received message, with the times of its way to the program.
    Messages,
}

impl Detail {
    /// Name on the command line and in the recording.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stats => "stats",
            Self::Calls => "calls",
            Self::Waits => "waits",
            Self::Messages => "messages",
        }
    }
}

/// Holds what leaves the kernel of the connections that are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OutputMode {
    /// Each call and each event.
    Records,
    /// Counts of them, with the socket's statistics: for watching without an end.
    Summaries,
}

/// Says which connections are recorded. Processes come on top, by [`Hooks::record_process`](super::Hooks::record_process).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    /// Every connection on the host.
    pub all: bool,
    /// Connections with this local or remote port.
    pub port: Option<u16>,
    /// Processes that execute under this command name.
    pub comm: Option<String>,
    /// Processes in this control group or below: its id and its depth below the root.
    pub cgroup: Option<(u64, u32)>,
    /// Also processes that share a listening socket of one that is recorded.
    pub sharers: bool,
    /// Of `all`, only those in the network namespace with this inode number.
    pub netns: Option<u32>,
}

/// Holds what is to be loaded.
pub(super) struct LoadOptions<'a> {
    pub(super) selection: &'a Selection,
    pub(super) detail: Detail,
    pub(super) output: OutputMode,
    pub(super) nics: &'a Nics,
    /// How long a socket stays active after its last data.
    pub(super) active_for: Duration,
}

/// Why a process is known to the programs: `TASK_*` in `select.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum TaskKind {
    Recorded = 1,
    Parent = 2,
    Owner = 4,
    Own = 5,
}
