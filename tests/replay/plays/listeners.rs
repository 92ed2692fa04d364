//! Listening sockets that drop: what reached a full queue is distinguished from what did not. The kernel's own
//! count for the namespace (`/proc/PID/net/netstat`) is the truth.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use lab::wire::LossWindow;
use lab::{DirectionConfig, LabProcess, Netns, Wire};
use serde_json::{Value, json};
use table::tables::{Connection, Listener};

use crate::paths::start;
use crate::play::{Judge, Outcome, Play};
use crate::shrink::CONNECTIONS;
use testbed::report::{Report, number};
use testbed::{Recorder, Site, until};

pub fn plays() -> Vec<Play> {
    let play = |name: &str, record: fn() -> Result<Outcome, String>, judge: Judge| Play {
        name: format!("listeners::{name}"),
        record: Box::new(record),
        judge,
        tables: CONNECTIONS,
        leaves_out: None,
    };
    vec![
        play(
            "syns_that_meet_a_full_queue",
            refused_syns,
            syns_are_counted,
        ),
        play(
            "acks_with_cookies",
            refused_cookies,
            acks_are_not_taken_for_syns,
        ),
        play(
            "last_acks_that_meet_a_full_queue",
            refused_acks,
            acks_are_counted,
        ),
        play(
            "deferred_accepts",
            deferred_accepts,
            deferred_are_no_overflow,
        ),
        play("lost_answers_to_syns", lost_answers, is_quiet),
    ]
}

const RULE: &str = "listen_overflow";
/// Bytes that the server's role reads and answers.
const MESSAGE: [u8; 100] = [0x71; 100];

/// A counter of `TcpExt` in the namespace.
fn counter(netns: &Netns, name: &str) -> u64 {
    let read = || std::fs::read_to_string("/proc/thread-self/net/netstat");
    let text = netns.run(read).expect("the namespace").expect("netstat");
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("TcpExt:"));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let both = names.split_whitespace().zip(values.split_whitespace());
    let found = both
        .filter(|(found, _)| *found == name)
        .map(|(_, value)| value);
    let value = found.last().unwrap_or_else(|| panic!("no counter {name}"));
    value.parse().expect("a number")
}

/// Connects so many times at once, sends a message on each and waits for the answer. Returns how long
/// that took them, added up.
fn ask_at_once(netns: &Netns, to: SocketAddr, count: usize) -> Duration {
    let ask = || {
        let begun = Instant::now();
        let mut stream = TcpStream::connect(to).expect("connect");
        stream.write_all(&MESSAGE).expect("send");
        stream.read_exact(&mut [0; MESSAGE.len()]).expect("receive");
        begun.elapsed()
    };
    let all = || {
        std::thread::scope(|scope| {
            let asking: Vec<_> = (0..count).map(|_| scope.spawn(ask)).collect();
            asking
                .into_iter()
                .map(|one| one.join().expect("a client"))
                .sum()
        })
    };
    netns.run(all).expect("the namespace")
}

/// Connects so many times, and says nothing.
fn connect(netns: &Netns, to: SocketAddr, count: usize) -> Vec<TcpStream> {
    let all = || (0..count).map(|_| TcpStream::connect(to).expect("connect"));
    netns.run(|| all().collect()).expect("the namespace")
}

fn say(streams: Vec<TcpStream>) {
    for mut stream in streams {
        stream.write_all(&MESSAGE).expect("send");
        stream.read_exact(&mut [0; MESSAGE.len()]).expect("receive");
    }
}

/// A server under a recording.
struct ServerRun {
    site: Site,
    server: LabProcess,
    recorder: Recorder,
    to: SocketAddr,
}

impl ServerRun {
    fn start(site: Site, words: &str) -> Self {
        let (server, port) = site.serve(&format!("reply-server {words}"));
        ServerRun {
            server,
            recorder: Recorder::start(&format!("--port {port}")),
            to: (site.address, port).into(),
            site,
        }
    }

    /// Returns the outcome. The kernel's counts for the namespace, which nobody else has, are the truth.
    fn finish(self) -> Outcome {
        let server = self.server.finish().expect("the server's truth");
        let report = self.recorder.stop();
        let of_netns = |name| counter(&self.site.server, name);
        Outcome {
            report,
            truth: json!({
                "cookie": number(&server, "/listener/cookie"),
                "overflows": of_netns("ListenOverflows"),
                "syncookies": of_netns("SyncookiesRecv"),
            }),
        }
    }
}

fn overflows(outcome: &Outcome) -> u64 {
    number(&outcome.truth, "/overflows")
}

fn syncookies(outcome: &Outcome) -> u64 {
    number(&outcome.truth, "/syncookies")
}

/// Rows of a listening socket that has closed.
#[derive(Debug)]
struct SocketRows<'a> {
    report: &'a Report,
    id: u64,
    rows: Vec<Listener>,
    /// Of the namespace, by `/proc`.
    overflows: u64,
}

impl<'a> SocketRows<'a> {
    fn new(outcome: &'a Outcome) -> Self {
        let id = number(&outcome.truth, "/cookie");
        let mut rows: Vec<Listener> = outcome.report.rows();
        rows.sort_by_key(|row| row.time_ns);
        // Sockets that came out of it have none.
        assert!(rows.iter().all(|row| row.conn == id), "{rows:#?}");
        let overflows = overflows(outcome);
        let socket = SocketRows {
            report: &outcome.report,
            id,
            rows,
            overflows,
        };
        let last = socket.last();
        assert!(last.closed_ns.is_some(), "{last:?}");
        assert_eq!(last.netns_listen_overflows, Some(overflows));
        let cookies = syncookies(outcome);
        assert_eq!(last.netns_syncookies_received, Some(cookies));
        socket
    }

    fn last(&self) -> &Listener {
        self.rows.last().expect("a reading")
    }

    fn finding(&self) -> &Value {
        let found = self.report.finding(self.id, RULE);
        found.unwrap_or_else(|| panic!("{}", self.report.brief()))
    }

    /// Neither a finding nor a doubt, although it dropped something.
    #[track_caller]
    fn assert_quiet(&self) {
        assert!(self.last().drops > 0, "{:?}", self.rows);
        assert_eq!(self.overflows, 0);
        let undecided = self.report.json["undecided"].as_array().expect("a list");
        let doubted = undecided.iter().any(|it| {
            it["candidates"]
                .as_array()
                .is_some_and(|all| all.contains(&RULE.into()))
        });
        let found = self.report.finding(self.id, RULE);
        assert!(found.is_none() && !doubted, "{}", self.report.brief());
    }
}

fn refused(finding: &Value) -> u64 {
    number(finding, "/evidence/refused/value")
}

/// SYNs that clients retransmitted, by their own count.
fn retransmitted(report: &Report) -> u64 {
    let connections: Vec<Connection> = report.rows();
    let counted = connections
        .iter()
        .filter_map(|row| Some((row.conn, u64::from(row.syn_retries?))));
    counted.collect::<HashMap<_, _>>().values().sum()
}

/// Returns the plant, if it reached a full queue as intended: by SYN cookies, or without any.
fn if_refused(outcome: Outcome, with_cookies: bool, least: u64) -> Result<Outcome, String> {
    let (overflows, cookies) = (overflows(&outcome), syncookies(&outcome));
    let is_so = overflows >= least && (cookies > 0) == with_cookies;
    let why = format!("{overflows} overflows, {cookies} SYN cookies");
    is_so.then_some(outcome).ok_or(why)
}

fn took_ns(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).expect("less than centuries")
}

/// The first is accepted at once, and three wait.
fn refused_syns() -> Result<Outcome, String> {
    let words = "--connections 7 --backlog 2 --accept-delay-us 100000";
    let served = ServerRun::start(Site::loopback("cubic"), words);
    let waiting = connect(&served.site.client, served.to, 4);
    let took = ask_at_once(&served.site.client, served.to, 3);
    say(waiting);
    let outcome = served.finish().with("took_ns", took_ns(took));
    if_refused(outcome, false, 3)
}

/// Each refused SYN is one drop, and its client waits for a second.
fn syns_are_counted(outcome: &Outcome) {
    let socket = SocketRows::new(outcome);
    let finding = socket.finding();
    let counts = [
        u64::from(socket.last().drops),
        retransmitted(socket.report),
        refused(finding),
        number(finding, "/evidence/refused_syns/value"),
    ];
    assert_eq!(counts, [socket.overflows; 4]);
    assert_least_wait(finding, outcome);
}

fn refused_cookies() -> Result<Outcome, String> {
    let words = "--connections 13 --backlog 2 --accept-delay-us 20000";
    let served = ServerRun::start(Site::loopback("cubic"), words);
    let took = ask_at_once(&served.site.client, served.to, 13);
    let outcome = served.finish().with("took_ns", took_ns(took));
    if_refused(outcome, true, 1)
}

/// With SYN cookies a refused ACK is one drop, as a SYN is; it is not taken for one.
fn acks_are_not_taken_for_syns(outcome: &Outcome) {
    let socket = SocketRows::new(outcome);
    let finding = socket.finding();
    assert_eq!(refused(finding), socket.overflows);
    let syns = finding.pointer("/evidence/refused_syns/value");
    let syns = syns.and_then(Value::as_u64).unwrap_or(0);
    assert!(syns <= retransmitted(socket.report), "{finding:#}");
    assert_least_wait(finding, outcome);
}

#[track_caller]
fn assert_least_wait(finding: &Value, outcome: &Outcome) {
    let took_ns = number(&outcome.truth, "/took_ns");
    assert!(
        number(finding, "/harm_ns") <= took_ns,
        "{took_ns} {finding:#}"
    );
}

/// The first is accepted at once. Five may wait before the queue is full (sk_acceptq_is_full());
/// the SYNs of three come while four do.
fn refused_acks() -> Result<Outcome, String> {
    let wire = start("cubic", DirectionConfig::delay(5_000));
    let words = "--connections 8 --backlog 4 --accept-delay-us 300000";
    let served = ServerRun::start(Site::over(&wire), words);
    let waiting = connect(&wire.a, served.to, 5);
    ask_at_once(&wire.a, served.to, 3);
    say(waiting);
    if_refused(served.finish(), false, 1)
}

/// Each refused last ACK, and each segment behind it, is two drops.
fn acks_are_counted(outcome: &Outcome) {
    let socket = SocketRows::new(outcome);
    assert_eq!(u64::from(socket.last().drops), 2 * socket.overflows);
    let finding = socket.finding();
    assert_eq!(refused(finding), socket.overflows);
    assert!(finding["evidence"]["refused_syns"].is_null(), "{finding:#}");
    assert!(finding["evidence"]["other_drops"].is_null(), "{finding:#}");
}

/// TCP_DEFER_ACCEPT drops the bare last ACK of each handshake: 17 of 17, and no queue is full.
fn deferred_accepts() -> Result<Outcome, String> {
    let wire = start("cubic", DirectionConfig::delay(1_000));
    let served = ServerRun::start(Site::over(&wire), "--connections 17 --defer-accept-s 9");
    let silent = connect(&wire.a, served.to, 17);
    until("all deferred", || {
        (counter(&wire.b, "TCPDeferAcceptDrop") == 17).then_some(())
    });
    say(silent);
    Ok(served.finish())
}

fn deferred_are_no_overflow(outcome: &Outcome) {
    let socket = SocketRows::new(outcome);
    assert!(socket.last().drops >= 17, "{:?}", socket.rows);
    socket.assert_quiet();
}

/// SYN-ACKs that the path loses: the SYN that comes again meets its own request, and is a drop.
fn lost_answers() -> Result<Outcome, String> {
    let lost = LossWindow {
        after_us: 0,
        for_us: 300_000,
        every_us: 0,
        loss_ppm: 1_000_000,
    };
    let wire = Wire::start(lab::WireConfig {
        a_to_b: DirectionConfig::delay(1_000),
        b_to_a: DirectionConfig {
            windows: vec![lost],
            ..DirectionConfig::delay(1_000)
        },
        ..lab::WireConfig::default()
    });
    let wire = wire.expect("a wire");
    let served = ServerRun::start(Site::over(&wire), "--connections 7");
    ask_at_once(&wire.a, served.to, 7);
    Ok(served.finish())
}

fn is_quiet(outcome: &Outcome) {
    SocketRows::new(outcome).assert_quiet();
}
