//! `keep-alive-client`: keeps its connection between requests. Where one fails, it pauses, connects again, and asks again.
//! Before, it may try in vain to connect elsewhere.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use socket2::{Domain, Socket, Type};

use super::context::Context;
use super::peer::{ConnectionTruth, Peer, SocketOptions, pause_us};
use crate::clock::now_ns;
use crate::error::LabError;

/// Options of `keep-alive-client`.
#[derive(Debug, Args)]
pub(crate) struct KeepAliveClient {
    /// Server to connect to.
    #[arg(long)]
    connect: SocketAddr,
    /// Requests.
    #[arg(long, default_value_t = 30)]
    rounds: u64,
    /// Bytes of a request, and of a reply.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Sleeps before each request.
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
    /// Sleeps longer before every so many requests.
    #[arg(long, default_value_t = 0)]
    long_every: u64,
    /// That long.
    #[arg(long, default_value_t = 0)]
    long_pause_us: u64,
    /// Sleeps this long after an error.
    #[arg(long, default_value_t = 0)]
    backoff_us: u64,
    /// Does not repeat a request that failed.
    #[arg(long)]
    ask_once: bool,
    /// Tries to connect to this address first, at the same port.
    #[arg(long)]
    first: Option<IpAddr>,
    /// So many times, with pauses as after an error.
    #[arg(long, default_value_t = 1)]
    tries: u64,
    /// Gives up each after so long.
    #[arg(long, default_value_t = 2_000)]
    try_limit_ms: u64,
}

/// Truth that the client prints: requests and connection attempts, with the failures and the time they cost, ns.
#[derive(Debug, Default, Serialize)]
pub(crate) struct KeepAliveTruth {
    /// Requests with a reply.
    requests: u64,
    /// Requests that failed.
    failures: u64,
    /// From the start of each of these to when it was asked again, together.
    lost_ns: u64,
    /// Attempts to connect that failed.
    failed_connects: u64,
    /// From the first of these until the connection.
    unconnected_ns: u64,
    /// Rules that are true of it by what it saw: requests failed.
    also_true: Vec<&'static str>,
    connections: Vec<ConnectionTruth>,
}

impl KeepAliveClient {
    /// Sends requests over a connection that the server closes when it is idle.
    pub(crate) fn run(&self, context: &Context) -> Result<KeepAliveTruth, LabError> {
        context.start(0)?;
        let mut truth = KeepAliveTruth::default();
        let begin_ns = now_ns();
        if let Some(address) = self.first {
            truth.failed_connects = self.connect_in_vain(address)?;
            truth.unconnected_ns = now_ns() - begin_ns;
        }
        let mut peer = Some(self.open()?);
        for round in 1..=self.rounds {
            let is_long = self.long_every > 0 && round % self.long_every == 0;
            pause_us(if is_long {
                self.long_pause_us
            } else {
                self.pause_us
            });
            let begin_ns = now_ns();
            while let Some(mut open) = peer.take() {
                if self.is_answered(&mut open) {
                    peer = Some(open);
                    break;
                }
                truth.failures += 1;
                truth.connections.push(open.close());
                pause_us(self.backoff_us);
                truth.lost_ns += now_ns() - begin_ns;
                // no connection that nobody asks on
                if !self.ask_once || round < self.rounds {
                    peer = Some(self.open()?);
                }
                if self.ask_once {
                    break;
                }
            }
        }
        truth.connections.extend(peer.map(Peer::close));
        if truth.failures > 0 {
            truth.also_true.push("reset_by_peer");
        }
        let replies = truth.connections.iter().map(|one| one.recv.bytes);
        truth.requests = replies.sum::<u64>() / self.bytes.max(1) as u64;
        Ok(truth)
    }

    /// Opens a connection.
    fn open(&self) -> Result<Peer, LabError> {
        let options = SocketOptions {
            nodelay: true,
            ..SocketOptions::default()
        };
        Peer::connect(self.connect, &options)
    }

    /// Asks; false: the connection ended or was reset.
    fn is_answered(&self, peer: &mut Peer) -> bool {
        let mut bytes = vec![0x71; self.bytes];
        peer.send_all(&bytes).is_ok() && peer.recv_exact(&mut bytes).unwrap_or(false)
    }

    /// Tries to connect, and returns how many attempts failed.
    fn connect_in_vain(&self, address: IpAddr) -> Result<u64, LabError> {
        let to = SocketAddr::new(address, self.connect.port());
        let limit = Duration::from_millis(self.try_limit_ms);
        for _ in 0..self.tries {
            let socket = Socket::new(Domain::for_address(to), Type::STREAM, None);
            let connected = socket.and_then(|socket| socket.connect_timeout(&to.into(), limit));
            if connected.is_ok() {
                let why = io::Error::other("it can be reached");
                return Err(LabError::os(
                    "fail to connect to",
                    to.to_string(),
                    why,
                    "name an address where nobody listens",
                ));
            }
            pause_us(self.backoff_us);
        }
        Ok(self.tries)
    }
}
