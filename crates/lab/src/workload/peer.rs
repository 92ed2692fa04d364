//! A TCP connection that keeps account of every call made on it.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use socket2::{Domain, Protocol, SockRef, Socket, Type};

use super::cpu::ThreadCpu;
use crate::clock::now_ns;
use crate::error::LabError;

/// Calls that take at least this long are listed one by one.
const SLOW_CALL_NS: u64 = 10_000_000;
/// So that a long run stays bounded in memory; the counters go on.
const SLOW_CALLS_KEPT: usize = 10_000;

/// Calls of one kind on one connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct CallCounts {
    /// All calls made.
    pub calls: u64,
    /// Calls that moved at least one byte.
    pub moved: u64,
    /// Receive calls that returned 0, the peer's end of stream.
    pub ends: u64,
    /// Calls that returned EAGAIN.
    pub again: u64,
    /// Calls that returned another error.
    pub failed: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Time spent inside these calls; 0 where the role does not measure it.
    pub in_call_ns: u64,
    /// Calls of 10 ms or more, each as start (`CLOCK_MONOTONIC`) and duration in ns.
    pub slow: Vec<[u64; 2]>,
}

impl CallCounts {
    /// Counts a call by its result.
    pub(crate) fn count(&mut self, outcome: &io::Result<usize>) {
        self.calls += 1;
        match outcome {
            Ok(0) => self.ends += 1,
            Ok(bytes) => {
                self.moved += 1;
                self.bytes += *bytes as u64;
            }
            Err(why) if why.kind() == ErrorKind::WouldBlock => self.again += 1,
            Err(_) => self.failed += 1,
        }
    }

    /// Makes a call, and adds its time.
    fn time_call(&mut self, call: impl FnOnce() -> io::Result<usize>) -> io::Result<usize> {
        let start_ns = now_ns();
        let outcome = call();
        let duration_ns = now_ns() - start_ns;
        self.count(&outcome);
        self.in_call_ns += duration_ns;
        if duration_ns >= SLOW_CALL_NS && self.slow.len() < SLOW_CALLS_KEPT {
            self.slow.push([start_ns, duration_ns]);
        }
        outcome
    }
}

/// One connection as the workload knows it.
#[derive(Debug, Clone, Serialize)]
pub struct ConnectionTruth {
    /// Address and port of this end.
    pub local: SocketAddr,
    /// Address and port of the other end.
    pub remote: SocketAddr,
    /// The socket's cookie (`SO_COOKIE`).
    pub cookie: u64,
    /// When connect() was called, `CLOCK_MONOTONIC`; `None` where it was accepted.
    pub connecting_ns: Option<u64>,
    /// When connect or accept returned, `CLOCK_MONOTONIC`.
    pub opened_ns: u64,
    /// Just before close, `CLOCK_MONOTONIC`.
    pub closed_ns: u64,
    /// Send calls.
    pub send: CallCounts,
    /// Receive calls.
    pub recv: CallCounts,
    /// The thread that closes it, since that thread began.
    pub thread: Option<ThreadCpu>,
}

/// Options that every socket takes.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct SocketOptions {
    /// SO_SNDBUF in bytes (the kernel doubles it).
    #[arg(long)]
    pub(crate) sndbuf: Option<usize>,
    /// SO_RCVBUF in bytes (the kernel doubles it).
    #[arg(long)]
    pub(crate) rcvbuf: Option<usize>,
    /// Set TCP_NODELAY.
    #[arg(long)]
    pub(crate) nodelay: bool,
    /// Set TCP_CORK, and never clear it.
    #[arg(long)]
    pub(crate) cork: bool,
    /// How many connections may wait to be accepted.
    #[arg(long)]
    pub(crate) backlog: Option<i32>,
    /// TCP_DEFER_ACCEPT of a listening socket: waits so long for data before a connection counts.
    #[arg(long)]
    pub(crate) defer_accept_s: Option<i32>,
    /// TCP_CONGESTION: cubic, bbr, reno.
    #[arg(long)]
    pub(crate) cc: Option<String>,
}

impl SocketOptions {
    /// Returns a socket with the options set, before connect or listen, as buffer sizes need.
    fn socket(&self, address: SocketAddr) -> io::Result<Socket> {
        let socket = Socket::new(
            Domain::for_address(address),
            Type::STREAM,
            Some(Protocol::TCP),
        )?;
        if let Some(bytes) = self.sndbuf {
            socket.set_send_buffer_size(bytes)?;
        }
        if let Some(bytes) = self.rcvbuf {
            socket.set_recv_buffer_size(bytes)?;
        }
        if let Some(name) = &self.cc {
            socket.set_tcp_congestion(name.as_bytes())?;
        }
        socket.set_tcp_nodelay(self.nodelay)?;
        socket.set_tcp_cork(self.cork)?;
        Ok(socket)
    }
}

/// A connection and its account.
pub(crate) struct Peer {
    pub(crate) stream: TcpStream,
    pub(crate) truth: ConnectionTruth,
}

impl Peer {
    /// Connects to `address`.
    pub(crate) fn connect(address: SocketAddr, options: &SocketOptions) -> Result<Self, LabError> {
        let hint = "start the server role first and use the port of its ready line";
        let start_ns = now_ns();
        options
            .socket(address)
            .and_then(|socket| socket.connect(&address.into()).map(|()| socket))
            .and_then(|socket| Peer::new(socket.into()))
            .map(|mut peer| {
                peer.truth.connecting_ns = Some(start_ns);
                peer
            })
            .map_err(|why| LabError::os("connect to", address.to_string(), why, hint))
    }

    /// Begins the counts of an established connection.
    pub(crate) fn new(stream: TcpStream) -> io::Result<Self> {
        let truth = ConnectionTruth {
            local: stream.local_addr()?,
            remote: stream.peer_addr()?,
            cookie: SockRef::from(&stream).cookie()?,
            connecting_ns: None,
            opened_ns: now_ns(),
            closed_ns: 0,
            send: CallCounts::default(),
            recv: CallCounts::default(),
            thread: None,
        };
        Ok(Peer { stream, truth })
    }

    /// Makes one send call, and counts it.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<usize, LabError> {
        let stream = &mut self.stream;
        let outcome = self.truth.send.time_call(|| stream.write(bytes));
        outcome.map_err(|why| self.call_error("send on", why))
    }

    /// Sends until the kernel has taken all bytes.
    pub(crate) fn send_all(&mut self, bytes: &[u8]) -> Result<(), LabError> {
        let mut done = 0;
        while done < bytes.len() {
            done += self.send(&bytes[done..])?;
        }
        Ok(())
    }

    /// Sends two parts; the first call offers both (writev) if neither is empty.
    pub(crate) fn send_all_parts(&mut self, parts: [&[u8]; 2]) -> Result<(), LabError> {
        let [head, tail] = parts;
        let done = if head.is_empty() || tail.is_empty() {
            0
        } else {
            self.send_gathered(parts)?
        };
        self.send_all(&head[done.min(head.len())..])?;
        self.send_all(&tail[done.saturating_sub(head.len())..])
    }

    /// Sends two parts with one call.
    fn send_gathered(&mut self, parts: [&[u8]; 2]) -> Result<usize, LabError> {
        let stream = &mut self.stream;
        let parts = parts.map(IoSlice::new);
        let outcome = self.truth.send.time_call(|| stream.write_vectored(&parts));
        outcome.map_err(|why| self.call_error("send on", why))
    }

    /// Makes one receive call; 0 is the end of the stream.
    pub(crate) fn recv(&mut self, bytes: &mut [u8]) -> Result<usize, LabError> {
        let stream = &mut self.stream;
        let outcome = self.truth.recv.time_call(|| stream.read(bytes));
        outcome.map_err(|why| self.call_error("receive on", why))
    }

    /// Receives until `bytes` is full; returns false at the end of the stream. An end in the middle
    /// is an error.
    pub(crate) fn recv_exact(&mut self, bytes: &mut [u8]) -> Result<bool, LabError> {
        let mut done = 0;
        while done < bytes.len() {
            match self.recv(&mut bytes[done..])? {
                0 if done == 0 => return Ok(false),
                0 => return Err(self.end_error(done, bytes.len())),
                more => done += more,
            }
        }
        Ok(true)
    }

    /// Sets TCP_QUICKACK: true sends a delayed ACK now, false delays later ones.
    pub(crate) fn set_quickack(&self, on: bool) -> Result<(), LabError> {
        let set = SockRef::from(&self.stream).set_tcp_quickack(on);
        set.map_err(|why| self.call_error("set TCP_QUICKACK of", why))
    }

    /// Returns the min RTT of the connection, µs (`tcpi_min_rtt`, Linux 4.6).
    pub(crate) fn min_rtt_us(&self) -> Result<u32, LabError> {
        read_min_rtt_us(self.stream.as_raw_fd())
            .map_err(|why| self.call_error("read TCP_INFO of", why))
    }

    /// Ends the sending direction.
    pub(crate) fn end_of_stream(&mut self) -> Result<(), LabError> {
        self.stream
            .shutdown(Shutdown::Write)
            .map_err(|why| self.call_error("end", why))
    }

    /// Closes the connection, and returns its counts.
    pub(crate) fn close(mut self) -> ConnectionTruth {
        self.truth.closed_ns = now_ns();
        self.truth.thread = ThreadCpu::read_own();
        self.truth
    }

    /// Returns the local port.
    pub(crate) fn port(&self) -> u16 {
        self.truth.local.port()
    }

    /// Makes the error of a peer that ended after so many of the bytes that were expected.
    pub(crate) fn end_error(&self, done: usize, expected: usize) -> LabError {
        LabError::PeerGone {
            connection: self.name(),
            done,
            expected,
        }
    }

    /// Returns both addresses as text.
    fn name(&self) -> String {
        format!("{} > {}", self.truth.local, self.truth.remote)
    }

    /// Makes the error of a failed call on the connection.
    fn call_error(&self, action: &'static str, why: io::Error) -> LabError {
        LabError::os(
            action,
            self.name(),
            why,
            "read the peer's own output; it stopped first",
        )
    }
}

/// Returns a listening socket with the options set; accepted connections inherit them.
pub(crate) fn listen(
    address: SocketAddr,
    options: &SocketOptions,
) -> Result<TcpListener, LabError> {
    // The kernel's own default for net.core.somaxconn.
    const BACKLOG: i32 = 4096;
    options
        .socket(address)
        .and_then(|socket| {
            socket.set_reuse_address(true)?;
            socket.bind(&address.into())?;
            if let Some(seconds) = options.defer_accept_s {
                defer_accept(&socket, seconds)?;
            }
            socket.listen(options.backlog.unwrap_or(BACKLOG))?;
            Ok(socket.into())
        })
        .map_err(|why| LabError::os("listen on", address.to_string(), why, "use port 0"))
}

/// Sets how long the kernel waits for data before it reports a connection.
fn defer_accept(socket: &Socket, seconds: i32) -> io::Result<()> {
    let length = size_of_val(&seconds) as libc::socklen_t;
    let value = std::ptr::from_ref(&seconds).cast();
    let (level, name) = (libc::IPPROTO_TCP, libc::TCP_DEFER_ACCEPT);
    // SAFETY: the kernel reads `length` bytes of `seconds`, which outlives the call.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, value, length) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads `tcpi_min_rtt` at byte 148 of `tcp_info`, where `libc::tcp_info` has already ended.
fn read_min_rtt_us(socket: RawFd) -> io::Result<u32> {
    const AT: usize = 148;
    let mut info = [0_u8; AT + size_of::<u32>()];
    let mut length = info.len() as libc::socklen_t;
    let (level, name, value) = (libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast());
    // SAFETY: the kernel writes at most `length` bytes to `info`, which outlives the call.
    if unsafe { libc::getsockopt(socket, level, name, value, &raw mut length) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let field = info.last_chunk().filter(|_| length as usize == info.len());
    let field = field.ok_or(ErrorKind::Unsupported)?;
    Ok(u32::from_ne_bytes(*field))
}

/// A listening socket as the workload knows it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ListenerTruth {
    /// The socket's cookie (`SO_COOKIE`).
    cookie: u64,
    /// When it began to listen, `CLOCK_MONOTONIC`.
    opened_ns: u64,
    /// When all connections had been served, `CLOCK_MONOTONIC`.
    pub(crate) closed_ns: u64,
}

impl ListenerTruth {
    /// Reads the counters of a socket that begins to listen now.
    pub(crate) fn from_listener(listener: &TcpListener) -> Result<Self, LabError> {
        let cookie = SockRef::from(listener).cookie();
        let hint = "SO_COOKIE needs Linux 4.12";
        Ok(ListenerTruth {
            cookie: cookie.map_err(|why| LabError::os("read", "a socket's cookie", why, hint))?,
            opened_ns: now_ns(),
            closed_ns: 0,
        })
    }
}

/// Returns the port that the listener got.
pub(crate) fn port_of(listener: &TcpListener) -> Result<u16, LabError> {
    let address = listener.local_addr();
    let port = address.map(|address| address.port());
    port.map_err(|why| LabError::os("name", "the listening socket", why, "report this"))
}

/// Waits for the next connection.
pub(crate) fn accept(listener: &TcpListener) -> Result<Peer, LabError> {
    listener
        .accept()
        .and_then(|(stream, _)| Peer::new(stream))
        .map_err(|why| LabError::os("accept on", "the listening socket", why, "raise ulimit -n"))
}

/// Sleeps; 0 does not sleep at all, not even for the scheduler's shortest time.
pub(crate) fn pause_us(us: u64) {
    if us > 0 {
        std::thread::sleep(Duration::from_micros(us));
    }
}
