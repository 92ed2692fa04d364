//! `whylat recover`: a recording that a crash left open in, a closed one out. Only what the
//! manifest lists and its digests confirm is kept as rows; what else is there is set aside,
//! never adopted.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use crate::check::table_files;
use crate::error::{Problem, WriteError, one_line};
use crate::files::{SEALED, TEMPORARY, UNLISTED, sync_dir};
use crate::journal::{self, Contents, Journal};
use crate::manifest::{Close, Line};
use crate::merge;
use crate::read::Recording;

/// Result of a recovery: files that it removed or set aside, and damage that stays.
#[derive(Debug, Default)]
pub struct RecoveryResult {
    /// The recording had been closed before; nothing but left-over files was touched.
    pub was_closed: bool,
    /// Where the manifest ended in the middle of a line, which was dropped.
    pub dropped_line: Option<u64>,
    /// Files that were removed: never sealed, or replaced by a merge.
    pub removed: Vec<PathBuf>,
    /// Complete files that the manifest does not list, by their new names.
    pub set_aside: Vec<PathBuf>,
    /// Damage that stays.
    pub problems: Vec<Problem>,
    /// Tables that could not be merged and keep their segments.
    pub unmerged: Vec<WriteError>,
}

impl fmt::Display for RecoveryResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.was_closed {
            "was closed already"
        } else {
            "closed"
        })?;
        if let Some(offset) = self.dropped_line {
            write!(
                f,
                "\ndropped a line cut short at byte {offset} of the manifest"
            )?;
        }
        for path in &self.removed {
            write!(f, "\nremoved {}", one_line(path))?;
        }
        for path in &self.set_aside {
            write!(
                f,
                "\nset aside {}: the manifest does not list it",
                one_line(path)
            )?;
        }
        for problem in &self.problems {
            write!(f, "\ndamage stays: {problem}")?;
        }
        for error in &self.unmerged {
            write!(f, "\nnot merged: {error}")?;
        }
        Ok(())
    }
}

/// Closes a recording that was left open. Doing it again changes nothing.
///
/// # Errors
/// [`WriteError::Busy`] while a recorder writes it, [`WriteError::Read`] when it cannot be
/// opened, otherwise what the file system says.
pub fn recover_recording(path: impl AsRef<Path>) -> Result<RecoveryResult, WriteError> {
    let dir = path.as_ref();
    let was_closed = Recording::open(dir)?.closed().is_some();
    let mut journal = Journal::reopen(dir)?;
    // Read again under the lock: the recorder may have gone on until now.
    let contents = journal::read(dir)?;
    let mut recovered = RecoveryResult {
        was_closed,
        ..RecoveryResult::default()
    };
    journal.cut(contents.whole_bytes)?;
    if contents.torn {
        recovered.dropped_line = Some(contents.whole_bytes);
    }
    clear_files(dir, &contents, &mut recovered)?;
    if !was_closed {
        recovered.unmerged = merge::merge_all(dir, &mut journal)?;
        let close = Close {
            ended_ns: ended_ns(&contents),
            in_order: false,
        };
        journal.append(&[Line::Close(close)])?;
        journal.release();
    }
    recovered.problems = Recording::open(dir)?.problems();
    Ok(recovered)
}

/// The last time that the recording knows of.
fn ended_ns(contents: &Contents) -> u64 {
    let times = contents.lines.iter().filter_map(|line| match line {
        Line::Segment(segment) | Line::Merged(segment) => Some(segment.last_ns),
        _ => None,
    });
    times.max().unwrap_or(0).max(contents.header.started_ns)
}

/// Removes temporary and replaced files, and moves unlisted ones away. Other tools read every Parquet file of a
/// directory.
fn clear_files(
    dir: &Path,
    contents: &Contents,
    recovered: &mut RecoveryResult,
) -> Result<(), WriteError> {
    let (holdings, _) = contents.holdings(dir);
    let files = |segments: fn(&journal::Holding) -> &Vec<crate::manifest::Segment>| {
        let segments = holdings.values().flat_map(segments);
        segments
            .map(|segment| dir.join(&segment.file))
            .collect::<HashSet<_>>()
    };
    let listed = files(|holding| &holding.segments);
    let replaced = files(|holding| &holding.replaced);
    for path in table_files(dir) {
        let ending = path.extension().and_then(|ending| ending.to_str());
        if listed.contains(&path) {
            continue;
        }
        if ending == Some(TEMPORARY) || replaced.contains(&path) {
            fs::remove_file(&path).map_err(|source| WriteError::io("remove", &path, source))?;
            recovered.removed.push(path);
        } else if ending == Some(SEALED) {
            let mut aside = path.clone().into_os_string();
            aside.push(format!(".{UNLISTED}"));
            let aside = PathBuf::from(aside);
            fs::rename(&path, &aside).map_err(|source| WriteError::io("rename", &path, source))?;
            recovered.set_aside.push(aside);
        }
    }
    for table in holdings.keys() {
        let table_dir = dir.join(table);
        if table_dir.is_dir() {
            sync_dir(&table_dir)?;
        }
    }
    Ok(())
}
