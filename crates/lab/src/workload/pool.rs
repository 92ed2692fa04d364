//! `pool-client`: threads that share the connections of a pool, as a web application shares those to its database.

use std::net::SocketAddr;
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;

use clap::Args;
use serde::Serialize;

use super::context::Context;
use super::peer::{ConnectionTruth, Peer, SocketOptions, pause_us};
use super::threads::{join_threads, start};
use crate::clock::now_ns;
use crate::error::LabError;

/// Options of `pool-client`.
#[derive(Debug, Args)]
pub(crate) struct PoolClient {
    /// Server to connect to.
    #[arg(long)]
    connect: SocketAddr,
    /// Threads with requests.
    #[arg(long, default_value_t = 8)]
    threads: usize,
    /// Connections that they share.
    #[arg(long, default_value_t = 2)]
    pool: usize,
    /// Requests of each thread.
    #[arg(long, default_value_t = 20)]
    rounds: u64,
    /// Bytes of a request, and of a reply.
    #[arg(long, default_value_t = 100)]
    bytes: usize,
    /// Sleeps after each request, without a connection.
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
}

/// Truth that the client prints: time in requests, and time of threads that waited for a connection of the pool, ns.
#[derive(Debug, Serialize)]
pub(crate) struct PoolTruth {
    requests: u64,
    /// Time in which threads waited for a connection, together.
    pool_wait_ns: u64,
    /// Time of the requests themselves, together.
    request_ns: u64,
    connections: Vec<ConnectionTruth>,
}

/// Connections that nobody uses.
struct ConnectionPool {
    free: Mutex<Vec<Peer>>,
    returned: Condvar,
}

impl ConnectionPool {
    /// Takes a free connection; waits until there is one.
    fn wait_for_free(&self) -> Peer {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match free.pop() {
                Some(peer) => return peer,
                None => {
                    let waited = self.returned.wait(free);
                    free = waited.unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }

    /// Returns a connection to the pool.
    fn give_back(&self, peer: Peer) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        free.push(peer);
        drop(free);
        self.returned.notify_one();
    }
}

impl PoolClient {
    /// Sends requests of many threads over few connections.
    pub(crate) fn run(&self, context: &Context) -> Result<PoolTruth, LabError> {
        let options = SocketOptions {
            nodelay: true,
            ..SocketOptions::default()
        };
        let peers = (0..self.pool).map(|_| Peer::connect(self.connect, &options));
        let pool = ConnectionPool {
            free: Mutex::new(peers.collect::<Result<_, _>>()?),
            returned: Condvar::new(),
        };
        context.start(0)?;
        let ask = || self.send_requests(&pool);
        let times = thread::scope(|scope| {
            let threads = (0..self.threads).map(|_| start(scope, ask));
            join_threads(threads.collect::<Result<_, _>>()?)
        })?;
        let free = pool.free.into_inner();
        let free = free.unwrap_or_else(PoisonError::into_inner).into_iter();
        Ok(PoolTruth {
            requests: self.rounds * self.threads as u64,
            pool_wait_ns: times.iter().map(|times| times.0).sum(),
            request_ns: times.iter().map(|times| times.1).sum(),
            connections: free.map(Peer::close).collect(),
        })
    }

    /// Sends the requests of a thread, and returns its time without a connection and the time of its requests, ns.
    fn send_requests(&self, pool: &ConnectionPool) -> Result<(u64, u64), LabError> {
        let mut bytes = vec![0x71; self.bytes];
        let (mut waited_ns, mut asked_ns) = (0, 0);
        for _ in 0..self.rounds {
            let begin_ns = now_ns();
            let mut peer = pool.wait_for_free();
            let taken_ns = now_ns();
            peer.send_all(&bytes)?;
            if !peer.recv_exact(&mut bytes)? {
                return Err(peer.end_error(0, self.bytes));
            }
            pool.give_back(peer);
            waited_ns += taken_ns - begin_ns;
            asked_ns += now_ns() - taken_ns;
            pause_us(self.pause_us);
        }
        Ok((waited_ns, asked_ns))
    }
}
