//! Walks over recorded sockets of several network namespaces, in both ways.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Write;
use std::mem::MaybeUninit;
use std::net::{Shutdown, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use nix::sched::{CloneFlags, unshare};
use table::{Columns, SampleKind};

use super::*;
use crate::hooks::select::{LoadOptions, OutputMode};
use crate::hooks::tests::{load_for_waits, root};
use crate::hooks::walk::tests::{Pair, pairs};
use crate::hooks::{Detail, Selection, Storage, walk};
use crate::interface::features::Features;
use crate::netns::Netns;
use crate::nic::Nics;
use crate::skel::HooksSkelBuilder;

/// Connections in each namespace: no other test has so many.
const PAIRS: usize = 5;

/// UDP sockets in a namespace.
const UDP_SOCKETS: usize = 7;

/// Connections with an end that closes.
const CLOSING: usize = 3;

/// Runs a function in a thread of a new network namespace, and returns the namespace's number, too.
fn run_in_new_netns<T: Send + 'static>(make: impl FnOnce() -> T + Send + 'static) -> (T, u32) {
    let run = || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let ip = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(ip.unwrap().success());
        (make(), Netns::current().unwrap().inode())
    };
    std::thread::spawn(run).join().unwrap()
}

/// Makes connections in a new network namespace, with a process in it that lives until its input ends.
fn connect_in_new_netns() -> (Vec<Pair>, Child) {
    let make = || {
        let member = Command::new("cat").stdin(Stdio::piped()).spawn();
        (pairs(PAIRS), member.unwrap())
    };
    run_in_new_netns(make).0
}

/// Returns the network namespace of a process.
fn netns_of(member: &Child) -> Netns {
    let path: PathBuf = format!("/proc/{}/ns/net", member.id()).into();
    Netns::open(&path).unwrap()
}

/// Runs `ip` in the network namespace of a process; returns whether it succeeds.
fn run_ip(member: &Child, arguments: &str) -> bool {
    let mut command = Command::new("nsenter");
    command.arg(format!("--net=/proc/{}/ns/net", member.id()));
    command.arg("ip").args(arguments.split(' '));
    command.output().unwrap().status.success()
}

/// Returns this kernel's features, with walks over namespaces.
fn features_of_netns_walks() -> Features {
    Features {
        walks_netns: true,
        ..Features::probe().unwrap()
    }
}

/// Reads all recorded sockets; returns how often each was read.
fn read(hooks: &Hooks<'_>) -> BTreeMap<u64, usize> {
    let drainer = hooks.drainer().unwrap();
    let mut more = hooks.read_sockets().unwrap();
    loop {
        while drainer.drain(usize::MAX, || ()) > 0 {}
        if !more {
            break;
        }
        more = hooks.read_more_sockets().unwrap();
    }
    let samples = drainer.take().rows.tcp_samples;
    let mut read = BTreeMap::new();
    for at in 0..samples.len() {
        if samples.kind[at] == SampleKind::Poll {
            *read.entry(samples.conn[at]).or_default() += 1;
        }
    }
    read
}

/// Records connections of this process in two new namespaces, with walks in this way.
fn check_walks(features: Features) {
    let mut storage = Storage::uninit();
    let hooks = load_for_waits(&mut storage, features);
    hooks.attach().unwrap();
    hooks.record_process(std::process::id()).unwrap();
    let (mut connections, mut first) = connect_in_new_netns();
    let (others, mut second) = connect_in_new_netns();
    connections.extend(others);
    let cookies: Vec<u64> = connections.iter().flat_map(Pair::cookies).collect();
    let of_these = |read: &BTreeMap<u64, usize>| {
        let times = cookies.iter().map(|cookie| read.get(cookie).copied());
        times.collect::<Vec<_>>()
    };
    connections.iter_mut().for_each(Pair::exchange);
    assert_eq!(of_these(&read(&hooks)), vec![Some(1); cookies.len()]);
    connections[PAIRS].exchange();
    let news = of_these(&read(&hooks));
    let expected = |at: usize| (at / 2 == PAIRS).then_some(1);
    assert_eq!(news, (0..cookies.len()).map(expected).collect::<Vec<_>>());
    hooks.detach().unwrap();
    for member in [&mut first, &mut second] {
        // its input ends
        assert!(member.wait().unwrap().success());
    }
}

/// All but the walk over active sockets: walks over all of them do for it.
#[test]
fn each_walk_over_a_map_has_one_over_namespaces() {
    let mut storage = MaybeUninit::uninit();
    let open = HooksSkelBuilder::default().open(&mut storage).unwrap();
    let all: Vec<(String, String)> = open
        .open_object()
        .progs()
        .map(|it| {
            let text = |it: &OsStr| it.to_str().unwrap().to_owned();
            (text(it.name()), text(it.section()))
        })
        .collect();
    let over_maps = all
        .iter()
        .filter(|(_, section)| section.starts_with("iter/bpf_"));
    let names: BTreeSet<&str> = over_maps.map(|(name, _)| name.as_str()).collect();
    let expected = MAP_WALKS.into_iter().chain(["read_active"]);
    assert_eq!(names, expected.collect());
    for walk in MAP_WALKS {
        let in_place = format!("{walk}{IN_PLACE}");
        assert!(all.iter().any(|(name, _)| *name == in_place), "{walk}");
    }
}

/// Counts closing connections, sent messages that nobody acknowledges, and UDP sockets that are open at the end.
fn check_counts(features: Features) {
    let (mut connections, mut member) = connect_in_new_netns();
    let netns = netns_of(&member);
    let selection = Selection {
        all: true,
        netns: Some(netns.inode()),
        ..Selection::default()
    };
    let what = LoadOptions {
        windows: false,
        selection: &selection,
        detail: Detail::Messages,
        output: OutputMode::Records,
        nics: &Nics::default(),
        active_for: walk::ACTIVE_FOR,
    };
    let mut storage = Storage::uninit();
    let hooks = Hooks::load_with(&mut storage, &what, features).unwrap();
    hooks.attach().unwrap();
    hooks.walk().unwrap();
    let send = |_| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(b"gone", "127.0.0.1:9").unwrap();
        socket
    };
    let sockets = netns.run(|| (0..UDP_SOCKETS).map(send).collect::<Vec<_>>());
    assert!(run_ip(&member, "link set lo down"));
    for (at, Pair(client, _)) in connections.iter_mut().enumerate() {
        client.write_all(b"lost").unwrap();
        if at < CLOSING {
            client.shutdown(Shutdown::Write).unwrap();
        }
    }
    assert_eq!(hooks.read_draining().unwrap(), CLOSING as u64);
    hooks.detach().unwrap();
    hooks.flush().unwrap();
    let drainer = hooks.drainer().unwrap();
    while drainer.drain(usize::MAX, || ()) > 0 {}
    let rows = drainer.take().rows;
    let sent = &rows.sent_messages;
    let clients: Vec<u64> = connections.iter().map(|it| it.cookies()[0]).collect();
    let times = |conn: &u64| sent.conn.iter().filter(|it| *it == conn).count();
    let times: Vec<usize> = clients.iter().map(times).collect();
    assert_eq!(times, [1; PAIRS]);
    let mut of_udp: BTreeMap<u64, usize> = BTreeMap::new();
    for at in 0..rows.udp_sockets.len() {
        let row = rows.udp_sockets.row(at);
        if row.netns == netns.inode() {
            *of_udp.entry(row.conn).or_default() += 1;
        }
    }
    // at its message, and at the end
    let of_udp: Vec<usize> = of_udp.into_values().collect();
    assert_eq!(of_udp, [2; UDP_SOCKETS]);
    drop(sockets);
    assert!(member.wait().unwrap().success());
}

/// Runs a check of walks over maps, where this kernel has them.
fn check_over_maps(check: fn(Features)) {
    let features = root().then(|| Features::probe().unwrap());
    match features {
        Some(features) if features.walks_netns => {
            eprintln!("skipped: this kernel refuses iterators over maps");
        }
        Some(features) => check(features),
        None => {}
    }
}

#[test]
fn walks_over_namespaces_read_each_socket_once() {
    if root() {
        check_walks(features_of_netns_walks());
    }
}

#[test]
fn walks_over_maps_read_each_socket_once() {
    check_over_maps(check_walks);
}

#[test]
fn walks_over_namespaces_count_what_is_open_at_the_end() {
    if root() {
        check_counts(features_of_netns_walks());
    }
}

#[test]
fn walks_over_maps_count_what_is_open_at_the_end() {
    check_over_maps(check_counts);
}

/// Waits for a condition, and polls meanwhile.
fn poll_until(hooks: &Hooks<'_>, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !condition() {
        assert!(Instant::now() < end, "it never came");
        read(hooks);
    }
}

/// The devices of a namespace go with it: one has its other end in a namespace that stays.
#[test]
fn walked_namespace_ends_with_its_processes() {
    if !root() {
        return;
    }
    let mut storage = Storage::uninit();
    let hooks = load_for_waits(&mut storage, features_of_netns_walks());
    hooks.attach().unwrap();
    hooks.record_process(std::process::id()).unwrap();
    let (mut staying, mut stays) = connect_in_new_netns();
    let (mut ending, mut ends) = connect_in_new_netns();
    let ending_inode = netns_of(&ends).inode();
    let link = format!("link add kept type veth peer name lost netns {}", ends.id());
    assert!(run_ip(&stays, &link));
    for pair in staying.iter_mut().chain(&mut ending) {
        pair.exchange();
    }
    let of_ending = ending[0].cookies()[0];
    assert_eq!(read(&hooks).get(&of_ending), Some(&1));
    let walker = hooks.netns_walks.walker().unwrap();
    let walker_netns = Netns::open(&walker.netns_file()).unwrap().inode();
    assert_eq!(walker_netns, Netns::current().unwrap().inode());
    drop(ending);
    poll_until(&hooks, || !hooks.walked_netns().contains(&ending_inode));
    assert!(ends.wait().unwrap().success());
    poll_until(&hooks, || !run_ip(&stays, "link show kept"));
    assert!(!hooks.netns_walks.all_unentered().contains(&ending_inode));
    assert!(stays.wait().unwrap().success());
}

/// A process may have gone on to another namespace than that of its sockets.
#[test]
fn namespace_without_a_process_is_in_coverage() {
    if !root() {
        return;
    }
    let mut storage = Storage::uninit();
    let hooks = load_for_waits(&mut storage, features_of_netns_walks());
    hooks.attach().unwrap();
    hooks.record_process(std::process::id()).unwrap();
    assert_eq!(hooks.unentered_coverage(), None);
    let (mut connections, inode) = run_in_new_netns(|| pairs(PAIRS));
    connections.iter_mut().for_each(Pair::exchange);
    let cookie = connections[0].cookies()[0];
    assert_eq!(read(&hooks).get(&cookie), None);
    assert!(hooks.unentered_netns().contains(&inode));
    assert!(hooks.walked_netns().contains(&inode), "it is still there");
    let line = hooks.unentered_coverage().unwrap();
    assert_eq!(line.probe, OTHER_NETNS);
    drop(connections);
    poll_until(&hooks, || !hooks.unentered_netns().contains(&inode));
    assert!(hooks.unentered_coverage().is_some(), "it was so");
}
