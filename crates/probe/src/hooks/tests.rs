//! Programs in this kernel, with maps that are full and hooks that are refused.

use std::io::Write;

use libbpf_rs::skel::Skel;
use libbpf_rs::{MapCore, MapFlags};
use table::Columns;
use table::manifest::ProbeState;

use super::select::{LoadOptions, OutputMode};
use super::{Detail, Hooks, Selection, Storage, attach, log, walk};
use crate::interface::features::Features;
use crate::nic::Nics;

/// Returns whether the test may load programs. If not, it prints that the test is skipped.
pub(super) fn root() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        eprintln!("skipped: BPF needs root; run the tests as root");
    }
    root
}

/// Loads programs that record this process.
fn recording_this(storage: &mut Storage) -> Hooks<'_> {
    let hooks = Hooks::load(storage, &Selection::default(), Detail::Stats).unwrap();
    hooks.attach().unwrap();
    hooks.record_process(std::process::id()).unwrap();
    hooks
}

/// A full map counts what it has no room for. A key that is there already is no loss.
#[test]
fn full_maps_count_lost_keys() {
    if !root() {
        return;
    }
    let mut storage = Storage::uninit();
    let hooks = recording_this(&mut storage);
    let use_both = || {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        assert!(child.wait().unwrap().success());
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let counts = hooks.counts().unwrap();
        (
            counts.count_lost("inventory", "processes_full"),
            counts.count_lost("inventory", "peers_full"),
        )
    };
    assert_eq!(use_both(), (0, 0));
    fill(&hooks.skel.maps.tasks);
    fill(&hooks.skel.maps.peer_tuples);
    let (tasks, peers) = use_both();
    assert!(tasks >= 1 && peers >= 1, "{tasks} tasks, {peers} peers");
}

/// A call and the walk over open files may find a new socket at the same time. Each would
/// give it its storage.
#[test]
fn socket_is_recorded_when_call_and_walk_find_it_at_once() {
    const CONNECTS: u32 = 20_011;
    if !root() {
        return;
    }
    let mut storage = Storage::uninit();
    let hooks = recording_this(&mut storage);
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = nobody.local_addr().unwrap();
    drop(nobody);
    let caller = std::thread::spawn(move || {
        for _ in 0..CONNECTS {
            std::net::TcpStream::connect(address).unwrap_err();
        }
    });
    while !caller.is_finished() {
        hooks.walk().unwrap();
    }
    caller.join().unwrap();
    assert_eq!(
        hooks.counts().unwrap().count_lost("inventory", "no_memory"),
        0
    );
}

/// Where no program sees the last change of state, a connection ends with its socket, and so do its messages.
#[test]
fn connection_ends_when_its_socket_is_destroyed() {
    if !root() {
        return;
    }
    let mut storage = Storage::uninit();
    let hooks = Hooks::load(&mut storage, &Selection::default(), Detail::Messages).unwrap();
    hooks.attach().unwrap();
    hooks.record_process(std::process::id()).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    let client_address = client.local_addr().unwrap().to_string();
    client.write_all(b"last words").unwrap();
    detach_program(&hooks, "later_state");
    detach_program(&hooks, "connection_close");
    drop((client, server));
    hooks.flush().unwrap();
    let drainer = hooks.drainer().unwrap();
    while drainer.drain(usize::MAX, || ()) > 0 {}
    let rows = drainer.take().rows;
    let connections = (0..rows.connections.len()).map(|at| rows.connections.row(at));
    let own = connections.filter(|it| it.local == client_address);
    let ended: Vec<u64> = own
        .filter(|it| it.closed_ns.is_some())
        .map(|it| it.conn)
        .collect();
    assert_eq!(ended.len(), 1);
    let sent = (0..rows.sent_messages.len()).map(|at| rows.sent_messages.row(at));
    let sent: Vec<u32> = sent
        .filter(|it| it.conn == ended[0])
        .map(|it| it.bytes)
        .collect();
    assert_eq!(sent, [10]);
}

/// Detaches one program by the name of its hook.
fn detach_program(hooks: &Hooks<'_>, name: &str) {
    let programs = hooks.skel.object().progs_mut();
    let mut attached = programs.filter_map(|program| attach::hook(&program));
    let place = attached.position(|hook| hook == name).unwrap();
    drop(hooks.attached.borrow_mut().hooks.remove(place));
}

/// Fills a map with keys that the kernel never uses.
fn fill(map: &impl MapCore) {
    for number in 0..=map.max_entries() {
        let mut key = vec![0xff; map.key_size() as usize];
        key[..4].copy_from_slice(&(number | 1 << 31).to_ne_bytes());
        if map.update(&key, &[0], MapFlags::ANY).is_err() {
            return;
        }
    }
    panic!("{:?} is never full", map.name());
}

/// Loads programs of waits as for a kernel with these features.
pub(super) fn load_for_waits(storage: &mut Storage, features: Features) -> Hooks<'_> {
    log::listen();
    let what = LoadOptions {
        windows: false,
        selection: &Selection::default(),
        detail: Detail::Waits,
        output: OutputMode::Records,
        nics: &Nics::default(),
        active_for: walk::ACTIVE_FOR,
    };
    Hooks::load_with(storage, &what, features).unwrap()
}

/// On kernels that refuse programs at functions this goes through the refusal, too.
#[test]
fn other_probes_work_when_a_tracepoint_is_missing() {
    if !root() {
        return;
    }
    let mut features = Features::probe().unwrap();
    features.omit_program("handle_sock_send_length");
    let mut storage = Storage::uninit();
    let hooks = load_for_waits(&mut storage, features);
    hooks.attach().unwrap();
    let state = |name: &str| {
        let mut coverage = hooks.coverage().iter();
        coverage
            .find(|probe| probe.probe == name)
            .unwrap()
            .state
            .clone()
    };
    assert_eq!(state("waits"), ProbeState::On);
    match state("calls") {
        ProbeState::On => panic!("calls cannot be on"),
        ProbeState::Fallback { .. } => assert!(hooks.has_calls()),
        ProbeState::Off { why, .. } => {
            assert!(!hooks.has_calls());
            assert!(why.contains("sock_send_length"), "{why}");
        }
    }
}
