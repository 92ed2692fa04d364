//! Programs that were not written for these tests, unchanged: redis and iperf3.

use std::process::Stdio;
use std::time::Duration;

use lab::{DirectionConfig, Netns};
use nix::sys::signal::Signal;
use serde_json::Value;

use crate::harness::{Recorder, Site, Tied, until, wait};
use crate::report::{Report, number, text};
use crate::verdicts::{start, under_cubic_and_bbr};

under_cubic_and_bbr! {
    redis_benchmark
    iperf3_with_a_stopped_reader
}

/// Any port will do: the namespaces are the tests' own.
pub const PORT: u16 = 6007;

pub fn tied(netns: &Netns, command: &str) -> Tied {
    let mut program = netns.command("sh");
    program.args(["-c", &format!("exec {command}")]);
    Tied::start(program.stdout(Stdio::null()).stderr(Stdio::null()))
}

/// Waits until something listens, without a connection to it.
pub fn until_listening(netns: &Netns, port: u16) {
    let sought = format!(":{port:04X} ");
    until("a listening server", || {
        let tables = ["/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"];
        let text = netns.run(|| tables.map(|path| std::fs::read_to_string(path).ok()));
        let found = text.ok()?.into_iter().flatten().any(|text| {
            // State 0A is TCP_LISTEN.
            text.lines()
                .any(|line| line.contains(&sought) && line.contains(" 0A "))
        });
        found.then_some(())
    });
}

fn redis_benchmark(congctl: &str) {
    let netns = Site::loopback(congctl).client.clone();
    let save = "--save '' --appendonly no --dir /tmp --bind 127.0.0.1 --daemonize no";
    let _server = tied(&netns, &format!("redis-server --port {PORT} {save}"));
    until_listening(&netns, PORT);
    let recorder = Recorder::start(&format!("--port {PORT}"));
    let mut bench = tied(
        &netns,
        &format!("redis-benchmark -p {PORT} -n 30011 -c 5 -t get,set -q"),
    );
    assert!(wait(&mut bench.0, "redis-benchmark").success());
    let report = recorder.stop();
    report.assert_whole();
    let clients: Vec<&Value> = of_program(&report, "redis-benchmark");
    assert!(
        clients.len() >= 10,
        "two tests of 5 connections: {}",
        report.brief()
    );
    for connection in report.connections() {
        report.assert_claims(number(connection, "/id"), &[], &[]);
    }
    for client in &clients {
        assert_eq!(client["tcp"]["congestion"], congctl);
    }
    let busy = clients
        .iter()
        .filter(|c| number(c, "/totals/send_calls") > 100);
    for client in busy {
        let id = number(client, "/id");
        assert!(
            report.finding(id, "sender_app_limited").is_some(),
            "socket {id} is not sender_app_limited: {}",
            report.brief()
        );
    }
}

fn of_program<'a>(report: &'a Report, comm: &str) -> Vec<&'a Value> {
    let all = report.connections().iter();
    all.filter(|c| text(&c["process"], "comm").starts_with(comm))
        .collect()
}

/// The receiving program is stopped for 300 of every 400 ms.
fn iperf3_with_a_stopped_reader(congctl: &str) {
    let path = DirectionConfig {
        rate_bps: Some(400_000_000),
        ..DirectionConfig::delay(1_000)
    };
    let wire = start(congctl, path);
    // a receive buffer that fills within one stop
    let limits = "4096 131072 1048576";
    let set = wire.b.sysctl("net.ipv4.tcp_rmem", limits);
    set.expect("a limit of the receive buffer");
    let server = tied(&wire.b, &format!("iperf3 -s -1 -p {PORT}"));
    until_listening(&wire.b, PORT);
    let recorder = Recorder::start(&format!("--port {PORT}"));
    let address = wire.address_b();
    let mut client = tied(&wire.a, &format!("iperf3 -c {address} -p {PORT} -t 3"));
    while client.0.try_wait().expect("wait").is_none() {
        server.signal(Signal::SIGSTOP);
        std::thread::park_timeout(Duration::from_millis(300));
        server.signal(Signal::SIGCONT);
        std::thread::park_timeout(Duration::from_millis(100));
    }
    drop(server);
    let report = recorder.stop();
    let ends = report.by_ports(None, Some(PORT));
    let bytes = |c: &&&Value| c["totals"]["bytes_sent"].as_u64().unwrap_or(0);
    let data = ends.iter().max_by_key(bytes).expect("iperf3's connections");
    assert_eq!(data["tcp"]["congestion"], congctl);
    let id = number(data, "/id");
    report.assert_claims(id, &["slow_reader sending"], &[]);
    for connection in report.connections() {
        let other = number(connection, "/id");
        if other != id {
            // iperf3 reads a whole block of its data before it looks at its control connection, whose bytes may
            // wait meanwhile for more than 5 % of its short life
            report.assert_claims(other, &[], &["proxy_stall receiving"]);
        }
    }
}
