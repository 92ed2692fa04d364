//! Files that are there as a whole or not at all, and stay when the power fails.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// Writes a file under a name that nobody reads yet.
pub(super) fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Replaces a file by these bytes: readers see all old or all new bytes.
pub(super) fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(TEMPORARY);
    write(&temporary, bytes)?;
    fs::rename(&temporary, path)?;
    path.parent().map_or(Ok(()), sync_dir)
}

/// Ending of the name of a file that nobody looks at yet.
pub(super) const TEMPORARY: &str = "tmp";

/// Removes half-written files of a folder for which `is_own` is true.
pub(super) fn remove_temporary(dir: &Path, is_own: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.extension().is_some_and(|ending| ending == TEMPORARY) && is_own(&name) {
            remove(&path)?;
        }
    }
    Ok(())
}

/// Makes names created, renamed or removed in a directory last.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Makes and syncs the folders between `root`, which must exist, and `below`.
pub(super) fn make_dirs(root: &Path, below: &Path) -> io::Result<()> {
    let mut dir = root.to_owned();
    for part in below {
        let parent = dir.clone();
        dir.push(part);
        match fs::create_dir(&dir) {
            Ok(()) => sync_dir(&parent)?,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Removes a file; a missing file is no error.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}
