//! Decides which kinds of sockets recorded processes have, and what moves over those that are no TCP sockets. In: counts of
//! the kernel side (`kinds.bpf.h`), or, without it, files in `/proc/PID/fd`. Out: lines of the manifest.

use std::collections::HashMap;
use std::ffi::CString;

use table::manifest::SocketKind;

use crate::wire::Wire;
use crate::wire::types::{kind_calls, socket_kind};

// SAFETY: `kind_calls` is `repr(C)` and made of integers.
unsafe impl Wire for kind_calls {}

/// How many kinds there are.
pub(crate) const KINDS: usize = socket_kind::SOCKET_KIND_COUNT.0 as usize;

/// Their names in a recording, in the order of `enum socket_kind`.
const NAMES: [&str; KINDS] = [
    "tcp", "mptcp", "udp", "unix", "smc", "sctp", "raw", "packet", "netlink", "vsock", "other",
];

/// Longest name of a socket's protocol: `UNIX-STREAM`, with room.
const PROTOCOL_BYTES: usize = 32;

/// Sums the calls on sockets of a kind over all CPUs.
pub(crate) fn sum_calls(per_cpu: &[kind_calls]) -> kind_calls {
    per_cpu
        .iter()
        .fold(kind_calls::default(), |sum, one| kind_calls {
            sends: sum.sends + one.sends,
            sent_bytes: sum.sent_bytes + one.sent_bytes,
            receives: sum.receives + one.receives,
            received_bytes: sum.received_bytes + one.received_bytes,
        })
}

/// Returns a line for each kind of socket; `calls` is `None` if no hook counts them. Then only
/// found kinds have a line, and TCP.
pub(crate) fn lines(open: &[u64; KINDS], calls: Option<&[kind_calls; KINDS]>) -> Vec<SocketKind> {
    let line = |(kind, name): (usize, &&str)| {
        // the calls on TCP sockets are rows of their own
        let counted = calls.filter(|_| kind != socket_kind::SOCKET_KIND_TCP.0 as usize);
        let counted = counted.map(|calls| calls[kind]);
        SocketKind {
            kind: (*name).to_owned(),
            open: open[kind],
            sends: counted.map(|calls| calls.sends),
            sent_bytes: counted.map(|calls| calls.sent_bytes),
            receives: counted.map(|calls| calls.receives),
            received_bytes: counted.map(|calls| calls.received_bytes),
        }
    };
    let lines = NAMES.iter().enumerate().map(line);
    lines
        .filter(|line| calls.is_some() || line.kind == "tcp" || !line.is_empty())
        .collect()
}

/// Counts kinds of sockets without BPF, by what each socket file says of its protocol. A socket that is closed between
/// two looks is not counted.
#[derive(Debug, Default)]
pub struct KindsByFile {
    by_inode: HashMap<u32, usize>,
    open: [u64; KINDS],
}

impl KindsByFile {
    /// Counts the sockets that are open now, and keeps the largest count. Each has its inode number, a process that has it
    /// and its descriptor there.
    pub fn look(&mut self, sockets: impl Iterator<Item = (u32, u32, u32)>) {
        let before = std::mem::take(&mut self.by_inode);
        let mut open = [0; KINDS];
        for (inode, pid, fd) in sockets {
            let known = before.get(&inode).copied();
            let kind =
                known.unwrap_or_else(|| kind_of(&protocol_name(&format!("/proc/{pid}/fd/{fd}"))));
            self.by_inode.insert(inode, kind);
            open[kind] += 1;
        }
        for (most, now) in self.open.iter_mut().zip(open) {
            *most = now.max(*most);
        }
    }

    /// Returns the found kinds of sockets as lines of the manifest.
    pub fn lines(&self) -> Vec<SocketKind> {
        lines(&self.open, None)
    }
}

/// The name that a socket's protocol has in the kernel, which each socket file has as an attribute (`sockfs_xattr_get`);
/// empty where it cannot be known.
pub(crate) fn protocol_name(path: &str) -> String {
    let Ok(path) = CString::new(path) else {
        return String::new();
    };
    let mut name = [0u8; PROTOCOL_BYTES];
    // SAFETY: two C strings, and a buffer of the given length; all live through the call.
    let length = unsafe {
        libc::getxattr(
            path.as_ptr(),
            c"system.sockprotoname".as_ptr(),
            name.as_mut_ptr().cast(),
            name.len(),
        )
    };
    let name = name.get(..usize::try_from(length).unwrap_or(0));
    let name = String::from_utf8_lossy(name.unwrap_or_default()).into_owned();
    name.trim_end_matches('\0').to_owned()
}

/// Returns the kind of a socket by the name of its protocol.
fn kind_of(protocol: &str) -> usize {
    let kind = match protocol.trim_end_matches("v6") {
        "TCP" => socket_kind::SOCKET_KIND_TCP,
        "MPTCP" => socket_kind::SOCKET_KIND_MPTCP,
        "UDP" | "UDPLITE" | "UDP-Lite" | "UDPLITE-Lite" => socket_kind::SOCKET_KIND_UDP,
        "RAW" | "PING" => socket_kind::SOCKET_KIND_RAW,
        "PACKET" => socket_kind::SOCKET_KIND_PACKET,
        "NETLINK" => socket_kind::SOCKET_KIND_NETLINK,
        "AF_VSOCK" => socket_kind::SOCKET_KIND_VSOCK,
        name if name.starts_with("UNIX") => socket_kind::SOCKET_KIND_UNIX,
        name if name.starts_with("SMC") => socket_kind::SOCKET_KIND_SMC,
        name if name.starts_with("SCTP") => socket_kind::SOCKET_KIND_SCTP,
        _ => socket_kind::SOCKET_KIND_OTHER,
    };
    kind.0 as usize
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, UdpSocket};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixDatagram;

    use super::*;

    /// Returns the number of open sockets of a kind; None without such a line.
    fn open(lines: &[SocketKind], kind: &str) -> Option<u64> {
        let line = lines.iter().find(|line| line.kind == kind);
        line.map(|line| line.open)
    }

    #[test]
    fn uncounted_kind_is_listed_only_if_open() {
        let mut sockets = [0; KINDS];
        assert_eq!(lines(&sockets, None).len(), 1);
        sockets[socket_kind::SOCKET_KIND_UDP.0 as usize] = 3;
        let mut calls = [kind_calls::default(); KINDS];
        calls[socket_kind::SOCKET_KIND_UNIX.0 as usize].sends = 7;
        let lines = lines(&sockets, Some(&calls));
        assert_eq!(lines.len(), KINDS);
        assert_eq!(
            (open(&lines, "tcp"), open(&lines, "udp")),
            (Some(0), Some(3))
        );
        let unix = lines
            .iter()
            .find(|line| line.kind == "unix")
            .expect("found");
        assert_eq!((unix.open, unix.sends), (0, Some(7)));
        assert_eq!(lines[0].sends, None, "TCP's calls are logged");
    }

    #[test]
    fn files_show_the_kinds_of_open_sockets() {
        let tcp = TcpListener::bind("127.0.0.1:0").expect("a listener");
        let udp = [0, 1].map(|_| UdpSocket::bind("127.0.0.1:0").expect("a socket"));
        let unix = UnixDatagram::unbound().expect("a socket");
        let fds = [
            tcp.as_raw_fd(),
            udp[0].as_raw_fd(),
            udp[1].as_raw_fd(),
            unix.as_raw_fd(),
        ];
        let pid = std::process::id();
        let files = fds.map(|fd| (fd.cast_unsigned(), pid, fd.cast_unsigned()));
        let mut kinds = KindsByFile::default();
        kinds.look(files.into_iter());
        kinds.look(files[..1].iter().copied());
        let lines = kinds.lines();
        let found = ["tcp", "udp", "unix", "mptcp"].map(|kind| open(&lines, kind));
        assert_eq!(found, [Some(1), Some(2), Some(1), None]);
    }
}
