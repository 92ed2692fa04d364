//! The loss identity is exact: everything that a probe produced is stored, filtered or lost for
//! a named cause, also when nobody empties the rings.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;

use lab::{LabProcess, Netns};
use nix::sys::signal::Signal;
use serde_json::Value;
use table::manifest::Loss;
use table::tables::{TcpSample, TcpStage};

use testbed::report::{Report, number};
use testbed::{Recorder, program, role, role_as, root};

/// Calls made while the recorder is stopped: several times what its rings hold.
const CALLS: u64 = 2_000_003;

fn calls(arguments: &str) -> (LabProcess, Recorder) {
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

/// They fit into the rings, however late the recorder is. (`make faults` demands more at their rate.)
#[test]
fn all_records_are_stored_without_loss() {
    if !root() {
        return;
    }
    let (calls, recorder) = calls("--pairs 2 --sends 6007");
    let truth = calls.finish().expect("truth");
    let report = recorder.stop();
    let account = account(&report);
    assert_eq!(account.lost_total(), 0, "{account:?}");
    assert_eq!(account.produced, made(&truth));
    assert_eq!(account.stored, made(&truth));
}

/// Each has a sample and a ledger to read at the first poll, which is more than the ring holds.
#[test]
fn walk_reads_more_sockets_than_ring_holds() {
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

/// Programs that make calls run one after the other while the recorder is stopped. (`make faults` demands the rate, too.)
#[test]
fn stopped_recorder_counts_lost_calls() {
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
    let mut all = 0;
    while all < CALLS {
        let calls = "count-calls --pairs 2 --sends 2003 --empty-reads 113";
        let truth = role_as(&netns, named, calls).finish().expect("truth");
        all += made(&truth);
    }
    recorder.signal(Signal::SIGCONT);
    let account = account(&recorder.stop());
    assert_eq!(account.produced, all);
    assert!(account.lost_total() > 0, "the rings held all: {account:?}");
    assert!(account.stored > 0, "{account:?}");
}
