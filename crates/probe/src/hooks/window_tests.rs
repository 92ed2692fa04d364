//! Windows on real calls of this process: which rows there are, exactly.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use libbpf_rs::skel::Skel;
use nix::unistd::gettid;
use table::manifest::ProbeState;
use table::tables::{Call, Wait};
use table::{Columns, RowSet, Table};

use std::os::fd::AsFd;

use super::attach::hook;
use super::tests::root;
use super::window_hooks::SAMPLE_CPU;
use super::{Detail, Hooks, Selection, Storage};
use crate::clock::thread_cpu_ns;
use crate::cpu_clocks::SAMPLE_NS;
use crate::self_cost::{Statistics, program_info};

/// No window of a test lasts for so long.
const LONG: Duration = Duration::from_secs(3_600);

/// Loads programs that record this process in windows.
fn recording_this(storage: &mut Storage) -> Hooks<'_> {
    let hooks = Hooks::load_for_windows(storage, &Selection::default(), Detail::Waits).unwrap();
    hooks.attach().unwrap();
    hooks.record_process(std::process::id()).unwrap();
    hooks
}

/// Opens a connection; returns its two ends.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (client, server)
}

/// Ends the window; returns its start and end.
fn close(hooks: &Hooks<'_>, begin_ns: u64) -> (u64, u64) {
    (begin_ns, hooks.close_window().unwrap())
}

/// Takes all rows out of the kernel.
fn take(hooks: &Hooks<'_>) -> RowSet {
    hooks.detach().unwrap();
    hooks.flush().unwrap();
    let drainer = hooks.drainer().unwrap();
    while drainer.drain(usize::MAX, || ()) > 0 {}
    drainer.take().rows
}

/// Returns the calls of one direction at the end of a connection with this address.
fn calls(rows: &RowSet, end: &TcpStream, is_send: bool) -> Vec<Call> {
    let address = end.local_addr().unwrap().to_string();
    let known = (0..rows.connections.len()).map(|at| rows.connections.row(at));
    let conn = known
        .filter(|it| it.local == address)
        .map(|it| it.conn)
        .next();
    calls_of(rows, &conn.into_iter().collect(), is_send)
}

/// Returns the calls of one direction on these connections or flows, in the order of time.
fn calls_of(rows: &RowSet, conns: &BTreeSet<u64>, is_send: bool) -> Vec<Call> {
    let all = (0..rows.calls.len()).map(|at| rows.calls.row(at));
    let mut own: Vec<Call> = all
        .filter(|it| conns.contains(&it.conn) && it.is_send == is_send)
        .collect();
    own.sort_by_key(Call::time_ns);
    own
}

/// Returns the waits of a thread for a connection.
fn waits(rows: &RowSet, tid: u32, conn: u64) -> Vec<Wait> {
    let all = (0..rows.waits.len()).map(|at| rows.waits.row(at));
    all.filter(|it| it.tid == tid && it.conn == Some(conn))
        .collect()
}

#[test]
fn only_calls_in_windows_have_rows() {
    if !root() {
        return;
    }
    let mut storage = Storage::uninit();
    let hooks = recording_this(&mut storage);
    let (mut client, mut server) = connection();
    let mut send = |bytes: usize| {
        client.write_all(&vec![0; bytes]).unwrap();
        server.read_exact(&mut vec![0; bytes]).unwrap();
    };
    let mut windows = Vec::new();
    send(1);
    let begin_ns = hooks.open_window(LONG).unwrap();
    send(2);
    send(3);
    windows.push(close(&hooks, begin_ns));
    send(4);
    send(5);
    let begin_ns = hooks.open_window(LONG).unwrap();
    send(6);
    windows.push(close(&hooks, begin_ns));
    send(7);
    let rows = take(&hooks);
    for (end, is_send) in [(&client, true), (&server, false)] {
        let calls = calls(&rows, end, is_send);
        let moved: Vec<_> = calls.iter().map(|it| (it.result, it.offset_end)).collect();
        assert_eq!(moved, [(2, 3), (3, 6), (6, 21)], "send: {is_send}");
        for (call, window) in calls.iter().zip([0, 0, 1]) {
            let (begin_ns, end_ns) = windows[window];
            assert!((begin_ns..=end_ns).contains(&call.end_ns), "{call:?}");
        }
    }
}

/// Starts a thread that receives single bytes, and reports each.
fn receiver(mut end: TcpStream) -> (u32, Receiver<()>, JoinHandle<TcpStream>) {
    let (to, from) = channel();
    let (tid_to, tid_from) = channel();
    let thread = std::thread::spawn(move || {
        tid_to.send(gettid().as_raw().cast_unsigned()).unwrap();
        while end.read(&mut [0]).unwrap() > 0 {
            to.send(()).unwrap();
        }
        end
    });
    (tid_from.recv().unwrap(), from, thread)
}

/// Waits until a thread is blocked in a receive call.
fn wait_until_receiving(tid: u32) {
    let path = format!("/proc/self/task/{tid}/syscall");
    let call = format!("{} ", libc::SYS_recvfrom);
    while !std::fs::read_to_string(&path).unwrap().starts_with(&call) {
        std::thread::yield_now();
    }
}

#[test]
fn wait_that_crosses_a_window_edge_has_no_row() {
    if !root() {
        return;
    }
    let mut storage = Storage::uninit();
    let hooks = recording_this(&mut storage);
    let (mut client, server) = connection();
    let (tid, received, thread) = receiver(server);
    let mut send = || {
        wait_until_receiving(tid);
        client.write_all(&[1]).unwrap();
        received.recv().unwrap();
    };
    // its storage is made
    hooks.open_window(LONG).unwrap();
    send();
    hooks.close_window().unwrap();
    send();
    // over the start; then within
    wait_until_receiving(tid);
    let begin_ns = hooks.open_window(LONG).unwrap();
    send();
    send();
    // over the end
    wait_until_receiving(tid);
    hooks.close_window().unwrap();
    send();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let server = thread.join().unwrap();
    let rows = take(&hooks);
    let calls = calls(&rows, &server, false);
    let second: Vec<_> = calls.iter().filter(|it| it.end_ns >= begin_ns).collect();
    let [over, within] = &second[..] else {
        panic!("{calls:?}");
    };
    assert_eq!((over.start_ns, over.blocked_ns), (None, None));
    assert_eq!((over.offset_end, within.offset_end), (3, 4));
    assert!(within.blocked_ns.is_some() && within.start_ns >= Some(begin_ns));
    let waits = waits(&rows, tid, over.conn);
    let begun: Vec<_> = waits.iter().filter(|it| it.end_ns >= begin_ns).collect();
    let [wait] = &begun[..] else {
        panic!("{waits:?}");
    };
    assert!(wait.start_ns >= over.end_ns && wait.end_ns <= within.end_ns);
}

/// Returns a UDP socket with a port that this process named, as a server does.
fn serving_socket() -> UdpSocket {
    loop {
        let free = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        // another process may have taken it
        if let Ok(server) = UdpSocket::bind(address) {
            return server;
        }
    }
}

/// Nothing notes when they come, and none gets the time of another.
#[test]
fn datagrams_that_came_between_windows_have_no_time() {
    if !root() {
        return;
    }
    let mut storage = Storage::uninit();
    let hooks = recording_this(&mut storage);
    let arrivals = hooks
        .coverage()
        .iter()
        .find(|it| it.probe == "udp_flows.arrivals");
    if arrivals.is_none_or(|it| it.state != ProbeState::On) {
        eprintln!("skipped: this kernel does not show when datagrams come");
        return;
    }
    let server = serving_socket();
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    client.connect(server.local_addr().unwrap()).unwrap();
    let give = |sizes: &[usize]| {
        for bytes in sizes {
            client.send(&vec![0; *bytes]).unwrap();
        }
    };
    let receive = |count: usize| {
        for _ in 0..count {
            server.recv(&mut [0; 100]).unwrap();
        }
    };
    hooks.open_window(LONG).unwrap();
    give(&[1]);
    receive(1);
    give(&[2]);
    receive(1);
    hooks.close_window().unwrap();
    give(&[3, 4, 5]);
    receive(1);
    hooks.open_window(LONG).unwrap();
    receive(2);
    give(&[6, 7]);
    receive(2);
    hooks.close_window().unwrap();
    let rows = take(&hooks);
    let address = server.local_addr().unwrap().to_string();
    let flows = (0..rows.udp_flows.len()).map(|at| rows.udp_flows.row(at));
    let own = flows.filter(|it| it.local == address).map(|it| it.conn);
    let own: BTreeSet<u64> = own.collect();
    let calls = calls_of(&rows, &own, false);
    let known = calls.iter().map(|it| (it.result, it.unread_ns.is_some()));
    let expected = [
        (1, false),
        (2, true),
        (4, false),
        (5, false),
        (6, true),
        (7, true),
    ];
    assert_eq!(known.collect::<Vec<_>>(), expected);
}

#[test]
fn recording_in_windows_keeps_no_ledger() {
    if !root() {
        return;
    }
    let mut storage = Storage::uninit();
    let hooks = recording_this(&mut storage);
    hooks.open_window(LONG).unwrap();
    let (mut client, mut server) = connection();
    client.write_all(&[1]).unwrap();
    server.read_exact(&mut [0]).unwrap();
    drop((client, server));
    hooks.close_window().unwrap();
    let is_off = hooks.coverage().iter().any(|it| {
        it.probe == "tcp_stages" && matches!(it.state, table::manifest::ProbeState::Off { .. })
    });
    let rows = take(&hooks);
    assert!(is_off && rows.tcp_stages.is_empty() && !hooks.has_calls());
    assert!(!rows.tcp_samples.is_empty());
}

/// Others may have the CPUs when a window is to end: then it ends by itself.
#[test]
fn window_ends_by_itself_and_hands_over_its_batch() {
    if !root() {
        return;
    }
    let mut storage = Storage::uninit();
    let hooks = recording_this(&mut storage);
    let (mut client, _server) = connection();
    let mut send = |calls: usize| (0..calls).for_each(|_| client.write_all(&[1]).unwrap());
    hooks.open_window(LONG).unwrap();
    send(1_000);
    assert!(hooks.extend_window(Duration::from_nanos(1)).unwrap());
    send(1_000);
    assert!(
        !hooks.extend_window(LONG).unwrap(),
        "it does not begin again"
    );
    let ended_ns = hooks.close_window().unwrap();
    send(1_000);
    let rows = take(&hooks);
    let calls = calls(&rows, &client, true);
    let most = 1_000 + 64 * libbpf_rs::num_possible_cpus().unwrap();
    assert!((1_000..=most).contains(&calls.len()), "{}", calls.len());
    assert!(calls.iter().all(|it| it.end_ns <= ended_ns));
}

/// Returns the ids of programs that descriptors of this process keep attached.
fn attached_programs() -> BTreeSet<u32> {
    let descriptors = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    // other tests close theirs meanwhile
    let texts = descriptors.filter_map(|it| std::fs::read_to_string(it.ok()?.path()).ok());
    let of_links = texts.filter(|text| text.contains("link_type:"));
    let ids = of_links.filter_map(|text| {
        let id = text.lines().find_map(|line| line.strip_prefix("prog_id:"));
        id?.trim().parse().ok()
    });
    ids.collect()
}

/// Returns the ids of programs at hooks: those of windows only, and the others.
fn programs_at_hooks(hooks: &Hooks<'_>) -> [BTreeSet<u32>; 2] {
    let mut found = [BTreeSet::new(), BTreeSet::new()];
    for program in hooks.skel.object().progs_mut() {
        let name = program.name().to_str().unwrap();
        let is_of_windows = hooks.of_windows.has_program(name) && name != SAMPLE_CPU;
        if program.autoload() && (is_of_windows || hook(&program).is_some()) {
            let id = program_info(program.as_fd()).unwrap().id;
            found[usize::from(!is_of_windows)].insert(id);
        }
    }
    found
}

#[test]
fn window_hooks_are_attached_only_in_windows() {
    if !root() {
        return;
    }
    let mut storage = Storage::uninit();
    let hooks = recording_this(&mut storage);
    let [of_windows, staying] = programs_at_hooks(&hooks);
    let count = || {
        let attached = attached_programs();
        assert!(staying.is_subset(&attached));
        of_windows.intersection(&attached).count()
    };
    // the way to them is timed then
    assert_eq!(count(), of_windows.len());
    // calls, switches, wakes, datagrams that come, and their addresses in two families
    let needed = [
        "calls",
        "waits",
        "udp_flows",
        "udp_flows.arrivals",
        "udp_flows.addresses",
    ];
    let coverage = hooks.coverage().iter();
    let needed: Vec<_> = coverage
        .filter(|it| needed.contains(&it.probe.as_str()))
        .collect();
    assert_eq!(needed.len(), 5, "{needed:?}");
    assert!(needed.iter().any(|it| it.state != ProbeState::On) || of_windows.len() == 10);
    for _ in 0..3 {
        hooks.open_window(LONG).unwrap();
        assert_eq!(count(), of_windows.len());
        hooks.close_window().unwrap();
        assert_eq!(count(), 0);
    }
    hooks.open_window(LONG).unwrap();
    hooks.detach().unwrap();
    let attached = attached_programs();
    assert!(attached.is_disjoint(&of_windows) && attached.is_disjoint(&staying));
}

/// Returns how often the sampling program runs while this thread uses this much CPU time.
fn looks_of_clocks(hooks: &Hooks<'_>, length_ns: u64) -> u64 {
    let runs = || {
        let program = hooks.skel.progs.sample_cpu.as_fd();
        program_info(program).unwrap().run_cnt
    };
    let (before, begin_ns) = (runs(), thread_cpu_ns());
    while thread_cpu_ns() < begin_ns + length_ns {}
    runs() - before
}

#[test]
fn cpu_clocks_run_only_in_windows() {
    if !root() {
        return;
    }
    let statistics = Statistics::begin().unwrap();
    let _on = statistics.enable().unwrap();
    let mut storage = Storage::uninit();
    let hooks = recording_this(&mut storage);
    for _ in 0..2 {
        hooks.open_window(LONG).unwrap();
        assert!(looks_of_clocks(&hooks, 5 * SAMPLE_NS) > 0);
        hooks.close_window().unwrap();
        assert_eq!(looks_of_clocks(&hooks, 5 * SAMPLE_NS), 0);
    }
}
