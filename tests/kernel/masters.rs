//! Shared by tests of servers of several processes: such a server, the server that it asks in turn, and a client, which
//! count what they moved.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread::JoinHandle;

use lab::Netns;
use table::tables::Wait;

use testbed::report::Report;
use testbed::{ChildGuard, until};

/// Any port will do: the namespaces are the tests' own.
pub const PORT: u16 = 8_007;

/// Children of a process that were started by its first thread.
pub fn children(pid: u32) -> Vec<u32> {
    let listed = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let listed = listed.unwrap_or_default();
    listed
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect()
}

/// How often threads of a process have given their CPU away by themselves.
fn times_waited(pid: u32) -> u64 {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter();
    let of_task = |path: std::path::PathBuf| -> Option<u64> {
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line?.trim().parse().ok()
    };
    let tasks = tasks.flatten().flatten();
    tasks.filter_map(|task| of_task(task.path())).sum()
}

/// Until a process has waited some times more.
pub fn until_waited(pid: u32) {
    let before = times_waited(pid);
    until("a process that waits", || {
        (times_waited(pid) > before + 3).then_some(())
    });
}

/// Returns the processes in table `waits`.
pub fn waiting_processes(report: &Report) -> BTreeSet<u32> {
    report.rows::<Wait>().iter().map(|wait| wait.pid).collect()
}

/// A server of several processes, in a pid namespace of its own: all end with it, however the test ends.
pub struct Server {
    _holder: ChildGuard,
    pub master: u32,
}

impl Server {
    pub fn start(netns: &Netns, directory: &Path, words: &[&str]) -> Self {
        let errors = std::fs::File::create(directory.join("output")).expect("a file");
        let mut holder = netns.command("unshare");
        holder
            .args(["--pid", "--fork", "--kill-child", "sh", "-c"])
            .args(["\"$@\" & wait", "sh"])
            .args(words)
            .current_dir(directory)
            .stdout(errors.try_clone().expect("the file"))
            .stderr(errors);
        let holder = ChildGuard::start(&mut holder);
        let pid = holder.0.id();
        let master = until("the master", || {
            let init = *children(pid).first()?;
            children(init).first().copied()
        });
        Server {
            _holder: holder,
            master,
        }
    }

    /// The master with all its descendants, as of now.
    pub fn family(&self) -> BTreeSet<u32> {
        let mut family = vec![self.master];
        let mut next = 0;
        while let Some(parent) = family.get(next) {
            family.extend(children(*parent));
            next += 1;
        }
        family.into_iter().collect()
    }
}

/// Connections and bytes of one side, added up.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct TrafficTotals {
    pub connections: u64,
    pub sent: u64,
    pub received: u64,
}

/// The server behind the servers: answers one request a connection.
pub struct Upstream {
    pub address: SocketAddr,
    thread: JoinHandle<TrafficTotals>,
}

impl Upstream {
    pub fn start(netns: &Netns) -> Self {
        let bind = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bind");
        let listener = netns.run(bind).expect("the namespace");
        let address = listener.local_addr().expect("its address");
        let thread = std::thread::spawn(move || {
            let mut moved = TrafficTotals::default();
            for stream in listener.incoming() {
                match answer(stream.expect("a connection")) {
                    Some((received, sent)) => {
                        moved.connections += 1;
                        moved.received += received;
                        moved.sent += sent;
                    }
                    None => break,
                }
            }
            moved
        });
        Upstream { address, thread }
    }

    /// Ends it; what it has moved.
    pub fn finish(self, netns: &Netns) -> TrafficTotals {
        let quit = || TcpStream::connect(self.address).map(drop);
        netns.run(quit).expect("the namespace").expect("connect");
        self.thread.join().expect("the upstream")
    }
}

/// Bytes received and sent; `None`: nothing was asked.
fn answer(stream: TcpStream) -> Option<(u64, u64)> {
    const ANSWER: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Length: 11\r\nConnection: close\r\n\r\nfrom behind";
    let mut reader = BufReader::new(stream);
    let (received, _) = read_head(&mut reader)?;
    let mut stream = reader.into_inner();
    stream.write_all(ANSWER).expect("answer");
    Some((received, ANSWER.len() as u64))
}

/// Bytes of a head, and of the body that it announces; `None`: there is none.
fn read_head(reader: &mut impl BufRead) -> Option<(u64, u64)> {
    let (mut bytes, mut body) = (0, 0);
    loop {
        let mut line = String::new();
        bytes += reader.read_line(&mut line).expect("read") as u64;
        if line.is_empty() {
            return None;
        }
        if let Some(length) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            body = length.trim().parse().expect("a length");
        }
        if line == "\r\n" {
            return Some((bytes, body));
        }
    }
}

/// Asks so often on each of some connections, one after the other.
pub fn ask(netns: &Netns, connections: u64, requests: u64) -> TrafficTotals {
    let all = || {
        let mut moved = TrafficTotals::default();
        for _ in 0..connections {
            ask_on_one(requests, &mut moved);
        }
        moved
    };
    netns.run(all).expect("the namespace")
}

fn ask_on_one(requests: u64, moved: &mut TrafficTotals) {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT)).expect("connect");
    let mut reader = BufReader::new(stream);
    for left in (0..requests).rev() {
        let last = if left == 0 { "close" } else { "keep-alive" };
        let request = format!("GET / HTTP/1.1\r\nHost: lab\r\nConnection: {last}\r\n\r\n");
        let sent = reader.get_mut().write_all(request.as_bytes());
        sent.expect("ask");
        moved.sent += request.len() as u64;
        let (head, body) = read_head(&mut reader).expect("an answer");
        let mut text = vec![0; usize::try_from(body).expect("a length")];
        reader.read_exact(&mut text).expect("the body");
        assert_eq!(text, b"from behind");
        moved.received += head + body;
    }
    assert_eq!(reader.read(&mut [0]).expect("the end"), 0);
    moved.connections += 1;
}
