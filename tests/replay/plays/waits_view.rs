//! `whylat report --by …`: a program with known waits, object by object, is recorded; each object
//! is named and its waits are counted.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::play::{Judge, Outcome, Play};
use crate::shrink::{CONNECTIONS, STACKS};
use testbed::report::{Report, ask, groups, number, text};
use testbed::{finish, program, whylat};

pub fn plays() -> Vec<Play> {
    let play = |name: &str, tables, record: fn() -> Outcome, judge: Judge| Play {
        name: format!("waits_view::{name}"),
        record: Box::new(move || Ok(record())),
        judge,
        tables,
        leaves_out: None,
    };
    vec![
        play(
            "known_waits",
            STACKS,
            || record("waits"),
            are_named_and_counted,
        ),
        play("no_waits", CONNECTIONS, || record("calls"), is_refused),
        play("small_sends", STACKS, asking, are_joined_to_slow_waits),
    ]
}

/// The child waits for bytes from its parent, which sends each only when it sees the child blocked in
/// the expected system call, so that every byte is exactly one wait. Then the child sleeps.
const PROGRAM: &str = r#"
import json, os, select, socket, sys, time

READ, RECV, EPOLL = "0", "45", "232"
pipe_r, pipe_w = os.pipe()
done_r, done_w = os.pipe()
unix_child, unix_parent = socket.socketpair()
listener = socket.create_server(("127.0.0.1", 0))
tcp_parent = socket.create_connection(listener.getsockname())
tcp_child, _ = listener.accept()
epoll = select.epoll()
ready_r, ready_w = os.pipe()
epoll.register(ready_r, select.EPOLLIN)

ROUNDS = [
    (31, READ, pipe_r, lambda: os.read(pipe_r, 1), lambda: os.write(pipe_w, b"x")),
    (29, RECV, tcp_child.fileno(), lambda: tcp_child.recv(1), lambda: tcp_parent.send(b"x")),
    (23, RECV, unix_child.fileno(), lambda: unix_child.recv(1), lambda: unix_parent.send(b"x")),
    (19, EPOLL, epoll.fileno(), lambda: (epoll.poll(), os.read(ready_r, 1)),
     lambda: os.write(ready_w, b"x")),
]
SLEEPS = [0.002] * 37 + [0.1] * 13

child = os.fork()
if child == 0:
    for count, _, _, wait, _ in ROUNDS:
        for _ in range(count):
            wait()
            os.write(done_w, b"x")
    for seconds in SLEEPS:
        time.sleep(seconds)
    os._exit(0)

for count, call, fd, _, end in ROUNDS:
    for _ in range(count):
        while True:
            with open(f"/proc/{child}/syscall") as file:
                words = file.read().split()
            if words[0] == call and int(words[1], 16) == fd:
                break
        end()
        os.read(done_r, 1)
os.waitpid(child, 0)
inode = lambda fd: os.fstat(fd).st_ino
cookie = int.from_bytes(tcp_child.getsockopt(socket.SOL_SOCKET, 57, 8), sys.byteorder)
truth = {"child": child, "pipe": inode(pipe_r), "unix": inode(unix_child.fileno()),
         "epoll": epoll.fileno(), "cookie": cookie,
         "address": "%s:%d" % tcp_child.getpeername()}
json.dump(truth, open(sys.argv[1], "w"))
"#;

/// Waits of the child: those that it plants.
const WAITS: u64 = 31 + 29 + 23 + 19 + 37 + 13;

/// A recording of the program, and what the program knows.
fn record(detail: &str) -> Outcome {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let truth = scratch.path().join("truth");
    let mut command = Command::new(program());
    command.args(["run", "--as-root", "--detail", detail, "--output"]);
    command.arg(scratch.path().join("r.whylat"));
    command.args(["--", "python3", "-c", PROGRAM]);
    finish(command.arg(&truth)).assert_status(0);
    let truth = std::fs::read_to_string(truth).expect("the program's truth");
    Outcome {
        truth: serde_json::from_str(&truth).expect("JSON"),
        report: Report::from_scratch(scratch),
    }
}

/// The only group with this name.
#[track_caller]
fn named<'a>(answer: &'a Value, name: &str) -> &'a Value {
    let found: Vec<&Value> = groups(answer)
        .iter()
        .filter(|it| text(it, "name") == name)
        .collect();
    let [group] = found[..] else {
        let names: Vec<&str> = groups(answer).iter().map(|it| text(it, "name")).collect();
        panic!("{name}: {} of {names:?}", found.len())
    };
    group
}

fn are_named_and_counted(outcome: &Outcome) {
    let (truth, path) = (&outcome.truth, outcome.report.path());
    let child = number(truth, "/child");
    let of_child = ask(path, &format!("--by object --pid {child}"));
    let waits: u64 = groups(&of_child)
        .iter()
        .filter(|it| it["kind"] != "futex" && it["kind"] != "page_fault")
        .map(|it| number(it, "/count"))
        .sum();
    assert!(waits >= WAITS, "{waits} of {WAITS} waits were recorded");
    let pipe = format!("pipe {}", truth["pipe"]);
    let unix = format!("UNIX socket {}", truth["unix"]);
    let epoll = format!("epoll set {}", truth["epoll"]);
    for (name, waits) in [(&pipe, 31), (&unix, 23), (&epoll, 19)] {
        let group = named(&of_child, name);
        assert_eq!(group["count"], waits, "{group}");
        assert_eq!(group["threads"][0]["tid"], child);
    }
    let has_cookie = |it: &&Value| it["conn"] == truth["cookie"];
    let connection = groups(&of_child)
        .iter()
        .find(has_cookie)
        .expect("the connection");
    assert_eq!(connection["count"], 29, "{connection}");
    assert!(text(connection, "name").ends_with(text(truth, "address")));
    let sleep = named(&of_child, "sleep");
    assert_eq!(sleep["populations"]["fast"]["count"], 37, "{sleep}");
    assert_eq!(sleep["populations"]["slow"]["count"], 13, "{sleep}");
    filters_compose(path, truth);
}

fn filters_compose(path: &Path, truth: &Value) {
    let child = number(truth, "/child");
    let slow = format!("--by object --pid {child} --longer-than 50ms");
    let slow = ask(path, &slow);
    assert_eq!(named(&slow, "sleep")["count"], 13, "{slow}");
    let address = text(truth, "address");
    let threads = format!("--by thread --pid {child} --object {address}");
    let threads = ask(path, &threads);
    assert_eq!(
        (groups(&threads).len(), &threads["total"]["count"]),
        (1, &29.into())
    );
    let stacks = ask(path, &format!("--by stack --pid {child}"));
    let all = ask(path, &format!("--by object --pid {child}"));
    assert_eq!(stacks["total"]["count"], all["total"]["count"]);
    assert!(
        groups(&stacks)
            .iter()
            .any(|group| group["stack"].is_object())
    );
}

/// A recording without waits says so.
fn is_refused(outcome: &Outcome) {
    let mut report = whylat("report --by object");
    let output = finish(report.arg(outcome.report.path()));
    output.assert_status(1).explains("--detail waits");
}

/// Asks 400 times: every twentieth question goes out in two small writes, which wait for a delayed ACK,
/// the others in one of 1,400 bytes.
const ASKING: &str = r#"
import os, socket

listener = socket.create_server(("127.0.0.1", 0))
if os.fork() == 0:
    server, _ = listener.accept()
    data = b""
    while more := server.recv(65536):
        data += more
        while len(data) >= 4 and len(data) >= (size := int.from_bytes(data[:4], "big")):
            data = data[size:]
            server.sendall(b"a" * 64)
    os._exit(0)
client = socket.create_connection(listener.getsockname())
for number in range(400):
    if number % 20 == 13:
        client.sendall((128).to_bytes(4, "big") + b"h" * 4)
        client.sendall(b"x" * 120)
    else:
        client.sendall((1400).to_bytes(4, "big") + b"x" * 1396)
    client.recv(64)
"#;

fn asking() -> Outcome {
    let scratch = tempfile::tempdir().expect("a temporary directory");
    let mut command = Command::new(program());
    command.args(["run", "--as-root", "--detail", "waits", "--output"]);
    command.arg(scratch.path().join("r.whylat"));
    command.args(["--", "python3", "-c", ASKING]);
    finish(&mut command).assert_status(0);
    Outcome {
        report: Report::from_scratch(scratch),
        truth: json!({}),
    }
}

/// Slow waits are joined to the small sends before them.
fn are_joined_to_slow_waits(outcome: &Outcome) {
    let answer = ask(outcome.report.path(), "--by object --longer-than 30ms");
    let associated = |group: &Value, what: &str| {
        let factors = group["preceding"]["factors"].as_array()?;
        let factor = factors.iter().find(|factor| factor["what"] == what)?;
        factor["association"].is_object().then(|| factor.clone())
    };
    let found = groups(&answer)
        .iter()
        .find_map(|group| Some((group, associated(group, "send_bytes")?)));
    let (client, bytes) = found.unwrap_or_else(|| panic!("no small sends in {answer:#}"));
    // The first ACKs of a connection come at once (TCP_MAX_QUICKACKS); a busy machine adds a slow wait.
    let slow = number(&bytes, "/association/slow");
    assert!(slow >= 19, "{client:#}");
    assert!(number(client, "/count") <= slow + 1, "{client:#}");
    assert!(number(&bytes, "/association/fast") <= 1, "{client:#}");
    assert_eq!(number(&bytes, "/association/value"), 120);
    assert_eq!(text(&bytes["association"], "side"), "at_most");
    let sends = associated(client, "sends_since_receive").expect("two sends before each");
    assert_eq!(number(&sends, "/association/value"), 2);

    let diagnosis = &outcome.report.json;
    let findings = diagnosis["findings"].as_array().expect("findings");
    let nagle = findings.iter().find(|it| it["rule"] == "nagle_delayed_ack");
    let evidence = &nagle.unwrap_or_else(|| panic!("no finding in {diagnosis:#}"))["evidence"];
    let several = evidence["late_after_several_sends"]["value"].as_f64();
    assert!(several > Some(0.9), "{evidence:#}");
}
