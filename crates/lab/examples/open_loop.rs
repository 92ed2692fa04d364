//! An open-loop client for redis and memcached: GETs of one key at random times (a Poisson process of the
//! given rate) over several connections, from one thread, whether or not the answers to earlier ones have come.
//!
//! In: which server, its address, connections, requests a second, seconds. Out: one JSON line with the
//! quantiles of two times. `client`: from when a request was due to its whole answer. `receive`: from the
//! arrival of an answer's packet, by the kernel's own stamp (`SO_TIMESTAMPNS`), to the end of the receive call.
//!
//! `cargo run --release -p whylat-lab --example open_loop redis 127.0.0.1:6379 16 10000 5`

use std::collections::VecDeque;
use std::error::Error;
use std::io::{IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::prctl::set_timerslack;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt, sockopt};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Quantiles that are told: a thousand for the curve, and the tail.
const CURVE: usize = 1_000;

/// What is said to a server. Key and value are those of redis-benchmark's size.
struct Protocol {
    store: &'static [u8],
    stored: &'static [u8],
    request: &'static [u8],
    answer: &'static [u8],
}

const REDIS: Protocol = Protocol {
    store: b"SET whylat xxx\r\n",
    stored: b"+OK\r\n",
    request: b"*2\r\n$3\r\nGET\r\n$6\r\nwhylat\r\n",
    answer: b"$3\r\nxxx\r\n",
};
const MEMCACHED: Protocol = Protocol {
    store: b"set whylat 0 0 3\r\nxxx\r\n",
    stored: b"STORED\r\n",
    request: b"get whylat\r\n",
    answer: b"VALUE whylat 0 3\r\nxxx\r\nEND\r\n",
};

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [kind, server, connections, rate, seconds] = words.as_slice() else {
        return Err(
            "usage: open_loop redis|memcached ADDRESS:PORT CONNECTIONS RATE SECONDS".into(),
        );
    };
    let protocol = match kind.as_str() {
        "redis" => REDIS,
        "memcached" => MEMCACHED,
        other => return Err(format!("{other} is neither redis nor memcached").into()),
    };
    // the times of the requests are to be met within a microsecond, not within 50
    set_timerslack(1)?;
    store(server, &protocol)?;
    let clients = (0..connections.parse()?).map(|_| Client::connect(server));
    let clients = clients.collect::<Result<Vec<_>>>()?;
    let mut load = Load {
        protocol,
        clients,
        random: 7,
        client_ns: Vec::new(),
        receive_ns: Vec::new(),
    };
    let seconds: f64 = seconds.parse()?;
    let late = load.run(rate.parse()?, (seconds * 1e9) as u64)?;
    let said = json!({
        "requests": load.client_ns.len(),
        "late": late,
        "client": quantiles(load.client_ns),
        "receive": quantiles(load.receive_ns),
    });
    println!("{said}");
    Ok(())
}

fn store(server: &str, protocol: &Protocol) -> Result<()> {
    let mut stream = TcpStream::connect(server)?;
    stream.write_all(protocol.store)?;
    let mut answer = vec![0; protocol.stored.len()];
    stream.read_exact(&mut answer)?;
    if answer != protocol.stored {
        return Err(format!("{server} did not store: {answer:?}").into());
    }
    Ok(())
}

fn quantiles(mut all_ns: Vec<u64>) -> Value {
    all_ns.sort_unstable();
    let at = |share: f64| {
        let index = ((all_ns.len() as f64 * share) as usize).min(all_ns.len().saturating_sub(1));
        all_ns.get(index)
    };
    let curve: Vec<_> = (0..CURVE)
        .map(|step| at(step as f64 / CURVE as f64))
        .collect();
    json!({
        "p50_ns": at(0.5), "p90_ns": at(0.9), "p99_ns": at(0.99), "p999_ns": at(0.999),
        "max_ns": all_ns.last(), "curve_ns": curve,
    })
}

/// One connection, and when the requests on their way were due.
struct Client {
    stream: TcpStream,
    due_ns: VecDeque<u64>,
    received: usize,
}

impl Client {
    fn connect(server: &str) -> Result<Self> {
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

struct Load {
    protocol: Protocol,
    clients: Vec<Client>,
    random: u64,
    client_ns: Vec<u64>,
    receive_ns: Vec<u64>,
}

impl Load {
    /// Requests for so long. Returns how many were sent more than 1 ms after they were due.
    fn run(&mut self, rate: f64, length_ns: u64) -> Result<u64> {
        let (mut late, mut next) = (0, 0);
        let start_ns = now_ns(ClockId::CLOCK_MONOTONIC)?;
        let mut due_ns = start_ns;
        while due_ns < start_ns + length_ns {
            let now = now_ns(ClockId::CLOCK_MONOTONIC)?;
            if now < due_ns {
                self.receive_ready(due_ns - now)?;
                continue;
            }
            late += u64::from(now > due_ns + 1_000_000);
            let client = &mut self.clients[next];
            client.due_ns.push_back(due_ns);
            client.stream.write_all(self.protocol.request)?;
            next = (next + 1) % self.clients.len();
            due_ns += (-self.unit().ln() * 1e9 / rate) as u64;
        }
        while self.clients.iter().any(|client| !client.due_ns.is_empty()) {
            self.receive_ready(1_000_000_000)?;
        }
        Ok(late)
    }

    /// Waits for answers, at most so long, and takes what there is.
    fn receive_ready(&mut self, timeout_ns: u64) -> Result<()> {
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

    fn receive(&mut self, index: usize) -> Result<()> {
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
            return Err("the server closed the connection".into());
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
                return Err("the server's answer is not the value".into());
            }
            client.received = (client.received + 1) % answer.len();
            if client.received == 0 {
                let due_ns = client.due_ns.pop_front().ok_or("an answer to no request")?;
                self.client_ns.push(done_ns - due_ns);
            }
        }
        Ok(())
    }

    /// Uniform in (0, 1): SplitMix64 (Steele, Lea and Flood, 2014).
    fn unit(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (((z ^ (z >> 31)) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

fn now_ns(clock: ClockId) -> nix::Result<u64> {
    Ok(Duration::from(clock_gettime(clock)?).as_nanos() as u64)
}
