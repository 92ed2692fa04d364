//! A directory for recordings: one of the user's, which stays, or one that is removed at the end.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::out;

/// Holds the directory.
pub(crate) struct ScratchDirectory {
    pub(crate) path: PathBuf,
    is_kept: bool,
}

impl ScratchDirectory {
    /// Uses an existing directory of the user.
    pub(crate) fn from_kept(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            is_kept: true,
        }
    }

    /// Makes a temporary directory for `command`, which is removed at the end.
    pub(crate) fn new(command: &str) -> anyhow::Result<Self> {
        let name = format!("whylat-{command}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path)
            .with_context(|| format!("cannot create {}", out::name(&path)))?;
        Ok(Self {
            path,
            is_kept: false,
        })
    }
}

impl Drop for ScratchDirectory {
    fn drop(&mut self) {
        if !self.is_kept {
            // Only a temporary directory is left over if this fails.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}
