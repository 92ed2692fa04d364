//! Segments as they leave and reach TCP in a namespace, with the kernel's stamps.
//!
//! In: a namespace. Out: every TCP segment that its devices were given to send or took in, when.
//! It is what the TCP at this end did and heard, so the truth to compare a diagnosis with: no
//! program has to run for a stamp to be right.

use std::io::IoSliceMut;
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType,
    recvmsg, setsockopt, socket, sockopt,
};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};

use crate::clock::now_ns;
use crate::error::{HINT_ROOT, LabError};
use crate::netns::Netns;
use crate::wire::packet::{Packet, Segment, parse};

/// Room for packets until [`Capture::stop`]: some ten thousand small ones.
const BUFFER_BYTES: usize = 16 << 20;
/// The largest IP packet.
const PACKET_BYTES: usize = 65_535;
/// The kernel begins to stamp within milliseconds.
const STAMPS_WITHIN_NS: u64 = 5_000_000_000;

/// Direction of a captured segment, seen from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CaptureDirection {
    /// TCP gave it to a device.
    Out,
    /// A device gave it to TCP.
    In,
}

/// A segment and when it passed. One on loopback passes both ways.
#[derive(Debug, Clone, Copy)]
pub struct CapturedSegment {
    /// When, `CLOCK_MONOTONIC` ns.
    pub time_ns: u64,
    /// Its direction.
    pub direction: CaptureDirection,
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
    /// Begins to keep the segments that leave from or arrive in `netns`.
    ///
    /// # Errors
    /// Without `CAP_NET_RAW` in the namespace, and when its loopback device is down.
    pub fn start(netns: &Netns) -> Result<Self, LabError> {
        netns.run(|| {
            let failed = |errno| LabError::os("open", "a packet socket", errno, HINT_ROOT);
            let capture = Self {
                socket: open().map_err(failed)?,
                ahead_ns: ahead_ns().map_err(failed)?,
            };
            let hint = "is loopback up? run `ip addr show lo` in the namespace";
            let failed = |why| LabError::os("see", "the kernel stamp a packet", why, hint);
            capture.await_stamps().map_err(failed)?;
            Ok(capture)
        })?
    }

    /// Ends the capture, and returns the kept segments in order.
    ///
    /// # Errors
    /// When the kernel could not keep all of them.
    pub fn stop(self) -> Result<Vec<CapturedSegment>, LabError> {
        let failed = |errno| LabError::os("read", "captured packets", errno, HINT_ROOT);
        let mut passed = Vec::new();
        let mut bytes = vec![0; PACKET_BYTES];
        while let Some((time_ns, direction, len)) = self.next(&mut bytes).map_err(failed)? {
            if let Packet::Tcp(segment) = parse(&bytes[..len]) {
                passed.push(CapturedSegment {
                    time_ns,
                    direction,
                    segment,
                });
            }
        }
        match self.missed_packets().map_err(failed)? {
            0 => Ok(passed),
            missed => {
                let why = std::io::Error::other(format!("{missed} did not fit into the buffer"));
                let hint = "capture a shorter exchange";
                Err(LabError::os("keep", "all captured packets", why, hint))
            }
        }
    }

    /// Sends packets over loopback until one is stamped as it passes. A kernel that stamped none
    /// when the socket asked for it begins some time later (`net_enable_timestamp()`), and until
    /// then packets get their stamp when they are read.
    fn await_stamps(&self) -> std::io::Result<()> {
        // Of an IPv4 and a UDP header.
        const PROBE_BYTES: usize = 28;
        let probe = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let end_ns = now_ns() + STAMPS_WITHIN_NS;
        let mut bytes = [0; PROBE_BYTES];
        loop {
            let before_ns = now_ns();
            probe.send_to(&[], probe.local_addr()?)?;
            let sent_ns = before_ns..=now_ns();
            while let Some((time_ns, ..)) = self.next(&mut bytes)? {
                if sent_ns.contains(&time_ns) {
                    return Ok(());
                }
            }
            if now_ns() > end_ns {
                return Err(std::io::ErrorKind::TimedOut.into());
            }
        }
    }

    /// Returns time, direction and length of the next packet; `None` if all have been read.
    fn next(&self, bytes: &mut [u8]) -> nix::Result<Option<(u64, CaptureDirection, usize)>> {
        let mut control = nix::cmsg_space!(TimeSpec);
        let fd = self.socket.as_raw_fd();
        loop {
            let mut parts = [IoSliceMut::new(bytes)];
            let flags = MsgFlags::MSG_DONTWAIT;
            let message = match recvmsg::<LinkAddr>(fd, &mut parts, Some(&mut control), flags) {
                Err(Errno::EAGAIN) => return Ok(None),
                message => message?,
            };
            let stamp = message.cmsgs()?.find_map(|control| match control {
                ControlMessageOwned::ScmTimestampns(stamp) => Some(stamp),
                _ => None,
            });
            let direction = match message.address.map(|address| address.pkttype()) {
                Some(libc::PACKET_OUTGOING) => Some(CaptureDirection::Out),
                Some(libc::PACKET_HOST) => Some(CaptureDirection::In),
                _ => None,
            };
            if let (Some(direction), Some(stamp)) = (direction, stamp) {
                let time_ns = u64::try_from(to_ns(stamp) - self.ahead_ns).unwrap_or(0);
                return Ok(Some((time_ns, direction, message.bytes)));
            }
        }
    }

    /// Returns packets that the kernel could not keep.
    fn missed_packets(&self) -> nix::Result<u32> {
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

/// Returns a packet socket on all devices of the calling thread's namespace, with kernel stamps.
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

/// Returns a time in nanoseconds.
fn to_ns(time: TimeSpec) -> i64 {
    time.tv_sec() * 1_000_000_000 + time.tv_nsec()
}

/// Returns how far one clock is ahead, ns: reads both several times, and takes the shortest reading, which nothing
/// interrupted.
fn ahead_ns() -> nix::Result<i64> {
    const READINGS: usize = 16;
    let monotonic_ns = || clock_gettime(ClockId::CLOCK_MONOTONIC).map(to_ns);
    let mut best = (i64::MAX, 0);
    for _ in 0..READINGS {
        let before_ns = monotonic_ns()?;
        let realtime_ns = clock_gettime(ClockId::CLOCK_REALTIME).map(to_ns)?;
        let took_ns = monotonic_ns()? - before_ns;
        best = best.min((took_ns, realtime_ns - before_ns - took_ns / 2));
    }
    Ok(best.1)
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use super::*;
    use crate::clock::now_ns;

    #[test]
    fn each_segment_is_kept_once_in_each_direction() {
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
                    let written_ns = now_ns();
                    server.read_exact(&mut [0; 1009]).unwrap();
                    times.push((before_ns, written_ns, now_ns()));
                }
                (address.port(), times)
            })
            .unwrap();
        let passed = capture.stop().unwrap();
        let data = |direction| -> Vec<&CapturedSegment> {
            let of_client = |p: &&CapturedSegment| {
                p.segment.destination_port == port && p.direction == direction
            };
            let passed = passed.iter().filter(of_client);
            passed.filter(|p| p.segment.payload_bytes > 0).collect()
        };
        let (out, arrived) = (data(CaptureDirection::Out), data(CaptureDirection::In));
        assert_eq!((out.len(), arrived.len()), (times.len(), times.len()));
        for ((out, arrived), (before_ns, written_ns, read_ns)) in out.iter().zip(arrived).zip(times)
        {
            assert_eq!(out.segment, arrived.segment);
            assert_eq!(out.segment.payload_bytes, 1009);
            assert!((before_ns..=written_ns).contains(&out.time_ns));
            assert!((out.time_ns..=read_ns).contains(&arrived.time_ns));
        }
    }
}
