//! A process that has the ring's descriptor and does nothing: `/proc/PID/fd/N` of it is the path
//! by which programs open the ring.
//!
//! The ring is memory without a name, so that nothing is left behind after a kill. `/proc` lets a
//! program look into processes of its own user only, and only if it has all their capabilities.
//! So the holder is of the program's user and has none. It lives as long as the recorder: a socket
//! makes it end then. Programs that have mapped the ring go on; others find none, and
//! say nothing.

use std::ffi::{CStr, CString, c_int};
use std::io::{self, Read};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Gid, Pid, Uid, fork, setgroups, setresgid, setresuid};

use super::refusal::Refusal;
use crate::helper::{close_all_but, keep_capabilities};

/// The user and group of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    /// User id.
    pub uid: Uid,
    /// Group id.
    pub gid: Gid,
}

/// Steps of the holder before it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Step {
    Become = 1,
    OpenCollector,
    OpenRing,
    Done,
}

/// The holder; it ends with this value.
#[derive(Debug)]
pub(super) struct Holder {
    pid: Pid,
    /// Closed, it makes the process end.
    line: Option<UnixStream>,
    ring_path: PathBuf,
}

/// Files and paths of the process; allocated before it is forked.
struct HolderFiles {
    ring: RawFd,
    line: RawFd,
    user: Option<User>,
    collector: CString,
    ring_path: CString,
}

impl Holder {
    /// Starts the process, which tests whether programs of this user can open the files.
    pub(super) fn start(
        ring: OwnedFd,
        collector: &Path,
        user: Option<User>,
    ) -> Result<Self, Refusal> {
        let failed = |error: io::Error| Refusal {
            why: format!("no process can be started that holds the ITT ring: {error}"),
            remedy: "see the limits of processes and files: ulimit -a".to_owned(),
        };
        let text = |path: &[u8]| CString::new(path).map_err(|error| failed(error.into()));
        let (line, far_end) = UnixStream::pair().map_err(failed)?;
        let held = HolderFiles {
            ring: ring.as_raw_fd(),
            line: far_end.as_raw_fd(),
            user,
            collector: text(collector.as_os_str().as_bytes())?,
            ring_path: text(format!("/proc/self/fd/{}", ring.as_raw_fd()).as_bytes())?,
        };
        // SAFETY: the child only makes system calls, allocates nothing, and never returns.
        let pid = match unsafe { fork() }.map_err(|error| failed(error.into()))? {
            ForkResult::Parent { child } => child,
            ForkResult::Child => hold_until_release(&held),
        };
        drop(far_end);
        let ring_path = format!("/proc/{pid}/fd/{}", held.ring).into();
        let mut holder = Holder {
            pid,
            line: Some(line),
            ring_path,
        };
        holder.answer(collector, user).map(|()| holder)
    }

    /// Returns the path of the ring.
    pub(super) fn ring_path(&self) -> &Path {
        &self.ring_path
    }

    /// Waits for the result of the test; the error says why a file cannot be opened.
    fn answer(&mut self, collector: &Path, user: Option<User>) -> Result<(), Refusal> {
        let mut report = [0; 5];
        let read = self.line.as_mut().map(|line| line.read_exact(&mut report));
        let [step, errno @ ..] = report;
        let why = io::Error::from_raw_os_error(c_int::from_ne_bytes(errno));
        let who = user.map_or_else(Uid::effective, |user| user.uid);
        let (what, remedy) = match (read, step) {
            (Some(Ok(())), step) if step == Step::Done as u8 => return Ok(()),
            (Some(Ok(())), step) if step == Step::OpenCollector as u8 => (
                format!(
                    "user id {who} cannot read the collector {}",
                    collector.display()
                ),
                "install whylat where that user may read it, or run the command with --as-root",
            ),
            (Some(Ok(())), step) if step == Step::OpenRing as u8 => (
                format!("user id {who} cannot open the ITT ring"),
                "run the command with --as-root, or whylat as that user",
            ),
            _ => (
                format!("no process of user id {who} holds the ITT ring"),
                "run the command with --as-root, or whylat as that user",
            ),
        };
        Err(Refusal {
            why: format!("{what}: {why}"),
            remedy: remedy.to_owned(),
        })
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.line = None;
        // It ends at once, if it has not yet.
        let _ = waitpid(self.pid, None);
    }
}

/// Runs the process until it is released, without allocating: another thread may have held the
/// lock.
fn hold_until_release(held: &HolderFiles) -> ! {
    let (step, errno) = match prepare(held) {
        Ok(()) => (Step::Done, 0),
        Err((step, error)) => (step, error.raw_os_error().unwrap_or(0)),
    };
    let mut report = [step as u8; 5];
    report[1..].copy_from_slice(&errno.to_ne_bytes());
    let mut byte = 0u8;
    // SAFETY: the calls take an open descriptor and memory of this stack with its length.
    // Interrupted reads are repeated; anything else is the recorder's end.
    unsafe {
        libc::write(held.line, report.as_ptr().cast(), report.len());
        while libc::read(held.line, (&raw mut byte).cast(), 1) < 0
            && *libc::__errno_location() == libc::EINTR
        {}
        libc::_exit(0)
    }
}

/// Lowers the child's rights, and tests that it can open collector and ring.
fn prepare(held: &HolderFiles) -> Result<(), (Step, io::Error)> {
    let own = assume_user(held.user).and_then(|()| {
        close_all_but(held.ring, held.line);
        make_visible()
    });
    own.map_err(|error| (Step::Become, error))?;
    try_open(&held.collector, libc::O_RDONLY).map_err(|error| (Step::OpenCollector, error))?;
    try_open(&held.ring_path, libc::O_RDWR).map_err(|error| (Step::OpenRing, error))
}

/// Changes to this user and their groups; None changes nothing.
fn assume_user(user: Option<User>) -> io::Result<()> {
    // SAFETY: plain numbers and a C string. The terminal's signals are for the recorder.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"whylat-itt".as_ptr());
    }
    if let Some(User { uid, gid }) = user {
        setgroups(&[])?;
        setresgid(gid, gid, gid)?;
        setresuid(uid, uid, uid)?;
    }
    keep_capabilities(0)
}

/// Makes the process visible in `/proc` again, after it changed its user.
fn make_visible() -> io::Result<()> {
    // SAFETY: plain numbers.
    match unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 1, 0, 0, 0) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Opens a file and closes it again: an error says why it cannot be opened.
fn try_open(path: &CStr, access: c_int) -> io::Result<()> {
    // SAFETY: a C string and plain numbers; the descriptor is closed by nobody else.
    unsafe {
        match libc::open(path.as_ptr(), access | libc::O_CLOEXEC) {
            -1 => Err(io::Error::last_os_error()),
            fd => {
                libc::close(fd);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ::itt::{Ring, RingShape};

    use super::*;

    const NOBODY: User = User {
        uid: Uid::from_raw(65534),
        gid: Gid::from_raw(65534),
    };

    /// Makes a ring in memory.
    fn ring() -> OwnedFd {
        let shape = RingShape {
            chunks: 2,
            definition_chunks: 1,
            chunk_bytes: 8192,
        };
        Ring::nameless(shape).unwrap().1
    }

    #[test]
    fn the_ring_has_a_path_as_long_as_the_holder_lives() {
        let holder = Holder::start(ring(), Path::new("/proc/self/exe"), None).unwrap();
        let path = holder.ring_path().to_owned();
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path);
        assert!(opened.unwrap().metadata().unwrap().len() > 3 * 8192);
        drop(holder);
        assert!(!path.exists());
    }

    #[test]
    fn a_collector_that_the_user_may_not_read_is_refused() {
        if !Uid::effective().is_root() {
            eprintln!("skipped: another user's process needs root");
            return;
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        let refused = Holder::start(ring(), file.path(), Some(NOBODY)).unwrap_err();
        assert!(
            refused.why.contains("user id 65534 cannot read"),
            "{refused:?}"
        );
        Holder::start(ring(), file.path(), None).unwrap();
    }
}
