//! Every role does what its options say, and its own account is exact.
//! Needs root: it runs them in network namespaces.

#[allow(dead_code)]
mod common;

use std::fs;
use std::process::Command;

use common::{exchange, may_make_namespaces, program, role, until};
use serde_json::Value;
use whylat_lab::{DirectionConfig, LabProcess, Netns, Wire, WireConfig};

const LO: &str = "127.0.0.1";

/// Runs a server and a client in a namespace; returns what both know.
fn on_loopback(server: &str, client: &str) -> (Value, Value) {
    let netns = Netns::new().unwrap();
    exchange((&netns, LO, server), (&netns, client))
}

/// Returns a number of the truth, which must exist.
fn number(truth: &Value, path: &str) -> u64 {
    truth
        .pointer(path)
        .and_then(Value::as_u64)
        .unwrap_or_else(|| panic!("{path} in {truth}"))
}

/// A sum over the connections of a truth, for example of `/send/calls`.
fn sum(truth: &Value, path: &str) -> u64 {
    let connections = truth["connections"].as_array().unwrap();
    connections
        .iter()
        .map(|connection| number(connection, path))
        .sum()
}

/// Demands that both ends name the same connections, and that no call failed.
fn assert_ends_agree(client: &Value, server: &Value) {
    let ends = |truth: &Value, local: &str, remote: &str| {
        let connections = truth["connections"].as_array().unwrap();
        let mut pairs: Vec<_> = connections
            .iter()
            .map(|end| (end[local].to_string(), end[remote].to_string()))
            .collect();
        pairs.sort();
        pairs
    };
    assert_eq!(
        ends(client, "local", "remote"),
        ends(server, "remote", "local")
    );
    for truth in [client, server] {
        assert_eq!(sum(truth, "/send/failed") + sum(truth, "/recv/failed"), 0);
        assert!(number(truth, "/connections/0/cookie") > 0);
    }
    assert_eq!(sum(client, "/send/bytes"), sum(server, "/recv/bytes"));
    assert_eq!(sum(server, "/send/bytes"), sum(client, "/recv/bytes"));
}

#[test]
fn two_small_writes_stall_on_loopback_and_fixes_work() {
    if !may_make_namespaces() {
        return;
    }
    let run = |option: &str| {
        let client = format!("write-write-read --rounds 53 {option}");
        let (client, server) = on_loopback("reply-server", &client);
        assert_ends_agree(&client, &server);
        assert_eq!(
            (number(&client, "/rounds"), number(&server, "/requests")),
            (53, 53)
        );
        let writes = if option == "--one-write" { 53 } else { 106 };
        assert_eq!(sum(&client, "/send/calls"), writes);
        assert_eq!(sum(&client, "/recv/moved"), 53);
        assert_eq!(client["round_times_ns"].as_array().unwrap().len(), 53);
        let times = ["/stalled_rounds", "/median_ns", "/max_ns"].map(|at| number(&client, at));
        eprintln!("{option:12} [stalled rounds, median ns, max ns] {times:?}");
        times
    };
    let [stalled, median_ns, _] = run("");
    assert!(stalled >= 40, "only {stalled} of 53 rounds stalled");
    assert!((38_000_000..60_000_000).contains(&median_ns), "{median_ns}");
    for option in ["--nodelay", "--one-write"] {
        let [_, median_ns, _] = run(option);
        assert!(
            median_ns < 5_000_000,
            "{option} leaves a median of {median_ns} ns"
        );
    }
}

#[test]
fn two_small_writes_stall_over_a_wire() {
    if !may_make_namespaces() {
        return;
    }
    let wire = Wire::start(WireConfig::both(DirectionConfig::delay(5_000))).unwrap();
    let address = wire.address_b().to_string();
    let client = "write-write-read --rounds 53 --stall-ms 40";
    let (client, server) = exchange((&wire.b, &address, "reply-server"), (&wire.a, client));
    assert_ends_agree(&client, &server);
    let stalled = number(&client, "/stalled_rounds");
    eprintln!(
        "{stalled} of 53 rounds stalled, median {} ns",
        client["median_ns"]
    );
    assert!(stalled >= 20, "only {stalled} of 53 rounds stalled");
}

/// Returns how long start-up took, ns; demands that the counts of both ends agree.
fn started_up(server: &str, client: &str, send_calls: u64) -> u64 {
    let client = format!("command-client --commands 41 --polls 3 --poll-pause-us 1 {client}");
    let (client, server) = on_loopback(&format!("command-server {server}"), &client);
    assert_ends_agree(&client, &server);
    assert_eq!(client["commands"].as_array().unwrap().len(), 41);
    assert_eq!(number(&server, "/commands"), 41 + 3);
    assert_eq!(sum(&client, "/send/calls"), send_calls);
    assert_eq!(sum(&server, "/send/calls"), 41 + 3);
    let bodies = client["commands"].as_array().unwrap().iter();
    let bodies: Vec<u64> = bodies.map(|it| number(it, "/body_bytes")).collect();
    let read = server["bodies"].as_array().unwrap().iter();
    assert!(read.map(|it| number(it, "/bytes")).eq(bodies));
    let large = client["commands"]
        .as_array()
        .unwrap()
        .iter()
        .skip(3)
        .step_by(4);
    assert!(
        large
            .map(|it| number(it, "/body_bytes"))
            .all(|bytes| bytes >= 4_000)
    );
    number(&client, "/startup_ns")
}

#[test]
fn commands_in_two_writes_stall_and_fixes_work() {
    if !may_make_namespaces() {
        return;
    }
    let (two, one) = (2 * 41 + 3, 41 + 3);
    let stalled_ns = started_up("", "", two);
    for (server, client, send_calls) in [
        ("", "--writes gathered", one),
        ("", "--writes joined", one),
        ("", "--nodelay", two),
        ("--quickack", "", two),
    ] {
        let took_ns = started_up(server, client, send_calls);
        eprintln!("{server}{client}: {took_ns} ns of {stalled_ns} ns");
        assert!(took_ns * 5 < stalled_ns, "{server}{client}: {took_ns} ns");
    }
}

#[test]
fn replies_follow_every_nth_request() {
    if !may_make_namespaces() {
        return;
    }
    let server = "reply-server --reply-every 50 --request 10 --read-delay-us 10";
    let client = "write-write-read --header 3 --body 7 --rounds 499 --reply-every 50";
    let (client, server) = on_loopback(server, client);
    assert_ends_agree(&client, &server);
    assert_eq!(
        (number(&server, "/requests"), number(&server, "/replies")),
        (499, 9)
    );
    assert_eq!(sum(&client, "/send/calls"), 998);

    let server = "reply-server --reply-every 0 --request 10";
    let client = "write-write-read --one-write --header 3 --body 7 --rounds 97 --reply-every 0";
    let (client, server) = on_loopback(server, client);
    assert_ends_agree(&client, &server);
    assert_eq!(
        (number(&server, "/requests"), number(&server, "/replies")),
        (97, 0)
    );
    assert_eq!(sum(&client, "/recv/calls"), 0);
}

#[test]
fn request_reply_counts_every_connection() {
    if !may_make_namespaces() {
        return;
    }
    for concurrency in [1, 3] {
        let (client, server) = on_loopback(
            &format!("reply-server --connections {concurrency} --request 31 --reply 4001"),
            &format!(
                "request-reply --rounds 503 --request 31 --reply 4001 --concurrency {concurrency}"
            ),
        );
        assert_ends_agree(&client, &server);
        assert_eq!(client["connections"].as_array().unwrap().len(), concurrency);
        let rounds = 503 * concurrency as u64;
        assert_eq!(number(&client, "/rounds"), rounds);
        assert_eq!(number(&server, "/replies"), rounds);
        assert_eq!(sum(&client, "/send/calls"), rounds);
        assert_eq!(sum(&client, "/recv/bytes"), rounds * 4001);
    }
}

#[test]
fn short_connections_last_as_requested() {
    if !may_make_namespaces() {
        return;
    }
    let (client, server) = on_loopback(
        "reply-server --connections 41",
        "short-lived --count 41 --life-us 5000",
    );
    assert_ends_agree(&client, &server);
    let lives = client["connections"].as_array().unwrap();
    assert_eq!(lives.len(), 41);
    for life in lives {
        let life_ns = number(life, "/closed_ns") - number(life, "/opened_ns");
        assert!(life_ns >= 4_999_000, "closed after {life_ns} ns");
        assert_eq!(
            (number(life, "/send/calls"), number(life, "/recv/calls")),
            (1, 1)
        );
    }
}

#[test]
fn bulk_moves_exactly_the_bytes_in_both_directions() {
    if !may_make_namespaces() {
        return;
    }
    let (client, server) = on_loopback(
        "sink --connections 2 --rcvbuf 8192 --read-size 10007",
        "stream --connections 2 --bytes 1000003 --write-size 4099 --sndbuf 16384 --nodelay --cc cubic",
    );
    assert_ends_agree(&client, &server);
    assert_eq!(sum(&server, "/recv/bytes"), 2 * 1_000_003);
    assert_eq!(sum(&server, "/recv/ends"), 2);
    for transfer in client["transfers"].as_array().unwrap() {
        let times = ["/first_send_ns", "/last_send_ns", "/drained_ns"];
        assert!(times.map(|at| number(transfer, at)).is_sorted());
    }

    let (client, server) = on_loopback(
        "push-server --bytes 1000003 --write-size 1009",
        "receive-only",
    );
    assert_ends_agree(&client, &server);
    assert_eq!(sum(&client, "/recv/bytes"), 1_000_003);
    assert_eq!(sum(&client, "/send/calls"), 0);
    // 991 writes of 1009 bytes and a last one of 84, when none is cut short.
    assert!(sum(&server, "/send/calls") >= 992);
}

#[test]
fn slow_reader_blocks_the_sender_and_both_report_it() {
    if !may_make_namespaces() {
        return;
    }
    let (client, server) = on_loopback(
        "sink --rcvbuf 4096 --read-size 4096 --read-pause-us 20000",
        "stream --bytes 200003 --sndbuf 4096 --write-size 20011",
    );
    assert_ends_agree(&client, &server);
    let blocked_ns = sum(&client, "/send/in_call_ns");
    let life_ns = number(&client, "/end_ns") - number(&client, "/start_ns");
    eprintln!("sender blocked {blocked_ns} of {life_ns} ns");
    assert!(blocked_ns > life_ns / 2);
    let slow = client["connections"][0]["send"]["slow"].as_array().unwrap();
    assert!(slow.iter().all(|call| number(call, "/1") >= 10_000_000));
    assert!(!slow.is_empty());
}

#[test]
fn call_counts_are_exact() {
    if !may_make_namespaces() {
        return;
    }
    let netns = Netns::new().unwrap();
    let mut calls = role(
        &netns,
        "count-calls --pairs 2 --sends 20011 --size 61 --empty-reads 3 --start-on-stdin",
    );
    assert!(calls.port().unwrap() > 0);
    calls.go().unwrap();
    let truth = calls.finish().unwrap();
    let sends = 2 * 20_011;
    assert_eq!(number(&truth, "/send_calls"), sends);
    assert_eq!(number(&truth, "/bytes"), sends * 61);
    assert_eq!(sum(&truth, "/recv/moved"), sends);
    assert_eq!(number(&truth, "/recv_again"), sends * 3);
    assert_eq!(number(&truth, "/recv_calls"), sends * 4);
    assert_eq!(sum(&truth, "/send/failed") + sum(&truth, "/recv/failed"), 0);
    eprintln!("{} calls/s", truth["calls_per_s"]);
}

/// Returns the established and TIME_WAIT sockets of a namespace: states 01 and 06 of /proc/net/tcp.
fn sockets(netns: &Netns) -> (usize, usize) {
    let text = netns
        .run(|| fs::read_to_string("/proc/thread-self/net/tcp").unwrap())
        .unwrap();
    let states: Vec<&str> = text
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(3))
        .collect();
    let count = |state| states.iter().filter(|found| **found == state).count();
    (count("01"), count("06"))
}

#[test]
fn hold_open_closes_without_time_wait() {
    if !may_make_namespaces() {
        return;
    }
    let netns = Netns::new().unwrap();
    // A low limit, so that several processes are needed.
    let script = format!("ulimit -n 400; exec {} workload hold-open 503", program());
    let mut command = netns.command("sh");
    command.args(["-c", &script]);
    let mut held = LabProcess::start(command).unwrap();
    held.line().unwrap();
    assert_eq!(sockets(&netns), (1006, 0));
    let truth = held.finish().unwrap();
    assert_eq!(number(&truth, "/connections_held"), 503);
    assert_eq!(number(&truth, "/sockets_held"), 1006);
    assert_eq!(number(&truth, "/processes"), 3);
    assert_eq!(sockets(&netns), (0, 0));
}

#[test]
fn killed_hold_open_closes_connections() {
    if !may_make_namespaces() {
        return;
    }
    let netns = Netns::new().unwrap();
    let mut held = role(&netns, "hold-open 101");
    held.line().unwrap();
    assert_eq!(sockets(&netns).0, 202);
    drop(held);
    until("all sockets gone", || sockets(&netns) == (0, 0));
}

#[test]
fn the_time_limit_ends_a_role_with_a_message() {
    if !may_make_namespaces() {
        return;
    }
    let netns = Netns::new().unwrap();
    let output = netns
        .command(program())
        .args(["workload", "sink", "--limit-s", "1"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let output = String::from_utf8(output.stderr).unwrap();
    assert!(
        output.contains("time limit") && output.contains("hint:"),
        "{output}"
    );
}

#[test]
fn bad_input_is_explained() {
    let run = |arguments: &[&str]| {
        let output = Command::new(program()).args(arguments).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, output) = run(&["workload", "no-such-role"]);
    assert_eq!(code, Some(2), "{output}");
    let (code, output) = run(&["workload", "stream"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("--connect"), "{output}");
    let (code, output) = run(&["workload", "receive-only", "--connect", "127.0.0.1:1"]);
    assert_eq!(code, Some(1), "{output}");
    assert!(
        output.contains("127.0.0.1:1") && output.contains("hint:"),
        "{output}"
    );
    let (code, output) = run(&["nonsense"]);
    assert_eq!(code, Some(2), "{output}");
    assert!(output.contains("hint:"), "{output}");
}

#[test]
fn the_ready_file_is_written_whole() {
    if !may_make_namespaces() {
        return;
    }
    let netns = Netns::new().unwrap();
    let path = std::env::temp_dir().join(format!("whylat-lab-ready-{}", std::process::id()));
    let mut server = role(
        &netns,
        &format!("reply-server --ready-file {}", path.display()),
    );
    let port = server.port().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    fs::remove_file(&path).unwrap();
    let ready: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(number(&ready, "/ready"), u64::from(port));
    assert_eq!(number(&ready, "/pid"), u64::from(server.pid()));
}

/// The server answers after so many records, if it does.
const ANSWER_EVERY: usize = 50;

/// Answers behind which one of the next records waits longer than the one before it, and longer than the path explains: the ACK
/// of the record after an answer is delayed, and those that follow wait for it. The path takes 4 ms. On a busy CPU many
/// records may be late, each about as late as the one before it.
fn late_answers(server: &str, client: &str) -> usize {
    let wire = Wire::start(WireConfig::both(DirectionConfig::delay(2_000))).unwrap();
    let address = wire.address_b().to_string();
    let (client, server) = exchange(
        (&wire.b, &address, &format!("log-server {server}")),
        (&wire.a, &format!("log-client --records 401 {client}")),
    );
    assert_ends_agree(&client, &server);
    let times = |truth: &Value, name: &str| -> Vec<u64> {
        let times = truth[name].as_array().unwrap().iter();
        times.map(|ns| ns.as_u64().unwrap()).collect()
    };
    let (written, read) = (times(&client, "written_ns"), times(&server, "read_ns"));
    assert_eq!((written.len(), read.len()), (401, 401));
    let wait_ns = |at: usize| read[at] - written[at];
    let is_late = |at: usize| wait_ns(at) >= wait_ns(at - 1) + 35_000_000;
    let answers = (ANSWER_EVERY..400).step_by(ANSWER_EVERY);
    answers
        .filter(|first| (*first..first + 6).any(is_late))
        .count()
}

#[test]
fn only_the_record_after_an_answer_waits_for_the_ack_timer() {
    if !may_make_namespaces() {
        return;
    }
    let answer = format!("--answer-every {ANSWER_EVERY}");
    let late = late_answers(&answer, "--pause-us 3000");
    assert!(late >= 4, "{late} of seven answers");
    // On a busy machine some records wait for a CPU: not at all of these places.
    let unanswered = late_answers("", "--pause-us 3000");
    let at_once = late_answers(&answer, "");
    assert!(
        unanswered.max(at_once) < late,
        "{unanswered}, {at_once} of {late}"
    );
}
