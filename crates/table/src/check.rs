//! `whylat validate`: everything about a recording that can be compared is compared. A path
//! in, the list of what is wrong out.

use std::collections::HashSet;
use std::fs;
use std::path::Path;

use arrow_array::RecordBatch;

use crate::decode::{self, Batches};
use crate::error::{Problem, ReadError};
use crate::files::{MANIFEST, SEALED, TEMPORARY};
use crate::manifest::Segment;
use crate::read::Recording;
use crate::{Columns, Table, for_each_table, progress};

/// Checks a whole recording: manifest lines, lengths, digests, row counts, schemas, times, the
/// loss identity of every probe, and files that do not belong. Empty: all is well. That a
/// recording was not closed is no damage; [`Recording::closed`] says so.
///
/// # Errors
/// As [`Recording::open`].
pub fn validate(path: impl AsRef<Path>) -> Result<Vec<Problem>, ReadError> {
    let dir = path.as_ref();
    let recording = Recording::open(dir)?;
    let mut problems = recording.problems();
    let segments = recording
        .holdings()
        .values()
        .flat_map(|holding| &holding.segments);
    progress::begin(
        || "checking".to_owned(),
        segments.map(|segment| segment.rows).sum(),
    );
    for holding in recording.holdings().values() {
        for segment in &holding.segments {
            let path = dir.join(&segment.file);
            let known = problems.iter().any(|problem| problem.file == path);
            if let (false, Err(cause)) = (known, check_segment(&path, segment)) {
                problems.push(Problem::from_file(&path, Some(segment.rows), cause));
            }
        }
    }
    for loss in recording.loss() {
        if loss.residual() != 0 {
            let cause = format!(
                "probe {}: produced {} is not stored {} + filtered {} + lost {}",
                loss.probe,
                loss.produced,
                loss.stored,
                loss.filtered,
                loss.lost_total()
            );
            problems.push(Problem::from_file(&dir.join(MANIFEST), None, cause));
        }
    }
    if !recording.is_live() {
        problems.extend(unknown_files(dir, &recording));
    }
    Ok(problems)
}

/// Compares digest, rows, schema and times of one file with its manifest line.
fn check_segment(path: &Path, segment: &Segment) -> Result<(), String> {
    decode::verify(path, segment)?;
    macro_rules! check_known {
        ($($row:ty),+ $(,)?) => {
            match segment.table.as_str() {
                $(<$row as Table>::NAME => check_rows::<$row>(path, segment),)+
                _ => check_unknown(path, segment),
            }
        };
    }
    for_each_table!(check_known)
}

/// Checks the file of a table that this version declares.
fn check_rows<T: Table>(path: &Path, segment: &Segment) -> Result<(), String> {
    let mut range_ns = None::<(u64, u64)>;
    let rows = count(Batches::open(path, segment, None)?, |batch| {
        let columns = T::Columns::from_batch(batch).map_err(|error| error.to_string())?;
        if let Some((first_ns, last_ns)) = columns.time_range_ns() {
            let (first, last) = range_ns.unwrap_or((first_ns, last_ns));
            range_ns = Some((first.min(first_ns), last.max(last_ns)));
        }
        Ok(())
    })?;
    let (first_ns, last_ns) = range_ns.unwrap_or((0, 0));
    if (rows, first_ns, last_ns) == (segment.rows, segment.first_ns, segment.last_ns) {
        return Ok(());
    }
    Err(format!(
        "{rows} rows from {first_ns} to {last_ns} ns, but {} from {} to {} ns in the manifest",
        segment.rows, segment.first_ns, segment.last_ns
    ))
}

/// Checks the file of an unknown table: only that it decodes and has its rows.
fn check_unknown(path: &Path, segment: &Segment) -> Result<(), String> {
    let rows = count(Batches::open(path, segment, None)?, |_| Ok(()))?;
    if rows == segment.rows {
        return Ok(());
    }
    Err(format!("{rows} rows, {} in the manifest", segment.rows))
}

/// Calls `each` for every batch; returns the number of rows.
fn count(
    batches: Batches,
    mut each: impl FnMut(&RecordBatch) -> Result<(), String>,
) -> Result<u64, String> {
    let mut rows = 0;
    for batch in batches {
        let batch = batch?;
        rows += batch.num_rows() as u64;
        each(&batch)?;
    }
    Ok(rows)
}

/// Returns a problem for each file in the tables' directories that the manifest does not have.
fn unknown_files(dir: &Path, recording: &Recording) -> Vec<Problem> {
    let holdings = recording.holdings().values();
    let listed: HashSet<_> = holdings
        .flat_map(|holding| &holding.segments)
        .map(|segment| dir.join(&segment.file))
        .collect();
    let mut problems = Vec::new();
    for path in table_files(dir) {
        let cause = match path.extension().and_then(|ending| ending.to_str()) {
            Some(SEALED) if !listed.contains(&path) => {
                "is not in the manifest; `whylat recover` sets it aside"
            }
            Some(TEMPORARY) => "was never sealed; `whylat recover` removes it",
            _ => continue,
        };
        problems.push(Problem::from_file(&path, None, cause));
    }
    problems
}

/// Returns all files one directory down, sorted; leaves out what cannot be listed.
pub(crate) fn table_files(dir: &Path) -> Vec<std::path::PathBuf> {
    let entries = |dir: &Path| fs::read_dir(dir).into_iter().flatten().flatten();
    let mut files: Vec<_> = entries(dir)
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .flat_map(|table| {
            entries(&table.path())
                .map(|entry| entry.path())
                .collect::<Vec<_>>()
        })
        .collect();
    files.sort();
    files
}
