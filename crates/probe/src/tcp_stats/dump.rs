//! One `sock_diag` netlink socket, bound to one network namespace. In: which states and which
//! attributes. Out: every TCP socket of that namespace, handed to a visitor.
//!
//! The request is `struct inet_diag_req` (message type `TCPDIAG_GETSOCK`): its dump covers IPv4
//! and IPv6 in one walk of the kernel's socket table, where `inet_diag_req_v2` needs a walk for
//! each. A kernel that refuses it gets the two walks.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, setsockopt, socket,
    sockopt,
};
use nix::sys::time::{TimeVal, TimeValLike};

use super::message::{Batch, Item, SocketView, state};
use crate::clock::monotonic_ns;

const TCPDIAG_GETSOCK: u16 = 18;
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const HEADER_LEN: usize = 16;
const SOCKID_LEN: usize = 48;

/// `netlink_dump` fills at most 32 KiB at a time, whatever the reader offers.
pub(super) const BUFFER_LEN: usize = 32 * 1024;

/// A dump that stops answering is broken off after this long.
const TIMEOUT_S: i64 = 5;

/// Extensions that a reply carries beside addresses, queues and `tcp_info`; each costs time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Memory and buffer limits.
    pub memory: bool,
    /// Name of the congestion control.
    pub congestion: bool,
}

impl Extensions {
    /// The kernel's `idiag_ext`: bit `INET_DIAG_* - 1` each.
    fn bits(self) -> u8 {
        let info = 1 << 1;
        let memory = u8::from(self.memory) << 6;
        let congestion = u8::from(self.congestion) << 3;
        info | memory | congestion
    }
}

/// Says which sockets a dump visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum States {
    /// Connections that have TCP statistics. TIME_WAIT has none, and may be most of the table;
    /// neither have requests in SYN_RECV; a SYN flood makes millions of them.
    Connections,
    /// Listening sockets.
    Listening,
}

impl States {
    /// Returns the kernel's `idiag_states`: one bit for each TCP state.
    fn bits(self) -> u32 {
        match self {
            Self::Connections => [
                state::ESTABLISHED,
                state::SYN_SENT,
                state::FIN_WAIT1,
                state::FIN_WAIT2,
                state::CLOSE_WAIT,
                state::LAST_ACK,
                state::CLOSING,
            ]
            .iter()
            .fold(0, |bits, state| bits | 1 << state),
            Self::Listening => 1 << state::LISTEN,
        }
    }
}

/// Why a dump failed.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The netlink socket could not be opened.
    #[error(
        "cannot open a sock_diag netlink socket: {0}\n\
         hint: the kernel needs CONFIG_INET_DIAG (modprobe inet_diag tcp_diag)"
    )]
    Open(io::Error),
    /// Sending or receiving failed.
    #[error("sock_diag dump of network namespace {netns}: {source}")]
    Io {
        /// Inode number of the namespace.
        netns: u32,
        /// Cause.
        source: io::Error,
    },
    /// The kernel refused.
    #[error(
        "the kernel refused the sock_diag dump of network namespace {netns}: {source}\n\
         hint: the kernel needs CONFIG_INET_TCP_DIAG (modprobe tcp_diag)"
    )]
    Refused {
        /// Inode number of the namespace.
        netns: u32,
        /// Cause.
        source: io::Error,
    },
}

/// Counts of the sockets that one dump visited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DumpCounts {
    /// Sockets handed to the visitor.
    pub sockets: u64,
    /// Replies that could not be read.
    pub malformed: u64,
    /// Bytes received.
    pub bytes: u64,
    /// Receive calls.
    pub receives: u64,
}

impl DumpCounts {
    /// Adds the counts of another dump.
    pub(super) fn add(&mut self, other: Self) {
        let Self {
            sockets,
            malformed,
            bytes,
            receives,
        } = other;
        self.sockets += sockets;
        self.malformed += malformed;
        self.bytes += bytes;
        self.receives += receives;
    }
}

/// A `sock_diag` socket.
#[derive(Debug)]
pub struct DiagSocket {
    fd: OwnedFd,
    netns: u32,
    sequence: u32,
    /// Whether one walk serves both address families.
    one_walk: bool,
}

impl DiagSocket {
    /// Opens a socket in the namespace of the calling thread, with the inode `netns`.
    pub fn open(netns: u32) -> Result<Self, DumpError> {
        let failed = |errno: Errno| DumpError::Open(errno.into());
        let fd = socket(
            AddressFamily::Netlink,
            SockType::Raw,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::NetlinkSockDiag,
        )
        .map_err(failed)?;
        setsockopt(&fd, sockopt::ReceiveTimeout, &TimeVal::seconds(TIMEOUT_S)).map_err(failed)?;
        Ok(Self {
            fd,
            netns,
            sequence: 0,
            one_walk: true,
        })
    }

    /// Returns the inode number of the namespace.
    pub fn netns(&self) -> u32 {
        self.netns
    }

    /// Calls `visit` for every socket in `states`. `buffer` must have [`BUFFER_LEN`] bytes. A
    /// socket that moves in the kernel's table during the dump may be missed or seen twice.
    pub fn dump(
        &mut self,
        states: States,
        extensions: Extensions,
        buffer: &mut [u8],
        visit: &mut dyn FnMut(&SocketView),
    ) -> Result<DumpCounts, DumpError> {
        let mut counts = DumpCounts::default();
        if self.one_walk {
            let request = compat_request(states, extensions);
            match self.walk(TCPDIAG_GETSOCK, &request, buffer, &mut counts, visit) {
                Err(DumpError::Refused { .. }) if counts.sockets == 0 => self.one_walk = false,
                other => return other.map(|()| counts),
            }
        }
        for family in [libc::AF_INET, libc::AF_INET6] {
            let request = family_request(family as u8, states, extensions);
            self.walk(SOCK_DIAG_BY_FAMILY, &request, buffer, &mut counts, visit)?;
        }
        Ok(counts)
    }

    /// Sends a request and calls `visit` for each socket of the answer.
    fn walk(
        &mut self,
        kind: u16,
        request: &[u8],
        buffer: &mut [u8],
        counts: &mut DumpCounts,
        visit: &mut dyn FnMut(&SocketView),
    ) -> Result<(), DumpError> {
        self.sequence = self.sequence.wrapping_add(1);
        let message = netlink_message(kind, self.sequence, request);
        self.io(|fd| send(fd, &message, MsgFlags::empty()))?;
        // The kernel fills the first batch while it takes the request, and each further batch
        // while it hands out the one before (`netlink_recvmsg` calls `netlink_dump`): a batch
        // is as old as the end of the system call before the one that returns it.
        let mut filled_ns = monotonic_ns();
        loop {
            let len = self.io(|fd| recv(fd, buffer, MsgFlags::empty()))?;
            let returned_ns = monotonic_ns();
            counts.receives += 1;
            counts.bytes += len as u64;
            let batch = Batch {
                rest: buffer.get(..len).unwrap_or_default(),
                sequence: self.sequence,
                netns: self.netns,
                time_ns: filled_ns,
            };
            if self.visit_batch(batch, counts, visit)? {
                return Ok(());
            }
            filled_ns = returned_ns;
        }
    }

    /// Calls `visit` for the sockets of a batch; returns true at the dump's end.
    fn visit_batch(
        &self,
        batch: Batch,
        counts: &mut DumpCounts,
        visit: &mut dyn FnMut(&SocketView),
    ) -> Result<bool, DumpError> {
        for item in batch {
            match item {
                Item::Socket(view) => {
                    counts.sockets += 1;
                    visit(&view);
                }
                Item::Malformed => counts.malformed += 1,
                Item::Done => return Ok(true),
                Item::Error(errno) => {
                    let source = io::Error::from_raw_os_error(errno);
                    return Err(DumpError::Refused {
                        netns: self.netns,
                        source,
                    });
                }
            }
        }
        Ok(false)
    }

    /// Repeats a call that a signal interrupted.
    fn io(&self, mut call: impl FnMut(i32) -> nix::Result<usize>) -> Result<usize, DumpError> {
        loop {
            match call(self.fd.as_raw_fd()) {
                Err(Errno::EINTR) => {}
                Err(errno) => {
                    return Err(DumpError::Io {
                        netns: self.netns,
                        source: errno.into(),
                    });
                }
                Ok(len) => return Ok(len),
            }
        }
    }
}

/// Makes a netlink message: `struct nlmsghdr` and the request.
fn netlink_message(kind: u16, sequence: u32, request: &[u8]) -> Vec<u8> {
    let flags = (libc::NLM_F_REQUEST | libc::NLM_F_DUMP) as u16;
    let len = (HEADER_LEN + request.len()) as u32;
    let mut message = Vec::with_capacity(HEADER_LEN + request.len());
    message.extend(len.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(flags.to_ne_bytes());
    message.extend(sequence.to_ne_bytes());
    message.extend(0_u32.to_ne_bytes());
    message.extend(request);
    message
}

/// Makes a `struct inet_diag_req` for all sockets of both address families.
fn compat_request(states: States, extensions: Extensions) -> Vec<u8> {
    let mut request = vec![libc::AF_INET as u8, 0, 0, extensions.bits()];
    request.extend([0; SOCKID_LEN]);
    request.extend(states.bits().to_ne_bytes());
    request.extend([0; 4]);
    request
}

/// Makes a `struct inet_diag_req_v2` for all sockets of one address family.
fn family_request(family: u8, states: States, extensions: Extensions) -> Vec<u8> {
    let mut request = vec![family, libc::IPPROTO_TCP as u8, extensions.bits(), 0];
    request.extend(states.bits().to_ne_bytes());
    request.extend([0; SOCKID_LEN]);
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_requests_see_the_same_sockets() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let v6 = std::net::TcpListener::bind("[::1]:0").unwrap();
        let ports = [
            listener.local_addr().unwrap().port(),
            v6.local_addr().unwrap().port(),
        ];
        let netns = crate::netns::Netns::current().unwrap().inode();
        for one_walk in [true, false] {
            let mut diag = DiagSocket::open(netns).unwrap();
            diag.one_walk = one_walk;
            let mut seen = Vec::new();
            let mut buffer = vec![0; BUFFER_LEN];
            diag.dump(
                States::Listening,
                Extensions::default(),
                &mut buffer,
                &mut |view| {
                    seen.push(view.local_port());
                },
            )
            .unwrap();
            assert_eq!(diag.one_walk, one_walk);
            for port in ports {
                assert_eq!(seen.iter().filter(|other| **other == port).count(), 1);
            }
        }
    }

    #[test]
    fn time_wait_and_syn_recv_are_not_asked_for() {
        let bits = States::Connections.bits();
        for left_out in [3, 6, 7, 10, 12] {
            assert_eq!(bits & 1 << left_out, 0, "state {left_out}");
        }
        assert_eq!(bits.count_ones(), 7);
    }
}
