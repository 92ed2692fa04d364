//! Decides which process owns a socket, from `/proc/PID/fd`. In: pids. Out: socket inode → pid. The
//! fallback when BPF does not say: a read of one link for each open file.

use std::collections::HashMap;
use std::io;

/// Socket inode → owning process.
pub type Owners = HashMap<u32, u32>;

/// Sockets that a scan of `/proc/PID/fd` found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct SocketOwners {
    /// Owner by socket inode; of several owners, the lowest pid (most often the parent).
    pub owners: Owners,
    /// A descriptor of each socket that one of its owners has: inode, process, descriptor.
    pub descriptors: Vec<(u32, u32, u32)>,
    /// Files examined.
    pub files: u64,
    /// Processes with files that may not be read.
    pub denied: u32,
    /// Processes that were gone when their turn came.
    pub gone: u32,
    /// Processes left out because `max_files` was reached.
    pub left_out: u32,
}

impl SocketOwners {
    /// Scans the files of `pids`, and stops after the process with which `max_files` is reached.
    /// About 2 µs a file.
    pub fn scan(pids: impl IntoIterator<Item = u32>, max_files: u64) -> Self {
        let mut found = Self::default();
        for pid in pids {
            if found.files >= max_files {
                found.left_out += 1;
                continue;
            }
            match found.scan_process(pid, max_files) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => found.denied += 1,
                Err(_) => found.gone += 1,
            }
        }
        found
    }

    /// Adds the sockets that a process has open; stops after `max_files` descriptors.
    fn scan_process(&mut self, pid: u32, max_files: u64) -> io::Result<()> {
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
            let Ok(entry) = entry else {
                // The process exits while its directory is read: what was found still counts.
                return Ok(());
            };
            self.files += 1;
            let link = std::fs::read_link(entry.path());
            if let Some(inode) = link.ok().and_then(|link| socket_inode(link.to_str()?)) {
                let fd = entry.file_name().to_str().and_then(|fd| fd.parse().ok());
                if !self.owners.contains_key(&inode) {
                    self.descriptors.extend(fd.map(|fd| (inode, pid, fd)));
                }
                let owner = self.owners.entry(inode).or_insert(pid);
                *owner = pid.min(*owner);
            }
            if self.files >= max_files {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Returns the inode of a link such as `socket:[12345]`.
fn socket_inode(link: &str) -> Option<u32> {
    link.strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    /// Returns the inode of a socket.
    fn inode(socket: &std::net::TcpListener) -> u32 {
        use std::os::fd::AsRawFd;
        let path = format!("/proc/self/fd/{}", socket.as_raw_fd());
        std::fs::metadata(path).unwrap().ino() as u32
    }

    #[test]
    fn own_sockets_are_found_and_closed_ones_are_not() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let inode = inode(&socket);
        let pid = std::process::id();
        let found = SocketOwners::scan([pid], u64::MAX);
        assert_eq!(found.owners.get(&inode), Some(&pid));
        drop(socket);
        assert_eq!(SocketOwners::scan([pid], u64::MAX).owners.get(&inode), None);
    }

    #[test]
    fn processes_that_are_gone_are_counted() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let found = SocketOwners::scan([child.id(), std::process::id()], u64::MAX);
        assert_eq!((found.gone, found.denied), (1, 0));
        assert!(found.files > 0);
    }

    #[test]
    fn the_bound_holds_and_reports_what_it_left_out() {
        let pid = std::process::id();
        let found = SocketOwners::scan([pid, pid, pid], 1);
        assert_eq!((found.files, found.left_out), (1, 2));
    }

    #[test]
    fn links_are_read() {
        assert_eq!(socket_inode("socket:[4294967295]"), Some(u32::MAX));
        assert_eq!(socket_inode("pipe:[5]"), None);
        assert_eq!(socket_inode("socket:[]"), None);
    }
}
