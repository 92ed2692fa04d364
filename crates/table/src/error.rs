//! Problems of a recording directory: errors that end an operation, and problems
//! that a reader reports and works around.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

use crate::manifest::FORMAT;

/// Returns a name or cause for a message: on one line, without control characters.
pub(crate) fn one_line(text: &(impl AsRef<OsStr> + ?Sized)) -> String {
    let mut shown = String::new();
    for c in text.as_ref().to_string_lossy().chars() {
        if c.is_control() {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Writing a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The path is taken.
    #[error(
        "cannot create the recording {}: it exists already\nhint: name another path with -o, or replace it with --force",
        one_line(path)
    )]
    Exists {
        /// The path asked for.
        path: PathBuf,
    },
    /// The path to replace is not a recording.
    #[error(
        "will not replace {}: it is not a recording\nhint: name another path with -o",
        one_line(path)
    )]
    NotARecording {
        /// The path asked for.
        path: PathBuf,
    },
    /// Another process writes this recording.
    #[error(
        "the recording {} is still being written by another process\nhint: stop that recorder first, or name another path",
        one_line(path)
    )]
    Busy {
        /// The recording.
        path: PathBuf,
    },
    /// No space, or the user's quota is used up.
    #[error(
        "cannot {what} {}: {source}\nhint: free some space, or name a path on another disk with -o",
        one_line(path)
    )]
    Full {
        /// The operation.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Not allowed to write there.
    #[error(
        "cannot {what} {}: {source}\nhint: name a path that you may write to with -o",
        one_line(path)
    )]
    Denied {
        /// The operation.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Any other failure of the file system.
    #[error(
        "cannot {what} {}: {source}\nhint: see that the directory exists and that its disk works",
        one_line(path)
    )]
    Io {
        /// The operation.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The rows could not be made into Parquet.
    #[error(
        "cannot encode rows of table {} for {}: {source}\nhint: rows that were written before are safe; please \
            report this",
        one_line(table),
        one_line(path)
    )]
    Encode {
        /// Their table.
        table: String,
        /// The file that they were for.
        path: PathBuf,
        /// Why not.
        source: ParquetError,
    },
    /// Two declarations of one table were written to one recording.
    #[error(
        "cannot write table {table}: rows of two different declarations of it came in\nhint: please report this"
    )]
    TwoTypes {
        /// The table.
        table: &'static str,
    },
    /// A sealed file that was to be merged or kept cannot be read.
    #[error(
        "cannot merge table {}: {problem}\nhint: the undamaged segments stay readable; `whylat validate` lists the damage",
        one_line(table)
    )]
    Damaged {
        /// Their table.
        table: String,
        /// The problem and the file.
        problem: Problem,
    },
    /// A recording that is to be changed cannot be opened.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl WriteError {
    /// Makes a write error of a file system's error, by what the user can do about it.
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        let path = path.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::Full { what, path, source }
            }
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                Self::Denied { what, path, source }
            }
            _ => Self::Io { what, path, source },
        }
    }

    /// Makes the write error of a failed encoder.
    pub(crate) fn encode(table: &str, path: &Path, source: ParquetError) -> Self {
        Self::Encode {
            table: table.to_owned(),
            path: path.to_owned(),
            source,
        }
    }

    /// Makes the write error of a Parquet writer; the disk's error if there was one.
    pub(crate) fn from_writer(
        table: &str,
        path: &Path,
        source: ParquetError,
        disk: Option<io::Error>,
    ) -> Self {
        match disk {
            Some(disk) => Self::io("write", path, disk),
            None => Self::encode(table, path, source),
        }
    }
}

/// A recording cannot be opened at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// Nothing is there.
    #[error(
        "cannot open the recording {}: no such directory\nhint: make one with `whylat record`, or look for it with `ls -d *.whylat`",
        one_line(path)
    )]
    NotFound {
        /// The path asked for.
        path: PathBuf,
    },
    /// A file where the directory should be.
    #[error(
        "cannot open the recording {}: it is a file, and a recording is a directory\nhint: name the directory \
            NAME.whylat",
        one_line(path)
    )]
    NotADirectory {
        /// The path asked for.
        path: PathBuf,
    },
    /// A directory of another kind.
    #[error(
        "{} is not a recording: it has no manifest.jsonl\nhint: name a NAME.whylat directory",
        one_line(path)
    )]
    NoManifest {
        /// The path asked for.
        path: PathBuf,
    },
    /// The recorder died before the first line, or the file was emptied.
    #[error(
        "cannot read {}: it is empty; the recorder ended before its first row\nhint: record again",
        one_line(path)
    )]
    EmptyManifest {
        /// The manifest.
        path: PathBuf,
    },
    /// The first line is not a header.
    #[error(
        "cannot read {} at byte 0: {}\nhint: whylat needs the first line to read a recording; its tables are \
            still Parquet files that other tools read",
        one_line(path),
        one_line(cause)
    )]
    Header {
        /// The manifest.
        path: PathBuf,
        /// The problem of the line.
        cause: String,
    },
    /// Made by a later version.
    #[error(
        "cannot read the recording {}: it has format {found}, and this whylat reads formats up to \
            {FORMAT}\nhint: use whylat {} or later; that version wrote it",
        one_line(path),
        one_line(whylat)
    )]
    Newer {
        /// The recording.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The version of whylat that wrote it.
        whylat: String,
    },
    /// Any other failure of the file system.
    #[error(
        "cannot read {}: {source}\nhint: see that you may read it (`ls -ld`), and that its disk works",
        one_line(path)
    )]
    Io {
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Damage in a recording. What it concerns is left out; the rest is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The damaged file.
    pub file: PathBuf,
    /// Where in it, in bytes, when that is known.
    pub offset: Option<u64>,
    /// Rows that cannot be read for it, when that is known.
    pub rows: Option<u64>,
    /// The problem.
    pub cause: String,
}

impl Problem {
    /// A problem of a whole file.
    pub(crate) fn from_file(file: &Path, rows: Option<u64>, cause: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            offset: None,
            rows,
            cause: cause.into(),
        }
    }

    /// A problem at a byte of a file.
    pub(crate) fn at(file: &Path, offset: u64, cause: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            offset: Some(offset),
            rows: None,
            cause: cause.into(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&one_line(&self.file))?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", one_line(&self.cause))?;
        match self.rows {
            Some(rows) => write!(f, " ({rows} rows are left out)"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line() {
        let file = Path::new("r/calls/a\nhint: b\u{1b}[2J\u{9b}1A.parquet");
        let problem = Problem::at(file, 7, "unknown variant `a\nb`");
        assert_eq!(
            problem.to_string(),
            "r/calls/a\\nhint: b\\u{1b}[2J\\u{9b}1A.parquet at byte 7: unknown variant `a\\nb`"
        );
        let error = ReadError::Newer {
            path: "r".into(),
            found: 9,
            whylat: "9\nhint: c".to_owned(),
        };
        let hints = error.to_string();
        let hints = hints.lines().filter(|line| line.starts_with("hint: "));
        assert_eq!(hints.count(), 1, "{error}");
    }
}

/// A recording as text cannot be read or built.
#[derive(Debug, thiserror::Error)]
pub enum FixtureError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}\nhint: a fixture is a folder with header.json and <table>.jsonl files", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file or line has the wrong shape.
    #[error("cannot understand {} line {line}: {source}\nhint: docs/tables.md lists the fields of every table", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Why not.
        source: serde_json::Error,
    },
    /// A file that is no part of a fixture.
    #[error("{} is no part of a recording as text\nhint: tables are named as in docs/tables.md, with the ending .jsonl", path.display())]
    Stranger {
        /// The file.
        path: PathBuf,
    },
    /// The recording cannot be written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// A line that is not a row of its table.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot understand line {line}: {source}\nhint: docs/tables.md lists the fields of every table"
)]
pub struct RowError {
    /// Line, from 1.
    pub line: usize,
    /// Why not.
    pub source: serde_json::Error,
}
