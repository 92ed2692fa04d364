//! A saturating memcached client: GET of one key over several connections, one request at a
//! time on each, from one thread, as redis-benchmark does it for redis.
//!
//! In: server, connections, requests. Out: one JSON line with requests per second and the
//! median and 99th percentile of the time from request to answer.
//!
//! `cargo run --release -p whylat-lab --example memcached_load 127.0.0.1:11211 16 100000`

use std::error::Error;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const REQUEST: &[u8] = b"get whylat\r\n";
/// As redis-benchmark's default value.
const VALUE: &[u8] = b"xxx";
const ANSWER: &[u8] = b"VALUE whylat 0 3\r\nxxx\r\nEND\r\n";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [server, connections, requests] = words.as_slice() else {
        return Err("usage: memcached_load ADDRESS:PORT CONNECTIONS REQUESTS".into());
    };
    let (connections, requests): (usize, usize) = (connections.parse()?, requests.parse()?);
    store(server)?;
    let mut clients = (0..connections)
        .map(|_| Client::connect(server))
        .collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    let mut latencies_ns = load(&mut clients, requests)?;
    let elapsed_s = start.elapsed().as_secs_f64();
    latencies_ns.sort_unstable();
    let at = |share: usize| latencies_ns.get(latencies_ns.len() * share / 100);
    println!(
        "{}",
        serde_json::json!({
            "requests": latencies_ns.len(),
            "rps": latencies_ns.len() as f64 / elapsed_s,
            "p50_ns": at(50),
            "p99_ns": at(99),
        })
    );
    Ok(())
}

/// Stores the key that requests ask for.
fn store(server: &str) -> Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(b"set whylat 0 0 3\r\n")?;
    stream.write_all(VALUE)?;
    stream.write_all(b"\r\n")?;
    let mut answer = [0; 8];
    stream.read_exact(&mut answer)?;
    if &answer != b"STORED\r\n" {
        return Err(format!("{server} did not store: {answer:?}").into());
    }
    Ok(())
}

/// One connection, with at most one request on its way.
struct Client {
    stream: TcpStream,
    sent: Instant,
    received: usize,
}

impl Client {
    /// Connects to a memcached server.
    fn connect(server: &str) -> Result<Self> {
        let stream = TcpStream::connect(server)?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            sent: Instant::now(),
            received: 0,
        })
    }

    /// Sends one request, and notes the time.
    fn send(&mut self) -> Result<()> {
        self.sent = Instant::now();
        self.received = 0;
        Ok(self.stream.write_all(REQUEST)?)
    }

    /// Reads the bytes that have arrived; returns the latency once the answer is complete, ns.
    fn receive(&mut self) -> Result<Option<u64>> {
        let mut buffer = [0; 256];
        let count = self.stream.read(&mut buffer)?;
        let end = self.received + count;
        if count == 0 || ANSWER.get(self.received..end) != Some(&buffer[..count]) {
            return Err("the server's answer is not the value".into());
        }
        self.received = end;
        Ok((end == ANSWER.len()).then(|| self.sent.elapsed().as_nanos() as u64))
    }
}

/// Makes `requests` requests; every connection always has one on its way.
fn load(clients: &mut [Client], requests: usize) -> Result<Vec<u64>> {
    let mut latencies_ns = Vec::with_capacity(requests + clients.len());
    for client in clients.iter_mut() {
        client.send()?;
    }
    while latencies_ns.len() < requests {
        for index in wait_for_readable(clients)? {
            if let Some(latency_ns) = clients[index].receive()? {
                latencies_ns.push(latency_ns);
                clients[index].send()?;
            }
        }
    }
    Ok(latencies_ns)
}

/// Waits until a connection has something to read, and returns all that have.
fn wait_for_readable(clients: &[Client]) -> Result<Vec<usize>> {
    let mut waiting: Vec<PollFd> = clients
        .iter()
        .map(|client| PollFd::new(client.stream.as_fd(), PollFlags::POLLIN))
        .collect();
    poll(&mut waiting, PollTimeout::NONE)?;
    Ok((0..waiting.len())
        .filter(|&index| waiting[index].any().unwrap_or(false))
        .collect())
}
