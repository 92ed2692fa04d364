//! Clients that send a request and wait for its answer, many times: `write-write-read`
//! (the request in two small writes, which Nagle and a delayed ACK stall together),
//! `request-reply` (the healthy form) and `short-lived` (a connection per exchange).

use std::net::SocketAddr;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::context::{Context, ROUNDS_KEPT};
use super::peer::{ConnectionTruth, Peer, SocketOptions, pause_us};
use super::threads::{join_threads, start};
use crate::clock::now_ns;
use crate::error::LabError;

/// Options of `write-write-read`.
#[derive(Debug, Args)]
pub(crate) struct WriteWriteRead {
    /// Server to connect to.
    #[arg(long)]
    connect: SocketAddr,
    /// Requests to send.
    #[arg(long, default_value_t = 211)]
    rounds: u64,
    /// Bytes of the first write.
    #[arg(long, default_value_t = 20)]
    header: usize,
    /// Bytes of the second write.
    #[arg(long, default_value_t = 80)]
    body: usize,
    /// Sends header and body in one write.
    #[arg(long)]
    one_write: bool,
    #[command(flatten)]
    waiting: WaitOptions,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Options of `request-reply`. Sets TCP_NODELAY by default.
#[derive(Debug, Args)]
pub(crate) struct RequestReply {
    /// Server to connect to.
    #[arg(long)]
    connect: SocketAddr,
    /// Requests on each connection.
    #[arg(long, default_value_t = 1009)]
    rounds: u64,
    /// Bytes of a request.
    #[arg(long, default_value_t = 100)]
    request: usize,
    /// Bytes of the first request of a connection, if it is larger: the others are messages of the application's own window.
    #[arg(long)]
    first_request: Option<usize>,
    /// Connections, each with a thread.
    #[arg(long, default_value_t = 1)]
    concurrency: usize,
    /// All connections send each of their requests at the same moment.
    #[arg(long)]
    together: bool,
    /// Leaves Nagle's algorithm on.
    #[arg(long)]
    nagle: bool,
    /// Reads TCP's least round trip before the first round and after each.
    #[arg(long)]
    min_rtts: bool,
    #[command(flatten)]
    waiting: WaitOptions,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Options of the wait for answers.
#[derive(Debug, Clone, Args)]
struct WaitOptions {
    /// Bytes of an answer.
    #[arg(long, default_value_t = 100)]
    reply: usize,
    /// Waits for an answer after every so many requests; 0 never. As the server has it.
    #[arg(long, default_value_t = 1)]
    reply_every: u64,
    /// Sleeps between rounds.
    #[arg(long, default_value_t = 0)]
    pause_us: u64,
    /// Rounds at least this long count as stalled.
    #[arg(long, default_value_t = 25)]
    stall_ms: u64,
}

/// Options of `short-lived`.
#[derive(Debug, Args)]
pub(crate) struct ShortConnections {
    /// Server to connect to.
    #[arg(long)]
    connect: SocketAddr,
    /// Connections to open, one after the other.
    #[arg(long, default_value_t = 101)]
    count: u64,
    /// Time from open to close.
    #[arg(long, default_value_t = 5000)]
    life_us: u64,
    /// Bytes of the request.
    #[arg(long, default_value_t = 100)]
    request: usize,
    /// Bytes of the answer.
    #[arg(long, default_value_t = 100)]
    reply: usize,
    /// Waits so long for the answer at most, and closes.
    #[arg(long)]
    limit_ms: Option<u64>,
    #[command(flatten)]
    socket: SocketOptions,
}

/// Truth that a client with rounds prints: the duration of its rounds, and those that stalled.
#[derive(Debug, Default, Serialize)]
pub(crate) struct RoundsTruth {
    rounds: u64,
    stalled_rounds: u64,
    stalled_ns: u64,
    min_ns: u64,
    median_ns: u64,
    p99_ns: u64,
    max_ns: u64,
    /// Rules that are true of it by its options: its pauses are shorter than its rounds.
    also_true: Vec<&'static str>,
    connections: Vec<ConnectionTruth>,
    /// Each round: start, all written, answer read; `CLOCK_MONOTONIC`. By connection.
    round_times_ns: Vec<[u64; 3]>,
    /// TCP's least round trip before the first of them and after each, where that was asked for. By
    /// connection: each has one more than rounds.
    min_rtts_us: Vec<u32>,
}

/// Truth that `short-lived` prints: its requests and the duration of their handshakes.
#[derive(Debug, Serialize)]
pub(crate) struct ShortConnectionsTruth {
    /// Requests, each on a connection of its own.
    requests: u64,
    /// From the start of the handshakes to their end, together.
    connecting_ns: u64,
    /// Rules that are true of it whatever its options.
    also_true: Vec<&'static str>,
    connections: Vec<ConnectionTruth>,
}

/// Fewer rounds are no series: what an initial window carries in one round trip (ten segments, RFC 6928).
const SERIES_LEAST: usize = 10;

/// Returns the rule that is true of a client with pauses shorter than its rounds: it asks one after another.
pub(super) fn in_series(rounds: usize, pause_us: u64, round_ns: u64) -> Vec<&'static str> {
    match rounds >= SERIES_LEAST && pause_us * 1_000 < round_ns {
        true => vec!["serial_round_trips"],
        false => Vec::new(),
    }
}

/// A request that says, for servers that ask, how many bytes are wanted back.
fn request(bytes: usize, wanted: usize) -> Vec<u8> {
    let mut request = vec![0x71; bytes];
    let wanted = (wanted as u64).to_le_bytes();
    let length = bytes.min(wanted.len());
    request[..length].copy_from_slice(&wanted[..length]);
    request
}

/// The writes of a round and the wait after it.
struct RoundPlan<'a> {
    rounds: u64,
    /// The write of the first round, if it is another.
    first: Option<Vec<u8>>,
    writes: &'a [Vec<u8>],
    waiting: &'a WaitOptions,
    min_rtts: bool,
    /// Where all connections meet before each round.
    barrier: Option<&'a Barrier>,
}

impl WriteWriteRead {
    /// Sends each request in two writes.
    pub(crate) fn run(&self, context: &Context) -> Result<RoundsTruth, LabError> {
        let peer = Peer::connect(self.connect, &self.socket)?;
        context.start(peer.port())?;
        let writes = if self.one_write {
            vec![vec![0x68; self.header + self.body]]
        } else {
            vec![vec![0x68; self.header], vec![0x62; self.body]]
        };
        let plan = RoundPlan {
            rounds: self.rounds,
            first: None,
            writes: &writes,
            waiting: &self.waiting,
            min_rtts: false,
            barrier: None,
        };
        let runs = vec![plan.run(peer)?];
        Ok(RoundsTruth::from_runs(runs, &self.waiting))
    }
}

impl RequestReply {
    /// Sends requests one after the other, over several connections.
    pub(crate) fn run(&self, context: &Context) -> Result<RoundsTruth, LabError> {
        let mut socket = self.socket.clone();
        socket.nodelay = !self.nagle;
        let peers = (0..self.concurrency)
            .map(|_| Peer::connect(self.connect, &socket))
            .collect::<Result<Vec<_>, _>>()?;
        context.start(peers.first().map_or(0, Peer::port))?;
        let writes = [request(self.request, self.waiting.reply)];
        let barrier = Barrier::new(peers.len());
        let plan = RoundPlan {
            rounds: self.rounds,
            first: self
                .first_request
                .map(|bytes| request(bytes, self.waiting.reply)),
            writes: &writes,
            waiting: &self.waiting,
            min_rtts: self.min_rtts,
            barrier: self.together.then_some(&barrier),
        };
        // A single connection runs in the main thread, as a plain client would.
        let runs = if peers.len() == 1 {
            peers
                .into_iter()
                .map(|peer| plan.run(peer))
                .collect::<Result<_, _>>()?
        } else {
            run_all(&plan, peers)?
        };
        let mut truth = RoundsTruth::from_runs(runs, &self.waiting);
        if self.first_request.is_some() {
            // no requests, but messages that let the sender go on
            truth.also_true.clear();
        }
        Ok(truth)
    }
}

/// Runs all connections, a thread each.
fn run_all(plan: &RoundPlan<'_>, peers: Vec<Peer>) -> Result<Vec<ConnectionRun>, LabError> {
    thread::scope(|scope| {
        let threads = peers
            .into_iter()
            .map(|peer| start(scope, move || plan.run(peer)))
            .collect::<Result<_, _>>()?;
        join_threads(threads)
    })
}

/// Rounds of one connection, as `round_times_ns` and `min_rtts_us` of [`RoundsTruth`] have them.
struct ConnectionRun {
    connection: ConnectionTruth,
    round_times_ns: Vec<[u64; 3]>,
    min_rtts_us: Vec<u32>,
}

impl RoundPlan<'_> {
    /// Sends the requests of one connection.
    fn run(&self, mut peer: Peer) -> Result<ConnectionRun, LabError> {
        let mut reply = vec![0; self.waiting.reply];
        let kept = usize::try_from(self.rounds).unwrap_or(0).min(ROUNDS_KEPT);
        let mut round_times_ns = Vec::with_capacity(kept);
        let mut min_rtts_us = Vec::new();
        if self.min_rtts {
            min_rtts_us.reserve(kept + 1);
            min_rtts_us.push(peer.min_rtt_us()?);
        }
        for round in 1..=self.rounds {
            if let Some(barrier) = self.barrier {
                barrier.wait();
            }
            let start_ns = now_ns();
            match &self.first {
                Some(first) if round == 1 => peer.send_all(first)?,
                _ => self.writes.iter().try_for_each(|it| peer.send_all(it))?,
            }
            let sent_ns = now_ns();
            let every = self.waiting.reply_every;
            if every > 0 && round % every == 0 && !peer.recv_exact(&mut reply)? {
                return Err(peer.end_error(0, reply.len()));
            }
            round_times_ns.push([start_ns, sent_ns, now_ns()]);
            if self.min_rtts {
                min_rtts_us.push(peer.min_rtt_us()?);
            }
            pause_us(self.waiting.pause_us);
        }
        Ok(ConnectionRun {
            connection: peer.close(),
            round_times_ns,
            min_rtts_us,
        })
    }
}

impl RoundsTruth {
    /// Joins what all connections know.
    fn from_runs(runs: Vec<ConnectionRun>, waiting: &WaitOptions) -> Self {
        let (stall_ms, pause_us) = (waiting.stall_ms, waiting.pause_us);
        let (mut connections, mut round_times_ns, mut min_rtts_us) = (vec![], vec![], vec![]);
        let longest = runs.iter().map(|run| run.round_times_ns.len()).max();
        for run in runs {
            connections.push(run.connection);
            round_times_ns.extend(run.round_times_ns);
            min_rtts_us.extend(run.min_rtts_us);
        }
        let mut sorted: Vec<u64> = round_times_ns
            .iter()
            .map(|[start, _, end]| end - start)
            .collect();
        sorted.sort_unstable();
        let stalled = &sorted[sorted.partition_point(|ns| *ns < stall_ms * 1_000_000)..];
        let at = |share_percent: usize| {
            let last = sorted.len().saturating_sub(1);
            sorted.get(last * share_percent / 100).copied().unwrap_or(0)
        };
        let truth = RoundsTruth {
            rounds: sorted.len() as u64,
            stalled_rounds: stalled.len() as u64,
            stalled_ns: stalled.iter().sum(),
            min_ns: at(0),
            median_ns: at(50),
            p99_ns: at(99),
            max_ns: at(100),
            also_true: in_series(longest.unwrap_or(0), pause_us, at(50)),
            connections,
            round_times_ns: Vec::new(),
            min_rtts_us: Vec::new(),
        };
        round_times_ns.truncate(ROUNDS_KEPT);
        min_rtts_us.truncate(ROUNDS_KEPT + truth.connections.len());
        RoundsTruth {
            round_times_ns,
            min_rtts_us,
            ..truth
        }
    }
}

impl ShortConnections {
    /// Opens a connection for each request.
    pub(crate) fn run(&self, context: &Context) -> Result<ShortConnectionsTruth, LabError> {
        context.start(0)?;
        let connections = (0..self.count).map(|_| self.live());
        let connections: Vec<ConnectionTruth> = connections.collect::<Result<_, _>>()?;
        let handshake_ns =
            |one: &ConnectionTruth| one.connecting_ns.map_or(0, |begin| one.opened_ns - begin);
        Ok(ShortConnectionsTruth {
            requests: self.count,
            connecting_ns: connections.iter().map(handshake_ns).sum(),
            also_true: vec!["connection_churn", "serial_round_trips"],
            connections,
        })
    }

    /// Runs one connection: one request, and its answer.
    fn live(&self) -> Result<ConnectionTruth, LabError> {
        let mut peer = Peer::connect(self.connect, &self.socket)?;
        peer.send_all(&vec![0x71; self.request])?;
        let limit = self.limit_ms.map(Duration::from_millis);
        let set = peer.stream.set_read_timeout(limit);
        set.map_err(|why| LabError::os("set", "the limit of a receive call", why, "report this"))?;
        let answered = peer.recv_exact(&mut vec![0; self.reply]);
        if self.limit_ms.is_none() {
            answered?;
        }
        let age_us = (now_ns() - peer.truth.opened_ns) / 1000;
        pause_us(self.life_us.saturating_sub(age_us));
        Ok(peer.close())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_and_percentiles_are_counted_over_all_connections() {
        let durations_ms = [1, 40, 2, 41, 3];
        let times: Vec<[u64; 3]> = durations_ms
            .iter()
            .map(|ms| [100, 101, 100 + ms * 1_000_000])
            .collect();
        let address = "127.0.0.1:1".parse().unwrap();
        let connection = ConnectionTruth {
            local: address,
            remote: address,
            cookie: 0,
            connecting_ns: None,
            opened_ns: 0,
            closed_ns: 0,
            send: Default::default(),
            recv: Default::default(),
            thread: None,
        };
        let run = |times: &[[u64; 3]]| ConnectionRun {
            connection: connection.clone(),
            round_times_ns: times.to_vec(),
            min_rtts_us: Vec::new(),
        };
        let runs = vec![run(&times[..2]), run(&times[2..])];
        let waiting = WaitOptions {
            reply: 100,
            reply_every: 1,
            pause_us: 1_999,
            stall_ms: 25,
        };
        let truth = RoundsTruth::from_runs(runs, &waiting);
        assert_eq!((truth.rounds, truth.stalled_rounds), (5, 2));
        assert_eq!(truth.stalled_ns, 81_000_000);
        assert_eq!(
            (truth.min_ns, truth.median_ns, truth.max_ns),
            (1_000_000, 3_000_000, 41_000_000)
        );
        assert!(truth.also_true.is_empty());
        assert_eq!(in_series(10, 1_999, 2_000_000), ["serial_round_trips"]);
        assert!(in_series(10, 2_000, 2_000_000).is_empty());
        assert_eq!(RoundsTruth::from_runs(Vec::new(), &waiting).max_ns, 0);
    }
}
