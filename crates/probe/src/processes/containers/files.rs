//! Files of the runtimes and of `/proc`, and what is in them.
//!
//! Whoever writes them may lie or have failed. So a file that is read is a regular one of bounded size, and a container's
//! folder and files are no symbolic links, which could lead out of the runtime's own folder.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Largest file that is read: containerd takes no specification of a container above its limit of a message
/// (`defaults.DefaultMaxRecvMsgSize`).
const MOST_BYTES: u64 = 16 << 20;

/// Returns the folders below a root that match a pattern such as `run/user/*/containers`; `*` is any one name.
pub(super) fn match_folders(root: &Path, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![root.to_owned()];
    for part in pattern.split('/') {
        found = match part {
            "*" => found.iter().flat_map(|dir| list_entries(dir)).collect(),
            part => found.iter().map(|dir| dir.join(part)).collect(),
        };
    }
    found.retain(|dir| dir.is_dir());
    found
}

/// Returns the entries of a folder; none if it cannot be read.
pub(super) fn list_entries(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// Returns whether the path is a folder, and no symbolic link to one.
pub(super) fn is_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// Reads a file of JSON; `None` if it cannot be read, or is not JSON.
pub(super) fn read_json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&read(path, libc::O_NOFOLLOW)?).ok()
}

/// Reads a file of settings as JSON. It may be a symbolic link that an administrator made.
pub(super) fn read_settings(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&read(path, 0)?).ok()
}

/// Returns the pid in a file, if that process exists.
pub(super) fn pid_in(root: &Path, file: &Path) -> Option<u32> {
    let text = String::from_utf8(read(file, libc::O_NOFOLLOW)?).ok()?;
    let pid = text.trim().parse().ok()?;
    is_alive(root, pid).then_some(pid)
}

/// Returns the bytes of a regular file; `None` above the bound.
fn read(path: &Path, flags: i32) -> Option<Vec<u8>> {
    // a FIFO without a writer would block
    let flags = flags | libc::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)
        .ok()?;
    let is_readable = file
        .metadata()
        .is_ok_and(|found| found.is_file() && found.len() <= MOST_BYTES);
    let mut bytes = Vec::new();
    if is_readable {
        // it may grow meanwhile
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
    }
    is_readable.then_some(bytes)
}

/// Returns the last part of a path, as text.
pub(super) fn last_part(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Returns whether a process with this pid exists.
pub(super) fn is_alive(root: &Path, pid: u32) -> bool {
    root.join(format!("proc/{pid}")).is_dir()
}
