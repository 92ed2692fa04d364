//! `delay-acks`: reads requests and has its delayed-ACK timer acknowledge a chosen number of them.
//!
//! The socket is in the kernel's interactive mode whenever a request arrives, so that the ACK is
//! held back, whatever is read. TCP_QUICKACK before the read sends it at once; without, the answer
//! waits until the timer has. So every request is one segment with an ACK of its own, and the
//! answer to it acknowledges nothing: the client may be any that waits for answers.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::Args;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::Serialize;

use super::context::Context;
use super::peer::{ConnectionTruth, Peer, SocketOptions, listen, pause_us, port_of};
use super::reply::serve_each;
use crate::clock::now_ns;
use crate::error::LabError;
use crate::random::Random;

/// TCP_DELACK_MIN (include/net/tcp.h), when the timer expires on a path as short as the lab's.
const TCP_DELACK_MIN_US: u64 = 40_000;

/// Options of `delay-acks`.
#[derive(Debug, Args)]
pub(crate) struct DelayAcks {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Ends after this many connections have closed.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Requests on each connection.
    #[arg(long, default_value_t = 211)]
    requests: u64,
    /// Of these, how many the timer is to acknowledge; which ones, the seed says.
    #[arg(long, default_value_t = 101)]
    delayed: u64,
    /// How much later than the timer's least time the answer comes: the timer is late on a busy
    /// machine, and an answer before it would carry the ACK.
    #[arg(long, default_value_t = 25_000)]
    spare_us: u64,
    /// Bytes of a request.
    #[arg(long, default_value_t = 100)]
    request: usize,
    /// Bytes of an answer.
    #[arg(long, default_value_t = 100)]
    reply: usize,
    /// Another seed chooses other requests.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Truth that `delay-acks` prints: its requests, and those with an ACK that waited for the timer.
#[derive(Debug, Serialize)]
pub(crate) struct DelayAcksTruth {
    requests: u64,
    /// Requests with an ACK that was left to the timer.
    delayed: u64,
    connections: Vec<ConnectionTruth>,
    /// Each of those requests: when its first byte was there, and when it was answered;
    /// `CLOCK_MONOTONIC`. By connection.
    delayed_times_ns: Vec<[u64; 2]>,
}

/// Requests of one connection, with the times of those that had a delayed ACK.
struct DelayedConnection {
    connection: ConnectionTruth,
    requests: u64,
    delayed_times_ns: Vec<[u64; 2]>,
}

/// Chooses exactly so many of so many, each as likely as any other.
struct RandomChoice {
    random: Random,
    left: u64,
    chosen_left: u64,
}

impl RandomChoice {
    /// Returns the next random choice.
    fn next(&mut self) -> bool {
        let chosen = self.random.below(self.left) < self.chosen_left;
        self.left = self.left.saturating_sub(1);
        self.chosen_left -= u64::from(chosen);
        chosen
    }
}

impl DelayAcks {
    /// Serves clients, and delays some of its ACKs.
    pub(crate) fn run(&self, context: &Context) -> Result<DelayAcksTruth, LabError> {
        if self.delayed > self.requests {
            return Err(LabError::Option {
                option: "--delayed",
                value: self.delayed.to_string(),
                why: "there are fewer requests",
                hint: "raise --requests",
            });
        }
        let listener = listen(self.listen, &self.socket)?;
        context.ready(port_of(&listener)?)?;
        let accepted = AtomicU64::new(0);
        let served = serve_each(&listener, self.connections, |peer| {
            self.serve(peer, accepted.fetch_add(1, Ordering::Relaxed))
        })?;
        let delayed_times_ns: Vec<[u64; 2]> = served
            .iter()
            .flat_map(|one| one.delayed_times_ns.clone())
            .collect();
        Ok(DelayAcksTruth {
            requests: served.iter().map(|one| one.requests).sum(),
            delayed: delayed_times_ns.len() as u64,
            connections: served.into_iter().map(|one| one.connection).collect(),
            delayed_times_ns,
        })
    }

    /// Answers one connection, with delayed ACKs at random.
    fn serve(&self, mut peer: Peer, index: u64) -> Result<DelayedConnection, LabError> {
        let mut request = vec![0; self.request];
        let reply = vec![0x72; self.reply];
        let mut choice = RandomChoice {
            // Each connection another choice, and the same at each run.
            random: Random::new(self.seed ^ index << 32),
            left: self.requests,
            chosen_left: self.delayed,
        };
        let (mut requests, mut delayed_times_ns) = (0, Vec::new());
        loop {
            peer.set_quickack(false)?;
            let arrived_ns = wait_readable(&peer)?;
            let delayed = choice.next();
            if !delayed {
                peer.set_quickack(true)?;
            }
            if !peer.recv_exact(&mut request)? {
                return Ok(DelayedConnection {
                    connection: peer.close(),
                    requests,
                    delayed_times_ns,
                });
            }
            requests += 1;
            if delayed {
                pause_us(TCP_DELACK_MIN_US + self.spare_us);
                delayed_times_ns.push([arrived_ns, now_ns()]);
            }
            peer.send_all(&reply)?;
        }
    }
}

/// Waits until data can be read, without reading it; returns the time, ns.
fn wait_readable(peer: &Peer) -> Result<u64, LabError> {
    let mut fds = [PollFd::new(peer.stream.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::NONE).map_err(|why| peer_error("wait for", peer, why.into()))?;
    Ok(now_ns())
}

/// Makes the error of a failed call on a connection.
fn peer_error(action: &'static str, peer: &Peer, why: io::Error) -> LabError {
    let subject = format!("{} > {}", peer.truth.local, peer.truth.remote);
    LabError::os(action, subject, why, "report this")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choice_has_the_asked_size_and_follows_the_seed() {
        let choose = |seed, chosen_left| -> Vec<bool> {
            let random = Random::new(seed);
            let mut choice = RandomChoice {
                random,
                left: 211,
                chosen_left,
            };
            (0..211).map(|_| choice.next()).collect()
        };
        for chosen in [0, 1, 101, 211] {
            let of = choose(7, chosen);
            assert_eq!(of.iter().filter(|chosen| **chosen).count() as u64, chosen);
            assert_eq!(of, choose(7, chosen));
        }
        assert_ne!(choose(7, 101), choose(8, 101));
    }
}
