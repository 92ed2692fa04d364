//! One `sock_diag` reply → one [`SocketView`]. In: the bytes of a netlink batch. Out: views
//! that borrow from it; nothing is copied and nothing is allocated, because this runs for
//! every socket of the host at every poll.
//!
//! Layouts: `struct nlmsghdr`, `struct inet_diag_msg`, `struct nlattr` of the kernel's uapi
//! headers. A message that is too short is skipped and counted, never trusted.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::info::TcpInfo;

const HEADER_LEN: usize = 16;
const DIAG_LEN: usize = 72;
const ATTRIBUTE_HEADER_LEN: usize = 4;
const ATTRIBUTE_TYPE_MASK: u16 = 0x3fff;
const INET_DIAG_INFO: u16 = 2;
const INET_DIAG_CONG: u16 = 4;
const INET_DIAG_SKMEMINFO: u16 = 7;

/// TCP states of the kernel that matter here (`include/net/tcp_states.h`).
pub mod state {
    /// Data flows.
    pub const ESTABLISHED: u8 = 1;
    /// SYN sent, no answer yet.
    pub const SYN_SENT: u8 = 2;
    /// Closed here, FIN not acknowledged.
    pub const FIN_WAIT1: u8 = 4;
    /// Closed here, FIN acknowledged.
    pub const FIN_WAIT2: u8 = 5;
    /// Closed by the peer, not here.
    pub const CLOSE_WAIT: u8 = 8;
    /// Closed by both, FIN not acknowledged.
    pub const LAST_ACK: u8 = 9;
    /// Waits for connections.
    pub const LISTEN: u8 = 10;
    /// Closed by both at once, FIN not acknowledged.
    pub const CLOSING: u8 = 11;
}

fn u16_at(bytes: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(
        bytes.get(offset..offset + 2)?.try_into().ok()?,
    ))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(
        bytes.get(offset..offset + 4)?.try_into().ok()?,
    ))
}

/// `INET_DIAG_SKMEMINFO`: an array of words that has grown over time, read by length.
#[derive(Debug, Clone, Copy)]
pub struct SocketMemory<'a> {
    bytes: &'a [u8],
}

impl SocketMemory<'_> {
    /// Returns word `index` of the kernel's `SK_MEMINFO_*`.
    fn word(&self, index: usize) -> Option<u32> {
        u32_at(self.bytes, index * 4)
    }

    /// Returns the limit of the receive buffer, bytes.
    pub fn rcvbuf_bytes(&self) -> Option<u32> {
        self.word(1)
    }

    /// Returns the limit of the send buffer, bytes.
    pub fn sndbuf_bytes(&self) -> Option<u32> {
        self.word(3)
    }

    /// Returns the memory of queued outgoing data, bytes.
    pub fn wmem_queued_bytes(&self) -> Option<u32> {
        self.word(5)
    }

    /// Returns the number of segments that the socket dropped.
    pub fn drops(&self) -> Option<u32> {
        self.word(8)
    }
}

/// One socket of a dump.
#[derive(Debug, Clone, Copy)]
pub struct SocketView<'a> {
    /// Inode number of the network namespace that the dump came from.
    pub netns: u32,
    /// When the kernel filled this reply, `CLOCK_MONOTONIC` nanoseconds; late by at most the
    /// time that the kernel needs for one batch.
    pub time_ns: u64,
    /// Socket cookie.
    pub cookie: u64,
    /// TCP state; see [`state`].
    pub state: u8,
    /// Owner's user id.
    pub uid: u32,
    /// Inode of the socket file; 0 when no file refers to it (not accepted yet, or orphaned).
    pub inode: u32,
    /// Bytes received and not read (the FIN counts as one), or a listener's backlog.
    pub rqueue: u32,
    /// Bytes written and not acknowledged (SYN and FIN count as one each).
    pub wqueue: u32,
    /// TCP statistics; `None` for sockets that have none (TIME_WAIT, LISTEN on some kernels).
    pub info: Option<TcpInfo<'a>>,
    /// Memory of the socket, when asked for.
    pub memory: Option<SocketMemory<'a>>,
    /// Name of the congestion control, when asked for.
    pub congestion: Option<&'a [u8]>,
    diag: &'a [u8],
}

impl<'a> SocketView<'a> {
    /// Reads the payload of a `SOCK_DIAG_BY_FAMILY` reply; `None` when it is too short.
    pub(super) fn parse(payload: &'a [u8], netns: u32, time_ns: u64) -> Option<Self> {
        let (diag, attributes) = payload.split_at_checked(DIAG_LEN)?;
        let word = |offset| u32_at(diag, offset);
        let mut view = Self {
            netns,
            time_ns,
            cookie: u64::from(word(44)?) | u64::from(word(48)?) << 32,
            state: diag[1],
            uid: word(64)?,
            inode: word(68)?,
            rqueue: word(56)?,
            wqueue: word(60)?,
            info: None,
            memory: None,
            congestion: None,
            diag,
        };
        view.take_attributes(attributes);
        Some(view)
    }

    /// Reads the attributes of a socket: TCP info, memory, congestion control.
    fn take_attributes(&mut self, mut rest: &'a [u8]) {
        while let (Some(len), Some(kind)) = (u16_at(rest, 0), u16_at(rest, 2)) {
            let len = usize::from(len);
            let Some(value) = rest.get(ATTRIBUTE_HEADER_LEN..len) else {
                return;
            };
            match kind & ATTRIBUTE_TYPE_MASK {
                INET_DIAG_INFO => self.info = Some(TcpInfo::new(value)),
                INET_DIAG_SKMEMINFO => self.memory = Some(SocketMemory { bytes: value }),
                INET_DIAG_CONG => self.congestion = value.split(|byte| *byte == 0).next(),
                _ => {}
            }
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    /// Returns whether the socket speaks IPv6 (its addresses may still be mapped IPv4 ones).
    fn is_v6(&self) -> bool {
        i32::from(self.diag[0]) == libc::AF_INET6
    }

    /// Returns the address at this offset of the kernel's structure.
    fn address(&self, offset: usize) -> IpAddr {
        let mut octets = [0; 16];
        octets.copy_from_slice(&self.diag[offset..offset + 16]);
        if self.is_v6() {
            // An IPv6 socket that carries IPv4 shows the IPv4 address: both ends of the
            // connection then have the same form.
            return Ipv6Addr::from(octets).to_canonical();
        }
        Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3]).into()
    }

    /// Returns the port at this offset of the kernel's structure.
    fn port(&self, offset: usize) -> u16 {
        u16::from_be_bytes([self.diag[offset], self.diag[offset + 1]])
    }

    /// Returns the local port.
    #[inline]
    pub fn local_port(&self) -> u16 {
        self.port(4)
    }

    /// Returns the remote port.
    #[inline]
    pub fn remote_port(&self) -> u16 {
        self.port(6)
    }

    /// Returns the local address and port.
    pub fn local(&self) -> SocketAddr {
        SocketAddr::new(self.address(8), self.local_port())
    }

    /// Returns the remote address and port.
    pub fn remote(&self) -> SocketAddr {
        SocketAddr::new(self.address(24), self.remote_port())
    }

    /// Bytes of the stream written and not acknowledged. `tcp_diag_get_info` gives
    /// `write_seq - snd_una`, in which a SYN or FIN under way counts as one.
    pub fn send_queue_bytes(&self) -> u32 {
        let control = matches!(
            self.state,
            state::SYN_SENT | state::FIN_WAIT1 | state::LAST_ACK | state::CLOSING
        );
        self.wqueue.saturating_sub(u32::from(control))
    }

    /// Bytes of the stream received and not read. `tcp_diag_get_info` gives
    /// `rcv_nxt - copied_seq`, in which the peer's FIN counts as one until it is read.
    pub fn receive_queue_bytes(&self) -> u32 {
        let fin = matches!(
            self.state,
            state::CLOSE_WAIT | state::LAST_ACK | state::CLOSING
        );
        self.rqueue.saturating_sub(u32::from(fin))
    }
}

/// The next message of a netlink batch.
#[derive(Debug)]
pub(crate) enum Item<'a> {
    /// A socket.
    Socket(SocketView<'a>),
    /// The dump is complete.
    Done,
    /// The kernel refused or broke off: a positive errno.
    Error(i32),
    /// A reply too short to be read.
    Malformed,
}

/// The messages of one batch that answer request `sequence`.
pub(crate) struct Batch<'a> {
    /// The bytes that are left to read.
    pub rest: &'a [u8],
    /// Number of the request; answers to earlier ones are passed over.
    pub sequence: u32,
    /// Namespace of the netlink socket.
    pub netns: u32,
    /// When the kernel filled the batch.
    pub time_ns: u64,
}

impl<'a> Iterator for Batch<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        loop {
            if self.rest.is_empty() {
                return None;
            }
            let Some((kind, sequence, payload)) = self.take_message() else {
                self.rest = &[];
                return Some(Item::Malformed);
            };
            if sequence != self.sequence {
                continue;
            }
            return Some(match i32::from(kind) {
                libc::NLMSG_DONE | libc::NLMSG_ERROR => end_of_dump(payload),
                _ => SocketView::parse(payload, self.netns, self.time_ns)
                    .map_or(Item::Malformed, Item::Socket),
            });
        }
    }
}

impl<'a> Batch<'a> {
    /// Splits off the next message of a batch: its type, sequence number and payload.
    fn take_message(&mut self) -> Option<(u16, u32, &'a [u8])> {
        let len = usize::try_from(u32_at(self.rest, 0)?).ok()?;
        let kind = u16_at(self.rest, 4)?;
        let sequence = u32_at(self.rest, 8)?;
        let payload = self.rest.get(HEADER_LEN..len)?;
        self.rest = self.rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, sequence, payload))
    }
}

/// Returns the end or error of a dump: `NLMSG_DONE` and `NLMSG_ERROR` both begin with 0 or a
/// negative errno.
fn end_of_dump(payload: &[u8]) -> Item<'static> {
    match u32_at(payload, 0).map(|word| word as i32) {
        Some(0) => Item::Done,
        Some(code) => Item::Error(code.saturating_neg()),
        None => Item::Malformed,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{Reply, view_payload};
    use super::*;
    use proptest::prelude::*;

    const SEQUENCE: u32 = 5;

    /// Makes a netlink message of this type, sequence number and payload, padded.
    fn message(kind: i32, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = ((HEADER_LEN + payload.len()) as u32).to_ne_bytes().to_vec();
        bytes.extend((kind as u16).to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    /// Returns each item of a batch as text.
    fn items(bytes: &[u8]) -> Vec<String> {
        let batch = Batch {
            rest: bytes,
            sequence: SEQUENCE,
            netns: 1,
            time_ns: 2,
        };
        batch
            .map(|item| match item {
                Item::Socket(view) => format!("socket {}", view.cookie),
                Item::Done => "done".to_owned(),
                Item::Error(errno) => format!("error {errno}"),
                Item::Malformed => "malformed".to_owned(),
            })
            .collect()
    }

    fn socket(sequence: u32, cookie: u64) -> Vec<u8> {
        let reply = Reply {
            cookie,
            ..Reply::default()
        };
        message(20, sequence, &reply.bytes())
    }

    #[test]
    fn sockets_come_until_the_end_and_old_answers_are_passed_over() {
        let done = message(libc::NLMSG_DONE, SEQUENCE, &0_i32.to_ne_bytes());
        let bytes = [
            socket(SEQUENCE, 7),
            socket(SEQUENCE - 1, 8),
            socket(SEQUENCE, 9),
            done,
        ];
        assert_eq!(items(&bytes.concat()), ["socket 7", "socket 9", "done"]);
    }

    #[test]
    fn refusals_carry_their_errno() {
        let refused = (-libc::EPERM).to_ne_bytes();
        for kind in [libc::NLMSG_ERROR, libc::NLMSG_DONE] {
            assert_eq!(items(&message(kind, SEQUENCE, &refused)), ["error 1"]);
        }
    }

    #[test]
    fn a_cut_batch_gives_what_is_whole() {
        let bytes = [socket(SEQUENCE, 7), socket(SEQUENCE, 8)].concat();
        let second = bytes.len() / 2;
        for len in second + 1..bytes.len() {
            assert_eq!(items(&bytes[..len]), ["socket 7", "malformed"], "{len}");
        }
        assert_eq!(items(&message(20, SEQUENCE, &[0; 71])), ["malformed"]);
    }

    #[test]
    fn every_attribute_is_found_and_read() {
        let reply = Reply {
            cookie: 1 << 40 | 3,
            info: (0..=255).collect(),
            memory: vec![10, 11, 12, 13, 14, 15, 16, 17, 18],
            congestion: Some("cubic"),
            ..Reply::default()
        };
        let bytes = reply.bytes();
        let view = view_payload(&bytes);
        let memory = view.memory.unwrap();
        assert_eq!((view.cookie, view.uid, view.inode), (1 << 40 | 3, 1000, 77));
        assert_eq!(view.info.unwrap().bytes(), reply.info);
        assert_eq!(
            (memory.rcvbuf_bytes(), memory.sndbuf_bytes()),
            (Some(11), Some(13))
        );
        assert_eq!(
            (memory.wmem_queued_bytes(), memory.drops()),
            (Some(15), Some(18))
        );
        assert_eq!(view.congestion, Some(&b"cubic"[..]));
        assert_eq!(view.remote().to_string(), "10.0.0.2:80");
    }

    #[test]
    fn control_segments_are_not_bytes() {
        let queues = |state, rqueue, wqueue| {
            let bytes = Reply {
                state,
                rqueue,
                wqueue,
                ..Reply::default()
            }
            .bytes();
            let view = view_payload(&bytes);
            (view.receive_queue_bytes(), view.send_queue_bytes())
        };
        assert_eq!(queues(state::ESTABLISHED, 5, 7), (5, 7));
        assert_eq!(queues(state::SYN_SENT, 0, 1), (0, 0));
        assert_eq!(queues(state::FIN_WAIT1, 5, 8), (5, 7));
        assert_eq!(queues(state::FIN_WAIT2, 5, 0), (5, 0));
        assert_eq!(queues(state::CLOSE_WAIT, 6, 7), (5, 7));
        assert_eq!(queues(state::CLOSE_WAIT, 0, 0), (0, 0));
    }

    proptest! {
        #[test]
        fn arbitrary_batches_end_without_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
        ) {
            prop_assert!(items(&bytes).len() <= bytes.len() / HEADER_LEN + 1);
        }

        #[test]
        fn damaged_replies_never_panic(
            damage in proptest::collection::vec((0_usize..500, any::<u8>()), 0..20),
            len in 0_usize..500,
        ) {
            let mut payload = Reply { congestion: Some("bbr"), ..Reply::default() }.bytes();
            payload.truncate(len);
            for (at, value) in damage {
                if let Some(byte) = payload.get_mut(at) {
                    *byte = value;
                }
            }
            let parsed = SocketView::parse(&payload, 1, 2);
            prop_assert_eq!(parsed.is_some(), payload.len() >= DIAG_LEN);
            if let Some(view) = parsed {
                let _ = super::super::rows::sample_row(&view, 0);
                prop_assert!(view.local().port() == view.local_port());
            }
        }
    }
}
