//! A dataset in a directory, local or of a file server.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::disk;
use super::error::ShipError;
use super::name::{Key, Stem};

/// Folder of the locks within the dataset.
const LOCKS: &str = ".agents";

/// A dataset's directory.
#[derive(Debug)]
pub(super) struct Directory {
    root: PathBuf,
    host: String,
    lock: Option<Flock<File>>,
}

impl Directory {
    /// Nothing is looked at yet: the directory may come later.
    pub(super) fn new(root: PathBuf, host: &str) -> Self {
        let host = host.to_owned();
        Self {
            root,
            host,
            lock: None,
        }
    }

    /// Sees that no other agent writes under the name of this host, if that can be seen yet.
    ///
    /// # Errors
    /// When another one does.
    pub(super) fn claim(&mut self) -> Result<(), ShipError> {
        match self.lock() {
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

    /// Locks the name of this host. File systems without locks are used without.
    fn lock(&mut self) -> io::Result<()> {
        if self.lock.is_some() {
            return Ok(());
        }
        disk::make_dirs(&self.root, Path::new(LOCKS))?;
        let name = Stem::new(&self.host, "").host().to_owned();
        let file = File::create(self.root.join(LOCKS).join(name))?;
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

    /// Puts a file in its place, whole and lasting.
    pub(super) fn put(&mut self, key: &Key, from: &Path) -> io::Result<()> {
        let mut source = File::open(from)?;
        self.lock()?;
        let path = self.root.join(key.path());
        let (Some(dir), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(io::ErrorKind::InvalidFilename.into());
        };
        disk::make_dirs(&self.root, dir.strip_prefix(&self.root).unwrap_or(dir))?;
        let temporary = dir.join(format!(".{}.tmp", name.to_string_lossy()));
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

    /// Removes a file; that there is none is as well.
    pub(super) fn remove(&self, key: &Key) -> io::Result<()> {
        disk::remove(&self.root.join(key.path()))
    }
}
