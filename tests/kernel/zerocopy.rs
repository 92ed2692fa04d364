//! Zero-copy sends that the kernel copies after all, which over loopback are all of them: a program counts its reports,
//! and the recording has the same counts, and the finding.

use std::collections::BTreeMap;

use serde_json::Value;
use table::ZerocopyInterface;
use table::tables::ZerocopySend;
use tempfile::TempDir;

use testbed::report::{Report, json_report};
use testbed::{compile_c, record_command, root};

const PROGRAM: &str = include_str!("programs/zerocopy.c");
const URING_PROGRAM: &str = include_str!("programs/uring.c");

/// Of `zerocopy.c`.
const SENDS: u64 = 101;

fn recorded(source: &str, name: &str, how: &str) -> (Report, Vec<Value>) {
    let scratch = TempDir::new().expect("a directory");
    let binary = compile_c(scratch.path(), name, source, &[]);
    record_command(scratch, &["--detail", "calls"], &[&binary, how])
}

/// The last row of each connection and interface: counts are since the recording began.
fn counts(report: &Report) -> BTreeMap<(u64, ZerocopyInterface), [u64; 3]> {
    let rows = report.rows::<ZerocopySend>().into_iter();
    let last = rows.map(|row| {
        let counts = [row.copied, row.not_copied, row.unknown];
        ((row.conn, row.interface), counts)
    });
    last.collect()
}

fn whole(line: &Value, name: &str) -> u64 {
    line[name].as_u64().expect("a count")
}

/// Returns whether the recording leaves open if sends of this connection were copied.
fn is_undecided(report: &Report, conn: u64) -> bool {
    let json = json_report(report.path());
    let undecided = json["undecided"].as_array().expect("a list");
    undecided.iter().any(|it| {
        let ids = it["subject"]["ids"].as_array().expect("ids");
        it["candidates"][0] == "zerocopy_copied" && ids.iter().any(|id| *id == conn)
    })
}

fn sends(how: &str) {
    if !root() {
        return;
    }
    let (report, printed) = recorded(PROGRAM, "lender", how);
    let [line] = &printed[..] else {
        panic!("{printed:?}")
    };
    assert_eq!(
        (whole(line, "copied"), whole(line, "not_copied")),
        (SENDS, 0)
    );
    let key = (whole(line, "conn"), ZerocopyInterface::MsgZerocopy);
    let found = counts(&report);
    assert_eq!(found.keys().collect::<Vec<_>>(), [&key]);
    let [copied, not_copied, unknown] = found[&key];
    // the program may take a report before the hook sees it
    assert_eq!((copied + unknown, not_copied), (SENDS, 0));
    if how == "after" {
        assert_eq!(unknown, 0);
    }
    assert!(report.finding(key.0, "zerocopy_copied").is_some());
}

#[test]
fn reports_that_lie_in_the_error_queue_are_counted() {
    sends("after");
}

#[test]
fn reports_that_the_program_takes_at_once_are_counted() {
    sends("each");
}

#[test]
fn reports_of_io_uring_are_counted() {
    if !root() {
        return;
    }
    let (report, printed) = recorded(URING_PROGRAM, "ringlender", "usage");
    let last = printed.last().expect("a line");
    let key = (whole(last, "conn"), ZerocopyInterface::IoUring);
    let sent = printed
        .iter()
        .filter(|it| it["direction"] == "sent")
        .count() as u64;
    assert_eq!(whole(last, "copied"), sent);
    assert_eq!(counts(&report), BTreeMap::from([(key, [sent, 0, 0])]));
    assert!(report.finding(key.0, "zerocopy_copied").is_some());
}

#[test]
fn unknown_results_of_io_uring_are_undecided() {
    if !root() {
        return;
    }
    let (report, printed) = recorded(URING_PROGRAM, "ringsilent", "zc");
    let sent = printed.iter().filter(|it| it["direction"] == "sent");
    let conn = whole(sent.clone().next().expect("a send"), "conn");
    let key = (conn, ZerocopyInterface::IoUring);
    let expected = [0, 0, sent.count() as u64];
    assert_eq!(counts(&report), BTreeMap::from([(key, expected)]));
    assert!(report.finding(conn, "zerocopy_copied").is_none());
    assert!(is_undecided(&report, conn));
}
