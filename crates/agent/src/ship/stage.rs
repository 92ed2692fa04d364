//! One interval → the files that its rows belong to. Rows lie in the file of the interval's minute; those of another
//! hour, which an interval has where it meets the next or where the clock was set, in that of their own minute. What such a
//! file holds already stays in it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use table::dataset::{self, FleetRow};
use table::fleet::FleetCoverages;
use table::{Columns, Problem, Table};

use super::name::{FileKey, FileStem, HOUR_NS};
use crate::Interval;

/// A file that is to be in the spool.
#[derive(Debug)]
pub(super) struct StagedFile {
    /// The file's key.
    pub key: FileKey,
    /// All that it is to hold.
    pub bytes: Vec<u8>,
}

/// Files of one interval, ready for the spool, and counts of rows that were too late for them.
#[derive(Debug, Default)]
pub(super) struct StagedInterval {
    /// Files, those of `fleet_coverage` excepted.
    pub files: Vec<StagedFile>,
    /// Rows in them that are new.
    pub rows: u64,
    /// Rows that are too late: the hour of their time is closed.
    pub late_rows: u64,
    /// Files that held rows of the same minutes and cannot be read: what they held is lost.
    pub damaged: Vec<Problem>,
}

/// Place of rows: host and boot, hours that are open, files that exist.
pub(super) struct FilePlace<'a> {
    /// Host and boot of the files.
    pub stem: &'a FileStem,
    /// The host's whole name.
    pub host: &'a str,
    /// Whether a file may get more rows.
    pub is_open: &'a dyn Fn(&FileKey) -> bool,
    /// Where the spool has a file, if it has it.
    pub existing: &'a dyn Fn(&FileKey) -> Option<PathBuf>,
}

impl StagedInterval {
    /// Adds all rows of an interval but its coverage.
    pub(super) fn interval(&mut self, place: &FilePlace<'_>, interval: &Interval) {
        let begin_ns = interval.begin_ns;
        self.add(place, begin_ns, &interval.problems);
        self.add(place, begin_ns, &interval.intervals);
        self.add(place, begin_ns, &interval.connections);
        self.add(place, begin_ns, &interval.details);
    }

    /// Adds the coverage, when all of the interval is known.
    pub(super) fn coverage(&mut self, place: &FilePlace<'_>, interval: &Interval) {
        let mut coverage = FleetCoverages::default();
        coverage.push(interval.coverage.clone());
        self.add(place, interval.begin_ns, &coverage);
    }

    /// Removes the files of a table.
    pub(super) fn remove_table(&mut self, table: &str) -> usize {
        let before = self.files.len();
        self.files.retain(|file| file.key.table() != table);
        before - self.files.len()
    }

    /// Adds rows to the files of their minutes; rows of a closed hour are late.
    fn add<C: Columns>(&mut self, place: &FilePlace<'_>, begin_ns: i64, rows: &C)
    where
        C::Row: FleetRow,
    {
        for (time_ns, rows) in by_file(begin_ns, rows) {
            let Some(key) = FileKey::from_minute(C::Row::NAME, place.stem, time_ns) else {
                continue;
            };
            if !(place.is_open)(&key) {
                self.late_rows += rows.len() as u64;
                continue;
            }
            self.add_to(place, key, rows);
        }
    }

    /// Adds rows to one file; those that it has already stay.
    fn add_to<C: Columns>(&mut self, place: &FilePlace<'_>, key: FileKey, rows: C)
    where
        C::Row: FleetRow,
    {
        let new = rows.len() as u64;
        let mut all = C::default();
        if let Some(path) = (place.existing)(&key) {
            match dataset::read(&path) {
                Ok(before) => all = before,
                Err(problem) => self.damaged.push(problem),
            }
        }
        all.append(rows);
        match dataset::encode(&all, place.host) {
            Ok(bytes) => {
                self.rows += new;
                self.files.push(StagedFile { key, bytes });
            }
            // the writer fails on its sink alone, which is memory here
            Err(error) => self.damaged.push(Problem {
                file: PathBuf::from(key.spool_name()),
                offset: None,
                rows: Some(new),
                cause: error.to_string(),
            }),
        }
    }
}

/// Returns the rows by the minute of their file.
fn by_file<C: Columns>(begin_ns: i64, rows: &C) -> BTreeMap<i64, C> {
    let mut files: BTreeMap<i64, C> = BTreeMap::new();
    for index in 0..rows.len() {
        let row = rows.row(index);
        let time_ns = i64::try_from(row.time_ns()).unwrap_or(i64::MAX);
        let same_hour = time_ns.div_euclid(HOUR_NS) == begin_ns.div_euclid(HOUR_NS);
        let place_ns = if same_hour { begin_ns } else { time_ns };
        let minute_ns = place_ns - place_ns.rem_euclid(super::name::MINUTE_NS);
        files.entry(minute_ns).or_default().push(row);
    }
    files
}
