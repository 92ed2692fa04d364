//! Programs of one thread that serve several connections with calls that block: `proxy` passes on what
//! it receives; `poll-server` answers whoever has sent a request.

use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;

use clap::Args;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use super::context::Context;
use super::peer::{ConnectionTruth, Peer, SocketOptions, accept, listen, port_of};
use crate::error::LabError;

/// Options of `proxy`.
#[derive(Debug, Args)]
pub(crate) struct Proxy {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Server to pass on to.
    #[arg(long)]
    connect: SocketAddr,
    /// Bytes of each receive call.
    #[arg(long, default_value_t = 4096)]
    record: usize,
    /// Of the connection to the server.
    #[command(flatten)]
    socket: SocketOptions,
}

/// Options of `poll-server`.
#[derive(Debug, Args)]
pub(crate) struct PollServer {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Accepts so many connections before it serves, and ends when all have closed.
    #[arg(long, default_value_t = 2)]
    connections: usize,
    /// Bytes of a request; the first eight say how many are wanted back, in little-endian order.
    #[arg(long, default_value_t = 100)]
    request: usize,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Truth that a relay or a poll server prints: its connections, those of a relay on both sides.
#[derive(Debug, Serialize)]
pub(crate) struct RelayTruth {
    /// Rules that are true of it by its code: its only thread waits for one connection, and the others for that.
    also_true: [&'static str; 1],
    connections: Vec<ConnectionTruth>,
}

impl Proxy {
    /// The connection from the client comes first in the truth.
    pub(crate) fn run(&self, context: &Context) -> Result<RelayTruth, LabError> {
        let listener = listen(self.listen, &SocketOptions::default())?;
        context.ready(port_of(&listener)?)?;
        let mut from = accept(&listener)?;
        let mut to = Peer::connect(self.connect, &self.socket)?;
        let mut record = vec![0; self.record];
        loop {
            match from.recv(&mut record)? {
                0 => break,
                bytes => to.send_all(&record[..bytes])?,
            }
        }
        to.end_of_stream()?;
        // The server closes when it has read everything.
        while to.recv(&mut record)? > 0 {}
        Ok(RelayTruth {
            also_true: ["busy_workers"],
            connections: vec![from.close(), to.close()],
        })
    }
}

impl PollServer {
    /// Serves all connections with one thread and poll(2).
    pub(crate) fn run(&self, context: &Context) -> Result<RelayTruth, LabError> {
        let listener = listen(self.listen, &self.socket)?;
        context.ready(port_of(&listener)?)?;
        let mut open = self.accept_all(&listener)?;
        let mut closed = Vec::new();
        let mut request = vec![0; self.request];
        while !open.is_empty() {
            for index in wait_for_readable(&open)?.into_iter().rev() {
                if open[index].recv_exact(&mut request)? {
                    open[index].send_all(&vec![0x72; wanted_bytes(&request)])?;
                } else {
                    closed.push(open.swap_remove(index).close());
                }
            }
        }
        Ok(RelayTruth {
            also_true: ["busy_workers"],
            connections: closed,
        })
    }

    /// Accepts all connections.
    fn accept_all(&self, listener: &TcpListener) -> Result<Vec<Peer>, LabError> {
        (0..self.connections).map(|_| accept(listener)).collect()
    }
}

/// Waits until some connections can be read, and returns their indices in order.
fn wait_for_readable(peers: &[Peer]) -> Result<Vec<usize>, LabError> {
    let descriptors = peers
        .iter()
        .map(|peer| PollFd::new(peer.stream.as_fd(), PollFlags::POLLIN));
    let mut descriptors: Vec<PollFd> = descriptors.collect();
    poll(&mut descriptors, PollTimeout::NONE)
        .map_err(|why| LabError::os("poll", "the connections", why, "report this"))?;
    let is_ready = |descriptor: &PollFd| descriptor.any().unwrap_or(false);
    let ready = descriptors.iter().enumerate();
    let ready = ready.filter(|(_, descriptor)| is_ready(descriptor));
    Ok(ready.map(|(index, _)| index).collect())
}

/// Returns the bytes that a request asks for, as [`super::rounds`] writes it.
fn wanted_bytes(request: &[u8]) -> usize {
    let bytes = request.first_chunk().copied().map_or(0, u64::from_le_bytes);
    usize::try_from(bytes).unwrap_or(0)
}
