//! `--cgroup PATH` → cgroup ids. In: a path as the user knows it, within the cgroup tree
//! (`/system.slice/nginx.service`) or in the file system. Out: the id that BPF and sock_diag
//! use, which is the inode number of the directory.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Why a cgroup could not be found.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// The host has no cgroup v2 tree.
    #[error(
        "no cgroup v2 file system is mounted\n\
         hint: mount -t cgroup2 none /sys/fs/cgroup, or choose by -p or --comm"
    )]
    NotMounted,
    /// There is no such cgroup.
    #[error(
        "no cgroup {path} below {mount}: {source}\nhint: list cgroups with: find {mount} -type d"
    )]
    NotFound {
        /// As given.
        path: String,
        /// Where the cgroup v2 tree is mounted.
        mount: String,
        /// Cause.
        source: io::Error,
    },
    /// The path is not a cgroup directory.
    #[error(
        "{path} is not a directory of the cgroup v2 tree at {mount}\nhint: list cgroups with: find {mount} -type d"
    )]
    NotACgroup {
        /// As given.
        path: String,
        /// Where the cgroup v2 tree is mounted.
        mount: String,
    },
}

/// A cgroup that exists.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cgroup {
    /// Its directory.
    pub directory: PathBuf,
    /// Its id.
    pub id: u64,
    /// Ids of all cgroups below it, as of now.
    pub below: Vec<u64>,
    /// Depth below the root of the tree, which is 0 (`bpf_get_current_ancestor_cgroup_id`).
    pub level: u32,
}

impl Cgroup {
    /// Finds the cgroup at `path`.
    pub fn resolve(path: &str) -> Result<Self, CgroupError> {
        Self::resolve_below(&cgroup2_root()?, path)
    }

    /// Finds a control group by its path below the mount point.
    fn resolve_below(mount: &Path, path: &str) -> Result<Self, CgroupError> {
        let shown = mount.display().to_string();
        let directory = if Path::new(path).starts_with(mount) {
            PathBuf::from(path)
        } else {
            mount.join(path.trim_start_matches('/'))
        };
        let not_found = |source| CgroupError::NotFound {
            path: path.to_owned(),
            mount: shown.clone(),
            source,
        };
        // Canonical, so that `..` does not lead out of the tree unseen.
        let directory = directory.canonicalize().map_err(not_found)?;
        let found = directory.metadata().map_err(not_found)?;
        let device = mount.metadata().map_err(not_found)?.dev();
        if !found.is_dir() || found.dev() != device {
            return Err(CgroupError::NotACgroup {
                path: path.to_owned(),
                mount: shown,
            });
        }
        let mut below = Vec::new();
        collect_below(&directory, &mut below);
        let relative = directory.strip_prefix(mount).unwrap_or(Path::new(""));
        let level = u32::try_from(relative.components().count()).unwrap_or(u32::MAX);
        Ok(Self {
            id: found.ino(),
            directory,
            below,
            level,
        })
    }

    /// Returns the pids of all processes in the control group and below it now.
    pub fn processes(&self) -> Vec<u32> {
        let mut pids = Vec::new();
        collect_processes(&self.directory, &mut pids);
        pids
    }

    /// Returns the ids of the control group and of all below it.
    pub fn ids(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.id).chain(self.below.iter().copied())
    }
}

/// Adds the ids of all control groups below a directory.
fn collect_below(directory: &Path, ids: &mut Vec<u64>) {
    // A cgroup that is removed meanwhile holds no process any more.
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if let Ok(found) = entry.metadata()
            && found.is_dir()
        {
            ids.push(found.ino());
            collect_below(&entry.path(), ids);
        }
    }
}

/// Adds the pids of a control group and of all below it.
fn collect_processes(directory: &Path, pids: &mut Vec<u32>) {
    let listed = std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
    pids.extend(listed.lines().filter_map(|line| line.parse::<u32>().ok()));
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            collect_processes(&entry.path(), pids);
        }
    }
}

/// Returns where the cgroup v2 tree of this host is mounted.
pub(crate) fn cgroup2_root() -> Result<PathBuf, CgroupError> {
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap_or_default();
    cgroup2_mount(&mounts).ok_or(CgroupError::NotMounted)
}

/// Returns the mount point of the cgroup v2 tree from the text of `/proc/mounts`.
fn cgroup2_mount(mounts: &str) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let mount = fields.nth(1)?;
        (fields.next()? == "cgroup2").then(|| PathBuf::from(mount))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_is_found_among_others() {
        let hybrid = "tmpfs /sys/fs/cgroup tmpfs rw 0 0\n\
            cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
            cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n";
        assert_eq!(cgroup2_mount(hybrid), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(
            cgroup2_mount("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0"),
            Some("/sys/fs/cgroup".into())
        );
        assert_eq!(cgroup2_mount("tmpfs /cgroup2 tmpfs rw 0 0\n"), None);
    }

    #[test]
    fn the_root_resolves_by_either_path() {
        let root = Cgroup::resolve("/").unwrap();
        assert_eq!(
            Cgroup::resolve(root.directory.to_str().unwrap()).unwrap(),
            root
        );
        assert_eq!(
            root.ids().next(),
            Some(root.directory.metadata().unwrap().ino())
        );
    }

    #[test]
    fn absent_and_foreign_paths_are_named() {
        let error = Cgroup::resolve("/no/such/group").unwrap_err();
        assert!(matches!(error, CgroupError::NotFound { .. }));
        let text = error.to_string();
        assert!(
            text.contains("/no/such/group") && text.contains("hint:"),
            "{text}"
        );
        let outside = Cgroup::resolve("/../../../..").unwrap_err();
        assert!(
            matches!(outside, CgroupError::NotACgroup { .. }),
            "{outside}"
        );
        let file = Cgroup::resolve("/cgroup.procs").unwrap_err();
        assert!(matches!(file, CgroupError::NotACgroup { .. }), "{file}");
    }
}
