//! `reply-server`: reads requests of a fixed size and answers all, some or none.

use std::net::{SocketAddr, TcpListener};
use std::thread;

use clap::Args;
use serde::Serialize;

use super::context::{Context, ROUNDS_KEPT};
use super::cpu::burn_us;
use super::peer::{
    ConnectionTruth, ListenerTruth, Peer, SocketOptions, accept, listen, pause_us, port_of,
};
use super::threads::{join_threads, start};
use crate::clock::now_ns;
use crate::error::LabError;

/// Options of `reply-server`.
#[derive(Debug, Args)]
pub(crate) struct ReplyServer {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Ends after this many connections have closed.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Bytes of a request.
    #[arg(long, default_value_t = 100)]
    request: usize,
    /// Bytes of the first request of a connection, if it is larger.
    #[arg(long)]
    first_request: Option<usize>,
    /// Bytes of an answer.
    #[arg(long, default_value_t = 100)]
    reply: usize,
    /// Answers every so many requests; 0 never answers.
    #[arg(long, default_value_t = 1)]
    reply_every: u64,
    /// Sleeps this long before it accepts each connection.
    #[arg(long, default_value_t = 0)]
    accept_delay_us: u64,
    /// Sleeps this long before it reads each request.
    #[arg(long, default_value_t = 0)]
    read_delay_us: u64,
    /// Sleeps this long between reading a request and answering it.
    #[arg(long, default_value_t = 0)]
    compute_us: u64,
    /// Uses this much CPU time there.
    #[arg(long, default_value_t = 0)]
    burn_us: u64,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Truth that the server prints: requests, replies, its listening socket, and the time at which it read each request.
#[derive(Debug, Serialize)]
pub(crate) struct ReplyTruth {
    requests: u64,
    replies: u64,
    /// Rules that are true of it by its options: it sleeps while it has a request.
    also_true: Vec<&'static str>,
    listener: ListenerTruth,
    connections: Vec<ConnectionTruth>,
    /// Each request: before and after the calls that read it; `CLOCK_MONOTONIC`. By connection.
    read_times_ns: Vec<[u64; 2]>,
}

/// Requests and replies of one connection, with the time at which each request was read.
#[derive(Debug)]
struct ServedConnection {
    connection: ConnectionTruth,
    requests: u64,
    replies: u64,
    read_times_ns: Vec<[u64; 2]>,
}

impl ReplyServer {
    /// Accepts connections and answers requests.
    pub(crate) fn run(&self, context: &Context) -> Result<ReplyTruth, LabError> {
        let listener = listen(self.listen, &self.socket)?;
        let mut truth = ListenerTruth::from_listener(&listener)?;
        context.ready(port_of(&listener)?)?;
        let serve = |peer| self.serve(peer);
        let served = serve_paced(&listener, self.connections, self.accept_delay_us, serve)?;
        truth.closed_ns = now_ns();
        Ok(ReplyTruth {
            requests: served.iter().map(|one| one.requests).sum(),
            replies: served.iter().map(|one| one.replies).sum(),
            also_true: match self.compute_us {
                0 => Vec::new(),
                _ => vec!["timer_wait"],
            },
            listener: truth,
            read_times_ns: served
                .iter()
                .flat_map(|one| one.read_times_ns.clone())
                .collect(),
            connections: served.into_iter().map(|one| one.connection).collect(),
        })
    }

    /// Answers the requests of one connection.
    fn serve(&self, mut peer: Peer) -> Result<ServedConnection, LabError> {
        let mut request = vec![0; self.first_request.unwrap_or(self.request)];
        let reply = vec![0x72; self.reply];
        let (mut requests, mut replies) = (0, 0);
        let mut read_times_ns = Vec::new();
        loop {
            pause_us(self.read_delay_us);
            let before_ns = now_ns();
            if !peer.recv_exact(&mut request)? {
                return Ok(ServedConnection {
                    connection: peer.close(),
                    requests,
                    replies,
                    read_times_ns,
                });
            }
            if read_times_ns.len() < ROUNDS_KEPT {
                read_times_ns.push([before_ns, now_ns()]);
            }
            requests += 1;
            request.resize(self.request, 0);
            pause_us(self.compute_us);
            burn_us(self.burn_us);
            if self.reply_every > 0 && requests % self.reply_every == 0 {
                peer.send_all(&reply)?;
                replies += 1;
            }
        }
    }
}

/// Serves `count` connections as [`serve_paced`], without pauses.
pub(crate) fn serve_each<T: Send>(
    listener: &TcpListener,
    count: usize,
    serve: impl Fn(Peer) -> Result<T, LabError> + Sync,
) -> Result<Vec<T>, LabError> {
    serve_paced(listener, count, 0, serve)
}

/// Accepts `count` connections, each after a pause, and serves each in its own thread. Returns their results in the
/// order of accept.
pub(crate) fn serve_paced<T: Send>(
    listener: &TcpListener,
    count: usize,
    delay_us: u64,
    serve: impl Fn(Peer) -> Result<T, LabError> + Sync,
) -> Result<Vec<T>, LabError> {
    let serve = &serve;
    thread::scope(|scope| {
        let mut threads = Vec::with_capacity(count);
        for _ in 0..count {
            pause_us(delay_us);
            let peer = accept(listener)?;
            threads.push(start(scope, move || serve(peer))?);
        }
        join_threads(threads)
    })
}
