//! Bytes that io_uring moves, whoever does it: the thread that asks, at once or later, or one that the kernel made.

use std::collections::HashSet;

use serde_json::Value;
use table::tables::Call;

use super::{calls, check_received, check_sent, compiled, received, sent};
use testbed::report::{Report, number, text};
use testbed::root;

const URING: &str = include_str!("../programs/uring.c");

struct RecordedExchange {
    truth: Vec<Value>,
    report: Report,
    /// How many messages have the time when the thread was woken.
    woken: usize,
}

/// Records the program and checks every byte; `how` it moves them, see its head.
fn check(how: &str) -> Option<RecordedExchange> {
    if !root() {
        return None;
    }
    let (truth, report) = compiled("uring", URING, &[how]);
    let woken = check_received(&truth, &report);
    check_sent(&truth, &report);
    let recorded = RecordedExchange {
        truth,
        report,
        woken,
    };
    recorded.check_calls();
    Some(recorded)
}

impl RecordedExchange {
    fn ends(&self) -> [(Vec<Value>, u64); 2] {
        ["received", "sent"].map(|direction| calls(&self.truth, direction))
    }

    /// Their rows have nothing from the registers of another call.
    fn check_calls(&self) {
        for (_, conn) in self.ends() {
            let process = &self.report.by_cookie(conn)["process"];
            assert_eq!(text(process, "comm"), "uring");
            let mut calls: Vec<Call> = self.report.rows();
            calls.retain(|call| call.conn == conn);
            for call in calls {
                assert_eq!(call.asked_bytes, None, "{call:?}");
                assert_eq!(u64::from(call.pid), number(process, "/pid"));
            }
        }
    }

    /// How many messages, and of how many the thread that asked did it.
    fn by_who_asked(&self) -> (usize, usize) {
        let [(take, from), (give, to)] = self.ends();
        let asked = |calls: &[Value]| number(&calls[0], "/tid");
        let took = received(&self.report, from);
        let took = took.iter().map(|it| u64::from(it.tid) == asked(&take));
        let gave = sent(&self.report, to);
        let gave = gave.iter().map(|it| u64::from(it.tid) == asked(&give));
        let who: Vec<bool> = took.chain(gave).collect();
        (who.len(), who.iter().filter(|own| **own).count())
    }

    /// Checks the kernel's threads: their blocking is not measured.
    fn check_kernels_threads(&self) {
        let asked: HashSet<u64> = self.truth.iter().map(|it| number(it, "/tid")).collect();
        let mut calls: Vec<Call> = self.report.rows();
        calls.retain(|call| !asked.contains(&u64::from(call.tid)));
        assert!(!calls.is_empty());
        for call in calls {
            assert_eq!(call.blocked_ns, None, "{call:?}");
        }
    }
}

fn by_the_thread_itself(how: &str) {
    let Some(recorded) = check(how) else { return };
    let (all, own) = recorded.by_who_asked();
    assert_eq!(all, own);
    assert!(recorded.woken > 0);
}

#[test]
fn io_uring_messages_are_timed() {
    by_the_thread_itself("plain");
}

#[test]
fn io_uring_writes_are_timed() {
    by_the_thread_itself("file");
}

#[test]
fn io_uring_zerocopy_send_is_timed() {
    by_the_thread_itself("zc");
}

#[test]
fn bytes_discarded_with_msg_trunc_are_timed() {
    by_the_thread_itself("throw");
}

#[test]
fn multishot_receive_is_timed() {
    by_the_thread_itself("many");
}

/// A thread of the kernel's tries; if the socket does not let it, the thread that asked does it later.
#[test]
fn io_uring_worker_thread_is_timed() {
    let Some(recorded) = check("worker") else {
        return;
    };
    let (all, own) = recorded.by_who_asked();
    assert!(own < all, "{own} of {all}");
    recorded.check_kernels_threads();
}

#[test]
fn io_uring_kernel_thread_is_timed() {
    let Some(recorded) = check("polled") else {
        return;
    };
    assert_eq!(recorded.by_who_asked().1, 0);
    assert_eq!(recorded.woken, 0);
    recorded.check_kernels_threads();
}
