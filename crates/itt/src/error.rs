//! Errors on the recorder's side. The collector in the program has no errors: it does
//! nothing instead.

use std::fmt;
use std::io;
use std::path::PathBuf;

use crate::layout::RingShape;

/// The reason why there is no ring, or no collector.
#[derive(Debug)]
pub enum Error {
    /// There cannot be a ring of this shape.
    Shape {
        /// The shape asked for.
        shape: RingShape,
        /// Why not.
        why: &'static str,
    },
    /// The ring's file failed.
    Ring {
        /// The action that failed.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The file is not a ring of this version.
    NotARing {
        /// The file.
        path: PathBuf,
        /// The fault in it.
        why: &'static str,
    },
    /// The collector's library cannot be loaded.
    NotLoadable {
        /// The library.
        path: PathBuf,
        /// Why not.
        why: String,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Shape { shape, why } => write!(
                out,
                "cannot make an ITT ring of {shape:?}: {why}\nhint: RingShape::default() suits most programs"
            ),
            Error::Ring { what, path, source } => write!(
                out,
                "cannot {what} the ITT ring {}: {source}\nhint: name a directory that you may write to, with room for the ring",
                path.display()
            ),
            Error::NotARing { path, why } => write!(
                out,
                "cannot use {} as an ITT ring: {why}\nhint: let the recorder create the file",
                path.display()
            ),
            Error::NotLoadable { path, why } => write!(
                out,
                "cannot load the ITT collector {}: {why}\nhint: build it with `cargo build --release -p whylat-itt`, and name the file libwhylat_itt.so",
                path.display()
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Ring { source, .. } => Some(source),
            Error::Shape { .. } | Error::NotARing { .. } | Error::NotLoadable { .. } => None,
        }
    }
}
