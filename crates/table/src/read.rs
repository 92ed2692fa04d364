//! Reading a recording: a directory in, typed columns, coverage, loss and problems out.
//!
//! Damage never ends a read: a file or line that is damaged is reported as a [`Problem`] and
//! left out. Missing files and wrong lengths are found when the recording is opened, digests
//! are compared before a file is decoded for the first time, so that no row of a damaged file
//! is ever handed out.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::slice;
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;

use crate::decode::{self, Batches};
use crate::error::{Problem, ReadError};
use crate::files::MANIFEST;
use crate::journal::{self, Contents, Holding};
use crate::manifest::{Close, Cost, Coverage, Header, Line, Loss, Segment, SocketKind, UsdtProbe};
use crate::{Columns, ShapeError, Table, progress};

/// An opened recording.
#[derive(Debug)]
pub struct Recording {
    dir: PathBuf,
    header: Header,
    coverage: Vec<Coverage>,
    loss: Vec<Loss>,
    usdt: Vec<UsdtProbe>,
    sockets: Vec<SocketKind>,
    cost: Option<Cost>,
    closed: Option<Close>,
    live: bool,
    torn: bool,
    holdings: BTreeMap<String, Holding>,
    /// Damage known so far, and the files with compared digests.
    checked: Mutex<CheckedFiles>,
}

#[derive(Debug, Default)]
struct CheckedFiles {
    problems: Vec<Problem>,
    sound: HashSet<String>,
    damaged: HashSet<String>,
    /// How often the rows of each table were asked for.
    reads: BTreeMap<&'static str, u64>,
}

impl Recording {
    /// Opens the recording at `path`, closed or not, damaged or not.
    ///
    /// # Errors
    /// When there is no recording, it cannot be read, its first line is damaged, or a later
    /// format wrote it. Damage elsewhere is found in [`Recording::problems`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, ReadError> {
        let dir = path.as_ref();
        look_at(dir)?;
        let manifest = dir.join(MANIFEST);
        let live = journal::is_locked(&manifest).map_err(|source| ReadError::Io {
            path: manifest,
            source,
        })?;
        let contents = journal::read(dir)?;
        let (holdings, outside) = contents.holdings(dir);
        let mut recording = Self {
            dir: dir.to_owned(),
            header: contents.header.clone(),
            coverage: Vec::new(),
            loss: Vec::new(),
            usdt: Vec::new(),
            sockets: Vec::new(),
            cost: None,
            closed: None,
            live,
            torn: contents.torn,
            holdings,
            checked: Mutex::default(),
        };
        recording.take_lines(contents, outside);
        recording.compare_lengths();
        Ok(recording)
    }

    /// Sorts the manifest's lines by kind; later ones replace earlier ones.
    fn take_lines(&mut self, contents: Contents, outside: Vec<Problem>) {
        for line in contents.lines {
            match line {
                Line::Coverage(new) => {
                    replace(&mut self.coverage, new, |line| line.probe.clone());
                }
                Line::Loss(new) => replace(&mut self.loss, new, |line| line.probe.clone()),
                Line::Usdt(new) => replace(&mut self.usdt, new, |line| {
                    (line.provider.clone(), line.name.clone(), line.path.clone())
                }),
                Line::Sockets(new) => {
                    replace(&mut self.sockets, new, |line| line.kind.clone());
                }
                Line::Cost(new) => self.cost = Some(new),
                Line::Close(new) => self.closed = Some(new),
                Line::Header(_) | Line::Segment(_) | Line::Merged(_) => {}
            }
        }
        let problems = &mut self.lock_checked().problems;
        problems.extend(contents.problems);
        problems.extend(outside);
    }

    /// Finds files that are missing or of the wrong length.
    fn compare_lengths(&mut self) {
        for segment in self.holdings.values().flat_map(|holding| &holding.segments) {
            let cause = match fs::metadata(self.dir.join(&segment.file)) {
                Ok(metadata) if metadata.len() == segment.bytes => continue,
                Ok(metadata) => {
                    format!(
                        "{} bytes long, {} in the manifest",
                        metadata.len(),
                        segment.bytes
                    )
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => "missing".to_owned(),
                Err(error) => error.to_string(),
            };
            self.set_aside(segment, cause);
        }
    }

    /// Returns the header: the recording and its host.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the directory of the recording.
    pub fn path(&self) -> &Path {
        &self.dir
    }

    /// The last known state of every probe.
    pub fn coverage(&self) -> &[Coverage] {
        &self.coverage
    }

    /// The last known totals of every probe.
    pub fn loss(&self) -> &[Loss] {
        &self.loss
    }

    /// The USDT probes that were listened to.
    pub fn usdt(&self) -> &[UsdtProbe] {
        &self.usdt
    }

    /// Returns the number of sockets that recorded processes had, by kind; none if they were not
    /// counted.
    pub fn sockets(&self) -> &[SocketKind] {
        &self.sockets
    }

    /// Returns the cost of the profiler; `None` when no line of it was written.
    pub fn cost(&self) -> Option<&Cost> {
        self.cost.as_ref()
    }

    /// Returns how the recording was closed; `None`: it was not, and unsealed rows are missing.
    pub fn closed(&self) -> Option<&Close> {
        self.closed.as_ref()
    }

    /// Returns whether a recorder was still writing the recording when it was opened.
    pub fn is_live(&self) -> bool {
        self.live
    }

    /// Returns whether the manifest ends in the middle of a line, as a kill may leave it.
    pub fn torn(&self) -> bool {
        self.torn
    }

    /// Returns the damage found so far: at the opening, and by scans since.
    pub fn problems(&self) -> Vec<Problem> {
        self.lock_checked().problems.clone()
    }

    /// Returns the number of sealed rows of a table, damaged files included.
    pub fn rows<T: Table>(&self) -> u64 {
        self.segments(T::NAME)
            .iter()
            .map(|segment| segment.rows)
            .sum()
    }

    /// Names of the tables that have sealed rows, in alphabetical order.
    pub fn tables(&self) -> impl Iterator<Item = &str> {
        let filled = |name: &&String| self.segments(name).iter().any(|segment| segment.rows > 0);
        self.holdings.keys().filter(filled).map(String::as_str)
    }

    /// Returns how often the rows of each table were read since the recording was opened. Tests check with it that
    /// nothing is read twice.
    pub fn reads(&self) -> BTreeMap<&'static str, u64> {
        self.lock_checked().reads.clone()
    }

    /// Returns first and last time of the sealed rows of all tables, ns; `None` without rows.
    pub fn time_range_ns(&self) -> Option<(u64, u64)> {
        let segments = || self.holdings.values().flat_map(|holding| &holding.segments);
        let first = segments().map(|segment| segment.first_ns).min()?;
        Some((first, segments().map(|segment| segment.last_ns).max()?))
    }

    /// Returns the files of every table, replaced ones included.
    pub(crate) fn holdings(&self) -> &BTreeMap<String, Holding> {
        &self.holdings
    }

    /// Returns the files of a table; none if the recording does not have it.
    fn segments(&self, table: &str) -> &[Segment] {
        self.holdings
            .get(table)
            .map_or(&[], |holding| &holding.segments)
    }

    /// Hands the rows of a table to `take`, a bounded batch at a time, in the order in which
    /// they were sealed. Returns how many. Only the columns that `T` declares are read: a
    /// shorter declaration of the same table is a fast projection.
    ///
    /// Damaged files are left out and added to [`Recording::problems`].
    pub fn scan<T: Table>(&self, mut take: impl FnMut(T::Columns)) -> u64 {
        let mut rows = 0;
        for columns in self.batches::<T>() {
            rows += columns.len() as u64;
            take(columns);
        }
        rows
    }

    /// The batches that [`Recording::scan`] hands on, for readers of several tables at once.
    pub fn batches<T: Table>(&self) -> impl Iterator<Item = T::Columns> + '_ {
        let mut reader = self.begin_table(T::NAME, T::Columns::schema());
        std::iter::from_fn(move || {
            let mut columns = None;
            reader.read_batch(&mut |batch| {
                columns = Some(T::Columns::from_batch(batch)?);
                Ok(())
            });
            columns
        })
    }

    /// Notes that a table is read, and returns the place before its first row.
    fn begin_table(&self, table: &'static str, schema: SchemaRef) -> TableReader<'_> {
        *self.lock_checked().reads.entry(table).or_default() += 1;
        let segments = self.segments(table);
        let rows = segments.iter().map(|segment| segment.rows).sum();
        progress::begin(|| format!("reading {table}"), rows);
        TableReader {
            recording: self,
            segments: segments.iter(),
            schema,
            open: None,
        }
    }

    /// Opens a sound file; `None` if it is damaged, and then it is set aside.
    fn open_segment(&self, segment: &Segment, schema: &SchemaRef) -> Option<Batches> {
        if !self.is_sound(segment) {
            return None;
        }
        let path = self.dir.join(&segment.file);
        let batches = Batches::open(&path, segment, Some(schema));
        batches.map_err(|cause| self.set_aside(segment, cause)).ok()
    }

    /// Reads all rows of a table at once, for tables that are known to be small.
    pub fn read_all<T: Table>(&self) -> T::Columns {
        let mut all = T::Columns::default();
        self.scan::<T>(|columns| all.append(columns));
        all
    }

    /// Returns whether a file has the digest in the manifest; compared once.
    fn is_sound(&self, segment: &Segment) -> bool {
        {
            let checked = self.lock_checked();
            if checked.sound.contains(&segment.file) || checked.damaged.contains(&segment.file) {
                return checked.sound.contains(&segment.file);
            }
        }
        match decode::verify(&self.dir.join(&segment.file), segment) {
            Ok(()) => {
                self.lock_checked().sound.insert(segment.file.clone());
                true
            }
            Err(cause) => {
                self.set_aside(segment, cause);
                false
            }
        }
    }

    /// Leaves a file out from now on, and reports why once.
    fn set_aside(&self, segment: &Segment, cause: String) {
        let mut checked = self.lock_checked();
        checked.sound.remove(&segment.file);
        if checked.damaged.insert(segment.file.clone()) {
            let path = self.dir.join(&segment.file);
            checked
                .problems
                .push(Problem::from_file(&path, Some(segment.rows), cause));
        }
    }

    /// Locks the list of files that were checked.
    fn lock_checked(&self) -> std::sync::MutexGuard<'_, CheckedFiles> {
        self.checked.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns when the recording at `path` was last written; `None`: there is no recording.
pub fn recording_time(path: &Path) -> Option<SystemTime> {
    let manifest = fs::metadata(path.join(MANIFEST)).ok()?;
    manifest.is_file().then(|| manifest.modified().ok())?
}

/// Place in one table. It does not know the type of the rows, so that it is compiled once for all tables.
struct TableReader<'a> {
    recording: &'a Recording,
    segments: slice::Iter<'a, Segment>,
    schema: SchemaRef,
    open: Option<(&'a Segment, Batches)>,
}

impl TableReader<'_> {
    /// Hands the next batch to `take`; none after the last. If `take` refuses a batch, its file is set aside, and the
    /// next one follows.
    fn read_batch(&mut self, take: &mut dyn FnMut(&RecordBatch) -> Result<(), ShapeError>) {
        loop {
            let Some((segment, batches)) = &mut self.open else {
                let Some(segment) = self.segments.next() else {
                    return;
                };
                let batches = self.recording.open_segment(segment, &self.schema);
                self.open = batches.map(|batches| (segment, batches));
                continue;
            };
            let Some(batch) = batches.next() else {
                self.open = None;
                continue;
            };
            let taken = batch.and_then(|batch| take(&batch).map_err(|error| error.to_string()));
            let Err(cause) = taken else {
                return;
            };
            self.recording.set_aside(segment, cause);
            self.open = None;
        }
    }
}

/// Replaces the line with the same key, or appends the line.
fn replace<L, K: PartialEq>(lines: &mut Vec<L>, new: L, key: impl Fn(&L) -> K) {
    match lines.iter_mut().find(|line| key(line) == key(&new)) {
        Some(line) => *line = new,
        None => lines.push(new),
    }
}

/// Returns an error if the path is no recording, with what it is instead.
fn look_at(dir: &Path) -> Result<(), ReadError> {
    let path = dir.to_owned();
    match fs::metadata(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(ReadError::NotFound { path });
        }
        Err(source) => return Err(ReadError::Io { path, source }),
        Ok(metadata) if !metadata.is_dir() => return Err(ReadError::NotADirectory { path }),
        Ok(_) => {}
    }
    match fs::metadata(dir.join(MANIFEST)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(ReadError::NoManifest { path })
        }
        Err(source) => Err(ReadError::Io {
            path: dir.join(MANIFEST),
            source,
        }),
        Ok(metadata) if !metadata.is_file() => Err(ReadError::NoManifest { path }),
        Ok(_) => Ok(()),
    }
}
