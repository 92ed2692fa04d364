//! A real redis-server, and a client of it: `redis-server`, `redis-client`.

use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};

use clap::Args;
use serde::Serialize;

use super::context::Context;
use super::cpu::wait_for_end;
use super::peer::{ConnectionTruth, Peer, SocketOptions, listen, pause_us, port_of};
use super::threads::{join_threads, start};
use crate::clock::now_ns;
use crate::error::LabError;
use crate::netns::tie_to_parent;
use crate::process::ChildGuard;

const HINT: &str = "install it: apt-get install redis-server";

/// Pause between two looks whether it listens.
const LOOK_US: u64 = 2_000;

/// Options of `redis-server`.
#[derive(Debug, Args)]
pub(crate) struct RedisServer {
    /// Address to listen on; port 0 takes a free one.
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
}

/// Truth about the redis server: its process.
#[derive(Debug, Serialize)]
pub(crate) struct RedisTruth {
    /// The real server, not who started it.
    pid: u32,
}

impl RedisServer {
    /// Runs a Redis server until the end.
    pub(crate) fn run(&self, context: &Context) -> Result<RedisTruth, LabError> {
        let port = port_of(&listen(self.listen, &SocketOptions::default())?)?;
        let address = SocketAddr::new(self.listen.ip(), port);
        let mut command = Command::new("redis-server");
        command.args(["--port", &port.to_string(), "--save", ""]);
        command.args(["--bind", &address.ip().to_string()]);
        command.args(["--appendonly", "no", "--protected-mode", "no"]);
        command
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        let started = tie_to_parent(&mut command).spawn();
        let mut server = started
            .map(ChildGuard)
            .map_err(|why| LabError::os("start", "redis-server", why, HINT))?;
        while TcpStream::connect(address).is_err() {
            if let Ok(Some(status)) = server.0.try_wait() {
                let why = std::io::Error::other(status.to_string());
                return Err(LabError::os("start", "redis-server", why, HINT));
            }
            pause_us(LOOK_US);
        }
        context.ready(port)?;
        wait_for_end();
        Ok(RedisTruth { pid: server.0.id() })
    }
}

/// Options of `redis-client`.
#[derive(Debug, Args)]
pub(crate) struct RedisClient {
    /// Server to connect to.
    #[arg(long)]
    connect: SocketAddr,
    /// Connections, each with a thread.
    #[arg(long, default_value_t = 1)]
    concurrency: usize,
    /// Requests on each connection.
    #[arg(long, default_value_t = 100)]
    rounds: u64,
    /// Sleeps after each request.
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
    /// Lets the server run a script of so many steps; 0: asks for a key.
    #[arg(long, default_value_t = 0)]
    steps: u64,
}

/// Truth that the client prints: its requests, their total and longest duration, ns.
#[derive(Debug, Serialize)]
pub(crate) struct RedisClientTruth {
    requests: u64,
    request_ns: u64,
    max_ns: u64,
    connections: Vec<ConnectionTruth>,
}

impl RedisClient {
    /// Sends requests of the Redis protocol.
    pub(crate) fn run(&self, context: &Context) -> Result<RedisClientTruth, LabError> {
        let options = SocketOptions {
            nodelay: true,
            ..SocketOptions::default()
        };
        let peers = (0..self.concurrency).map(|_| Peer::connect(self.connect, &options));
        let peers: Vec<Peer> = peers.collect::<Result<_, _>>()?;
        context.start(0)?;
        let ended = std::thread::scope(|scope| {
            let threads = peers.into_iter();
            let threads = threads.map(|peer| start(scope, move || self.send_requests(peer)));
            join_threads(threads.collect::<Result<_, _>>()?)
        })?;
        let times: Vec<u64> = ended.iter().flat_map(|one| one.1.clone()).collect();
        Ok(RedisClientTruth {
            requests: times.len() as u64,
            request_ns: times.iter().sum(),
            max_ns: times.iter().copied().max().unwrap_or(0),
            connections: ended.into_iter().map(|one| one.0).collect(),
        })
    }

    /// Sends all requests of one connection; returns its counts and the time of each request.
    fn send_requests(&self, mut peer: Peer) -> Result<(ConnectionTruth, Vec<u64>), LabError> {
        let script = format!(
            "local x = 0 for i = 1, {} do x = x + i end return 1",
            self.steps
        );
        let request = match self.steps {
            0 => "*2\r\n$3\r\nGET\r\n$6\r\nwhylat\r\n".to_owned(),
            _ => format!(
                "*3\r\n$4\r\nEVAL\r\n${}\r\n{script}\r\n$1\r\n0\r\n",
                script.len()
            ),
        };
        let mut times_ns = Vec::new();
        for _ in 0..self.rounds {
            let begin_ns = now_ns();
            peer.send_all(request.as_bytes())?;
            // each reply is one line, shorter than this
            let mut reply = [0; 64];
            let mut length = 0;
            while !reply[..length].ends_with(b"\r\n") {
                match peer.recv(&mut reply[length..])? {
                    0 => return Err(peer.end_error(length, reply.len())),
                    bytes => length += bytes,
                }
            }
            times_ns.push(now_ns() - begin_ns);
            pause_us(self.pause_us);
        }
        Ok((peer.close(), times_ns))
    }
}
