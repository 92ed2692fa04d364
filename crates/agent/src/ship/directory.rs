//! A dataset in a directory, local or of a file server.
//!
//! ```text
//! TARGET/.agents/HOST            locked by the one agent that writes under this name
//! TARGET/.agents/HOST.BOOT.tmp   the file that is being written: then renamed to its place
//! ```
//!
//! A kill leaves at most one such file, which the next start removes and the next file replaces: its name is always the same,
//! and no reader looks there. `O_TMPFILE` would show none at all, but `linkat` cannot replace a file, and a minute's file is
//! replaced each time that its minute goes on.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::disk;
use super::error::ShipError;
use super::name::{FileKey, FileStem};

/// Folder of locks and of files that are being written, within the dataset.
const AGENTS: &str = ".agents";

/// A dataset's directory.
#[derive(Debug)]
pub(super) struct DirectoryTarget {
    root: PathBuf,
    host: String,
    stem: FileStem,
    lock: Option<Flock<File>>,
    is_clear: bool,
}

impl DirectoryTarget {
    /// Makes a target in this directory, which may not exist yet. Nothing is read yet.
    pub(super) fn new(root: PathBuf, host: &str, boot_id: &str) -> Self {
        Self {
            root,
            host: host.to_owned(),
            stem: FileStem::new(host, boot_id),
            lock: None,
            is_clear: false,
        }
    }

    /// Locks the host's name in the target, and removes half-written files of an earlier agent.
    ///
    /// # Errors
    /// When another one does.
    pub(super) fn claim(&mut self) -> Result<(), ShipError> {
        match self.prepare() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                Err(ShipError::NameTaken {
                    target: self.root.clone(),
                    host: self.host.clone(),
                })
            }
            // a target that is away is tried again when there is something to send
            _ => Ok(()),
        }
    }

    /// Prepares the target once before a file is written.
    fn prepare(&mut self) -> io::Result<()> {
        self.lock()?;
        if !self.is_clear {
            self.remove_left_over()?;
            self.is_clear = true;
        }
        Ok(())
    }

    /// Locks the name of this host; a file system without locks is used without.
    fn lock(&mut self) -> io::Result<()> {
        if self.lock.is_some() {
            return Ok(());
        }
        disk::make_dirs(&self.root, Path::new(AGENTS))?;
        let file = File::create(self.root.join(AGENTS).join(self.stem.host()))?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => self.lock = Some(lock),
            Err((_, Errno::EWOULDBLOCK)) => {
                let what = format!("another agent writes here as host {}", self.host);
                return Err(io::Error::new(io::ErrorKind::ResourceBusy, what));
            }
            Err((_, Errno::ENOLCK | Errno::EOPNOTSUPP | Errno::ENOSYS)) => {}
            Err((_, errno)) => return Err(errno.into()),
        }
        Ok(())
    }

    /// Removes files that killed agents of this host left half written.
    fn remove_left_over(&self) -> io::Result<()> {
        let dir = self.root.join(AGENTS);
        let own = format!("{}.", self.stem.host());
        disk::remove_temporary(&dir, |name| name.starts_with(&own))
    }

    /// Writes a file to its place, whole and synced.
    pub(super) fn put_file(&mut self, key: &FileKey, from: &Path) -> io::Result<()> {
        let mut source = File::open(from)?;
        self.prepare()?;
        let path = self.root.join(key.path());
        let Some(dir) = path.parent() else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        disk::make_dirs(&self.root, dir.strip_prefix(&self.root).unwrap_or(dir))?;
        let temporary = self.root.join(AGENTS);
        let temporary = temporary.join(format!("{}.{}", self.stem, disk::TEMPORARY));
        let written = (|| {
            let mut file = File::create(&temporary)?;
            io::copy(&mut source, &mut file)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            disk::sync_dir(dir)
        })();
        if written.is_err() {
            // a full disk must not stay full for a file that nobody reads
            let _ = fs::remove_file(&temporary);
        }
        written
    }

    /// Removes a file; a missing file is no error.
    pub(super) fn remove(&self, key: &FileKey) -> io::Result<()> {
        disk::remove(&self.root.join(key.path()))
    }
}
