//! Segments as they leave TCP in a namespace, with the kernel's stamps.
//!
//! In: a namespace. Out: every TCP segment that its devices were given to send, when. On loopback,
//! where there is no wire between the ends, this is the truth to compare a diagnosis with.

use std::io::IoSliceMut;
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType,
    recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use crate::error::{HINT_ROOT, LabError};
use crate::netns::Netns;
use crate::wire::packet::{Packet, Segment, parse};

/// Room for packets until [`Capture::stop`]: some ten thousand small ones.
const BUFFER_BYTES: usize = 16 << 20;
/// The largest IP packet.
const PACKET_BYTES: usize = 65_535;

/// A segment and when it left.
#[derive(Debug, Clone, Copy)]
pub struct Sent {
    /// When TCP gave it to the device, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// Its TCP fields.
    pub segment: Segment,
}

/// A capture under way.
#[derive(Debug)]
pub struct Capture {
    socket: OwnedFd,
    /// `CLOCK_REALTIME`, in which the kernel stamps packets, less `CLOCK_MONOTONIC`.
    ahead_ns: i64,
}

impl Capture {
    /// Begins to keep the segments that leave from `netns`.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` in the namespace.
    pub fn start(netns: &Netns) -> Result<Self, LabError> {
        let socket = netns.run(open)?;
        let failed = |errno| LabError::os("open", "a packet socket", errno, HINT_ROOT);
        let socket = socket.map_err(failed)?;
        let ahead_ns = ahead_ns().map_err(failed)?;
        Ok(Self { socket, ahead_ns })
    }

    /// Ends it, and gives what was kept, in order.
    ///
    /// # Errors
    /// When the kernel could not keep all of them.
    pub fn stop(self) -> Result<Vec<Sent>, LabError> {
        let failed = |errno| LabError::os("read", "captured packets", errno, HINT_ROOT);
        let mut sent = Vec::new();
        let mut bytes = vec![0; PACKET_BYTES];
        loop {
            match self.next(&mut bytes) {
                Ok(found) => sent.extend(found),
                Err(Errno::EAGAIN) => break,
                Err(errno) => return Err(failed(errno)),
            }
        }
        match self.missed().map_err(failed)? {
            0 => Ok(sent),
            missed => {
                let why = std::io::Error::other(format!("{missed} did not fit into the buffer"));
                let hint = "capture a shorter exchange";
                Err(LabError::os("keep", "all captured packets", why, hint))
            }
        }
    }

    /// The next packet, if it is a segment that left: loopback shows each also as it arrives.
    fn next(&self, bytes: &mut [u8]) -> nix::Result<Option<Sent>> {
        let mut control = nix::cmsg_space!(TimeSpec);
        let mut parts = [IoSliceMut::new(bytes)];
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT;
        let message = recvmsg::<LinkAddr>(fd, &mut parts, Some(&mut control), flags)?;
        let outgoing = message.address.map(|address| address.pkttype());
        let stamp = message.cmsgs()?.find_map(|control| match control {
            ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
            _ => None,
        });
        let len = message.bytes;
        let (Some(libc::PACKET_OUTGOING), Some(stamp)) = (outgoing, stamp) else {
            return Ok(None);
        };
        let Packet::Tcp(segment) = parse(bytes.get(..len).unwrap_or_default()) else {
            return Ok(None);
        };
        let time_ns = u64::try_from(ns(stamp) - self.ahead_ns).unwrap_or(0);
        Ok(Some(Sent { time_ns, segment }))
    }

    /// Packets that the kernel could not keep.
    fn missed(&self) -> nix::Result<u32> {
        let mut stats = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut len = size_of_val(&stats) as libc::socklen_t;
        // SAFETY: the descriptor is open, and `stats` has room for the `len` bytes that the kernel
        // writes at most.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut stats).cast(),
                &raw mut len,
            )
        };
        Errno::result(result).map(|_| stats.tp_drops)
    }
}

/// A packet socket on all devices of the calling thread's namespace, with kernel stamps.
fn open() -> nix::Result<OwnedFd> {
    let fd = socket(
        AddressFamily::Packet,
        SockType::Datagram,
        SockFlag::SOCK_CLOEXEC,
        SockProtocol::EthAll,
    )?;
    setsockopt(&fd, sockopt::RcvBufForce, &BUFFER_BYTES)?;
    setsockopt(&fd, sockopt::ReceiveTimestampns, &true)?;
    Ok(fd)
}

fn ns(time: TimeSpec) -> i64 {
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

fn ahead_ns() -> nix::Result<i64> {
    let realtime = clock_gettime(ClockId::CLOCK_REALTIME)?;
    let monotonic = clock_gettime(ClockId::CLOCK_MONOTONIC)?;
    Ok(ns(realtime) - ns(monotonic))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::now_ns;

    #[test]
    fn each_segment_is_kept_once_with_its_time() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: needs root");
            return;
        }
        let netns = Netns::new().unwrap();
        let capture = Capture::start(&netns).unwrap();
        let (port, times) = netns
            .run(|| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                let address = listener.local_addr().unwrap();
                let mut client = TcpStream::connect(address).unwrap();
                let mut server = listener.accept().unwrap().0;
                let mut times = Vec::new();
                for _ in 0..7 {
                    let before_ns = now_ns();
                    client.write_all(&[1; 1009]).unwrap();
                    times.push((before_ns, now_ns()));
                    server.read_exact(&mut [0; 1009]).unwrap();
                }
                (address.port(), times)
            })
            .unwrap();
        let sent = capture.stop().unwrap();
        let data: Vec<&Sent> = sent
            .iter()
            .filter(|sent| sent.segment.destination_port == port && sent.segment.payload_bytes > 0)
            .collect();
        assert_eq!(data.len(), times.len());
        for (sent, (before_ns, after_ns)) in data.iter().zip(times) {
            assert_eq!(sent.segment.payload_bytes, 1009);
            assert!((before_ns..=after_ns).contains(&sent.time_ns));
        }
    }
}
