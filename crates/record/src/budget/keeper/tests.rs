//! Windows that the kernel refuses, on real calls of this process.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use nix::libc;
use probe::hooks::{Detail, Selection, Storage};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

use super::*;

/// Commands of bpf(2) that attach (`include/uapi/linux/bpf.h`).
const ATTACHING: [u64; 2] = [17, 28]; // BPF_RAW_TRACEPOINT_OPEN, BPF_LINK_CREATE

/// Makes the kernel refuse to attach programs of this thread from now on. Other threads may.
fn refuse_to_attach() {
    let commands = ATTACHING.map(|command| {
        let is = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, command);
        SeccompRule::new(vec![is.unwrap()]).unwrap()
    });
    let filter = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_bpf, commands.to_vec())]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::EPERM.cast_unsigned()),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let filter: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&filter).unwrap();
}

#[test]
fn windows_end_for_good_when_the_kernel_refuses_to_attach_again() {
    if !nix::unistd::geteuid().is_root() {
        eprintln!("skipped: BPF needs root; run the tests as root");
        return;
    }
    // it alone has the filter
    std::thread::spawn(refused_after_a_window).join().unwrap();
}

/// Records one window, then refuses to attach hooks: the coverage must say why.
fn refused_after_a_window() {
    let mut storage = Storage::uninit();
    let hooks =
        Hooks::load_for_windows(&mut storage, &Selection::default(), Detail::Waits).unwrap();
    hooks.attach().unwrap();
    hooks.record_process(std::process::id()).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (mut server, _) = listener.accept().unwrap();
    let mut send = |bytes: usize| {
        client.write_all(&vec![0; bytes]).unwrap();
        server.read_exact(&mut vec![0; bytes]).unwrap();
    };
    let statistics = Statistics::begin().unwrap();
    // all of it: every look may open a window
    let budget = "100%".parse().unwrap();
    let mut keeper = WindowKeeper::new(&hooks, statistics, budget, 40.0).unwrap();
    assert_eq!(keeper.open().unwrap().windows.len(), 1);
    send(2);
    assert_eq!(keeper.close().unwrap().windows.len(), 1);
    refuse_to_attach();
    assert_eq!(keeper.open().unwrap().windows.len(), 0);
    send(3);
    let refusal = keeper.take_refusal().expect("coverage");
    let ProbeState::Off { why, .. } = &refusal.state else {
        panic!("{refusal:?}");
    };
    assert!(why.contains("Operation not permitted"), "{why}");
    let mut now_ns = monotonic_ns();
    for _ in 0..1_000 {
        now_ns += 1_000_000_000;
        let rows = keeper.look(now_ns, || panic!("a change")).unwrap();
        assert!(rows.windows.is_empty());
    }
    assert!(keeper.take_refusal().is_none(), "it is reported once");
    assert!(keeper.close().unwrap().windows.is_empty());
    hooks.detach().unwrap();
    hooks.flush().unwrap();
    let drainer = hooks.drainer().unwrap();
    while drainer.drain(usize::MAX, || ()) > 0 {}
    let rows = drainer.take().rows;
    let address = client.local_addr().unwrap().to_string();
    let connections = (0..rows.connections.len()).map(|at| rows.connections.row(at));
    let own: Vec<u64> = connections
        .filter(|it| it.local == address)
        .map(|it| it.conn)
        .collect();
    let calls = (0..rows.calls.len()).map(|at| rows.calls.row(at));
    let sent: Vec<i32> = calls
        .filter(|it| own.contains(&it.conn) && it.is_send)
        .map(|it| it.result)
        .collect();
    assert_eq!(sent, [2], "what the window had is there");
}
