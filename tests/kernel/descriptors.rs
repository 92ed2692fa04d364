//! Listening sockets of processes at their limit of descriptors: whether accept() has a free one.

use std::net::{Ipv4Addr, TcpStream};

use lab::{LabProcess, Netns};
use table::tables::Listener;

use testbed::report::number;
use testbed::{Recorder, root};

/// Listens, takes every other descriptor below its limit, and closes those that it is asked to close.
const SERVER: &str = "
import os, resource, socket, sys
limit = int(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
listener = socket.create_server(('127.0.0.1', 0))
try:
    while True: os.open('/dev/null', os.O_RDONLY)
except OSError: pass
for descriptor in sys.argv[2:]: os.close(int(descriptor))
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
";

/// Limits and closed descriptors: none; one in the first word of the kernel's bit map, or in one between; the last one. The bit
/// map of 4,096 descriptors fits into one word of the map of full words.
const CASES: [(u32, &[u32]); 10] = [
    (24, &[]),
    (24, &[23]),
    (64, &[]),
    (64, &[9]),
    (128, &[]),
    (131, &[]),
    (131, &[70]),
    (131, &[130]),
    (4_163, &[]),
    (4_163, &[4_100]),
];

#[test]
fn listener_rows_say_whether_a_descriptor_is_free() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let start = |(limit, closed): (u32, &[u32])| {
        let mut command = netns.command("python3");
        command.args(["-c", SERVER, &limit.to_string()]);
        command.args(closed.iter().map(u32::to_string));
        let mut server = LabProcess::start(command).expect("a server");
        let port = number(&server.line().expect("its port"), "");
        (server, u16::try_from(port).expect("a port"))
    };
    let servers: Vec<_> = CASES.iter().map(|case| start(*case)).collect();
    let connect = |port| {
        let stream = netns.run(|| TcpStream::connect((Ipv4Addr::LOCALHOST, port)));
        stream.expect("the namespace").expect("a connection")
    };
    let waiting: Vec<_> = servers.iter().map(|(_, port)| connect(*port)).collect();
    let pids: Vec<String> = servers.iter().map(|(it, _)| it.pid().to_string()).collect();
    let report = Recorder::start(&format!("-p {}", pids.join(","))).stop();
    drop(waiting);
    let rows: Vec<Listener> = report.rows();
    for ((limit, closed), (_, port)) in CASES.iter().zip(&servers) {
        let own = rows
            .iter()
            .filter(|row| row.local.ends_with(&format!(":{port}")));
        let read: Vec<_> = own
            .filter(|row| row.descriptors_most.is_some())
            .map(|row| (row.descriptors_most, row.descriptors_full, row.waiting))
            .collect();
        let expected = (Some(*limit), Some(closed.is_empty()), 1);
        assert!(
            !read.is_empty() && read.iter().all(|row| *row == expected),
            "{limit} {closed:?}: {read:?}"
        );
    }
}
