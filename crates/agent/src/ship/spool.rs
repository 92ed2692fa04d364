//! The spool: files on a local disk until the target has them, and, of the running hour, a copy of each until the hour is
//! merged. In: intervals. Out: files to send and to remove, in order.
//!
//! ```text
//! SPOOL/lock         held by the one agent that uses it
//! SPOOL/*.tmp        what is being written: removed at the next start
//! SPOOL/state.json   `SpoolMemory`
//! SPOOL/uploads.json what a store holds parts of, and no file yet: `Uploads`
//! SPOOL/staging/     the files of an interval that is not whole: removed at the next start
//! SPOOL/staged/      those of one that is: moved to `pending` at the next start
//! SPOOL/pending/     what the target does not have, or may not have
//! SPOOL/sent/        what the target has, until its hour is merged; then what it may have, until it is removed there
//! SPOOL/merging.tmp  an hour that is being merged
//! ```
//!
//! A kill between any two steps leaves one of these states, and each is gone on from without a row lost or doubled: an
//! interval becomes whole by one rename, and a file is what its name says, so that sending it twice is sending it once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use nix::fcntl::{Flock, FlockArg};

use super::disk;
use super::error::ShipError;
use super::name::{FileKey, FileStem, MINUTE_NS};
use super::stage::{FilePlace, StagedInterval};
use super::state::SpoolMemory;
use crate::Interval;

/// A file of the spool that waits for its delivery to the target.
#[derive(Debug)]
pub(super) struct WaitingFile {
    /// Length of the file.
    pub bytes: u64,
    /// Counts how often the file has changed: what was sent may not be what is there by now.
    pub generation: u64,
    /// Whether the target may have it.
    pub tried: bool,
    /// Whether the target has it: an hour's file, with minutes that are still to be removed.
    pub delivered: bool,
    /// When it came.
    pub since: SystemTime,
}

/// Files and rows that a spool gave up since the agent began, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AbandonedRows {
    /// Files dropped because the spool, or its disk, was full.
    pub full_files: u64,
    /// Files dropped because the spool's disk failed, or a file in it was damaged.
    pub failed_files: u64,
    /// Rows dropped because their hour was closed: the clock was set back.
    pub late_rows: u64,
    /// Hours that were left as minutes' files.
    pub unmerged_hours: u64,
}

/// Files that wait.
pub(super) struct Spool {
    pub(super) root: PathBuf,
    pub(super) pending: BTreeMap<FileKey, WaitingFile>,
    pub(super) sent: BTreeMap<FileKey, u64>,
    /// Files that are no longer here and that the target may have.
    maybe_there: BTreeSet<FileKey>,
    pub(super) memory: Option<SpoolMemory>,
    pub(super) given: AbandonedRows,
    /// The newest failure of the spool's disk.
    pub(super) failure: Option<String>,
    pub(super) stem: FileStem,
    host: String,
    most_bytes: u64,
    generation: u64,
    _lock: Flock<File>,
}

/// Next task at the target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DeliveryTask {
    /// Send a file.
    Send {
        /// The file's key.
        key: FileKey,
        /// Where it is.
        path: PathBuf,
        /// The state of the file.
        generation: u64,
    },
    /// Remove a file of an hour that is merged.
    Remove(FileKey),
}

impl Spool {
    /// Opens a spool, and goes on where an earlier agent ended.
    ///
    /// # Errors
    /// When it cannot be written, or another agent uses it.
    pub(super) fn open(
        root: &Path,
        host: &str,
        boot_id: &str,
        most_bytes: u64,
    ) -> Result<Self, ShipError> {
        let failed = |source| ShipError::Spool {
            path: root.to_owned(),
            source,
        };
        for dir in ["pending", "sent"] {
            fs::create_dir_all(root.join(dir)).map_err(failed)?;
        }
        let mut spool = Self {
            _lock: lock(root)?,
            root: root.to_owned(),
            pending: BTreeMap::new(),
            sent: BTreeMap::new(),
            maybe_there: BTreeSet::new(),
            memory: SpoolMemory::read(root),
            given: AbandonedRows::default(),
            failure: None,
            stem: FileStem::new(host, boot_id),
            host: host.to_owned(),
            most_bytes,
            generation: 0,
        };
        spool.recover().map_err(failed)?;
        Ok(spool)
    }

    /// Finishes interrupted work of a killed agent, and lists the files.
    fn recover(&mut self) -> io::Result<()> {
        let staging = self.root.join("staging");
        if staging.exists() {
            fs::remove_dir_all(&staging)?;
        }
        disk::remove_temporary(&self.root, |_| true)?;
        self.move_staged()?;
        self.sent = list(&self.root.join("sent"))?
            .into_iter()
            .map(|(key, bytes, _)| (key, bytes))
            .collect();
        for (key, bytes, since) in list(&self.root.join("pending"))? {
            if self.sent.remove(&key).is_some() {
                // what waits holds all that was sent, and more
                disk::remove(&self.sent_path(&key))?;
            }
            // an earlier agent may have tried it
            self.wait(key, bytes, since, true);
        }
        self.retire_covered()?;
        self.close_interrupted()?;
        if self.memory.as_ref().is_some_and(|m| !m.is_of(&self.stem)) {
            // this boot, or name, is new to a spool that was there before it
            self.memory = Some(SpoolMemory::new(&self.stem, i64::MIN));
            self.save()?;
        }
        Ok(())
    }

    /// Removes files of minutes that a merged hour covers.
    fn retire_covered(&mut self) -> io::Result<()> {
        let covered = |key: &&FileKey| !key.is_hour() && self.pending.contains_key(&key.hour_key());
        let covered: Vec<FileKey> = self.pending.keys().filter(covered).cloned().collect();
        for key in covered {
            self.retire(&key)?;
        }
        Ok(())
    }

    /// Stores an interval, and counts rows that do not fit.
    pub(super) fn store(&mut self, mut interval: Interval) {
        self.remember(interval.begin_ns);
        let mut stage = StagedInterval::default();
        self.with_place(|place| stage.interval(place, &interval));
        let coverage = &mut interval.coverage;
        coverage.rows = i64::try_from(stage.rows).unwrap_or(i64::MAX);
        coverage.spooled_files = self.pending.len() as i64;
        coverage.dropped_files = (self.given.full_files + self.given.failed_files) as i64;
        self.with_place(|place| stage.coverage(place, &interval));
        self.given.late_rows += stage.late_rows;
        for problem in std::mem::take(&mut stage.damaged) {
            self.given.failed_files += 1;
            self.failure = Some(problem.to_string());
        }
        self.keep(stage, interval.begin_ns);
        if let Err(error) = self.close_past(interval.begin_ns) {
            self.note_failure(&error);
        }
    }

    /// Notes since when the spool has all rows: from its first interval on, or after the clock was
    /// set far back.
    fn remember(&mut self, begin_ns: i64) {
        let minute_ns = begin_ns - begin_ns.rem_euclid(MINUTE_NS);
        let changed = match &mut self.memory {
            Some(memory) => memory.set_back(minute_ns),
            memory => {
                *memory = Some(SpoolMemory::new(&self.stem, minute_ns));
                true
            }
        };
        if changed && let Err(error) = self.save() {
            self.note_failure(&error);
        }
    }

    /// Calls `work` with names and paths of files in the spool.
    fn with_place(&self, work: impl FnOnce(&FilePlace<'_>)) {
        work(&FilePlace {
            stem: &self.stem,
            host: &self.host,
            is_open: &|key| self.memory.as_ref().is_some_and(|m| m.is_open(key)),
            existing: &|key| {
                if self.pending.contains_key(key) {
                    Some(self.pending_path(key))
                } else if self.sent.contains_key(key) {
                    Some(self.sent_path(key))
                } else {
                    None
                }
            },
        });
    }

    /// Commits the staged files that fit; makes room by removing the least important files.
    fn keep(&mut self, mut stage: StagedInterval, begin_ns: i64) {
        loop {
            if self.fits(&stage) {
                match self.commit(&stage) {
                    Ok(()) => return,
                    Err(error) if is_full(&error) => {}
                    Err(error) => {
                        self.given.failed_files += stage.files.len() as u64;
                        return self.note_failure(&error);
                    }
                }
            }
            if !self.relieve(&mut stage, begin_ns) {
                self.given.full_files += stage.files.len() as u64;
                return;
            }
        }
    }

    /// Makes the files of a stage part of the spool: all of them or none.
    fn commit(&mut self, stage: &StagedInterval) -> io::Result<()> {
        let staging = self.root.join("staging");
        // an earlier one may have failed on a full disk
        self.move_staged()?;
        let written = (|| {
            fs::create_dir(&staging)?;
            for file in &stage.files {
                disk::write(&staging.join(file.key.spool_name()), &file.bytes)?;
            }
            disk::sync_dir(&staging)?;
            fs::rename(&staging, self.root.join("staged"))?;
            disk::sync_dir(&self.root)
        })();
        if let Err(error) = written {
            // what stays is removed at the next start at the latest
            let _ = fs::remove_dir_all(&staging);
            return Err(error);
        }
        self.move_staged()?;
        for file in &stage.files {
            let may_have = self.may_have(&file.key);
            if self.sent.remove(&file.key).is_some() {
                disk::remove(&self.sent_path(&file.key))?;
            }
            let bytes = file.bytes.len() as u64;
            self.wait(file.key.clone(), bytes, SystemTime::now(), may_have);
        }
        Ok(())
    }

    /// Moves the files of a complete interval to the waiting ones.
    fn move_staged(&self) -> io::Result<()> {
        let staged = self.root.join("staged");
        let entries = match fs::read_dir(&staged) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            fs::rename(
                entry.path(),
                self.root.join("pending").join(entry.file_name()),
            )?;
        }
        disk::sync_dir(&self.root.join("pending"))?;
        fs::remove_dir(&staged)
    }

    /// Returns whether the target may have a version of the file.
    fn may_have(&self, key: &FileKey) -> bool {
        let is_tried = self.pending.get(key).is_some_and(|waiting| waiting.tried);
        is_tried || self.sent.contains_key(key) || self.maybe_there.contains(key)
    }

    /// Notes that a file waits for delivery; a new content gets a new generation.
    fn wait(&mut self, key: FileKey, bytes: u64, since: SystemTime, tried: bool) {
        self.generation += 1;
        let before = self.pending.get(&key);
        let waiting = WaitingFile {
            bytes,
            generation: self.generation,
            tried,
            delivered: false,
            since: before.map_or(since, |before| before.since),
        };
        self.pending.insert(key, waiting);
    }

    /// Returns the next thing to do at the target, oldest first.
    pub(super) fn next(&mut self) -> Option<DeliveryTask> {
        while let Some((key, waiting)) = self.pending.iter().next() {
            if !waiting.delivered {
                return Some(DeliveryTask::Send {
                    key: key.clone(),
                    path: self.pending_path(key),
                    generation: waiting.generation,
                });
            }
            let key = key.clone();
            let minute = self.sent.keys().find(|minute| minute.hour_key() == key);
            if let Some(minute) = minute {
                return Some(DeliveryTask::Remove(minute.clone()));
            }
            self.pending.remove(&key);
            self.forget_file(&self.pending_path(&key));
        }
        None
    }

    /// Notes that a file is being sent: from now on the target may have it.
    pub(super) fn trying(&mut self, key: &FileKey) {
        if let Some(waiting) = self.pending.get_mut(key) {
            waiting.tried = true;
        }
    }

    /// Notes that the target has this version of a file.
    pub(super) fn mark_delivered(&mut self, key: &FileKey, generation: u64) {
        let Some(waiting) = self.pending.get_mut(key) else {
            return;
        };
        if waiting.generation != generation {
            return;
        }
        if key.is_hour() {
            waiting.delivered = true;
            return;
        }
        let bytes = waiting.bytes;
        self.pending.remove(key);
        let path = self.pending_path(key);
        if self.memory.as_ref().is_some_and(|m| m.is_open(key)) {
            match fs::rename(&path, self.sent_path(key)) {
                Ok(()) => drop(self.sent.insert(key.clone(), bytes)),
                Err(error) => self.note_failure(&error),
            }
        } else {
            self.forget_file(&path);
        }
    }

    /// Notes that a file of a minute is no longer at the target, or is left there.
    pub(super) fn mark_removed(&mut self, key: &FileKey) {
        self.sent.remove(key);
        self.forget_file(&self.sent_path(key));
    }

    /// Notes that a file that waited was removed by another process. Its hour may have been merged, or it was dropped
    /// and counted, since it was chosen.
    pub(super) fn mark_vanished(&mut self, key: &FileKey, generation: u64) {
        let waiting = self.pending.get(key);
        if waiting.is_some_and(|waiting| waiting.generation == generation) {
            self.let_go(key);
            self.given.failed_files += 1;
        }
    }

    /// Drops a file that waits. It is lost unless the target has it.
    pub(super) fn let_go(&mut self, key: &FileKey) {
        if self
            .pending
            .remove(key)
            .is_some_and(|waiting| waiting.tried)
        {
            self.maybe_there.insert(key.clone());
        }
    }

    /// Removes a file; notes a failure.
    pub(super) fn forget_file(&mut self, path: &Path) {
        if let Err(error) = disk::remove(path) {
            self.note_failure(&error);
        }
    }

    /// Removes the file of a minute that is part of a merged hour. If the target may have it, it is removed there first.
    pub(super) fn retire(&mut self, key: &FileKey) -> io::Result<()> {
        let Some(waiting) = self.pending.remove(key) else {
            return Ok(());
        };
        if waiting.tried {
            fs::rename(self.pending_path(key), self.sent_path(key))?;
            self.sent.insert(key.clone(), waiting.bytes);
            Ok(())
        } else {
            disk::remove(&self.pending_path(key))
        }
    }

    /// Returns all bytes in the spool.
    pub(super) fn bytes(&self) -> u64 {
        let waiting = self.pending.values().map(|waiting| waiting.bytes);
        waiting.chain(self.sent.values().copied()).sum()
    }

    /// Returns how many bytes the spool may have.
    pub(super) fn most_bytes(&self) -> u64 {
        self.most_bytes
    }

    /// Returns where a file waits for delivery.
    pub(super) fn pending_path(&self, key: &FileKey) -> PathBuf {
        self.root.join("pending").join(key.spool_name())
    }

    /// Returns where a delivered file is kept for its hour.
    pub(super) fn sent_path(&self, key: &FileKey) -> PathBuf {
        self.root.join("sent").join(key.spool_name())
    }

    /// Returns the path at which an hour's file is written.
    pub(super) fn merging_path(&self) -> PathBuf {
        self.root.join("merging.tmp")
    }

    /// Writes the spool's memory to disk.
    pub(super) fn save(&self) -> io::Result<()> {
        self.memory.as_ref().map_or(Ok(()), |m| m.write(&self.root))
    }

    /// Adds a file that was written beside the others, and is new.
    pub(super) fn add_written(&mut self, key: FileKey, bytes: u64) {
        self.wait(key, bytes, SystemTime::now(), false);
    }

    /// Keeps an error of the disk, to report it.
    pub(super) fn note_failure(&mut self, error: &io::Error) {
        self.failure = Some(format!("spool {}: {error}", self.root.display()));
    }
}

/// Returns whether an error means a full disk or quota.
pub(super) fn is_full(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
    )
}

/// Locks the spool's directory: one agent at a time.
fn lock(root: &Path) -> Result<Flock<File>, ShipError> {
    let failed = |source| ShipError::Spool {
        path: root.to_owned(),
        source,
    };
    let file = File::create(root.join("lock")).map_err(failed)?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, errno)| {
        if errno == nix::errno::Errno::EWOULDBLOCK {
            ShipError::SpoolBusy {
                path: root.to_owned(),
            }
        } else {
            failed(errno.into())
        }
    })
}

/// Returns files of a directory of the spool: which, how long, since when.
fn list(dir: &Path) -> io::Result<Vec<(FileKey, u64, SystemTime)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let Some(key) = entry.file_name().to_str().and_then(FileKey::parse) else {
            continue;
        };
        let metadata = entry.metadata()?;
        let since = metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH);
        files.push((key, metadata.len(), since));
    }
    Ok(files)
}
