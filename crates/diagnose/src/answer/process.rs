//! A process as reports name it.

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize)]
pub struct Process {
    /// Process id; `None` when several share a finding.
    pub pid: Option<u32>,
    /// Command name; `None` when the process was gone before it was resolved.
    pub comm: Option<String>,
}

impl Process {
    /// Returns the process as reports print it: name and pid, as far as known.
    pub fn title(&self) -> String {
        match (self.comm.as_deref(), self.pid) {
            (Some(comm), Some(pid)) => format!("{comm}[{pid}]"),
            (Some(comm), None) => comm.to_owned(),
            (None, pid) => format!("process {}", pid.unwrap_or_default()),
        }
    }
}
