//! The error queue of a socket, in which the kernel says which zero-copy sends are over
//! (Documentation/networking/msg_zerocopy.rst).

use std::io;
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg};

/// From include/uapi/linux/errqueue.h.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: u8 = 1;
/// A peer that acknowledges nothing for so long does not come back.
const LONGEST_MS: u16 = 10_000;

/// A range of sends that are over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Notification {
    /// Number of the first and of the last; numbers begin again after the largest.
    pub(super) first: u32,
    pub(super) last: u32,
    /// The kernel copied after all.
    pub(super) copied: bool,
}

/// Makes the socket report when sends are over.
///
/// # Errors
/// Where the kernel has no MSG_ZEROCOPY (before 4.14).
pub(super) fn enable_reports(stream: &TcpStream) -> io::Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the descriptor is open, and `on` has the length that is passed.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ZEROCOPY,
            (&raw const on).cast(),
            size_of_val(&on) as libc::socklen_t,
        )
    };
    Errno::result(result).map(drop).map_err(io::Error::from)
}

/// Returns the next notification; `None`: there is none now.
pub(super) fn next(stream: &TcpStream) -> io::Result<Option<Notification>> {
    // sock_extended_err, and the address of who caused it
    let mut control = nix::cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message = match recvmsg::<()>(stream.as_raw_fd(), &mut [], Some(&mut control), flags) {
        Err(Errno::EAGAIN) => return Ok(None),
        message => message?,
    };
    for control in message.cmsgs()? {
        let (ControlMessageOwned::Ipv4RecvErr(error, _)
        | ControlMessageOwned::Ipv6RecvErr(error, _)) = control
        else {
            continue;
        };
        if error.ee_origin == SO_EE_ORIGIN_ZEROCOPY && error.ee_errno == 0 {
            return Ok(Some(Notification {
                first: error.ee_info,
                last: error.ee_data,
                copied: error.ee_code & SO_EE_CODE_ZEROCOPY_COPIED != 0,
            }));
        }
    }
    Err(io::Error::other("the error queue holds another error"))
}

/// Waits for a notification.
///
/// # Errors
/// When there is none for seconds: the peer is gone.
pub(super) fn wait(stream: &TcpStream) -> io::Result<()> {
    // errors are always waited for
    let mut fds = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    match poll(&mut fds, PollTimeout::from(LONGEST_MS)) {
        Ok(0) => Err(io::ErrorKind::TimedOut.into()),
        Ok(_) if is_closed(&fds[0]) => Err(io::ErrorKind::ConnectionReset.into()),
        Ok(_) | Err(Errno::EINTR) => Ok(()),
        Err(why) => Err(why.into()),
    }
}

/// Returns whether the connection is closed at both ends, with an empty error queue.
fn is_closed(fd: &PollFd) -> bool {
    fd.revents().is_some_and(|events| {
        events.contains(PollFlags::POLLHUP) && !events.contains(PollFlags::POLLERR)
    })
}
