//! Names of files for which threads waited (`/proc/PID/fd`, `/sys/dev/block`): rows of table `files`.

use std::collections::HashMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use table::tables::{WaitedFile, WaitedFiles, Waits};
use table::{Columns, TableId};

use crate::clock::monotonic_ns;
use crate::interface::Probe;

/// The probe of these names, which needs no BPF.
pub(crate) struct FileNames;

impl Probe for FileNames {
    fn name(&self) -> &'static str {
        "files"
    }

    fn table(&self) -> Option<TableId> {
        Some(TableId::WaitedFile)
    }
}

/// Files that are named: a row each.
const FILES_MOST: usize = 4096;

/// Files that are searched at once, so that the collector does nothing else for a millisecond at most.
const SEARCHES_MOST: usize = 32;

/// Waits after which a file without a name gets none any more.
const TRIES_MOST: u8 = 4;

/// Suffix that the kernel gives the path of a deleted file.
const DELETED: &str = " (deleted)";

/// Bits of a minor number in a device number of the kernel (`MINORBITS`).
const MINOR_BITS: u32 = 20;

/// Device and inode number.
type FileKey = (u32, u64);

/// Reads the names of files, each once.
#[derive(Debug, Default)]
pub struct FileReader {
    /// How often the name of each was not found; `None`: it has its row.
    known: HashMap<FileKey, Option<u8>>,
}

/// A name that was read.
#[derive(Debug, PartialEq, Eq)]
struct FileName {
    path: String,
    is_deleted: bool,
}

impl FileReader {
    /// Adds the names of files that threads waited for, once each. The ids of the processes are
    /// those of `/proc` here.
    pub fn describe(&mut self, waits: &Waits, files: &mut WaitedFiles) {
        let mut searches = 0;
        for row in 0..waits.device.len() {
            let key = waits.device[row].zip(waits.object[row]);
            let Some((key, fd)) = key.zip(waits.fd[row]) else {
                continue;
            };
            if !self.is_wanted(key) || searches == SEARCHES_MOST {
                continue;
            }
            searches += 1;
            let place = PathBuf::from(format!("/proc/{}/fd/{fd}", waits.pid[row]));
            self.add(key, read_name(&place, key), files);
        }
    }

    /// Returns whether the file's name is to be read: it is new or earlier tries failed.
    fn is_wanted(&self, key: FileKey) -> bool {
        match self.known.get(&key) {
            Some(tries) => tries.is_some(),
            None => self.known.len() < FILES_MOST,
        }
    }

    /// Adds the row of a file; without a name only after the last try.
    fn add(&mut self, key: FileKey, name: Option<FileName>, files: &mut WaitedFiles) {
        let tries = self.known.entry(key).or_insert(Some(0));
        let failed = tries.unwrap_or(0) + 1;
        if name.is_none() && failed < TRIES_MOST {
            *tries = Some(failed);
            return;
        }
        *tries = None;
        let is_deleted = name.as_ref().is_some_and(|name| name.is_deleted);
        files.push(WaitedFile {
            time_ns: monotonic_ns(),
            device: key.0,
            inode: key.1,
            path: name.map(|name| name.path),
            deleted: is_deleted,
            disk: disk_name(key.0),
        });
    }
}

/// Returns the name of the file behind a link of `/proc/PID/fd`, if it is still that file.
fn read_name(link: &Path, key: FileKey) -> Option<FileName> {
    let found = fs::metadata(link).ok()?;
    if !is_file_of(link, &found, key) {
        return None;
    }
    let path = fs::read_link(link).ok()?;
    let is_deleted = found.nlink() == 0;
    let path = path.to_string_lossy();
    let path = match path.strip_suffix(DELETED) {
        Some(path) if is_deleted => path,
        _ => &path,
    };
    Some(FileName {
        path: path.to_owned(),
        is_deleted,
    })
}

/// Whether a link of `/proc/PID/fd` leads to the file with this device and inode number.
fn is_file_of(link: &Path, found: &Metadata, (device, inode): FileKey) -> bool {
    let is_block_device = found.file_type().is_block_device();
    let of_stat = if is_block_device {
        found.rdev()
    } else {
        found.dev()
    };
    // For btrfs and overlayfs, stat(2) has another device than that of their mount.
    found.ino() == inode && (kernel_device(of_stat) == device || mount_device(link) == Some(device))
}

/// Returns a device number as the kernel keeps it.
fn kernel_device(device: libc::dev_t) -> u32 {
    libc::major(device) << MINOR_BITS | libc::minor(device)
}

/// Returns the device of the mount by which the file behind a link of `/proc/PID/fd` was opened: `mnt_id` of
/// proc_pid_fdinfo(5), which is one of proc_pid_mountinfo(5).
fn mount_device(link: &Path) -> Option<u32> {
    let process = link.parent()?.parent()?;
    let info = fs::read_to_string(process.join("fdinfo").join(link.file_name()?)).ok()?;
    let mount = info
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?
        .trim();
    let mounts = fs::read_to_string(process.join("mountinfo")).ok()?;
    let mut lines = mounts.lines().map(|line| line.split(' '));
    let mut fields = lines.find_map(|mut fields| (fields.next()? == mount).then_some(fields))?;
    let (major, minor) = fields.nth(1)?.split_once(':')?;
    Some(major.parse::<u32>().ok()? << MINOR_BITS | minor.parse::<u32>().ok()?)
}

/// Returns the name of a block device, as `lsblk` prints it.
fn disk_name(device: u32) -> Option<String> {
    let (major, minor) = (device >> MINOR_BITS, device & ((1 << MINOR_BITS) - 1));
    let link = fs::read_link(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    Some(link.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    /// Returns the link in `/proc` to an open file.
    fn link_of(file: &fs::File) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }

    #[test]
    fn names_are_exact_after_deletion_too() {
        let folder = tempfile::tempdir().expect("a directory");
        let path = folder.path().join("data (deleted)");
        let file = fs::File::create(&path).expect("a file");
        let found = file.metadata().expect("an inode");
        let key = (kernel_device(found.dev()), found.ino());
        let name = |is_deleted| FileName {
            path: path.to_string_lossy().into_owned(),
            is_deleted,
        };
        assert_eq!(read_name(&link_of(&file), key), Some(name(false)));
        fs::remove_file(&path).expect("a file to remove");
        assert_eq!(read_name(&link_of(&file), key), Some(name(true)));
        assert_eq!(read_name(&link_of(&file), (key.0, key.1 + 1)), None);
        assert_eq!(read_name(&link_of(&file), (key.0 + 1, key.1)), None);
    }

    /// The kernel's own file system for `/proc` has one device for both.
    #[test]
    fn a_mount_has_its_device() {
        let file = fs::File::open("/proc/self/stat").expect("a file");
        let device = kernel_device(file.metadata().expect("a device").dev());
        assert_eq!(mount_device(&link_of(&file)), Some(device));
    }

    #[test]
    fn a_file_without_a_name_is_tried_a_few_times() {
        let (mut reader, mut files) = (FileReader::default(), WaitedFiles::default());
        for _ in 1..TRIES_MOST {
            reader.add((1, 7), None, &mut files);
            assert!(reader.is_wanted((1, 7)) && files.is_empty());
        }
        reader.add((1, 7), None, &mut files);
        assert!(!reader.is_wanted((1, 7)));
        assert_eq!((files.len(), files.row(0).path), (1, None));
    }
}
