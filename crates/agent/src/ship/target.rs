//! Where the dataset is: a directory, or an object store.

use std::io;
use std::path::{Path, PathBuf};

use super::Writer;
use super::directory::Directory;
use super::error::ShipError;
use super::name::Key;
use super::store::Store;
use crate::config::ShipConfig;

/// Where the dataset is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A directory, which must exist.
    Directory(PathBuf),
    /// A URL of an object store.
    Url(String),
}

/// Schemes of URLs: Amazon's S3 and what speaks it, Google's, Azure's, and plain HTTP with PUT and DELETE (WebDAV).
const SCHEMES: [&str; 10] = [
    "s3", "s3a", "gs", "az", "azure", "abfs", "abfss", "adl", "https", "http",
];

impl Target {
    /// Whether this can be one, without looking whether it is there.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn check(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            let path = PathBuf::from(text);
            if !path.is_absolute() {
                return Err(format!("{text} is not a whole path, nor a URL"));
            }
            return Ok(Self::Directory(path));
        };
        if !SCHEMES.contains(&scheme) {
            return Err(format!("{scheme}:// is not known"));
        }
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.contains('@') && !scheme.starts_with("abfs") {
            return Err("credentials do not belong in a configuration".to_owned());
        }
        if rest.contains('?') {
            return Err("a URL with a question mark may hold a secret".to_owned());
        }
        if authority.is_empty() {
            return Err("the URL names no bucket or host".to_owned());
        }
        Ok(Self::Url(text.to_owned()))
    }
}

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
        match Target::check(text).map_err(refused)? {
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
