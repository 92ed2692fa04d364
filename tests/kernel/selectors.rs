//! Each selector records exactly its processes: these are in table `waits`, while others wait beside them.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::process::Command;

use lab::{LabProcess, Netns, now_ns};
use table::WaitObject;
use table::tables::{Call, Process, Wait};

use crate::masters::{children, until_waited, waiting_processes};
use crate::select::{Group, Pair};
use testbed::programs::{own_port, tied, until_listening};
use testbed::report::{Report, number};
use testbed::{ChildGuard, Recorder, root, wait};

const HEIRS: &str = include_str!("programs/heirs.py");

/// Connects for each line of its input, and sends a byte.
const CLIENT: &str = "
import socket, sys
connections = []
for line in sys.stdin:
    connections.append(socket.create_connection(('127.0.0.1', int(sys.argv[1]))))
    connections[-1].send(b'.')
";
/// Waits all the time.
const SLEEPER: &str = "import time\nwhile True: time.sleep(0.005)";
/// The same, once it has started another program that does, too, on a line of its input.
const STARTER: &str = "import subprocess, sys, time\nsys.stdin.readline()\n\
     other = subprocess.Popen(['python3', '-c', sys.argv[1]])\nprint(other.pid, flush=True)\n\
     sys.stdin.readline()\nother.kill()\nprint(0)";

/// A process that waits all the time.
fn sleeper(python: &str) -> ChildGuard {
    let sleeper = ChildGuard::start(Command::new(python).args(["-c", SLEEPER]));
    until_waited(sleeper.0.id());
    sleeper
}

fn sleeps(report: &Report, pid: u32) -> usize {
    let waits = report.rows::<Wait>().into_iter();
    waits
        .filter(|wait| wait.pid == pid && wait.kind == WaitObject::Sleep)
        .count()
}

#[test]
fn port_selects_socket_owners() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let bystander = sleeper("python3");
    let port = own_port();
    let save = "--save '' --appendonly no --dir /tmp --bind 127.0.0.1 --daemonize no";
    let server = tied(&netns, &format!("redis-server --port {port} {save}"));
    until_listening(&netns, port);
    let recorder = Recorder::start(&format!("--port {port}"));
    let words = format!("redis-benchmark -p {port} -n 3001 -c 5 -t get -q");
    let mut client = tied(&netns, &words);
    assert!(wait(&mut client.0, "redis-benchmark").success());
    until_waited(bystander.0.id());
    let report = recorder.stop();
    report.assert_whole();
    let owners = BTreeSet::from([server.0.id(), client.0.id()]);
    assert_eq!(waiting_processes(&report), owners);
    let rows = report.rows::<Process>().into_iter();
    assert_eq!(rows.map(|row| row.pid).collect::<BTreeSet<_>>(), owners);
}

/// A child that has the socket is an owner, also as another program; one that has become a program without it is none.
#[test]
fn port_selects_socket_heirs() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let port = own_port().to_string();
    let mut server = netns.command("python3");
    server.args(["-c", HEIRS, &port, SLEEPER]);
    let mut server = LabProcess::start(server).expect("start the server");
    server.line().expect("it listens");
    let recorder = Recorder::start(&format!("--port {port}"));
    // not this process, which starts others for other tests meanwhile
    let mut client = netns.command("python3");
    client.args(["-c", CLIENT, &port]);
    let mut client = LabProcess::start(client).expect("start the client");
    let mut connect = || {
        client.go().expect("a connection");
        let pid = number(&server.line().expect("a child"), "");
        let pid = u32::try_from(pid).expect("a pid");
        until_waited(pid);
        pid
    };
    let [forked, kept, without] = [connect(), connect(), connect()];
    let report = recorder.stop();
    let mut waiters = waiting_processes(&report);
    // this one has connected; that one was an owner until it became another program
    waiters.remove(&client.pid());
    waiters.remove(&without);
    assert_eq!(waiters, BTreeSet::from([server.pid(), forked, kept]));
    assert!(sleeps(&report, kept) > 0);
    assert_eq!(sleeps(&report, without), 0);
}

#[test]
fn pid_excludes_peer_process() {
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let mut pair = Pair::start(&netns);
    let recorder = Recorder::start(&format!("-p {}", pair.client.pid()));
    let client = pair.client.pid();
    pair.go();
    pair.finish();
    let report = recorder.stop();
    report.assert_whole();
    // a client does not wait for an answer that is there when it asks
    let calls = report.rows::<Call>();
    let own = calls.iter().filter(|call| call.pid == client);
    let has_waited = own.clone().any(|call| call.blocked_ns > Some(0));
    let waiters = waiting_processes(&report);
    assert!(own.count() > 0 && waiters.is_subset(&BTreeSet::from([client])));
    assert!(!has_waited || waiters.contains(&client));
}

/// As long as they have the name: a program that one of them starts has another.
#[test]
fn name_selects_processes() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let name = "wl-named-17";
    let python = scratch.path().join(name);
    symlink("/usr/bin/python3", &python).expect("a second name");
    let python = python.to_str().expect("a path");
    let _bystander = sleeper("python3");
    let before = sleeper(python);
    let mut starter = Command::new(python);
    starter.args(["-c", STARTER, SLEEPER]);
    let mut starter = LabProcess::start(starter).expect("start");
    let recorder = Recorder::start(&format!("--comm {name}"));
    starter.go().expect("go");
    let other = number(&starter.line().expect("its child"), "");
    let other = u32::try_from(other).expect("a pid");
    let after = sleeper(python);
    for pid in [before.0.id(), after.0.id(), other] {
        until_waited(pid);
    }
    let starter_pid = starter.pid();
    starter.go().expect("go");
    starter.finish().expect("its end");
    let report = recorder.stop();
    report.assert_whole();
    let mut waiters = waiting_processes(&report);
    assert_eq!(sleeps(&report, other), 0);
    waiters.remove(&other);
    let named = BTreeSet::from([before.0.id(), after.0.id(), starter_pid]);
    assert_eq!(waiters, named);
}

/// As long as they are there: who comes later, and not who has left.
#[test]
fn cgroup_selects_members() {
    if !root() {
        return;
    }
    let group = Group::new();
    let _bystander = sleeper("python3");
    let [stays, comes, leaves] = [(); 3].map(|()| sleeper("python3"));
    let [stays_pid, comes_pid, leaves_pid] = [&stays, &comes, &leaves].map(|it| it.0.id());
    group.take(stays_pid);
    group.take(leaves_pid);
    let recorder = Recorder::start(&format!("--cgroup {}", group.path()));
    until_waited(leaves_pid);
    group.release(leaves_pid);
    let left_ns = now_ns();
    group.take(comes_pid);
    for pid in [stays_pid, comes_pid, leaves_pid] {
        until_waited(pid);
    }
    let report = recorder.stop();
    report.assert_whole();
    let all = BTreeSet::from([stays_pid, comes_pid, leaves_pid]);
    assert_eq!(waiting_processes(&report), all);
    let waits = report.rows::<Wait>().into_iter();
    let late = waits.filter(|wait| wait.pid == leaves_pid && wait.start_ns > left_ns);
    assert_eq!(late.count(), 0);
    drop((stays, comes, leaves));
}

/// Everybody, but not the recorder, its threads and what it has started.
#[test]
fn all_excludes_recorder() {
    if !root() {
        return;
    }
    let bystander = sleeper("python3");
    let recorder = Recorder::start("-a");
    let mut own = BTreeSet::from([recorder.pid()]);
    own.extend(children(recorder.pid()));
    until_waited(recorder.pid());
    until_waited(bystander.0.id());
    let report = recorder.stop();
    let waiters = waiting_processes(&report);
    assert!(waiters.contains(&bystander.0.id()), "{waiters:?}");
    assert!(waiters.is_disjoint(&own), "{own:?} in {waiters:?}");
    let rows = report.rows::<Process>().into_iter();
    assert!(rows.map(|row| row.pid).all(|pid| !own.contains(&pid)));
}
