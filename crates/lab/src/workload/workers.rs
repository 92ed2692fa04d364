//! `worker-server`: processes that serve at one port, each by a socket of its own (SO_REUSEPORT), and in one thread.
//! `worker-client`: connections that are spread among them as it is asked for.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::AsFd;
use std::process::Command;
use std::thread;

use clap::Args;
use serde::Serialize;
use serde_json::Value;
use socket2::{Domain, Socket, Type};

use super::context::Context;
use super::cpu::{burn_us, wait_for_end};
use super::peer::{ConnectionTruth, Peer, SocketOptions, accept, pause_us, port_of};
use super::threads::{join_threads, start};
use super::until_end::wait_readable;
use crate::clock::now_ns;
use crate::error::LabError;
use crate::process::LabProcess;

/// First byte of a request that asks who serves.
const WHO: u8 = 0x77;

/// Bytes of a request, and of a reply: the worker's process id comes first.
const BYTES: usize = 64;

/// Options of `worker-server`.
#[derive(Debug, Args)]
pub(crate) struct WorkerServer {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Processes.
    #[arg(long, default_value_t = 4)]
    workers: usize,
    /// CPU time of each request.
    #[arg(long, default_value_t = 0)]
    burn_us: u64,
    /// Sleeps so long in each request.
    #[arg(long, default_value_t = 0)]
    sleep_us: u64,
}

/// Truth that the server prints: that of each worker.
#[derive(Debug, Serialize)]
pub(crate) struct WorkerServerTruth {
    workers: Vec<Value>,
    /// Rules that are true of it by its options: it sleeps while it has a request.
    also_true: Vec<&'static str>,
    /// Those of all workers.
    connections: Vec<Value>,
}

impl WorkerServer {
    /// Starts workers that accept at one address.
    pub(crate) fn run(&self, context: &Context) -> Result<WorkerServerTruth, LabError> {
        // Keeps the port; without listen() it gets no connection.
        let reserved = reuse_port(self.listen)?;
        let failed = |why| LabError::os("name", "the port", why, "report this");
        let address = reserved.local_addr().map_err(failed)?.as_socket();
        let address = address.unwrap_or(self.listen);
        let workers = (0..self.workers).map(|_| self.start(address));
        let workers: Vec<LabProcess> = workers.collect::<Result<_, _>>()?;
        context.ready(address.port())?;
        wait_for_end();
        let ended = workers.into_iter().map(LabProcess::finish);
        let workers: Vec<Value> = ended.collect::<Result<_, _>>()?;
        let connections = workers
            .iter()
            .filter_map(|one| one["connections"].as_array());
        Ok(WorkerServerTruth {
            connections: connections.flatten().cloned().collect(),
            workers,
            also_true: match self.sleep_us {
                0 => Vec::new(),
                _ => vec!["timer_wait"],
            },
        })
    }

    /// Starts one worker.
    fn start(&self, address: SocketAddr) -> Result<LabProcess, LabError> {
        let program = std::env::current_exe()
            .map_err(|why| LabError::os("find", "this program's file", why, "mount /proc"))?;
        let mut command = Command::new(program);
        command.args(["lab", "workload", "worker", "--listen"]);
        command.arg(address.to_string());
        command.args(["--burn-us", &self.burn_us.to_string()]);
        command.args(["--sleep-us", &self.sleep_us.to_string()]);
        let mut worker = LabProcess::start(command)?;
        worker.port()?;
        Ok(worker)
    }
}

/// Returns a socket that is bound to an address together with others.
fn reuse_port(address: SocketAddr) -> Result<Socket, LabError> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None);
    let bound = socket.and_then(|socket| {
        socket.set_reuse_address(true)?;
        socket.set_reuse_port(true)?;
        socket.bind(&address.into())?;
        Ok(socket)
    });
    bound.map_err(|why| LabError::os("bind to", address.to_string(), why, "use port 0"))
}

/// Options of `worker`.
#[derive(Debug, Args)]
pub(crate) struct Worker {
    /// Address to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// CPU time of each request.
    #[arg(long, default_value_t = 0)]
    burn_us: u64,
    /// Sleeps so long in each request.
    #[arg(long, default_value_t = 0)]
    sleep_us: u64,
}

/// Truth that one worker prints: its requests, and the time that it worked on them, ns.
#[derive(Debug, Default, Serialize)]
pub(crate) struct WorkerTruth {
    requests: u64,
    busy_ns: u64,
    connections: Vec<ConnectionTruth>,
}

impl Worker {
    /// Accepts connections and answers requests, as one of several workers.
    pub(crate) fn run(&self, context: &Context) -> Result<WorkerTruth, LabError> {
        const BACKLOG: i32 = 64;
        let socket = reuse_port(self.listen)?;
        let failed = |why| LabError::os("listen on", self.listen.to_string(), why, "use port 0");
        socket.listen(BACKLOG).map_err(failed)?;
        let listener: TcpListener = socket.into();
        context.ready(port_of(&listener)?)?;
        let stdin = std::io::stdin();
        let (mut open, mut truth) = (Vec::<Peer>::new(), WorkerTruth::default());
        loop {
            let fds = [stdin.as_fd(), listener.as_fd()].into_iter();
            let fds: Vec<_> = fds.chain(open.iter().map(|it| it.stream.as_fd())).collect();
            // from the last on, so that the places of the others stay
            for place in wait_readable(&fds, None)?.into_iter().rev() {
                match place {
                    0 => return Ok(truth),
                    1 => open.push(accept(&listener)?),
                    other if !self.serve(&mut open[other - 2], &mut truth)? => {
                        let closed = open.swap_remove(other - 2).close();
                        truth.connections.push(closed);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Answers a request; false: the connection ended.
    fn serve(&self, peer: &mut Peer, truth: &mut WorkerTruth) -> Result<bool, LabError> {
        let mut message = [0; BYTES];
        if !peer.recv_exact(&mut message)? {
            return Ok(false);
        }
        if message[0] != WHO {
            let begin_ns = now_ns();
            burn_us(self.burn_us);
            pause_us(self.sleep_us);
            truth.requests += 1;
            truth.busy_ns += now_ns() - begin_ns;
        }
        message[..4].copy_from_slice(&std::process::id().to_le_bytes());
        peer.send_all(&message)?;
        Ok(true)
    }
}

/// Options of `worker-client`.
#[derive(Debug, Args)]
pub(crate) struct WorkerClient {
    /// Server to connect to.
    #[arg(long)]
    connect: SocketAddr,
    /// Connections at each worker, most first: 5,1.
    #[arg(long, value_delimiter = ',')]
    spread: Vec<usize>,
    /// Requests on each connection.
    #[arg(long, default_value_t = 30)]
    rounds: u64,
    /// Sleeps after each request.
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
}

/// Truth that the client prints: its requests, in all and by worker, and their total duration, ns.
#[derive(Debug, Serialize)]
pub(crate) struct WorkerClientTruth {
    requests: u64,
    request_ns: u64,
    /// Requests of each worker.
    by_worker: BTreeMap<u32, u64>,
    connections: Vec<ConnectionTruth>,
}

/// A connection, and the worker at its other end.
type PlacedPeer = (u32, Peer);

impl WorkerClient {
    /// Sends requests over several connections.
    pub(crate) fn run(&self, context: &Context) -> Result<WorkerClientTruth, LabError> {
        let peers = self.spread_connections()?;
        context.start(0)?;
        let mut by_worker = BTreeMap::new();
        for (pid, _) in &peers {
            *by_worker.entry(*pid).or_insert(0) += self.rounds;
        }
        let ended = thread::scope(|scope| {
            let threads = peers.into_iter();
            let threads = threads.map(|(_, peer)| start(scope, move || self.send_requests(peer)));
            join_threads(threads.collect::<Result<_, _>>()?)
        })?;
        Ok(WorkerClientTruth {
            requests: self.rounds * ended.len() as u64,
            request_ns: ended.iter().map(|one| one.0).sum(),
            by_worker,
            connections: ended.into_iter().map(|one| one.1).collect(),
        })
    }

    /// Opens connections until each worker has enough, and closes those beyond.
    fn spread_connections(&self) -> Result<Vec<PlacedPeer>, LabError> {
        let mut by_worker: BTreeMap<u32, Vec<PlacedPeer>> = BTreeMap::new();
        loop {
            let mut peer = Peer::connect(self.connect, &SocketOptions::default())?;
            let mut message = [WHO; BYTES];
            peer.send_all(&message)?;
            if !peer.recv_exact(&mut message)? {
                return Err(peer.end_error(0, BYTES));
            }
            let pid = message.first_chunk().copied().map_or(0, u32::from_le_bytes);
            by_worker.entry(pid).or_default().push((pid, peer));
            let mut counts: Vec<usize> = by_worker.values().map(Vec::len).collect();
            counts.sort_unstable_by_key(|count| std::cmp::Reverse(*count));
            let is_enough = |(at, wanted): (usize, &usize)| counts.get(at) >= Some(wanted);
            if self.spread.iter().enumerate().all(is_enough) {
                break;
            }
        }
        let mut groups: Vec<Vec<PlacedPeer>> = by_worker.into_values().collect();
        groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
        let kept = groups.into_iter().zip(&self.spread);
        Ok(kept
            .flat_map(|(group, wanted)| group.into_iter().take(*wanted))
            .collect())
    }

    /// Sends the requests of a connection, and returns their total duration, ns.
    fn send_requests(&self, mut peer: Peer) -> Result<(u64, ConnectionTruth), LabError> {
        let mut asked_ns = 0;
        for _ in 0..self.rounds {
            let mut message = [0; BYTES];
            let begin_ns = now_ns();
            peer.send_all(&message)?;
            if !peer.recv_exact(&mut message)? {
                return Err(peer.end_error(0, BYTES));
            }
            asked_ns += now_ns() - begin_ns;
            pause_us(self.pause_us);
        }
        Ok((asked_ns, peer.close()))
    }
}
