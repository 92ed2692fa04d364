//! Kinds of work that a request may have to wait for.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use clap::ValueEnum;

use super::other::{DrainedPipe, HelperProcess, StoppedParent};
use crate::clock::now_ns;
use crate::error::LabError;
use crate::random::Random;
use crate::workload::cpu::{ThreadCpu, burn_us};
use crate::workload::peer::pause_us;
use crate::workload::threads::start;

/// Pause of work beside requests, and of a thread between two times that it holds a lock.
const PAUSE_US: u64 = 1_000;

/// Pages of the file that is read.
const FILE_PAGES: u64 = 16_384;
const PAGE_BYTES: u64 = 4_096;

/// A kind of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkKind {
    /// Nothing.
    None,
    /// Computes for so many microseconds of CPU time.
    Compute,
    /// Sleeps for so many microseconds.
    Sleep,
    /// Takes a lock that another thread holds for so many microseconds at a time.
    Lock,
    /// Writes and synchronises a file for so many microseconds, once at least.
    Sync,
    /// Reads so many pages of a mapped file that are not in memory.
    Page,
    /// Writes a page to a pipe; its reader pauses for so many microseconds after each.
    Log,
    /// Asks another process by a pipe, which pauses for so many microseconds before each answer.
    Helper,
    /// Nothing; another process stops this one again and again for so many microseconds. With `--beside` it stops another one.
    Stopped,
}

/// The work, with what it needs.
pub(crate) struct Work {
    kind: WorkKind,
    amount: u64,
    lock: Mutex<()>,
    file: Option<File>,
    pages: Option<MappedFile>,
    log: Option<DrainedPipe>,
    helper: Option<HelperProcess>,
    _stopper: Option<StoppedParent>,
}

impl Work {
    /// Prepares the work. With `is_beside` requests do not wait for it.
    pub(crate) fn new(kind: WorkKind, amount: u64, is_beside: bool) -> Result<Self, LabError> {
        let only = |wanted| (kind == wanted).then_some(());
        Ok(Work {
            kind,
            amount,
            lock: Mutex::new(()),
            file: only(WorkKind::Sync).map(|()| nameless_file()).transpose()?,
            pages: only(WorkKind::Page)
                .map(|()| MappedFile::new())
                .transpose()?,
            log: only(WorkKind::Log)
                .map(|()| DrainedPipe::new(amount))
                .transpose()?,
            helper: only(WorkKind::Helper)
                .map(|()| HelperProcess::new(amount))
                .transpose()?,
            _stopper: only(WorkKind::Stopped)
                .map(|()| StoppedParent::new(amount, is_beside))
                .transpose()?,
        })
    }

    /// Does the work once.
    pub(crate) fn perform(&self) -> Result<(), LabError> {
        match self.kind {
            WorkKind::None | WorkKind::Stopped => {}
            WorkKind::Compute => burn_us(self.amount),
            WorkKind::Sleep => pause_us(self.amount),
            WorkKind::Lock => drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner)),
            WorkKind::Sync => self
                .file
                .iter()
                .try_for_each(|file| sync_pages(file, self.amount))?,
            WorkKind::Page => self.pages.iter().for_each(|pages| pages.read(self.amount)),
            WorkKind::Log => self.log.iter().try_for_each(DrainedPipe::write)?,
            WorkKind::Helper => self.helper.iter().try_for_each(HelperProcess::ask)?,
        }
        Ok(())
    }

    /// Repeats the work with pauses until `is_over`; returns the thread's CPU time.
    pub(crate) fn repeat_until(&self, is_over: &AtomicBool) -> Result<Option<ThreadCpu>, LabError> {
        while !is_over.load(Ordering::Relaxed) {
            self.perform()?;
            pause_us(PAUSE_US);
        }
        Ok(ThreadCpu::read_own())
    }

    /// Starts the thread that holds the lock, if the work needs one.
    pub(crate) fn hold_locks<'scope>(
        &'scope self,
        scope: &'scope thread::Scope<'scope, '_>,
        is_over: Arc<AtomicBool>,
    ) -> Result<(), LabError> {
        if self.kind != WorkKind::Lock {
            return Ok(());
        }
        let hold = move || {
            while !is_over.load(Ordering::Relaxed) {
                let held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
                pause_us(self.amount);
                drop(held);
                pause_us(PAUSE_US);
            }
        };
        start(scope, hold).map(drop)
    }
}

/// Makes a file without a name on a disk, which is gone with the process.
fn nameless_file() -> Result<File, LabError> {
    let folder = Path::new("/var/tmp");
    let opened = File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .open(folder);
    let hint = "O_TMPFILE needs ext4, xfs, btrfs or tmpfs there";
    opened.map_err(|why| LabError::os("make a file in", "/var/tmp", why, hint))
}

/// Appends pages and waits for the disk after each, for `us` microseconds: disks differ by a
/// hundred times.
fn sync_pages(mut file: &File, us: u64) -> Result<(), LabError> {
    let end_ns = now_ns() + us * 1_000;
    loop {
        let written = file.write_all(&[0x78; PAGE_BYTES as usize]);
        written
            .and_then(|()| file.sync_data())
            .map_err(|why| work_error("synchronise", why))?;
        if now_ns() >= end_ns {
            return Ok(());
        }
    }
}

/// Makes the error of failed work on a file.
fn work_error(action: &'static str, why: io::Error) -> LabError {
    LabError::os(
        action,
        "the file in /var/tmp",
        why,
        "check the disk's space",
    )
}

/// A mapped file with pages on the disk, and not in memory.
struct MappedFile {
    /// First byte.
    start: *const u8,
    /// Seed of the pages that are read.
    seed: AtomicU64,
    _file: File,
}

// SAFETY: the mapping is read only, and lives as long as the struct.
unsafe impl Sync for MappedFile {}
// SAFETY: as above; nothing belongs to a thread.
unsafe impl Send for MappedFile {}

impl MappedFile {
    /// Maps a file in `/var/tmp`.
    fn new() -> Result<Self, LabError> {
        use std::os::fd::AsRawFd;
        let file = nameless_file()?;
        let chunk = vec![0x78; 1 << 20];
        let bytes = FILE_PAGES * PAGE_BYTES;
        for at in (0..bytes).step_by(chunk.len()) {
            let written = file.write_all_at(&chunk, at);
            written.map_err(|why| work_error("write", why))?;
        }
        file.sync_all()
            .map_err(|why| work_error("synchronise", why))?;
        let length = bytes as usize;
        let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
        // SAFETY: a new mapping of an open file, at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                protection,
                flags,
                file.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(work_error("map", io::Error::last_os_error()));
        }
        // SAFETY: the range is the whole mapping, which was made above.
        unsafe { libc::madvise(start, length, libc::MADV_RANDOM) };
        // SAFETY: the descriptor is open; clean pages of the file leave the cache.
        unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) };
        Ok(MappedFile {
            start: start.cast(),
            seed: AtomicU64::new(1),
            _file: file,
        })
    }

    /// Reads one byte of each of `pages` pages.
    fn read(&self, pages: u64) {
        let mut random = Random::new(self.seed.fetch_add(1, Ordering::Relaxed));
        for _ in 0..pages {
            let at = random.below(FILE_PAGES) * PAGE_BYTES;
            // SAFETY: the offset lies within the mapping, which lives as long as `self`.
            unsafe { self.start.add(at as usize).read_volatile() };
        }
    }
}
