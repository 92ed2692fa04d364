//! Waits for several descriptors: the kind of the one that was ready, as often as the program caused it.

use std::collections::BTreeMap;
use std::process::Command;

use table::tables::Wait;
use table::{WaitObject, Waker};

use testbed::report::Report;
use testbed::{finish, program, root};

/// Waits with epoll for descriptors of each kind, made ready by a child while it waits; then until a time limit.
const SOURCE: &str = include_str!("programs/ready_kinds.py");

/// Of each kind; as in the program.
const ROUNDS: usize = 101;

/// Of the last rounds; as in the program.
const LIMIT_NS: u64 = 3_000_000;

/// A wait passes no hook if the agent of a sandbox ran before its end: a tenth at most.
#[test]
fn epoll_waits_name_what_was_ready() {
    if !root() {
        return;
    }
    let scratch = tempfile::tempdir().expect("a directory");
    let mut run = Command::new(program());
    run.args(["run", "--as-root", "--detail", "waits", "--output"]);
    run.arg(scratch.path().join("r.whylat"));
    let output = finish(run.args(["--", "python3", "-c", SOURCE]));
    let lines = &output.assert_status(0).out;
    let pid = lines.lines().next().and_then(|line| line.parse().ok());
    let pid: u32 = pid.expect("its process id");
    let report = Report::from_scratch(scratch);
    // a neighbour's connections may find the program of TCP's events at work already: nothing else is lost
    let _ = report.whole_but_for_the_kernel();
    let mut others = report.json["loss"].as_array().expect("loss").iter();
    assert!(others.all(|it| it["lost_total"] == 0 || it["probe"] == "tcp_events"));
    let waits = report.rows::<Wait>();
    let mut found: BTreeMap<Option<WaitObject>, usize> = BTreeMap::new();
    for wait in waits.iter().filter(|it| it.pid == pid) {
        if wait.kind == WaitObject::Epoll {
            assert_eq!(
                wait.ready_kind.is_some(),
                wait.ready_fd.is_some(),
                "{wait:?}"
            );
            let is_tcp = [WaitObject::Connection, WaitObject::Listener].map(Some);
            let is_tcp = is_tcp.contains(&wait.ready_kind);
            // others have a cookie since their first call
            let others = [WaitObject::Unix, WaitObject::Datagram].map(Some);
            let is_other = others.contains(&wait.ready_kind);
            assert!(is_other || wait.ready_conn.is_some() == is_tcp, "{wait:?}");
            let by_timer = wait.ready_kind.is_none();
            assert_eq!(wait.limit_ns, by_timer.then_some(LIMIT_NS), "{wait:?}");
            assert!(!by_timer || wait.waker != Waker::Thread, "{wait:?}");
            *found.entry(wait.ready_kind).or_default() += 1;
        }
    }
    let kinds = [
        None,
        Some(WaitObject::Connection),
        Some(WaitObject::Listener),
        Some(WaitObject::Datagram),
        Some(WaitObject::Unix),
        Some(WaitObject::Pipe),
        Some(WaitObject::Event),
    ];
    for kind in kinds {
        let count = found.remove(&kind).unwrap_or(0);
        let rounds = ROUNDS - ROUNDS / 10..=ROUNDS;
        assert!(rounds.contains(&count), "{kind:?}: {count}");
    }
    assert!(found.is_empty(), "{found:?}");
}
