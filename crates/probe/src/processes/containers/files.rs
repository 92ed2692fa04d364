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

/// Whether it is a folder, and no symbolic link to one.
pub(super) fn is_folder(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir())
}

/// A file of JSON; `None` where it cannot be read, or is none.
pub(super) fn json(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&read(path, libc::O_NOFOLLOW)?).ok()
}

/// A file of settings as JSON, which an administrator may have linked to.
pub(super) fn settings(path: &Path) -> Option<serde_json::Value> {
    serde_json::from_slice(&read(path, 0)?).ok()
}

/// The process with the id in a file, if it lives.
pub(super) fn pid_in(root: &Path, file: &Path) -> Option<u32> {
    let text = String::from_utf8(read(file, libc::O_NOFOLLOW)?).ok()?;
    let pid = text.trim().parse().ok()?;
    lives(root, pid).then_some(pid)
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

/// Last part of a path, as text.
pub(super) fn last(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

/// Whether there is such a process.
pub(super) fn lives(root: &Path, pid: u32) -> bool {
    root.join(format!("proc/{pid}")).is_dir()
}
