//! `count-calls`: as many send and receive calls as the machine can make, of a number
//! that is known exactly. Each pair is one thread that sends and receives in lock-step
//! over loopback, with receive calls on the empty socket (EAGAIN) in between: they are
//! calls like any other and cost the least.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::thread;

use clap::Args;
use nix::sys::socket::{MsgFlags, recv, send};
use serde::Serialize;

use super::context::Context;
use super::peer::{ConnectionTruth, Peer, SocketOptions, accept, listen, port_of};
use super::threads::{join_threads, start};
use crate::clock::now_ns;
use crate::error::LabError;

/// Options of `count-calls`.
#[derive(Debug, Args)]
pub(crate) struct CountCalls {
    /// Pairs of sockets, each with a thread.
    #[arg(long, default_value_t = 2)]
    pairs: usize,
    /// Send calls on each pair.
    #[arg(long, default_value_t = 100_003)]
    sends: u64,
    /// Bytes of each send call.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Receive calls on the empty socket after each message.
    #[arg(long, default_value_t = 3)]
    empty_reads: u64,
}

/// Exact numbers of calls.
#[derive(Debug, Serialize)]
pub(crate) struct CallsTruth {
    send_calls: u64,
    recv_calls: u64,
    recv_again: u64,
    bytes: u64,
    calls_per_s: u64,
    /// From the first call to the last, `CLOCK_MONOTONIC`.
    calls_start_ns: u64,
    calls_end_ns: u64,
    /// Sender and receiver of each pair, in turn.
    connections: Vec<ConnectionTruth>,
}

impl CountCalls {
    /// Exchanges a known number of messages over loopback.
    pub(crate) fn run(&self, context: &Context) -> Result<CallsTruth, LabError> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let options = SocketOptions {
            nodelay: true,
            ..SocketOptions::default()
        };
        let listener = listen(any, &options)?;
        let to = SocketAddr::from(([127, 0, 0, 1], port_of(&listener)?));
        // Loopback completes connect before accept, so one thread can do both.
        let pairs = (0..self.pairs)
            .map(|_| Ok((Peer::connect(to, &options)?, accept(&listener)?)))
            .collect::<Result<Vec<_>, LabError>>()?;
        context.start(to.port())?;
        let calls_start_ns = now_ns();
        let ends = thread::scope(|scope| {
            let threads = pairs
                .into_iter()
                .map(|(sender, receiver)| {
                    start(scope, move || self.exchange_messages(sender, receiver))
                })
                .collect::<Result<_, _>>()?;
            join_threads(threads)
        })?;
        let calls_end_ns = now_ns();
        Ok(CallsTruth::from_connections(
            ends.concat(),
            calls_start_ns,
            calls_end_ns,
        ))
    }

    /// Sends messages from one end to the other with a known number of calls.
    fn exchange_messages(
        &self,
        mut sender: Peer,
        mut receiver: Peer,
    ) -> Result<Vec<ConnectionTruth>, LabError> {
        let message = vec![0x63; self.size.max(1)];
        let mut buffer = message.clone();
        for _ in 0..self.sends {
            let mut done = 0;
            while done < message.len() {
                done += send_once(&mut sender, &message[done..])?;
            }
            let mut done = 0;
            while done < message.len() {
                done += recv_once(&mut receiver, &mut buffer[done..], MsgFlags::empty())?;
            }
            for _ in 0..self.empty_reads {
                recv_once(&mut receiver, &mut buffer, MsgFlags::MSG_DONTWAIT)?;
            }
        }
        Ok(vec![sender.close(), receiver.close()])
    }
}

/// Makes one send call, which is counted but not timed.
fn send_once(peer: &mut Peer, bytes: &[u8]) -> Result<usize, LabError> {
    let fd = peer.stream.as_raw_fd();
    let outcome = send(fd, bytes, MsgFlags::MSG_NOSIGNAL).map_err(io::Error::from);
    peer.truth.send.count(&outcome);
    outcome.map_err(|why| call_error("send on", &peer.stream, why))
}

/// Makes one receive call; EAGAIN counts, and returns 0 bytes.
fn recv_once(peer: &mut Peer, bytes: &mut [u8], flags: MsgFlags) -> Result<usize, LabError> {
    let outcome = recv(peer.stream.as_raw_fd(), bytes, flags).map_err(io::Error::from);
    peer.truth.recv.count(&outcome);
    match outcome {
        Err(why) if why.kind() != io::ErrorKind::WouldBlock => {
            Err(call_error("receive on", &peer.stream, why))
        }
        Ok(0) => Err(call_error(
            "receive on",
            &peer.stream,
            io::ErrorKind::UnexpectedEof.into(),
        )),
        other => Ok(other.unwrap_or(0)),
    }
}

/// Makes the error of a failed call on a socket.
fn call_error(action: &'static str, stream: &TcpStream, why: io::Error) -> LabError {
    LabError::os(
        action,
        format!("{stream:?}"),
        why,
        "is loopback up? run `ip addr show lo`",
    )
}

impl CallsTruth {
    /// Sums what both ends counted.
    fn from_connections(
        connections: Vec<ConnectionTruth>,
        calls_start_ns: u64,
        calls_end_ns: u64,
    ) -> Self {
        let send_calls = connections.iter().map(|end| end.send.calls).sum();
        let recv_calls = connections.iter().map(|end| end.recv.calls).sum();
        let took_ns = u128::from(calls_end_ns - calls_start_ns).max(1);
        let per_s = u128::from(send_calls + recv_calls) * 1_000_000_000 / took_ns;
        CallsTruth {
            send_calls,
            recv_calls,
            recv_again: connections.iter().map(|end| end.recv.again).sum(),
            bytes: connections.iter().map(|end| end.recv.bytes).sum(),
            calls_per_s: u64::try_from(per_s).unwrap_or(u64::MAX),
            calls_start_ns,
            calls_end_ns,
            connections,
        }
    }
}
