//! Programs that were not written for these tests, unchanged: redis and iperf3.

use std::time::Duration;

use lab::DirectionConfig;
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::paths::start;
use crate::play::{Outcome, Play, under_both};
use crate::shrink::{CONNECTIONS, REQUESTS};
use testbed::programs::{PORT, tied, until_listening};
use testbed::report::{Report, ask, number, text};
use testbed::{Recorder, Site, wait};

pub fn plays() -> Vec<Play> {
    let play = |name, record, judge| under_both("programs", name, CONNECTIONS, record, judge);
    let redis = play(
        "redis_benchmark",
        redis_benchmark,
        only_the_program_sets_the_pace,
    );
    let iperf3 = play("iperf3_with_a_stopped_reader", iperf3, reads_slowly);
    let saturated = Play {
        name: "programs::saturated_redis".to_owned(),
        record: Box::new(saturated_redis),
        judge: queue_is_load,
        tables: REQUESTS,
        leaves_out: None,
    };
    let plays = redis.into_iter().chain(iperf3);
    plays.chain([saturated]).collect()
}

/// 50 clients ask redis as fast as it answers, each 16 commands at a time.
fn saturated_redis() -> Result<Outcome, String> {
    let netns = Site::loopback("cubic").client.clone();
    let save = "--save '' --appendonly no --dir /tmp --bind 127.0.0.1 --daemonize no";
    let server = tied(&netns, &format!("redis-server --port {PORT} {save}"));
    until_listening(&netns, PORT);
    let recorder = Recorder::start(&format!("-p {}", server.0.id()));
    let bench = format!("redis-benchmark -p {PORT} -n 32000 -c 50 -P 16 -t get -q");
    assert!(wait(&mut tied(&netns, &bench).0, "redis-benchmark").success());
    Ok(Outcome {
        report: recorder.stop(),
        truth: json!({}),
    })
}

/// Rules that blame a server for a queue.
const OF_QUEUES: [&str; 3] = ["blocked_event_loop", "busy_workers", "uneven_workers"];

/// A queue of requests that are all alike is load: no finding above information blames the server for it.
fn queue_is_load(outcome: &Outcome) {
    let report = &outcome.report;
    let findings = report.json["findings"].as_array().expect("findings");
    let mut wrong = findings.iter().filter(|it| it["severity"] != "info");
    let is_of_queue = |it: &&Value| OF_QUEUES.contains(&text(it, "rule"));
    let wrong = wrong.find(is_of_queue);
    assert!(wrong.is_none(), "{wrong:?}");
    let calls = report.rows::<table::tables::Call>();
    let sends = calls.iter().filter(|call| call.is_send).count();
    assert!(sends >= 1_900, "{sends}");
    // redis answers the last first of those that it reads: none slept
    let requests = ask(report.path(), "--requests");
    for service in requests["services"].as_array().expect("services") {
        let parts = &service["parts"]["all"];
        assert!(
            parts["queued"].is_f64() && parts["timer"].is_null(),
            "{parts}"
        );
    }
}

fn redis_benchmark(congctl: &str) -> Result<Outcome, String> {
    let netns = Site::loopback(congctl).client.clone();
    let save = "--save '' --appendonly no --dir /tmp --bind 127.0.0.1 --daemonize no";
    let _server = tied(&netns, &format!("redis-server --port {PORT} {save}"));
    until_listening(&netns, PORT);
    let recorder = Recorder::start(&format!("--port {PORT}"));
    let mut bench = tied(
        &netns,
        &format!("redis-benchmark -p {PORT} -n 1009 -c 5 -t get,set -q"),
    );
    assert!(wait(&mut bench.0, "redis-benchmark").success());
    Ok(Outcome {
        report: recorder.stop(),
        truth: json!({}),
    })
}

fn only_the_program_sets_the_pace(outcome: &Outcome) {
    let report = &outcome.report;
    report.assert_whole();
    let clients: Vec<&Value> = of_program(report, "redis-benchmark");
    let brief = report.brief();
    assert!(clients.len() >= 10, "two tests of 5 connections: {brief}");
    for connection in report.connections() {
        report.assert_claims(number(connection, "/id"), &[], &[]);
    }
    for client in &clients {
        assert_eq!(client["tcp"]["congestion"], outcome.congctl());
    }
    let busy = clients
        .iter()
        .filter(|c| number(c, "/totals/send_calls") > 100);
    for client in busy {
        let id = number(client, "/id");
        let found = report.finding(id, "sender_app_limited");
        assert!(found.is_some(), "socket {id} is not: {brief}");
    }
}

fn of_program<'a>(report: &'a Report, comm: &str) -> Vec<&'a Value> {
    let all = report.connections().iter();
    all.filter(|c| text(&c["process"], "comm").starts_with(comm))
        .collect()
}

/// The receiving program is stopped for 300 of every 400 ms.
fn iperf3(congctl: &str) -> Result<Outcome, String> {
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
    Ok(Outcome {
        report: recorder.stop(),
        truth: json!({}),
    })
}

fn reads_slowly(outcome: &Outcome) {
    let report = &outcome.report;
    let ends = report.by_ports(None, Some(PORT));
    let bytes = |c: &&&Value| c["totals"]["bytes_sent"].as_u64().unwrap_or(0);
    let data = ends.iter().max_by_key(bytes).expect("iperf3's connections");
    assert_eq!(data["tcp"]["congestion"], outcome.congctl());
    let id = number(data, "/id");
    report.assert_claims(id, &["slow_reader sending"], &[]);
    for connection in report.connections() {
        let other = number(connection, "/id");
        if other != id {
            // iperf3 reads a whole block of its data before it looks at its control connection. Its bytes may
            // wait meanwhile for more than 5 % of its short life
            report.assert_claims(other, &[], &["proxy_stall receiving"]);
        }
    }
}
