//! The dataset, ready to be written to: a directory, or an object store.

use std::io;
use std::path::Path;

use super::directory::Directory;
use super::error::ShipError;
use super::name::{Key, Writer};
use super::store::Store;
use crate::config::{ShipConfig, Target};

/// A target that is ready to be written to.
pub(super) enum Sink {
    /// A directory.
    Directory(Directory),
    /// An object store.
    Store(Store),
}

impl Sink {
    /// Opens a target, which need not be there yet, for this host. The spool must be open: it says what an earlier agent left
    /// unfinished.
    ///
    /// # Errors
    /// When it cannot be one, or another agent writes there as this host.
    pub(super) fn open(writer: &Writer, config: &ShipConfig) -> Result<Self, ShipError> {
        let text = config.target.as_str();
        let refused = |why: String| ShipError::Target {
            target: text.to_owned(),
            why,
        };
        match Target::parse(text).map_err(refused)? {
            Target::Directory(root) => {
                let mut directory = Directory::new(root, &writer.host, &writer.boot_id);
                directory.claim()?;
                Ok(Self::Directory(directory))
            }
            Target::Url(url) => Store::new(&url, &config.spool)
                .map(Self::Store)
                .map_err(refused),
        }
    }

    /// Puts a file in its place.
    pub(super) fn put(&mut self, key: &Key, from: &Path) -> io::Result<()> {
        match self {
            Self::Directory(directory) => directory.put(key, from),
            Self::Store(store) => store.put(key, from),
        }
    }

    /// Removes a file.
    pub(super) fn remove(&self, key: &Key) -> io::Result<()> {
        match self {
            Self::Directory(directory) => directory.remove(key),
            Self::Store(store) => store.remove(key),
        }
    }
}
