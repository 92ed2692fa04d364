//! Sockets that another process opened: inherited, accepted elsewhere, passed on.

use std::process::Stdio;

use lab::Netns;
use serde_json::Value;

use super::{REQUESTS, ROUNDS, SIZE, Talker, assert_calls, assert_owned, go_program, moved};
use testbed::programs::until_listening;
use testbed::report::{Report, number, text};
use testbed::{Recorder, root};

/// A server that its manager listens for, and becomes when the first connection comes.
#[test]
fn activated_server_is_recorded() {
    const PORT: u16 = 7201;
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let mut manager = netns.command("systemd-socket-activate");
    manager.args(["-l", &format!("127.0.0.1:{PORT}")]);
    manager
        .arg(go_program())
        .arg("activated")
        .stderr(Stdio::null());
    let mut server = Talker::start_silent(&mut manager);
    let pid = server.pid();
    until_listening(&netns, PORT);
    let recorder = Recorder::start(&format!("-p {pid}"));
    let mut client = Talker::go(&netns, &format!("client 127.0.0.1:{PORT} {REQUESTS} tcp"));
    assert_eq!(server.line().trim(), PORT.to_string());
    client.let_go();
    client.finish();
    let truth = server.finish();
    let report = recorder.stop();
    assert_calls(&report, PORT, &truth);
    assert_owned(&report, PORT, pid);
}

/// The Python program's calls on its one connection, which answers a client of the same program.
#[track_caller]
fn assert_echoed(report: &Report, local: u16, truth: &Value) {
    report.assert_whole();
    let bytes = ROUNDS * SIZE;
    assert_eq!(
        [number(truth, "/reads"), number(truth, "/writes")],
        [ROUNDS; 2]
    );
    assert_eq!(
        moved(report, local),
        [ROUNDS, ROUNDS, bytes, bytes],
        "{}",
        report.brief()
    );
    let pid = u32::try_from(number(truth, "/pid")).expect("a pid");
    assert_owned(report, local, pid);
}

fn python_client(netns: &Netns, host: &str, port: u16) -> Talker {
    Talker::python(netns, &format!("client {host} {port}"))
}

/// Accepted by a child that is made later, on two copies of the descriptor, over IPv6 and by an IPv4-mapped address.
fn accepted_by_a_child(listen: &str, connect: &str) {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let mut server = Talker::python(&netns, &format!("accepted-by-child {listen}"));
    let port = server.port();
    let recorder = Recorder::start(&format!("-p {}", server.pid()));
    server.let_go();
    let mut client = python_client(&netns, connect, port);
    let remote = client.port();
    client.let_go();
    client.finish();
    let truth = server.finish();
    let report = recorder.stop();
    assert_echoed(&report, port, &truth);
    let own = report.by_ports(Some(port), Some(remote));
    assert_eq!(own.len(), 1, "{}", report.brief());
    let host = if connect.contains(':') {
        format!("[{connect}]")
    } else {
        connect.to_owned()
    };
    assert_eq!(text(own[0], "local"), format!("{host}:{port}"));
}

#[test]
fn child_that_accepts_ipv6_is_recorded() {
    accepted_by_a_child("::", "::1");
}

#[test]
fn child_that_accepts_a_mapped_address_is_recorded() {
    accepted_by_a_child("::", "127.0.0.1");
}

/// A connection that another process has accepted and passed on belongs to who got it, from its first call on.
fn passed(method: &str) {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let mut sender = Talker::python(&netns, &format!("passed {method}"));
    let (port, receiver) = (sender.port(), sender.words[1].clone());
    let mut client = python_client(&netns, "127.0.0.1", port);
    let recorder = Recorder::start(&format!("-p {receiver}"));
    sender.let_go();
    client.let_go();
    client.finish();
    let truth = sender.finish();
    let report = recorder.stop();
    assert_eq!(number(&truth, "/pid").to_string(), receiver);
    assert_echoed(&report, port, &truth);
    let targets = report
        .connections()
        .iter()
        .filter(|it| it["chosen"] == "target");
    assert_eq!(targets.count(), 1, "{}", report.brief());
}

#[test]
fn socket_passed_by_scm_rights_is_recorded() {
    passed("scm_rights");
}

#[test]
fn socket_passed_by_pidfd_getfd_is_recorded() {
    passed("pidfd_getfd");
}
