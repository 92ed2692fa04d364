//! Walks over recorded sockets of several network namespaces, in both ways.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::process::{Child, Command, Stdio};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use nix::sched::{CloneFlags, unshare};
use table::{Columns, SampleKind};

use super::*;
use crate::hooks::Storage;
use crate::hooks::tests::{load_for_waits, root};
use crate::hooks::walk::tests::{Pair, pairs};
use crate::interface::features::Features;
use crate::skel::HooksSkelBuilder;

/// Connections in each namespace: no other test has so many.
const PAIRS: usize = 5;

/// Makes connections in a new network namespace, with a process in it that lives until its input ends.
fn connect_in_new_netns() -> (Vec<Pair>, Child) {
    let run = || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let ip = Command::new("ip")
            .args(["link", "set", "lo", "up"])
            .status();
        assert!(ip.unwrap().success());
        let member = Command::new("cat").stdin(Stdio::piped()).spawn();
        (pairs(PAIRS), member.unwrap())
    };
    std::thread::spawn(run).join().unwrap()
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

#[test]
fn walks_over_namespaces_read_each_socket_once() {
    if root() {
        check_walks(Features {
            walks_netns: true,
            ..Features::probe().unwrap()
        });
    }
}

#[test]
fn walks_over_maps_read_each_socket_once() {
    let features = root().then(|| Features::probe().unwrap());
    match features {
        Some(features) if features.walks_netns => {
            eprintln!("skipped: this kernel refuses iterators over maps");
        }
        Some(features) => check_walks(features),
        None => {}
    }
}
