//! The selection of waits, and their groups.

use serde::Serialize;

/// Property that a group of waits shares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grouping {
    /// Object of the wait.
    Object,
    /// Waiting thread.
    Thread,
    /// Where in the program.
    Stack,
    /// Waker.
    Waker,
    /// Span that the program reports.
    Task,
    /// Pod of the waiting thread.
    Pod,
    /// Workload of that pod.
    Workload,
}

impl Grouping {
    /// The word of the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Thread => "thread",
            Self::Stack => "stack",
            Self::Waker => "waker",
            Self::Task => "task",
            Self::Pod => "pod",
            Self::Workload => "workload",
        }
    }
}

/// Conditions; a wait must meet all.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct WaitFilter {
    /// It ended this long after the recording's start, or later, ns.
    pub from_ns: Option<u64>,
    /// It ended earlier than this long after the recording's start, ns. So a wait is in one of two
    /// neighbouring spans, never in both.
    pub to_ns: Option<u64>,
    /// Its process.
    pub pid: Option<u32>,
    /// Its thread.
    pub tid: Option<u32>,
    /// Its object: a connection's id, either of its addresses, or the name of any object.
    pub object: Option<String>,
    /// It was blocked longer than this, ns.
    pub longer_than_ns: Option<u64>,
}

impl WaitFilter {
    /// Returns the first and last end of a wait that passes the filter, `CLOCK_MONOTONIC` ns.
    pub fn span_ns(&self, started_ns: u64) -> (u64, u64) {
        let from_ns = self
            .from_ns
            .map_or(0, |from| started_ns.saturating_add(from));
        let to_ns = self.to_ns.map_or(u64::MAX, |to| {
            started_ns.saturating_add(to).saturating_sub(1)
        });
        (from_ns, to_ns)
    }
}
