//! `open-loop`: a client of redis and memcached that sends GETs of one key at random times (a Poisson process of
//! the given rate) over several connections, from one thread, whether or not the answers to earlier ones have come.
//!
//! Its truth is two times, with their quantiles. `client`: from when a request was due to its whole answer.
//! `receive`: from the arrival of an answer's packet, by the kernel's own stamp (`SO_TIMESTAMPNS`), to the end of
//! the receive call.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::num::NonZeroUsize;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use clap::{Args, ValueEnum};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use serde::Serialize;

use super::context::Context;
use super::cpu::before_all_others;
use super::threads::name_thread;
use crate::error::LabError;
use crate::random::Random;

/// Points of the curve that is printed beside the quantiles.
const CURVE: usize = 1_000;

/// Later than this is late: a request then was not sent at its time.
const LATE_NS: u64 = 1_000_000;

const HINT_SERVER: &str = "check that the server runs and listens there";

/// Options of `open-loop`.
#[derive(Debug, Args)]
pub(crate) struct OpenLoop {
    /// The server's kind.
    #[arg(long, value_enum)]
    server: ServerKind,
    /// The server's address.
    #[arg(long)]
    connect: SocketAddr,
    /// Connections.
    #[arg(long, default_value_t = NonZeroUsize::MIN.saturating_add(15))]
    connections: NonZeroUsize,
    /// Requests a second.
    #[arg(long, value_parser = parse_rate)]
    rate: f64,
    /// Requests in all.
    #[arg(long)]
    requests: usize,
    /// Go before all threads that are not real-time, so that requests are sent when they are due.
    #[arg(long)]
    realtime: bool,
}

/// Reads a rate between one request in an hour and one in a nanosecond.
fn parse_rate(text: &str) -> Result<f64, String> {
    let rate: f64 = text.parse().map_err(|why| format!("{why}"))?;
    let is_in = (1.0 / 3_600.0..=1e9).contains(&rate);
    is_in
        .then_some(rate)
        .ok_or_else(|| "it is not between 1/3600 and 1,000,000,000".to_owned())
}

/// Kind of server that gets the requests.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum ServerKind {
    Redis,
    Memcached,
}

/// Requests and answers of a server, as bytes. Key and value have the size of redis-benchmark's.
struct ServerProtocol {
    store: &'static [u8],
    stored: &'static [u8],
    request: &'static [u8],
    answer: &'static [u8],
}

const REDIS: ServerProtocol = ServerProtocol {
    store: b"SET whylat xxx\r\n",
    stored: b"+OK\r\n",
    request: b"*2\r\n$3\r\nGET\r\n$6\r\nwhylat\r\n",
    answer: b"$3\r\nxxx\r\n",
};
const MEMCACHED: ServerProtocol = ServerProtocol {
    store: b"set whylat 0 0 3\r\nxxx\r\n",
    stored: b"STORED\r\n",
    request: b"get whylat\r\n",
    answer: b"VALUE whylat 0 3\r\nxxx\r\nEND\r\n",
};

impl ServerKind {
    /// Returns requests and answers of the server's protocol.
    fn protocol(self) -> ServerProtocol {
        match self {
            Self::Redis => REDIS,
            Self::Memcached => MEMCACHED,
        }
    }
}

/// Quantiles of a time, ns.
#[derive(Debug, Serialize)]
struct LatencyQuantiles {
    p50_ns: u64,
    p90_ns: u64,
    p99_ns: u64,
    p999_ns: u64,
    p9999_ns: u64,
    p99999_ns: u64,
    max_ns: u64,
    /// At equal steps from the least to the greatest.
    curve_ns: Vec<u64>,
}

/// Truth that `open-loop` prints: its requests and the quantiles of their latency.
#[derive(Debug, Serialize)]
pub(crate) struct OpenLoopTruth {
    requests: usize,
    /// Requests that were sent more than 1 ms after they were due.
    late: u64,
    client: Option<LatencyQuantiles>,
    receive: Option<LatencyQuantiles>,
}

impl OpenLoop {
    /// Sends requests at fixed times, whether or not answers have come.
    pub(crate) fn run(&self, context: &Context) -> Result<OpenLoopTruth, LabError> {
        name_thread(c"open-loop");
        let protocol = self.server.protocol();
        let fails = |why| LabError::os("talk to", self.connect.to_string(), why, HINT_SERVER);
        // requests must be sent within a microsecond of their times, not within 50
        set_timerslack(1).map_err(|why| fails(why.into()))?;
        store(self.connect, &protocol).map_err(fails)?;
        let clients = (0..self.connections.get()).map(|_| OpenLoopClient::connect(self.connect));
        let mut load = LoadPlan {
            protocol,
            clients: clients.collect::<Result<_, _>>().map_err(fails)?,
            random: Random::new(7),
            client_ns: Vec::with_capacity(self.requests),
            receive_ns: Vec::with_capacity(self.requests),
        };
        context.start(self.connect.port())?;
        if self.realtime {
            before_all_others();
        }
        let late = load.run(self.rate, self.requests).map_err(fails)?;
        Ok(OpenLoopTruth {
            requests: load.client_ns.len(),
            late,
            client: quantiles(load.client_ns),
            receive: quantiles(load.receive_ns),
        })
    }
}

/// Stores the value that requests ask for.
fn store(server: SocketAddr, protocol: &ServerProtocol) -> io::Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(protocol.store)?;
    let mut answer = vec![0; protocol.stored.len()];
    stream.read_exact(&mut answer)?;
    if answer != protocol.stored {
        return Err(invalid_data(format!("it did not store: {answer:?}")));
    }
    Ok(())
}

/// Makes the error of an unexpected answer.
fn invalid_data(what: impl Into<String>) -> io::Error {
    io::Error::other(what.into())
}

/// Returns the quantiles of latencies; `None` without any.
fn quantiles(mut all_ns: Vec<u64>) -> Option<LatencyQuantiles> {
    all_ns.sort_unstable();
    let max_ns = *all_ns.last()?;
    let at = |share: f64| {
        let index = (all_ns.len() as f64 * share) as usize;
        all_ns.get(index).copied().unwrap_or(max_ns)
    };
    Some(LatencyQuantiles {
        p50_ns: at(0.5),
        p90_ns: at(0.9),
        p99_ns: at(0.99),
        p999_ns: at(0.999),
        p9999_ns: at(0.9999),
        p99999_ns: at(0.99999),
        max_ns,
        curve_ns: (0..CURVE)
            .map(|step| at(step as f64 / CURVE as f64))
            .collect(),
    })
}

/// One connection, and when the requests on their way were due.
struct OpenLoopClient {
    stream: TcpStream,
    due_ns: VecDeque<u64>,
    received: usize,
}

impl OpenLoopClient {
    /// Opens a connection.
    fn connect(server: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        setsockopt(&stream, sockopt::ReceiveTimestampns, &true)?;
        Ok(Self {
            stream,
            due_ns: VecDeque::new(),
            received: 0,
        })
    }
}

struct LoadPlan {
    protocol: ServerProtocol,
    clients: Vec<OpenLoopClient>,
    random: Random,
    client_ns: Vec<u64>,
    receive_ns: Vec<u64>,
}

impl LoadPlan {
    /// Sends `requests` requests at this rate, and reads their answers; returns how many were sent
    /// late.
    fn run(&mut self, rate: f64, requests: usize) -> io::Result<u64> {
        let mut late = 0;
        let mut due_ns = now_ns(ClockId::CLOCK_MONOTONIC)?;
        for number in 0..requests {
            let mut now = now_ns(ClockId::CLOCK_MONOTONIC)?;
            while now < due_ns {
                self.receive_ready(due_ns - now)?;
                now = now_ns(ClockId::CLOCK_MONOTONIC)?;
            }
            late += u64::from(now > due_ns + LATE_NS);
            let next = number % self.clients.len();
            let client = &mut self.clients[next];
            client.due_ns.push_back(due_ns);
            client.stream.write_all(self.protocol.request)?;
            due_ns += (self.random.exponential() * 1e9 / rate) as u64;
        }
        while self.clients.iter().any(|client| !client.due_ns.is_empty()) {
            self.receive_ready(1_000_000_000)?;
        }
        Ok(late)
    }

    /// Waits for answers, at most this long, and reads those that are there.
    fn receive_ready(&mut self, timeout_ns: u64) -> io::Result<()> {
        let mut waiting: Vec<PollFd> = self
            .clients
            .iter()
            .map(|client| PollFd::new(client.stream.as_fd(), PollFlags::POLLIN))
            .collect();
        let timeout = TimeSpec::from_duration(Duration::from_nanos(timeout_ns));
        ppoll(&mut waiting, Some(timeout), None)?;
        let ready: Vec<usize> = (0..waiting.len())
            .filter(|&index| waiting[index].any().unwrap_or(false))
            .collect();
        ready.into_iter().try_for_each(|index| self.receive(index))
    }

    /// Reads the answers that have come on a connection.
    fn receive(&mut self, index: usize) -> io::Result<()> {
        let client = &mut self.clients[index];
        let mut buffer = [0; 4096];
        let mut parts = [IoSliceMut::new(&mut buffer)];
        let mut control = nix::cmsg_space!(TimeSpec);
        let fd = client.stream.as_raw_fd();
        let got = recvmsg::<()>(fd, &mut parts, Some(&mut control), MsgFlags::empty())?;
        let arrived = got.cmsgs()?.find_map(|message| match message {
            ControlMessageOwned::ScmTimestampns(time) => Some(Duration::from(time)),
            _ => None,
        });
        let count = got.bytes;
        if count == 0 {
            return Err(invalid_data("it closed the connection"));
        }
        if let Some(arrived) = arrived {
            let done_ns = now_ns(ClockId::CLOCK_REALTIME)?;
            self.receive_ns
                .push(done_ns.saturating_sub(arrived.as_nanos() as u64));
        }
        let done_ns = now_ns(ClockId::CLOCK_MONOTONIC)?;
        let answer = self.protocol.answer;
        for byte in &buffer[..count] {
            if *byte != answer[client.received] {
                return Err(invalid_data("its answer is not the value"));
            }
            client.received = (client.received + 1) % answer.len();
            if client.received == 0 {
                let due_ns = client
                    .due_ns
                    .pop_front()
                    .ok_or_else(|| invalid_data("an answer to no request"))?;
                self.client_ns.push(done_ns - due_ns);
            }
        }
        Ok(())
    }
}

/// Returns the time of a clock, in nanoseconds.
fn now_ns(clock: ClockId) -> io::Result<u64> {
    Ok(Duration::from(clock_gettime(clock)?).as_nanos() as u64)
}
