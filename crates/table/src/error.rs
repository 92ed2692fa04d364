//! What can go wrong with a recording directory: errors that end an operation, and problems
//! that a reader reports and works around.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use parquet::errors::ParquetError;

use crate::manifest::FORMAT;

/// Writing a recording failed.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The path is taken.
    #[error("cannot create the recording {}: it exists already\nhint: name another path with -o, or replace it with --force", path.display())]
    Exists {
        /// The path asked for.
        path: PathBuf,
    },
    /// Told to replace something that is not a recording.
    #[error("will not replace {}: it is not a recording\nhint: name another path with -o", path.display())]
    NotARecording {
        /// The path asked for.
        path: PathBuf,
    },
    /// Another process writes this recording.
    #[error("the recording {} is still being written by another process\nhint: stop that recorder first, or name another path", path.display())]
    Busy {
        /// The recording.
        path: PathBuf,
    },
    /// No space, or the user's quota is used up.
    #[error("cannot {what} {}: {source}\nhint: free some space, or name a path on another disk with -o", path.display())]
    Full {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Not allowed to write there.
    #[error("cannot {what} {}: {source}\nhint: name a path that you may write to with -o", path.display())]
    Denied {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Any other failure of the file system.
    #[error("cannot {what} {}: {source}\nhint: see that the directory exists and that its disk works", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The rows could not be made into Parquet.
    #[error("cannot encode rows of table {table} for {}: {source}\nhint: the rows already sealed are safe; please report this", path.display())]
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
        "cannot merge table {table}: {problem}\nhint: the undamaged segments stay readable; `whylat validate` lists the damage"
    )]
    Damaged {
        /// Their table.
        table: String,
        /// What is wrong with which file.
        problem: Problem,
    },
    /// A recording that is to be changed cannot be opened.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl WriteError {
    /// Sorts a file system's error by what the user can do about it.
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

    /// An error of the encoder.
    pub(crate) fn encode(table: &str, path: &Path, source: ParquetError) -> Self {
        Self::Encode {
            table: table.to_owned(),
            path: path.to_owned(),
            source,
        }
    }

    /// An error of a Parquet writer: the disk's own if there was one.
    pub(crate) fn of_writer(
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
    #[error("cannot open the recording {}: no such directory\nhint: make one with `whylat record`, or look for it with `ls -d *.whylat`", path.display())]
    NotFound {
        /// The path asked for.
        path: PathBuf,
    },
    /// A file where the directory should be.
    #[error("cannot open the recording {}: it is a file, and a recording is a directory\nhint: name the NAME.whylat directory itself", path.display())]
    NotADirectory {
        /// The path asked for.
        path: PathBuf,
    },
    /// A directory of another kind.
    #[error("{} is not a recording: it has no manifest.jsonl\nhint: name a NAME.whylat directory", path.display())]
    NoManifest {
        /// The path asked for.
        path: PathBuf,
    },
    /// The recorder died before the first line, or the file was emptied.
    #[error("cannot read {}: it is empty; the recording ended before it began\nhint: record again", path.display())]
    EmptyManifest {
        /// The manifest.
        path: PathBuf,
    },
    /// The first line is not a header.
    #[error("cannot read {} at byte 0: {cause}\nhint: without its first line a recording cannot be understood; its tables are still Parquet files that other tools read", path.display())]
    Header {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with the line.
        cause: String,
    },
    /// Made by a later version.
    #[error("cannot read the recording {}: it has format {found}, and this whylat reads formats up to {FORMAT}\nhint: use whylat {whylat} or later, which wrote it", path.display())]
    Newer {
        /// The recording.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The version of whylat that wrote it.
        whylat: String,
    },
    /// Any other failure of the file system.
    #[error("cannot read {}: {source}\nhint: see that you may read it (`ls -ld`), and that its disk works", path.display())]
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
    /// What is wrong.
    pub cause: String,
}

impl Problem {
    /// A problem of a whole file.
    pub(crate) fn of_file(file: &Path, rows: Option<u64>, cause: impl Into<String>) -> Self {
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
        write!(f, "{}", self.file.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        write!(f, ": {}", self.cause)?;
        match self.rows {
            Some(rows) => write!(f, " ({rows} rows are left out)"),
            None => Ok(()),
        }
    }
}
