//! Writing a recording: batches of typed columns in, sealed segments and manifest lines out.
//!
//! A kill at any moment loses at most the rows that are not sealed. The order that makes it
//! so: file synced, renamed, directory synced, manifest line synced. A reader believes the
//! manifest alone.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::unix::fs::lchown;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::Columns;
use crate::Table;
use crate::encode::Between;
use crate::error::WriteError;
use crate::files::{MANIFEST, create_dir, sync_dir};
use crate::journal::Journal;
use crate::manifest::{Close, Header, Line, Segment};
use crate::merge;
use crate::segment::{OpenSegment, OpenTable};

/// When segments are sealed, and what may be replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WriteOptions {
    /// Longest time that rows stay unsealed, nanoseconds.
    pub segment_ns: u64,
    /// Most encoded bytes that stay unsealed, over all tables.
    pub segment_bytes: u64,
    /// Whether an existing recording at the path is replaced.
    pub force: bool,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self {
            segment_ns: 2_000_000_000,
            segment_bytes: 64 << 20,
            force: false,
        }
    }
}

/// Counts of rows of a closed recording, and failures that occurred.
#[derive(Debug)]
pub struct ClosedRecording {
    /// Sealed rows of each table.
    pub stored: BTreeMap<&'static str, u64>,
    /// Rows of each table that could not be written.
    pub discarded: BTreeMap<&'static str, u64>,
    /// A seal that failed, or tables that keep several segments because merging failed; a
    /// failed merge loses nothing.
    pub failures: Vec<WriteError>,
}

/// A recording being written. Dropped without [`Writer::close`], it leaves what a kill leaves.
///
/// Sealing waits for the disk: give the writer a thread of its own where that may not hold
/// up whoever fills the batches.
pub struct Writer {
    dir: PathBuf,
    options: WriteOptions,
    journal: Journal,
    open: Vec<Box<dyn OpenTable>>,
    sealed_ns: u64,
    stored: BTreeMap<&'static str, u64>,
    discarded: BTreeMap<&'static str, u64>,
    between: Between,
}

impl Writer {
    /// Creates the recording `dir` with its manifest.
    ///
    /// # Errors
    /// [`WriteError::Exists`] when the path is taken and `force` is not set; with `force`,
    /// [`WriteError::NotARecording`] or [`WriteError::Busy`]; otherwise what the file system
    /// says.
    pub fn create(dir: &Path, header: &Header, options: WriteOptions) -> Result<Self, WriteError> {
        if options.force {
            remove_recording(dir)?;
        }
        create_dir(dir).map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => WriteError::Exists {
                path: dir.to_owned(),
            },
            _ => WriteError::io("create", dir, source),
        })?;
        let journal = Journal::create(dir, header).inspect_err(|_| {
            // Leave nothing half made; what cannot be removed says so itself next time.
            let _ = fs::remove_file(dir.join(MANIFEST));
            let _ = fs::remove_dir(dir);
        })?;
        sync_dir(parent(dir))?;
        Ok(Self {
            dir: dir.to_owned(),
            options,
            journal,
            open: Vec::new(),
            sealed_ns: header.started_ns,
            stored: BTreeMap::new(),
            discarded: BTreeMap::new(),
            between: Arc::new(|| ()),
        })
    }

    /// Gives the recording, which has only its manifest yet, to another user.
    ///
    /// # Errors
    /// What the file system says.
    pub fn give_to(&self, uid: u32, gid: u32) -> Result<(), WriteError> {
        self.journal.give_to(uid, gid)?;
        lchown(&self.dir, Some(uid), Some(gid))
            .map_err(|source| WriteError::io("change the owner of", &self.dir, source))
    }

    /// Sets the function to call between small pieces of work from now on, in tables that have no rows yet.
    pub fn set_between(&mut self, between: Between) {
        self.between = between;
    }

    /// Returns the recording's directory.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// Adds rows to their table's open segment. They are kept once it is sealed.
    ///
    /// # Errors
    /// When the disk refuses: the open rows of this table are then gone, counted in
    /// [`Writer::discarded`], and the writer can go on.
    pub fn append<C: Columns>(&mut self, columns: C) -> Result<(), WriteError> {
        if columns.is_empty() {
            return Ok(());
        }
        let index = self.open_index::<C>();
        let Some(open) = self.open[index].as_any().downcast_mut::<OpenSegment<C>>() else {
            return Err(WriteError::TwoTypes {
                table: C::Row::NAME,
            });
        };
        let appended = open.append(columns);
        if appended.is_err() {
            self.discard(index);
        }
        appended
    }

    /// Returns where the open segment of a table is in the list.
    fn open_index<C: Columns>(&mut self) -> usize {
        let found = self
            .open
            .iter()
            .position(|open| open.table() == C::Row::NAME);
        found.unwrap_or_else(|| {
            let between = self.between.clone();
            self.open
                .push(Box::new(OpenSegment::<C>::new(&self.dir, between)));
            self.open.len() - 1
        })
    }

    /// Drops the rows of an open table, and counts them as discarded.
    fn discard(&mut self, index: usize) {
        let open = &mut self.open[index];
        *self.discarded.entry(open.table()).or_default() += open.reset();
    }

    /// Returns whether segments should be sealed at `now_ns` (`CLOCK_MONOTONIC`): rows are open and the time or the
    /// size of [`WriteOptions`] is reached.
    pub fn due(&self, now_ns: u64) -> bool {
        let waited = now_ns.saturating_sub(self.sealed_ns) >= self.options.segment_ns;
        let bytes: u64 = self.open.iter().map(|open| open.bytes()).sum();
        (waited || bytes >= self.options.segment_bytes)
            && self.open.iter().any(|open| open.rows() > 0)
    }

    /// Returns whether so many bytes are open that segments should be sealed.
    pub fn is_full(&self) -> bool {
        self.open.iter().map(|open| open.bytes()).sum::<u64>() >= self.options.segment_bytes
    }

    /// Seals the segments if that is due; returns whether it was.
    ///
    /// # Errors
    /// As [`Writer::seal`].
    pub fn seal_if_due(&mut self, now_ns: u64) -> Result<bool, WriteError> {
        if !self.due(now_ns) {
            return Ok(false);
        }
        self.sealed_ns = now_ns;
        self.seal()?;
        Ok(true)
    }

    /// Seals the open segments of all tables. When it returns, their rows survive a crash.
    ///
    /// # Errors
    /// The first failure. Tables that could be sealed are; the open rows of the others are
    /// gone and counted in [`Writer::discarded`], and the writer can go on.
    pub fn seal(&mut self) -> Result<(), WriteError> {
        let mut failure = None;
        let mut sealed = Vec::new();
        for index in 0..self.open.len() {
            match self.finish_table(index) {
                Ok(Some(segment)) => sealed.push((index, segment)),
                Ok(None) => {}
                Err(error) => {
                    self.discard(index);
                    failure.get_or_insert(error);
                }
            }
        }
        if let Err(error) = self.enter(&sealed) {
            for (index, segment) in sealed {
                // Not in the manifest, so not part of the recording; see `recover`.
                let _ = fs::remove_file(self.dir.join(segment.file));
                self.discard(index);
            }
            return Err(error);
        }
        for (index, _) in sealed {
            let open = &mut self.open[index];
            *self.stored.entry(open.table()).or_default() += open.reset();
        }
        failure.map_or(Ok(()), Err)
    }

    /// Ends the file of a table and renames it.
    fn finish_table(&mut self, index: usize) -> Result<Option<Segment>, WriteError> {
        let open = &mut self.open[index];
        let Some(finished) = open.finish()? else {
            return Ok(None);
        };
        let segment = finished.rename(&self.dir)?;
        sync_dir(&self.dir.join(open.table()))?;
        Ok(Some(segment))
    }

    /// Adds sealed files to the manifest, all with one sync.
    fn enter(&mut self, sealed: &[(usize, Segment)]) -> Result<(), WriteError> {
        if sealed.is_empty() {
            return Ok(());
        }
        let lines: Vec<Line> = sealed
            .iter()
            .map(|(_, segment)| Line::Segment(segment.clone()))
            .collect();
        self.journal.append(&lines)
    }

    /// Appends a line of coverage, loss or cost and waits until it is on disk.
    ///
    /// # Errors
    /// What the file system says; the manifest is then as it was before.
    pub fn line(&mut self, line: &Line) -> Result<(), WriteError> {
        self.journal.append(std::slice::from_ref(line))
    }

    /// Returns the number of sealed rows of each table so far: stored rows in the account of
    /// losses.
    pub fn stored(&self) -> &BTreeMap<&'static str, u64> {
        &self.stored
    }

    /// Rows of each table that were taken in and could then not be written.
    pub fn discarded(&self) -> &BTreeMap<&'static str, u64> {
        &self.discarded
    }

    /// Seals what is open, merges the segments of each table into one compressed file, and
    /// writes the last line. Lines of final loss go between a last [`Writer::seal`] and this.
    ///
    /// # Errors
    /// When the last line could not be written: the recording then counts as not closed. A
    /// failed seal or merge is in [`ClosedRecording`] instead.
    pub fn close(mut self, ended_ns: u64) -> Result<ClosedRecording, WriteError> {
        let mut failures: Vec<WriteError> = self.seal().err().into_iter().collect();
        match merge::merge_all(&self.dir, &mut self.journal) {
            Ok(unmerged) => failures.extend(unmerged),
            Err(error) => failures.push(error),
        }
        self.journal.append(&[Line::Close(Close {
            ended_ns,
            in_order: true,
        })])?;
        self.journal.release();
        Ok(ClosedRecording {
            stored: self.stored,
            discarded: self.discarded,
            failures,
        })
    }
}

/// Returns the directory that holds `path`.
fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// Removes an existing recording that nobody writes; anything else at `dir` is refused.
fn remove_recording(dir: &Path) -> Result<(), WriteError> {
    match fs::symlink_metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(source) => return Err(WriteError::io("read", dir, source)),
        // nothing is in it: what a kill leaves that comes before the manifest
        Ok(metadata) if metadata.is_dir() && fs::remove_dir(dir).is_ok() => return Ok(()),
        Ok(metadata) if !metadata.is_dir() || !dir.join(MANIFEST).is_file() => {
            return Err(WriteError::NotARecording {
                path: dir.to_owned(),
            });
        }
        Ok(_) => {}
    }
    let lock = Journal::reopen(dir)?;
    let removed = fs::remove_dir_all(dir);
    drop(lock);
    removed.map_err(|source| WriteError::io("remove", dir, source))
}
