//! Hours that have ended: their minutes' files become one file, and are then removed, in the spool and at the target.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};

use table::dataset::{self, MergeError};
use table::{Table, for_each_fleet_table};

use super::disk;
use super::name::{FileKey, HOUR_NS, MINUTE_NS};
use super::spool::Spool;

/// An hour is taken to have ended when an interval begins so long after it: rows of its last interval may be written by
/// the first of the next.
const AFTER_HOUR_NS: i64 = MINUTE_NS;

impl Spool {
    /// Closes the hours that ended before an interval begins, and later ones if the clock was set
    /// back.
    pub(super) fn close_past(&mut self, begin_ns: i64) -> io::Result<()> {
        self.close_hours(|hour| {
            hour.hour_ns() + HOUR_NS + AFTER_HOUR_NS <= begin_ns
                || hour.hour_ns() > begin_ns.saturating_add(HOUR_NS)
        })
    }

    /// Closes the hours that a kill left half closed, and all of other hosts and boots.
    pub(super) fn close_interrupted(&mut self) -> io::Result<()> {
        let stem = self.stem.clone();
        let memory = self.memory.clone();
        let is_closed = |hour: &FileKey| memory.as_ref().is_some_and(|m| m.is_closed(hour));
        let hours = self.hours(|hour| *hour.stem() != stem || is_closed(hour));
        hours.iter().try_for_each(|hour| self.close_hour(hour))
    }

    /// Closes the hours that are chosen and not closed yet.
    fn close_hours(&mut self, is_chosen: impl Fn(&FileKey) -> bool) -> io::Result<()> {
        let memory = self.memory.clone();
        let is_closed = |hour: &FileKey| memory.as_ref().is_some_and(|m| m.is_closed(hour));
        let hours = self.hours(|hour| is_chosen(hour) && !is_closed(hour));
        if hours.is_empty() {
            return Ok(());
        }
        if let Some(memory) = &mut self.memory {
            hours.iter().for_each(|hour| memory.close(hour));
        }
        self.save()?;
        hours.iter().try_for_each(|hour| self.close_hour(hour))
    }

    /// Returns the hours that have files of minutes, and none of the whole hour.
    fn hours(&self, is_chosen: impl Fn(&FileKey) -> bool) -> Vec<FileKey> {
        let files = self.pending.keys().chain(self.sent.keys());
        let minutes = files.filter(|key| !key.is_hour());
        let hours: BTreeSet<FileKey> = minutes.map(FileKey::hour_key).collect();
        let unmerged = |hour: &FileKey| !self.pending.contains_key(hour) && is_chosen(hour);
        hours.into_iter().filter(unmerged).collect()
    }

    /// Merges the minutes of an hour that is over; if that fails they stay as they are.
    fn close_hour(&mut self, hour: &FileKey) -> io::Result<()> {
        let is_whole = self.memory.as_ref().is_some_and(|m| m.is_whole(hour));
        let minutes = self.minutes_of(hour);
        if is_whole {
            match self.merge(hour, &minutes) {
                Ok(bytes) => {
                    self.add_written(hour.clone(), bytes);
                    return minutes.iter().try_for_each(|key| self.retire(key));
                }
                Err(error) => self.failure = Some(format!("{}: {error}", hour.path())),
            }
        }
        self.given.unmerged_hours += 1;
        for key in &minutes {
            if self.sent.contains_key(key) {
                self.mark_removed(key);
            }
        }
        Ok(())
    }

    /// Returns the files of minutes of an hour, in order.
    fn minutes_of(&self, hour: &FileKey) -> Vec<FileKey> {
        let files = self.pending.keys().chain(self.sent.keys());
        let minutes = files.filter(|key| !key.is_hour() && key.hour_key() == *hour);
        let minutes: BTreeSet<&FileKey> = minutes.collect();
        minutes.into_iter().cloned().collect()
    }

    /// Merges the minutes of an hour; returns the file's length in bytes.
    fn merge(&self, hour: &FileKey, minutes: &[FileKey]) -> Result<u64, MergeError> {
        let paths: Vec<PathBuf> = minutes
            .iter()
            .map(|key| match self.pending.contains_key(key) {
                true => self.pending_path(key),
                false => self.sent_path(key),
            })
            .collect();
        let merged = self.place_merged(hour, &paths);
        if merged.is_err() {
            // a full disk must not stay full for a file that nobody reads
            let _ = disk::remove(&self.merging_path());
        }
        merged
    }

    /// Writes the merged file of an hour; returns its length in bytes.
    fn place_merged(&self, hour: &FileKey, minutes: &[PathBuf]) -> Result<u64, MergeError> {
        let temporary = self.merging_path();
        let bytes = write_merged(hour.table(), minutes, &temporary)?;
        fs::rename(&temporary, self.pending_path(hour))?;
        disk::sync_dir(&self.root.join("pending"))?;
        Ok(bytes)
    }
}

/// Merges files of a table into a new file.
fn write_merged(table: &str, paths: &[PathBuf], into: &Path) -> Result<u64, MergeError> {
    let sink = BufWriter::new(File::create(into)?);
    macro_rules! by_name {
        ($($row:ty),+ $(,)?) => {
            match table {
                $(<$row>::NAME => dataset::merge::<<$row as Table>::Columns, _>(paths, sink),)+
                _ => Err(io::Error::other(format!("no table {table}")).into()),
            }
        };
    }
    let sink = for_each_fleet_table!(by_name)?;
    let file = sink.into_inner().map_err(io::IntoInnerError::into_error)?;
    file.sync_all()?;
    Ok(file.metadata()?.len())
}
