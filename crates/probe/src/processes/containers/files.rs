//! Files of the runtimes and of `/proc`, and what is in them.

use std::path::{Path, PathBuf};

/// Folders that a pattern such as `run/user/*/containers` means below a root; `*` is any one name.
pub(super) fn folders(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        found = match part {
            "*" => found.iter().flat_map(|dir| entries(dir)).collect(),
            part => found.iter().map(|dir| dir.join(part)).collect(),
        };
    }
    found.retain(|dir| dir.is_dir());
    found
}

/// Returns what is in a folder; nothing where it cannot be read.
pub(super) fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// A file of JSON; `None` where it cannot be read, or is none.
pub(super) fn json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// The process with the id in a file, if it lives.
pub(super) fn pid_in(root: &Path, file: &Path) -> Option<u32> {
    let pid = std::fs::read_to_string(file).ok()?.trim().parse().ok()?;
    lives(root, pid).then_some(pid)
}

/// Last part of a path, as text.
pub(super) fn last(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Whether there is such a process.
pub(super) fn lives(root: &Path, pid: u32) -> bool {
    root.join(format!("proc/{pid}")).is_dir()
}
