//! Bulk transfer in both directions: `stream` to `sink`, and `push-server` to
//! `receive-only`. The sender waits at the end until the receiver has read everything,
//! so its times cover the whole transfer.

use std::net::SocketAddr;
use std::thread;

use clap::Args;
use serde::Serialize;

use super::context::Context;
use super::cpu::burn_us;
use super::peer::{ConnectionTruth, Peer, SocketOptions, listen, pause_us, port_of};
use super::reply::serve_each;
use super::threads::{join_threads, start};
use crate::clock::now_ns;
use crate::error::LabError;

/// Options of a sender: the amount of data, the size of calls, pauses.
#[derive(Debug, Clone, Args)]
struct SendOptions {
    /// Bytes to send on each connection.
    #[arg(long, conflicts_with = "seconds")]
    bytes: Option<u64>,
    /// Seconds to send for (2 unless --bytes is given).
    #[arg(long)]
    seconds: Option<f64>,
    /// Bytes of each send call.
    #[arg(long, default_value_t = 65_536)]
    write_size: usize,
    /// Sleeps between send calls.
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
}

/// Options of a receiver: the size of calls, pauses, CPU time.
#[derive(Debug, Clone, Args)]
struct ReadOptions {
    /// Bytes asked for by each receive call.
    #[arg(long, default_value_t = 65_536)]
    read_size: usize,
    /// Sleeps after each receive call.
    #[arg(long, default_value_t = 0)]
    read_pause_us: u64,
    /// Uses this much CPU time for each megabyte that it has read.
    #[arg(long, default_value_t = 0)]
    burn_us_per_mb: u64,
}

/// Options of `stream`.
#[derive(Debug, Args)]
pub(crate) struct Stream {
    /// Server to connect to.
    #[arg(long)]
    connect: SocketAddr,
    /// Connections, each with a thread.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    #[command(flatten)]
    sending: SendOptions,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Options of `sink`.
#[derive(Debug, Args)]
pub(crate) struct Sink {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Ends after this many connections have closed.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    #[command(flatten)]
    reading: ReadOptions,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Options of `push-server`.
#[derive(Debug, Args)]
pub(crate) struct PushServer {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Ends after this many connections have closed.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    #[command(flatten)]
    sending: SendOptions,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Options of `receive-only`.
#[derive(Debug, Args)]
pub(crate) struct ReceiveOnly {
    /// Server to connect to.
    #[arg(long)]
    connect: SocketAddr,
    #[command(flatten)]
    reading: ReadOptions,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Truth that a sender prints: its transfers and its connections.
#[derive(Debug, Serialize)]
pub(crate) struct SendTruth {
    transfers: Vec<TransferTruth>,
    connections: Vec<ConnectionTruth>,
}

/// One connection's transfer, times in `CLOCK_MONOTONIC`.
#[derive(Debug, Serialize)]
struct TransferTruth {
    first_send_ns: u64,
    /// The last send call returned: all bytes are in the kernel.
    last_send_ns: u64,
    /// The receiver has read everything.
    drained_ns: u64,
}

/// Truth that a receiver prints: its connections, in the order in which it accepted them.
#[derive(Debug, Serialize)]
pub(crate) struct ReceiveTruth {
    connections: Vec<ConnectionTruth>,
}

impl SendOptions {
    /// Sends until the bytes or the time are over.
    fn run(&self, mut peer: Peer) -> Result<(TransferTruth, ConnectionTruth), LabError> {
        let chunk = vec![0x73; self.write_size.max(1)];
        let first_send_ns = now_ns();
        let end_ns = first_send_ns + (self.seconds.unwrap_or(2.0).max(0.0) * 1e9) as u64;
        let mut left = self.bytes.unwrap_or(u64::MAX);
        while left > 0 && (self.bytes.is_some() || now_ns() < end_ns) {
            let next = usize::try_from(left).unwrap_or(usize::MAX).min(chunk.len());
            left -= peer.send(&chunk[..next])? as u64;
            pause_us(self.pause_us);
        }
        let last_send_ns = now_ns();
        peer.end_of_stream()?;
        while peer.recv(&mut [0; 64])? > 0 {}
        let transfer = TransferTruth {
            first_send_ns,
            last_send_ns,
            drained_ns: now_ns(),
        };
        Ok((transfer, peer.close()))
    }
}

impl ReadOptions {
    /// Reads until the sender closes.
    fn run(&self, mut peer: Peer) -> Result<ConnectionTruth, LabError> {
        let mut buffer = vec![0; self.read_size.max(1)];
        loop {
            let bytes = peer.recv(&mut buffer)? as u64;
            if bytes == 0 {
                return Ok(peer.close());
            }
            pause_us(self.read_pause_us);
            burn_us(self.burn_us_per_mb * bytes / 1_000_000);
        }
    }
}

impl SendTruth {
    /// Joins what all senders know.
    fn from_transfers(sent: Vec<(TransferTruth, ConnectionTruth)>) -> Self {
        let (transfers, connections) = sent.into_iter().unzip();
        SendTruth {
            transfers,
            connections,
        }
    }
}

impl Stream {
    /// Connects, sends, and returns what it knows.
    pub(crate) fn run(&self, context: &Context) -> Result<SendTruth, LabError> {
        let peers = (0..self.connections)
            .map(|_| Peer::connect(self.connect, &self.socket))
            .collect::<Result<Vec<_>, _>>()?;
        context.start(peers.first().map_or(0, Peer::port))?;
        // A single connection runs in the main thread, as a plain sender would.
        if peers.len() == 1 {
            let sent = peers.into_iter().map(|peer| self.sending.run(peer));
            return sent
                .collect::<Result<_, _>>()
                .map(SendTruth::from_transfers);
        }
        thread::scope(|scope| {
            let threads = peers
                .into_iter()
                .map(|peer| start(scope, move || self.sending.run(peer)))
                .collect::<Result<_, _>>()?;
            join_threads(threads).map(SendTruth::from_transfers)
        })
    }
}

impl Sink {
    /// Accepts connections and reads all data.
    pub(crate) fn run(&self, context: &Context) -> Result<ReceiveTruth, LabError> {
        let listener = listen(self.listen, &self.socket)?;
        context.ready(port_of(&listener)?)?;
        let connections = serve_each(&listener, self.connections, |peer| self.reading.run(peer))?;
        Ok(ReceiveTruth { connections })
    }
}

impl PushServer {
    /// Accepts connections and sends data over each.
    pub(crate) fn run(&self, context: &Context) -> Result<SendTruth, LabError> {
        let listener = listen(self.listen, &self.socket)?;
        context.ready(port_of(&listener)?)?;
        serve_each(&listener, self.connections, |peer| self.sending.run(peer))
            .map(SendTruth::from_transfers)
    }
}

impl ReceiveOnly {
    /// Connects and reads all data.
    pub(crate) fn run(&self, context: &Context) -> Result<ReceiveTruth, LabError> {
        let peer = Peer::connect(self.connect, &self.socket)?;
        context.start(peer.port())?;
        Ok(ReceiveTruth {
            connections: vec![self.reading.run(peer)?],
        })
    }
}
