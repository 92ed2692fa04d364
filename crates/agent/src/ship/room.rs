//! Drops files when the spool is full, the least important first: merging the running hour, then details
//! (newest first), then what is newest. So the beginning of an outage is kept as it was, and an interval is there with its
//! coverage or not at all: a host does not look healthy because its problems were dropped.

use table::Table;
use table::fleet::FleetDetail;

use super::name::{FileKey, MINUTE_NS};
use super::spool::Spool;
use super::stage::StagedInterval;

impl Spool {
    /// Returns whether the staged files fit into the spool.
    pub(super) fn fits(&self, stage: &StagedInterval) -> bool {
        let new: u64 = stage.files.iter().map(|file| file.bytes.len() as u64).sum();
        let replaced = stage.files.iter().map(|file| self.bytes_of(&file.key));
        (self.bytes() + new).saturating_sub(replaced.sum()) <= self.most_bytes()
    }

    /// Returns the bytes of a file in the spool; 0 if it is not there.
    fn bytes_of(&self, key: &FileKey) -> u64 {
        let waiting = self.pending.get(key).map(|waiting| waiting.bytes);
        waiting.or_else(|| self.sent.get(key).copied()).unwrap_or(0)
    }

    /// Drops the next file; `false` if only the files to be stored are left.
    pub(super) fn relieve(&mut self, stage: &mut StagedInterval, begin_ns: i64) -> bool {
        if self.forget_sent(begin_ns) {
            return true;
        }
        let details = stage.remove_table(FleetDetail::NAME);
        if details > 0 {
            self.given.full_files += details as u64;
            return true;
        }
        self.drop_details()
    }

    /// Drops copies of files that the target has, except for the newest minutes, which may still grow.
    fn forget_sent(&mut self, begin_ns: i64) -> bool {
        let since_ns = begin_ns - begin_ns.rem_euclid(MINUTE_NS) - MINUTE_NS;
        let is_old = |key: &&FileKey| key.begin_ns() < since_ns && !self.is_covered(key);
        let old: Vec<FileKey> = self.sent.keys().filter(is_old).cloned().collect();
        if old.is_empty() {
            return false;
        }
        if let Some(memory) = &mut self.memory {
            memory.whole_since(since_ns);
        }
        // before the files go: what is not there must not be thought whole
        if let Err(error) = self.save() {
            self.note_failure(&error);
            return false;
        }
        old.iter().for_each(|key| self.mark_removed(key));
        true
    }

    /// Returns whether a minute's file only waits to be removed at the target.
    fn is_covered(&self, key: &FileKey) -> bool {
        self.pending.contains_key(&key.hour_key())
    }

    /// Returns the newest file of details that waits.
    fn drop_details(&mut self) -> bool {
        let is_detail = |key: &&FileKey| key.table() == FleetDetail::NAME;
        let Some(key) = self.pending.keys().rev().find(is_detail).cloned() else {
            return false;
        };
        self.let_go(&key);
        self.given.full_files += 1;
        self.forget_file(&self.pending_path(&key));
        true
    }
}
