//! The dataset, ready to be written to: a directory, or an object store.

use std::io;
use std::path::Path;

use super::directory::DirectoryTarget;
use super::error::ShipError;
use super::name::{FileKey, WriterIdentity};
use super::store::ObjectStoreTarget;
use crate::config::{ShipConfig, Target};

/// A target that is ready to be written to.
pub(super) enum OpenTarget {
    /// A directory.
    Directory(DirectoryTarget),
    /// An object store.
    Store(ObjectStoreTarget),
}

impl OpenTarget {
    /// Opens a target for this host; it need not exist yet. The spool must be open: it says what an
    /// earlier agent left unfinished.
    ///
    /// # Errors
    /// When it cannot be one, or another agent writes there as this host.
    pub(super) fn open(writer: &WriterIdentity, config: &ShipConfig) -> Result<Self, ShipError> {
        let text = config.target.as_str();
        let refused = |why: String| ShipError::Target {
            target: text.to_owned(),
            why,
        };
        match Target::parse(text).map_err(refused)? {
            Target::Directory(root) => {
                let mut directory = DirectoryTarget::new(root, &writer.host, &writer.boot_id);
                directory.claim()?;
                Ok(Self::Directory(directory))
            }
            Target::Url(url) => ObjectStoreTarget::new(&url, &config.spool)
                .map(Self::Store)
                .map_err(refused),
        }
    }

    /// Writes a file to its place in the target.
    pub(super) fn put_file(&mut self, key: &FileKey, from: &Path) -> io::Result<()> {
        match self {
            Self::Directory(directory) => directory.put_file(key, from),
            Self::Store(store) => store.put_file(key, from),
        }
    }

    /// Removes a file from the target.
    pub(super) fn remove(&self, key: &FileKey) -> io::Result<()> {
        match self {
            Self::Directory(directory) => directory.remove(key),
            Self::Store(store) => store.remove(key),
        }
    }
}
