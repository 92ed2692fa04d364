//! Describes what is to be recorded.

use std::time::Duration;

use crate::interface::Detail;
use crate::nic::Nics;

/// The form in which recorded connections leave the kernel.
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
    /// Also processes of this host that serve connections which recorded ones have opened.
    pub follow: bool,
    /// Of `all`, only those in the network namespace with this inode number.
    pub netns: Option<u32>,
}

/// Options of loading.
pub(super) struct LoadOptions<'a> {
    pub(super) selection: &'a Selection,
    pub(super) detail: Detail,
    pub(super) output: OutputMode,
    pub(super) nics: &'a Nics,
    /// Calls and waits are recorded in windows only.
    pub(super) windows: bool,
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
    Followed = 6,
}
