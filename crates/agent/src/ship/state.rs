//! The spool's memory of the files that it no longer has, in a file of its own.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::disk;
use super::name::{FileKey, FileStem, HOUR_NS};

/// Name of the file within the spool.
const NAME: &str = "state.json";

/// Most closed hours that are remembered: six weeks of them, as no clock that is set back by more is waited for.
const CLOSED_HOURS: usize = 1000;

/// State of a spool that outlives its files and the agent: hours that are closed, for one host and boot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SpoolMemory {
    /// Host and boot.
    stem: String,
    /// Since when the spool has had every file, ns since 1970-01-01 UTC. For an earlier minute the target may have a file
    /// that the spool does not know: no rows are taken for it, and its hour is not merged.
    whole_since_ns: i64,
    /// Begins of hours that are merged or left as they are, ns since 1970-01-01 UTC: no rows are taken for them.
    closed_ns: BTreeSet<i64>,
}

impl SpoolMemory {
    /// Makes the memory of a spool that has had every file since a time.
    pub(super) fn new(stem: &FileStem, whole_since_ns: i64) -> Self {
        Self {
            stem: stem.to_string(),
            whole_since_ns,
            closed_ns: BTreeSet::new(),
        }
    }

    /// Reads the state from the spool; `None`: missing or unreadable.
    pub(super) fn read(spool: &Path) -> Option<Self> {
        let text = std::fs::read(spool.join(NAME)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// Writes the state to the spool, and syncs it.
    pub(super) fn write(&self, spool: &Path) -> io::Result<()> {
        disk::replace(&spool.join(NAME), &serde_json::to_vec(self)?)
    }

    /// Returns whether the state is of this host and boot.
    pub(super) fn is_of(&self, stem: &FileStem) -> bool {
        self.stem == stem.to_string()
    }

    /// Returns whether rows may come for a file.
    pub(super) fn is_open(&self, key: &FileKey) -> bool {
        self.is_of(key.stem()) && key.begin_ns() >= self.whole_since_ns && !self.is_closed(key)
    }

    /// Returns whether no more rows are taken for the hour of a file.
    pub(super) fn is_closed(&self, key: &FileKey) -> bool {
        self.closed_ns.contains(&key.hour_ns())
    }

    /// Returns whether all files of a file's hour are in the spool.
    pub(super) fn is_whole(&self, key: &FileKey) -> bool {
        self.is_of(key.stem()) && key.hour_ns() >= self.whole_since_ns
    }

    /// Closes the hour of a file: it takes no more rows.
    pub(super) fn close(&mut self, key: &FileKey) {
        self.closed_ns.insert(key.hour_ns());
        while self.closed_ns.len() > CLOSED_HOURS {
            self.closed_ns.pop_first();
        }
    }

    /// Notes that files of minutes before this one may be missing.
    pub(super) fn whole_since(&mut self, minute_ns: i64) {
        self.whole_since_ns = self.whole_since_ns.max(minute_ns);
    }

    /// The clock was set back to a time long before all that the spool has had: that begins again.
    pub(super) fn set_back(&mut self, minute_ns: i64) -> bool {
        let far = self.whole_since_ns.saturating_sub(HOUR_NS) > minute_ns;
        if far {
            self.whole_since_ns = minute_ns;
        }
        far
    }
}
