//! Network namespaces of the host. In: `/proc/PID/ns/net` of every process and the namespaces
//! mounted as files (`ip netns`, container engines). Out: an open handle per namespace, and a
//! way to run a function inside one.
//!
//! `setns` moves only the calling thread, so a function runs inside a namespace on a thread
//! of its own that ends with it: no other thread of the profiler ever changes its namespace.
//! What that function opens (a netlink socket) stays bound to the namespace.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, setns};

/// The network namespace of the calling thread.
const CURRENT: &str = "/proc/thread-self/ns/net";

/// Why a namespace could not be found or entered.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The namespace file could not be opened.
    #[error("cannot open network namespace {path}: {source}")]
    Open {
        /// File of the namespace.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// `setns` failed.
    #[error("cannot enter network namespace {inode}: {source}\nhint: run as root (CAP_SYS_ADMIN)")]
    Enter {
        /// Inode number of the namespace.
        inode: u32,
        /// Cause.
        source: io::Error,
    },
    /// No thread could be started to enter it.
    #[error("cannot start a thread to enter network namespace {inode}: {source}")]
    Thread {
        /// Inode number of the namespace.
        inode: u32,
        /// Cause.
        source: io::Error,
    },
    /// `/proc` is not readable.
    #[error("cannot list processes in /proc: {0}\nhint: mount -t proc proc /proc")]
    Proc(io::Error),
}

impl NetnsError {
    /// Returns whether only privileges were missing.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Open { source, .. } | Self::Enter { source, .. } => {
                source.kind() == io::ErrorKind::PermissionDenied
            }
            Self::Thread { .. } | Self::Proc(_) => false,
        }
    }

    /// Returns whether the namespace went away between being found and being opened.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Open { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }
}

/// An open network namespace. It lives at least as long as this handle.
#[derive(Debug)]
pub struct Netns {
    inode: u32,
    file: File,
}

impl Netns {
    /// Opens a namespace file such as `/proc/PID/ns/net`.
    pub fn open(path: &Path) -> Result<Self, NetnsError> {
        let failed = |source| NetnsError::Open {
            path: path.to_owned(),
            source,
        };
        let file = File::open(path).map_err(failed)?;
        // The inode is taken from the open file: the path may by now lead elsewhere.
        // Namespace inodes come from a 32-bit allocator (`ns_alloc_inum`).
        let inode = file.metadata().map_err(failed)?.ino() as u32;
        Ok(Self { inode, file })
    }

    /// The namespace of the calling thread.
    pub fn current() -> Result<Self, NetnsError> {
        Self::open(Path::new(CURRENT))
    }

    /// Returns the inode number: the namespace's identity in `connections.netns`.
    pub fn inode(&self) -> u32 {
        self.inode
    }

    /// Runs `body` in this namespace, on a thread that ends with it. Needs `CAP_SYS_ADMIN`,
    /// unless it is the namespace of the calling thread.
    pub fn run<T: Send>(&self, body: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        if inode_of(CURRENT) == Some(self.inode) {
            return Ok(body());
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new()
                .name("netns".to_owned())
                .spawn_scoped(scope, move || self.enter().map(|()| body()))
                .map_err(|source| NetnsError::Thread {
                    inode: self.inode,
                    source,
                })?;
            thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Moves the calling thread into this namespace, for good. Needs `CAP_SYS_ADMIN`.
    pub(crate) fn enter(&self) -> Result<(), NetnsError> {
        setns(self.file.as_fd(), CloneFlags::CLONE_NEWNET).map_err(|errno| NetnsError::Enter {
            inode: self.inode,
            source: errno.into(),
        })
    }
}

/// The namespaces that a search found.
#[derive(Debug, Default)]
pub struct Found {
    /// A file that leads to each, by inode number.
    pub paths: HashMap<u32, PathBuf>,
    /// Processes with namespaces that may not be read.
    pub denied: u32,
}

/// Finds the network namespaces of the calling thread, of all processes and of all namespace mounts. Namespaces
/// entered only by single threads of a process are not found. Costs about 2 µs a process.
pub fn discover() -> Result<Found, NetnsError> {
    let mut found = discover_by_processes()?;
    if let Some(inode) = inode_of(CURRENT) {
        found.paths.insert(inode, CURRENT.into());
    }
    Ok(found)
}

/// Finds the same, wherever the calling thread is: its own namespace counts only if a process or a mount leads there.
pub(crate) fn discover_by_processes() -> Result<Found, NetnsError> {
    let mut found = Found::default();
    let processes = std::fs::read_dir("/proc").map_err(NetnsError::Proc)?;
    for entry in processes.flatten() {
        if !entry
            .file_name()
            .as_encoded_bytes()
            .iter()
            .all(u8::is_ascii_digit)
        {
            continue;
        }
        let path = entry.path().join("ns/net");
        match std::fs::read_link(&path) {
            Ok(link) => {
                if let Some(inode) = link.to_str().and_then(parse_inode) {
                    found.paths.entry(inode).or_insert(path);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => found.denied += 1,
            // Gone since the directory was read.
            Err(_) => {}
        }
    }
    if let Ok(mounts) = std::fs::read_to_string("/proc/self/mountinfo") {
        for (inode, path) in mounts.lines().filter_map(namespace_mount) {
            found.paths.entry(inode).or_insert(path);
        }
    }
    Ok(found)
}

/// Returns the inode of a namespace file; None if it cannot be read.
fn inode_of(path: &str) -> Option<u32> {
    parse_inode(std::fs::read_link(path).ok()?.to_str()?)
}

/// Returns the inode of a link such as `net:[4026531840]`.
fn parse_inode(link: &str) -> Option<u32> {
    link.strip_prefix("net:[")?.strip_suffix(']')?.parse().ok()
}

/// Returns inode and mount point of a line of `mountinfo` that mounts a network namespace.
fn namespace_mount(line: &str) -> Option<(u32, PathBuf)> {
    let mut fields = line.split(' ');
    let inode = parse_inode(fields.nth(3)?)?;
    Some((inode, PathBuf::from(fields.next()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_and_mounts_are_read() {
        assert_eq!(parse_inode("net:[4026531840]"), Some(4_026_531_840));
        assert_eq!(parse_inode("mnt:[4026531840]"), None);
        assert_eq!(parse_inode("net:[]"), None);
        let line = "35 24 0:4 net:[4026532290] /run/netns/a rw shared:12 - nsfs nsfs rw";
        assert_eq!(
            namespace_mount(line),
            Some((4_026_532_290, "/run/netns/a".into()))
        );
        assert_eq!(namespace_mount("22 1 8:1 / / rw - ext4 /dev/root rw"), None);
        assert_eq!(namespace_mount(""), None);
    }

    #[test]
    fn own_namespace_is_found_and_entered_without_a_thread() {
        let own = Netns::current().unwrap();
        assert!(discover().unwrap().paths.contains_key(&own.inode()));
        let thread = std::thread::current().id();
        assert_eq!(own.run(|| std::thread::current().id()).unwrap(), thread);
    }

    #[test]
    fn an_absent_file_is_named() {
        let error = Netns::open(Path::new("/proc/0/ns/net")).unwrap_err();
        assert!(error.is_gone());
        assert!(error.to_string().contains("/proc/0/ns/net"), "{error}");
    }
}
