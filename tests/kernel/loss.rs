//! The loss identity is exact: everything that a probe produced is stored, filtered or lost for
//! a named cause, also when nobody empties the rings.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use lab::{Netns, Running, now_ns};
use nix::sys::signal::Signal;
use serde_json::Value;
use table::manifest::Loss;
use table::tables::{TcpSample, TcpStage};

use crate::harness::{Recorder, program, role, role_as, root};
use crate::report::{Report, number};

/// How long the recorder is stopped.
const STOPPED_NS: u64 = 5_000_000_000;

fn calls(arguments: &str) -> (Running, Recorder) {
    let netns = Netns::new().expect("a namespace");
    let mut calls = role(&netns, &format!("count-calls --start-on-stdin {arguments}"));
    calls.port().expect("connected");
    let recorder = Recorder::start(&format!("-p {}", calls.pid()));
    calls.go().expect("go");
    (calls, recorder)
}

/// Accounts of all probes, checked against the identity; gives that of the calls.
#[track_caller]
fn account(report: &Report) -> Loss {
    let recording = report.recording();
    assert!(!recording.loss().is_empty());
    for loss in recording.loss() {
        assert_eq!(loss.residual(), 0, "{loss:?}");
    }
    let calls = recording.loss().iter().find(|loss| loss.probe == "calls");
    let calls = calls.expect("an account of calls").clone();
    assert_eq!(calls.stored, recording.rows::<table::tables::Call>());
    calls
}

fn made(truth: &Value) -> u64 {
    number(truth, "/send_calls") + number(truth, "/recv_calls")
}

#[test]
fn without_loss_everything_produced_is_stored() {
    if !root() {
        return;
    }
    let (calls, recorder) = calls("--pairs 2 --sends 20011");
    let truth = calls.finish().expect("truth");
    let report = recorder.stop();
    let account = account(&report);
    assert_eq!(account.lost_total(), 0, "{account:?}");
    assert_eq!(account.produced, made(&truth));
    assert_eq!(account.stored, made(&truth));
}

/// Each has a sample and a ledger to read at the first poll, which is more than the ring holds.
#[test]
fn more_sockets_than_the_ring_holds_are_all_read() {
    const SOCKETS: usize = 2 * 5003;
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let mut held = role(&netns, &format!("hold-open {}", SOCKETS / 2));
    held.port().expect("connected");
    let holders = format!("/proc/{0}/task/{0}/children", held.pid());
    let holders = std::fs::read_to_string(holders).expect("the processes that hold them");
    let pids = holders.split_whitespace().map(|pid| format!("-p {pid} "));
    let recorder = Recorder::start(&pids.collect::<String>());
    let report = recorder.stop();
    account(&report);
    let sampled = report.rows::<TcpSample>().into_iter().map(|row| row.conn);
    let read = report.rows::<TcpStage>().into_iter().map(|row| row.conn);
    assert_eq!(sampled.collect::<BTreeSet<u64>>().len(), SOCKETS);
    assert_eq!(read.collect::<BTreeSet<u64>>().len(), SOCKETS);
}

/// Programs that make calls run one after the other, for as long as the recorder is stopped.
#[test]
fn a_recorder_stopped_for_5_s_under_500k_calls_a_second() {
    const NAME: &str = "wl-calls-17";
    if !root() {
        return;
    }
    let netns = Netns::new().expect("a namespace");
    let scratch = tempfile::tempdir().expect("a directory");
    let named = scratch.path().join(NAME);
    symlink(program(), &named).expect("a second name");
    let named = named.to_str().expect("a path");
    let recorder = Recorder::start(&format!("--comm {NAME}"));
    recorder.signal(Signal::SIGSTOP);
    let since_ns = now_ns();
    let mut all = 0;
    while now_ns() - since_ns < STOPPED_NS {
        let calls = "count-calls --pairs 2 --sends 2003 --empty-reads 113";
        let truth = role_as(&netns, named, calls).finish().expect("truth");
        all += made(&truth);
    }
    let took_ns = now_ns() - since_ns;
    recorder.signal(Signal::SIGCONT);
    let report = recorder.stop();
    let per_s = u128::from(all) * 1_000_000_000 / u128::from(took_ns);
    eprintln!(
        "{all} calls in {:.1} s: {per_s} a second",
        took_ns as f64 / 1e9
    );
    assert!(per_s >= 500_000, "only {per_s} calls a second");
    let account = account(&report);
    eprintln!("{account:?}");
    assert_eq!(account.produced, all);
    assert!(
        account.lost_total() > 0,
        "nothing was lost: the test proves nothing"
    );
    assert!(account.stored > 0);
}
