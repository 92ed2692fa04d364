//! Uploads in parts that a store has begun and not finished. A store keeps their parts, and bills them, until a client ends
//! the upload, and who was killed meanwhile cannot: so their names are on disk while they last.

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::disk;

/// Name of the file within the spool.
const NAME: &str = "uploads.json";

/// An upload in parts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Upload {
    /// URL of the dataset.
    pub target: String,
    /// Name of the file within the store.
    pub path: String,
    /// The store's name of the upload.
    pub id: String,
}

/// Those that are not finished.
#[derive(Debug)]
pub(super) struct Uploads {
    file: PathBuf,
    open: Vec<Upload>,
}

impl Uploads {
    /// Reads the list of uploads that an earlier agent left open.
    pub(super) fn read(spool: &Path) -> Self {
        let file = spool.join(NAME);
        let text = std::fs::read(&file).unwrap_or_default();
        Self {
            file,
            open: serde_json::from_slice(&text).unwrap_or_default(),
        }
    }

    /// Returns the oldest open upload.
    pub(super) fn first(&self) -> Option<Upload> {
        self.open.first().cloned()
    }

    /// Writes down that an upload begins.
    ///
    /// # Errors
    /// When that cannot be written down: then it must not go on.
    pub(super) fn begin(&mut self, upload: Upload) -> io::Result<()> {
        self.open.push(upload);
        self.write()
    }

    /// Writes down that an upload has ended. If the disk fails, the upload is ended once more.
    pub(super) fn end(&mut self, upload: &Upload) {
        self.open.retain(|open| open != upload);
        let _ = self.write();
    }

    /// Writes the list of open uploads to disk.
    fn write(&self) -> io::Result<()> {
        if self.open.is_empty() {
            return disk::remove(&self.file);
        }
        disk::replace(&self.file, &serde_json::to_vec(&self.open)?)
    }
}
