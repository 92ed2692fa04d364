//! Place of the dataset, as the configuration names it.

use std::path::PathBuf;

/// Place of the dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
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
    /// Reads the address of a target, without testing whether it exists.
    ///
    /// # Errors
    /// The fault in it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            let path = PathBuf::from(text);
            if !path.is_absolute() {
                return Err(format!("{text} is neither an absolute path nor a URL"));
            }
            return Ok(Self::Directory(path));
        };
        if !SCHEMES.contains(&scheme) {
            return Err(format!("{scheme}:// is not known"));
        }
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.contains('@') && !scheme.starts_with("abfs") {
            return Err("a configuration must not hold credentials".to_owned());
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
