//! Messages of UDP: every datagram that a call moved, as the program says, with the times of its own way: it
//! arrived while it was sent.

use std::collections::{HashMap, HashSet};
use std::io::{BufRead, BufReader};
use std::process::Command;

use lab::Netns;
use serde_json::Value;
use table::tables::{Connection, ReceivedMessage, SentMessage, UdpSocket};
use tempfile::TempDir;

use testbed::report::{Report, number};
use testbed::{ChildGuard, Recorder, compile_c, record_command, root, write_source};

/// Sends and reads datagrams: see its head.
const DATAGRAMS: &str = include_str!("programs/datagrams.py");

/// One size, and a reader that never sleeps.
const FAST_DATAGRAMS: &str = include_str!("programs/fast_datagrams.c");

/// Holds the calls that the program reported, and what was recorded of them.
struct MatchedCalls {
    sent: Vec<(Value, SentMessage)>,
    received: Vec<(Value, ReceivedMessage)>,
    report: Report,
}

fn run(arguments: &[&str]) -> MatchedCalls {
    let scratch = tempfile::tempdir().expect("a directory");
    let source = write_source(scratch.path(), "datagrams.py", DATAGRAMS);
    record(scratch, &[&["python3", &source], arguments].concat())
}

fn record(scratch: TempDir, command: &[&str]) -> MatchedCalls {
    let (report, calls) = record_command(scratch, &["--detail", "messages"], command);
    report.assert_whole();
    MatchedCalls::new(calls, report)
}

/// The calls with their messages, of each socket and thread in the order in which they ended.
fn matched<T>(
    mut calls: Vec<Value>,
    mut rows: Vec<T>,
    key: impl Fn(&T) -> (u64, u32, u64),
) -> Vec<(Value, T)> {
    assert_eq!(rows.len(), calls.len());
    rows.sort_by_key(|row| key(row));
    let of_call = |call: &Value, name| number(call, name);
    calls.sort_by_key(|call| ["/conn", "/tid", "/end_ns"].map(|name| of_call(call, name)));
    calls.into_iter().zip(rows).collect()
}

/// The number that the datagram of a call holds; an empty one has none.
fn sent_number(call: &Value) -> u64 {
    call["number"].as_u64().unwrap_or(u64::MAX)
}

fn within(call: &Value, ns: u64) -> bool {
    (number(call, "/begin_ns")..=number(call, "/end_ns")).contains(&ns)
}

impl MatchedCalls {
    fn new(calls: Vec<Value>, report: Report) -> Self {
        let calls = calls.into_iter();
        let (sent, received) = calls.partition(|call| call["direction"] == "sent");
        let known = MatchedCalls {
            sent: matched(sent, report.rows(), |it| (it.conn, it.tid, it.done_ns)),
            received: matched(received, report.rows(), |it| (it.conn, it.tid, it.done_ns)),
            report,
        };
        known.check();
        known
    }

    fn check(&self) {
        for (call, message) in &self.sent {
            assert_eq!(u64::from(message.bytes), number(call, "/bytes"), "{call}");
            assert!(within(call, message.done_ns), "{message:?}: {call}");
        }
        for (call, message) in &self.received {
            assert_eq!(u64::from(message.bytes), number(call, "/bytes"), "{call}");
            assert!(within(call, message.done_ns), "{message:?}: {call}");
            let stamps = [
                message.first_arrival_ns,
                message.tcp_ns,
                message.ready_ns,
                message.woken_ns,
                message.running_ns,
                message.copy_ns,
                Some(message.done_ns),
            ];
            let stamps: Vec<u64> = stamps.into_iter().flatten().collect();
            assert!(stamps.is_sorted(), "{stamps:?}: {call}");
        }
        assert!(self.report.rows::<Connection>().is_empty());
    }

    /// All of what was sent went out within its call; what was received arrived within the call that sent it, which
    /// proves that its times are its own, but for a tenth that may arrive late. So of all but `strange` ones.
    fn check_times(&self, strange: usize) {
        self.check_arrivals(self.received.len(), strange);
    }

    /// The same, of `known` datagrams that were received.
    fn check_arrivals(&self, known: usize, strange: usize) {
        let out = self.sent.iter().filter(|(call, message)| {
            let stamps = (message.queue_ns, message.driver_ns);
            matches!(stamps, (Some(queue_ns), Some(driver_ns))
                if within(call, queue_ns) && within(call, driver_ns) && queue_ns <= driver_ns)
        });
        let (out, sent) = (out.count(), self.sent.len());
        let (own, late) = self.own_arrivals();
        assert!(out + strange >= sent, "{out} of {sent} sent");
        assert!(own + late + strange >= known, "{own} of {known} received");
        assert!(late * 10 <= known, "{late} of {known} arrived late");
    }

    /// How many arrived within the call that sent them, and how many after it: a softirq that the kernel puts off
    /// (ksoftirqd) takes those, and no other datagram arrived at that time on that CPU.
    fn own_arrivals(&self) -> (usize, usize) {
        let mut senders: HashMap<u64, Vec<&Value>> = HashMap::new();
        for (call, _) in &self.sent {
            senders.entry(sent_number(call)).or_default().push(call);
        }
        let mut arrived: HashMap<(u16, u64), HashSet<u64>> = HashMap::new();
        for (call, at) in self.known_arrivals() {
            arrived.entry(at).or_default().insert(sent_number(call));
        }
        let (mut own, mut late) = (0, 0);
        for (call, at) in self.known_arrivals() {
            let sent = &senders[&sent_number(call)];
            let is_after = sent.iter().any(|it| number(it, "/end_ns") < at.1);
            if sent.iter().any(|call| within(call, at.1)) {
                own += 1;
            } else if is_after && arrived[&at].len() == 1 {
                late += 1;
            }
        }
        (own, late)
    }

    /// The calls that received a datagram with known times, and on which CPU and when that arrived.
    fn known_arrivals(&self) -> impl Iterator<Item = (&Value, (u16, u64))> {
        let known = self.received.iter().filter(|(_, it)| it.ready_ns.is_some());
        known.filter_map(|(call, it)| Some((call, (it.receive_cpu?, it.first_arrival_ns?))))
    }

    fn socket(&self, conn: u64) -> UdpSocket {
        let mut rows: Vec<UdpSocket> = self.report.rows();
        rows.retain(|row| row.conn == conn);
        rows.sort_by_key(|row| row.time_ns);
        rows.pop().expect("the socket")
    }
}

/// Two namespaces that are joined by a pair of devices: their addresses and paths.
pub fn pair() -> (Netns, Netns) {
    let (a, b) = (
        Netns::new().expect("a namespace"),
        Netns::new().expect("a namespace"),
    );
    let path = b.path();
    let path = path.to_str().expect("text");
    a.run_ip(&format!("link add v0 type veth peer name v0 netns {path}"))
        .expect("devices");
    for (netns, last) in [(&a, 1), (&b, 2)] {
        for address in [
            format!("10.99.0.{last}/24"),
            format!("fd99::{last}/64 nodad"),
        ] {
            netns
                .run_ip(&format!("addr add {address} dev v0"))
                .expect("an address");
        }
        netns.run_ip("link set v0 up").expect("it is up");
    }
    (a, b)
}

fn over_veth(how: &str, address: &str) -> MatchedCalls {
    let (a, b) = pair();
    let (a, b) = (a.path(), b.path());
    let (a, b) = (a.to_str().expect("text"), b.to_str().expect("text"));
    run(&[how, address, a, b])
}

fn check_answers(known: &MatchedCalls) {
    let mut cut = 0;
    let mut server = 0;
    for (call, message) in &known.received {
        let known_cut = message.cut_bytes.expect("a datagram");
        assert_eq!(u64::from(known_cut), number(call, "/cut"), "{message:?}");
        if known_cut > 0 {
            cut += 1;
            server = message.conn;
        }
    }
    assert!(cut > 0);
    let woken = known
        .received
        .iter()
        .filter(|(_, it)| it.woken_ns.is_some());
    assert!(woken.count() > 0);
    let rows: Vec<UdpSocket> = known.report.rows();
    assert!(rows.iter().all(|it| it.created_ns.is_some()));
    let (server, pid) = (known.socket(server), known.received[0].1.pid);
    let mut asked = known.sent.iter().map(|(_, it)| known.socket(it.conn));
    let connected = asked.find(|it| it.remote.as_ref() == Some(&server.local));
    let connected = connected.expect("a socket that is connected to it");
    assert_eq!((connected.sent, connected.pid), (251, Some(pid)));
    assert!(connected.closed_ns.is_some() && server.remote.is_none());
}

#[test]
fn datagrams_are_timed_over_loopback() {
    if root() {
        let known = run(&["answers", "127.0.0.1"]);
        known.check_times(0);
        check_answers(&known);
    }
}

#[test]
fn datagrams_are_timed_over_ipv6_loopback() {
    if root() {
        let known = run(&["answers", "::1"]);
        known.check_times(0);
        check_answers(&known);
    }
}

/// IP cuts the larger ones. The first waits for its neighbour's address.
#[test]
fn datagrams_are_timed_over_veth() {
    if root() {
        for address in ["10.99.0.2", "fd99::2"] {
            let known = over_veth("answers", address);
            known.check_times(2);
            check_answers(&known);
            let cut = known.sent.iter().filter(|(_, it)| it.packets > Some(1));
            assert!(cut.count() > 100);
        }
    }
}

/// The stack takes a list of packets before it hands the first to its socket: each has its own times all the same, and
/// no two of one CPU the same. At most a burst is unknown: what interrupts the agent of a sandbox passes no hook.
#[test]
fn datagrams_of_a_driver_batch_have_their_own_times() {
    const BURST: usize = 52;
    if root() {
        let times = arrivals(&over_veth("lists", "10.99.0.2"));
        let early = times.iter().filter(|it| it.arrived.1 < it.begun_ns).count();
        // two CPUs may take a packet each in the same nanosecond
        let own: HashSet<_> = times.iter().map(|it| it.arrived).collect();
        assert_eq!((own.len(), early), (times.len(), 0));
        assert!(times.len() + BURST >= 2002, "{} are known", times.len());
    }
}

/// On which CPU and when a datagram arrived, and when the call began that sent it.
struct Arrival {
    arrived: (u16, u64),
    begun_ns: u64,
}

fn arrivals(known: &MatchedCalls) -> Vec<Arrival> {
    let sent = known.sent.iter();
    let begun: HashMap<u64, u64> = sent
        .map(|(call, _)| (sent_number(call), number(call, "/begin_ns")))
        .collect();
    let times = known.known_arrivals().map(|(call, arrived)| Arrival {
        arrived,
        begun_ns: begun[&sent_number(call)],
    });
    times.collect()
}

#[test]
fn datagrams_of_recvmmsg_have_their_own_times() {
    if root() {
        run(&["many", "127.0.0.1"]).check_times(0);
    }
}

/// Each socket gets a clone, and the last one the packet itself. Over loopback nothing marks it as one for all.
#[test]
fn broadcast_is_timed_for_each_socket() {
    if root() {
        let over_loopback = run(&["everyone", "127.255.255.255"]);
        for known in [over_loopback, over_veth("everyone", "10.99.0.255")] {
            assert_eq!(known.received.len(), 7 * 211);
            known.check_times(0);
        }
    }
}

/// Two CPUs queue at the same moment: some kernels let one of them report what both brought, and
/// then the times of packets to several sockets are not known. They are never another's, and at most a burst has none.
#[test]
fn broadcasts_of_two_senders_have_their_own_times() {
    const BURST: usize = 7 * 2 * 5;
    if root() {
        let over_loopback = run(&["crowd", "127.255.255.255"]);
        for known in [over_loopback, over_veth("crowd", "10.99.0.255")] {
            assert_eq!(known.received.len(), 7 * 422);
            let seen = known.received.iter();
            let seen = seen.filter(|(_, it)| it.ready_ns.is_some()).count();
            let (own, late) = known.own_arrivals();
            assert_eq!(own + late, seen);
            known.check_times(BURST);
        }
    }
}

#[test]
fn datagrams_of_several_readers_are_matched() {
    if root() {
        // Two that read at the same time may be taken for each other, if they are as long: one of 1,001 lengths.
        run(&["threads", "127.0.0.1"]).check_times(2);
        // Of one length any two are: their owners are not known, but all that arrived are noted.
        let alike = run(&["alike", "127.0.0.1"]);
        let seen = alike
            .received
            .iter()
            .filter(|(_, it)| it.ready_ns.is_some());
        assert_eq!(seen.count(), 1004);
        let (own, late) = alike.own_arrivals();
        println!("{own} and {late} of 1004 alike have their own times");
    }
}

/// It takes a datagram before the kernel has reported it, and ends its call before it is noted. All are as long: two
/// may be exchanged.
#[test]
fn reader_faster_than_the_kernel_is_timed() {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    if !root() || cpus < 2 {
        eprintln!("skipped: it needs root and two CPUs");
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let binary = compile_c(scratch.path(), "fast_datagrams", FAST_DATAGRAMS, &[]);
    let calls = record(scratch, &[&binary]);
    // One has no times if something holds its CPU up between its arrival and its report: how often, nobody knows.
    let (known, received) = (calls.known_arrivals().count(), calls.received.len());
    calls.check_arrivals(known, 5);
    assert!(known * 10 >= received * 9, "{known} of {received} known");
}

#[test]
fn segments_of_udp_segmentation_are_timed() {
    if root() {
        run(&["segments", "127.0.0.1"]).check_times(0);
        let known = run(&["joined", "127.0.0.1"]);
        known.check_times(0);
        for (call, message) in &known.received {
            assert_eq!(
                u64::from(message.segments),
                number(call, "/parts"),
                "{call}"
            );
        }
    }
}

/// Corked bytes go out when the last call releases them.
#[test]
fn corked_datagram_leaves_with_its_last_call() {
    if root() {
        let known = run(&["corked", "127.0.0.1"]);
        let mut last = HashMap::new();
        for (call, message) in &known.sent {
            if message.bytes == 20 {
                last.insert(number(call, "/number"), message);
            }
        }
        assert_eq!(last.len(), 101);
        for (call, message) in &known.sent {
            let last = last[&number(call, "/number")];
            let stamps = (message.queue_ns, message.driver_ns);
            assert!(stamps.0.is_some() && stamps.1.is_some(), "{message:?}");
            assert_eq!(stamps, (last.queue_ns, last.driver_ns), "{call}");
        }
    }
}

/// Sockets that were open before.
#[test]
fn open_udp_sockets_are_selected_by_process_and_port() {
    if !root() {
        return;
    }
    for by_port in [false, true] {
        let mut python = Command::new("python3");
        python.args(["-c", DATAGRAMS, "prompted", "127.0.0.1"]);
        let mut program = ChildGuard::start_talking(&mut python);
        let mut lines = BufReader::new(program.0.stdout.take().expect("a pipe")).lines();
        let port = lines.next().expect("a line").expect("its port");
        let chosen = if by_port {
            format!("--port {port}")
        } else {
            format!("-p {}", program.0.id())
        };
        let recorder = Recorder::start(&format!("--detail messages {chosen}"));
        drop(program.0.stdin.take());
        let calls = lines.map(|line| serde_json::from_str(&line.expect("text")).expect("JSON"));
        let calls: Vec<Value> = calls.collect();
        program.0.wait().expect("it ends");
        let known = MatchedCalls::new(calls, recorder.stop());
        assert_eq!((known.sent.len(), known.received.len()), (101, 101));
        known.check_times(usize::from(by_port));
        let server = known.socket(known.received[0].1.conn);
        assert!(server.local.ends_with(&format!(":{port}")) && server.created_ns.is_none());
    }
}

#[test]
fn full_buffer_drops_are_counted() {
    if root() {
        let known = run(&["full", "127.0.0.1"]);
        known.check_times(0);
        let (sent, received) = (known.sent.len() as u64, known.received.len() as u64);
        let socket = known.socket(number(&known.received[0].0, "/conn"));
        assert!(sent > received);
        assert_eq!(
            (socket.received, socket.dropped),
            (received, sent - received)
        );
        let sender = known.socket(number(&known.sent[0].0, "/conn"));
        assert_eq!((sender.sent, sender.dropped), (sent, 0));
    }
}
