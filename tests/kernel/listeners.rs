//! Listening sockets that drop: what met a full queue is told from what did not. The kernel's own
//! count for the namespace (`/proc/PID/net/netstat`) is the truth.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use lab::wire::LossWindow;
use lab::{DirectionConfig, Netns, Running, Wire};
use serde_json::Value;
use table::tables::{Connection, Listener};

use crate::harness::{Recorder, Site, planted, root, until};
use crate::report::{Report, number};
use crate::verdicts::start;

const RULE: &str = "listen_overflow";
/// What the server's role reads and answers.
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
struct Served {
    site: Site,
    server: Running,
    recorder: Recorder,
    to: SocketAddr,
}

impl Served {
    fn start(site: Site, words: &str) -> Self {
        let (server, port) = site.serve(&format!("reply-server {words}"));
        Served {
            server,
            recorder: Recorder::start(&format!("--port {port}")),
            to: (site.address, port).into(),
            site,
        }
    }

    fn finish(self) -> Told {
        let server = self.server.finish().expect("the server's truth");
        Told::of(self.recorder.stop(), &server, &self.site.server)
    }
}

/// What a recording has of a listening socket that has closed.
#[derive(Debug)]
struct Told {
    report: Report,
    id: u64,
    rows: Vec<Listener>,
    /// Of the namespace, by `/proc`.
    overflows: u64,
}

impl Told {
    fn of(report: Report, server: &Value, netns: &Netns) -> Self {
        let id = number(server, "/listener/cookie");
        let mut rows: Vec<Listener> = report.rows();
        rows.sort_by_key(|row| row.time_ns);
        // Sockets that came out of it have none.
        assert!(rows.iter().all(|row| row.conn == id), "{rows:#?}");
        let overflows = counter(netns, "ListenOverflows");
        let told = Told {
            report,
            id,
            rows,
            overflows,
        };
        let last = told.last();
        eprintln!("{overflows} overflows, {last:?}");
        assert!(last.closed_ns.is_some(), "{last:?}");
        // The namespace is of this test alone: nothing was counted since.
        assert_eq!(last.netns_listen_overflows, Some(overflows));
        let cookies = counter(netns, "SyncookiesRecv");
        assert_eq!(last.netns_syncookies_received, Some(cookies));
        told
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

/// SYNs that clients sent again, by their own count.
fn sent_again(report: &Report) -> u64 {
    let connections: Vec<Connection> = report.rows();
    let counted = connections
        .iter()
        .filter_map(|row| Some((row.conn, u64::from(row.syn_retries?))));
    counted.collect::<HashMap<_, _>>().values().sum()
}

/// Each refused SYN is one drop, and its client waits for a second.
#[test]
fn syns_that_meet_a_full_queue_are_counted() {
    if !root() {
        return;
    }
    let (told, took) = planted(|| {
        // The first is accepted at once, and three wait.
        let words = "--connections 7 --backlog 2 --accept-delay-us 100000";
        let served = Served::start(Site::loopback("cubic"), words);
        let waiting = connect(&served.site.client, served.to, 4);
        let took = ask_at_once(&served.site.client, served.to, 3);
        say(waiting);
        let told = served.finish();
        match (told.overflows, told.last().netns_syncookies_received) {
            (3.., Some(0)) => Ok((told, took)),
            counted => Err(format!("{counted:?}")),
        }
    });
    let finding = told.finding();
    let counts = [
        u64::from(told.last().drops),
        sent_again(&told.report),
        refused(finding),
        number(finding, "/evidence/refused_syns/value"),
    ];
    assert_eq!(counts, [told.overflows; 4]);
    assert_least_wait(finding, took);
}

/// With SYN cookies a refused ACK is one drop, as a SYN is; it is not taken for one.
#[test]
fn acks_with_cookies_are_not_taken_for_syns() {
    if !root() {
        return;
    }
    let (told, took) = planted(|| {
        let words = "--connections 13 --backlog 2 --accept-delay-us 20000";
        let served = Served::start(Site::loopback("cubic"), words);
        let took = ask_at_once(&served.site.client, served.to, 13);
        let told = served.finish();
        match (told.overflows, told.last().netns_syncookies_received) {
            (1.., Some(1..)) => Ok((told, took)),
            counted => Err(format!("{counted:?}")),
        }
    });
    let finding = told.finding();
    assert_eq!(refused(finding), told.overflows);
    let syns = finding.pointer("/evidence/refused_syns/value");
    let syns = syns.and_then(Value::as_u64).unwrap_or(0);
    assert!(syns <= sent_again(&told.report), "{finding:#}");
    assert_least_wait(finding, took);
}

#[track_caller]
fn assert_least_wait(finding: &Value, took: Duration) {
    let least_ns = number(finding, "/harm_ns");
    assert!(
        u128::from(least_ns) <= took.as_nanos(),
        "{took:?} {finding:#}"
    );
}

/// Each refused last ACK, and each segment behind it, is two drops.
#[test]
fn last_acks_that_meet_a_full_queue_are_counted() {
    if !root() {
        return;
    }
    let told = planted(|| {
        let wire = start("cubic", DirectionConfig::delay(5_000));
        // The first is accepted at once. Five may wait before the queue is full (sk_acceptq_is_full());
        // the SYNs of three come while four do.
        let words = "--connections 8 --backlog 4 --accept-delay-us 300000";
        let served = Served::start(Site::over(&wire), words);
        let waiting = connect(&wire.a, served.to, 5);
        ask_at_once(&wire.a, served.to, 3);
        say(waiting);
        let told = served.finish();
        let last = told.last();
        let twice = u64::from(last.drops) == 2 * told.overflows;
        match (told.overflows, last.netns_syncookies_received) {
            (1.., Some(0)) if twice => Ok(told),
            counted => Err(format!("{counted:?}, {last:?}")),
        }
    });
    let finding = told.finding();
    assert_eq!(refused(finding), told.overflows);
    assert!(finding["evidence"]["refused_syns"].is_null(), "{finding:#}");
    assert!(finding["evidence"]["other_drops"].is_null(), "{finding:#}");
}

/// TCP_DEFER_ACCEPT drops the bare last ACK of each handshake: 17 of 17, and no queue is full.
#[test]
fn deferred_accepts_are_no_overflow() {
    if !root() {
        return;
    }
    let wire = start("cubic", DirectionConfig::delay(1_000));
    let served = Served::start(Site::over(&wire), "--connections 17 --defer-accept-s 9");
    let silent = connect(&wire.a, served.to, 17);
    until("all deferred", || {
        (counter(&wire.b, "TCPDeferAcceptDrop") == 17).then_some(())
    });
    say(silent);
    let told = served.finish();
    assert!(told.last().drops >= 17, "{:?}", told.rows);
    told.assert_quiet();
}

/// SYN-ACKs that the path loses: the SYN that comes again meets its own request, and is a drop.
#[test]
fn lost_answers_to_syns_are_no_overflow() {
    if !root() {
        return;
    }
    let lost = LossWindow {
        after_us: 0,
        for_us: 300_000,
        every_us: 0,
        loss_ppm: 1_000_000,
    };
    let told = planted(|| {
        let wire = Wire::start(lab::WireConfig {
            a_to_b: DirectionConfig::delay(1_000),
            b_to_a: DirectionConfig {
                windows: vec![lost.clone()],
                ..DirectionConfig::delay(1_000)
            },
            ..lab::WireConfig::default()
        });
        let wire = wire.expect("a wire");
        let served = Served::start(Site::over(&wire), "--connections 7");
        ask_at_once(&wire.a, served.to, 7);
        let told = served.finish();
        match told.last().drops {
            0 => Err("no SYN met its own request".to_owned()),
            _ => Ok(told),
        }
    });
    told.assert_quiet();
}
