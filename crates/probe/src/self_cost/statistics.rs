//! Finds who turns the kernel's run-time statistics on: `BPF_ENABLE_STATS` needs `CAP_SYS_ADMIN`, which a recorder has
//! no other use for once its programs are attached. So a process that has nothing else, and has no other input but
//! when, keeps it: each time it sends a descriptor that holds the statistics open. It ends with the recorder.

use std::io::{self, IoSliceMut, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use libbpf_rs::libbpf_sys::{BPF_STATS_RUN_TIME, bpf_enable_stats};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};
use nix::sys::wait::waitpid;
use nix::unistd::{ForkResult, Pid, fork};

use crate::helper::{close_all_but, keep_capabilities};

/// `CAP_SYS_ADMIN` (`uapi/linux/capability.h`).
const SYS_ADMIN: u64 = 1 << 21;

/// The process, as all see it who turn the statistics on by it.
#[derive(Debug, Clone)]
pub struct Statistics(Arc<Helper>);

#[derive(Debug)]
struct Helper {
    pid: Pid,
    /// Closed, it makes the process end.
    line: Option<UnixStream>,
}

impl Statistics {
    /// Starts the process that enables the kernel's statistics. Call it before other threads exist:
    /// a forked process does not get their locks.
    ///
    /// # Errors
    /// When there can be no more processes or descriptors.
    pub fn begin() -> io::Result<Self> {
        let (line, far_end) = UnixStream::pair()?;
        // SAFETY: the child only makes system calls, allocates nothing, and never returns.
        let pid = match unsafe { fork() }? {
            ForkResult::Parent { child } => child,
            ForkResult::Child => serve(far_end.as_raw_fd()),
        };
        Ok(Self(Arc::new(Helper {
            pid,
            line: Some(line),
        })))
    }

    /// Enables the statistics until the returned descriptor is closed.
    ///
    /// # Errors
    /// The answer of the kernel to the process.
    pub fn enable(&self) -> io::Result<OwnedFd> {
        let mut line = self.0.line.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        line.write_all(&[1])?;
        let mut errno = [0; 4];
        let (read, descriptor) = receive(line, &mut errno)?;
        match (read, descriptor) {
            (_, Some(descriptor)) => Ok(descriptor),
            (0, None) => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Err(io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
        }
    }
}

/// Receives a message, and the descriptor that came with it.
fn receive(line: &UnixStream, bytes: &mut [u8]) -> io::Result<(usize, Option<OwnedFd>)> {
    let mut parts = [IoSliceMut::new(bytes)];
    let mut room = nix::cmsg_space!(RawFd);
    let flags = MsgFlags::MSG_CMSG_CLOEXEC;
    let message = recvmsg::<()>(line.as_raw_fd(), &mut parts, Some(&mut room), flags)?;
    let descriptor = message.cmsgs()?.find_map(|part| match part {
        ControlMessageOwned::ScmRights(descriptors) => descriptors.first().copied(),
        _ => None,
    });
    // SAFETY: the kernel has just made this descriptor for us.
    let descriptor = descriptor.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
    Ok((message.bytes, descriptor))
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.line = None;
        // It ends at once, if it has not yet.
        let _ = waitpid(self.pid, None);
    }
}

/// Runs the process: it enables the statistics when asked.
fn serve(line: RawFd) -> ! {
    close_all_but(line, line);
    // SAFETY: plain numbers and a C string. The terminal's signals are for the recorder.
    unsafe {
        libc::setsid();
        libc::prctl(libc::PR_SET_NAME, c"whylat-stats".as_ptr());
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    }
    let kept = keep_capabilities(SYS_ADMIN);
    let mut byte = 0u8;
    loop {
        // SAFETY: one byte of this stack, and an open descriptor.
        let read = unsafe { libc::read(line, (&raw mut byte).cast(), 1) };
        match read {
            1 if kept.is_ok() && send(line, enable_statistics()) => {}
            -1 if last_errno() == libc::EINTR => {}
            // SAFETY: it ends the process.
            _ => unsafe { libc::_exit(0) },
        }
    }
}

/// Sends the descriptor, or why there is none; returns whether that worked.
fn send(line: RawFd, statistics: io::Result<OwnedFd>) -> bool {
    let mut errno = match &statistics {
        Ok(_) => 0,
        Err(error) => error.raw_os_error().unwrap_or(libc::EIO),
    };
    let mut part = libc::iovec {
        iov_base: (&raw mut errno).cast(),
        iov_len: size_of_val(&errno),
    };
    // larger than one descriptor needs, and aligned as its header
    let mut room = [0u64; 8];
    // SAFETY: a message header may be all zeros; its pointers are set to memory of this stack that lives through the
    // call, and the descriptor is written to where the macros of the header say, within `room`.
    unsafe {
        let mut message: libc::msghdr = std::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        if let Ok(statistics) = &statistics {
            message.msg_control = room.as_mut_ptr().cast();
            message.msg_controllen = libc::CMSG_SPACE(size_of::<RawFd>() as u32) as _;
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            (*header).cmsg_level = libc::SOL_SOCKET;
            (*header).cmsg_type = libc::SCM_RIGHTS;
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<RawFd>() as u32) as _;
            let place = libc::CMSG_DATA(header).cast::<RawFd>();
            place.write_unaligned(statistics.as_raw_fd());
        }
        libc::sendmsg(line, &raw const message, libc::MSG_NOSIGNAL) >= 0
    }
}

fn last_errno() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Enables the statistics of this thread's kernel until the descriptor is closed.
pub(super) fn enable_statistics() -> io::Result<OwnedFd> {
    // SAFETY: the call takes a plain number and returns a descriptor or a negative errno.
    let fd = unsafe { bpf_enable_stats(BPF_STATS_RUN_TIME) };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the kernel has just given this descriptor to us and nobody else knows it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_gives_descriptors_and_ends() {
        let statistics = Statistics::begin().unwrap();
        if !nix::unistd::geteuid().is_root() {
            let refused = statistics.enable().unwrap_err();
            assert_eq!(refused.raw_os_error(), Some(libc::EPERM));
            return;
        }
        for _ in 0..3 {
            let held = statistics.enable().unwrap();
            let name = std::fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())).unwrap();
            assert_eq!(name.to_string_lossy(), "anon_inode:bpf-stats");
        }
        // it has its name once it answers
        let status = std::fs::read_to_string(format!("/proc/{}/status", statistics.0.pid));
        assert!(status.unwrap().contains("whylat"));
        let pid = statistics.0.pid;
        drop(statistics);
        assert!(!std::path::Path::new(&format!("/proc/{pid}")).exists());
    }
}
