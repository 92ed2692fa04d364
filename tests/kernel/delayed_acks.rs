//! Segments that the receiver's delayed-ACK timer acknowledged, counted one by one. The truth is
//! what the sender's own TCP sent and heard, stamped by the kernel: on a busy machine the timer may
//! acknowledge others than the server had left to it.

use lab::{Capture, Way};

use crate::harness::{Recorded, Site, planted, root};
use crate::report::number;
use crate::truth::Trace;

/// TCP_DELACK_MIN (include/net/tcp.h) less a jiffy at HZ=250, by which the timer may be early.
const TIMER_LEAST_NS: u64 = 36_000_000;

/// Data segments of this trace that a bare ACK was the first to cover, so late after the oldest that
/// it covers that the timer sent it.
fn acked_by_timer(trace: &Trace) -> u64 {
    let mut unacked: Vec<(u64, u64)> = trace
        .data(Way::Out)
        .iter()
        .map(|sent| {
            let end = sent.segment.seq.wrapping_add(sent.segment.payload_bytes);
            (trace.offset(end), sent.time_ns)
        })
        .collect();
    let mut by_timer = 0;
    for ack in trace
        .passed(Way::In)
        .filter(|ack| ack.segment.flags & 2 == 0)
    {
        let acked = trace.offset(ack.segment.ack);
        let (covered, left): (Vec<_>, Vec<_>) = unacked
            .into_iter()
            .partition(|(end, sent_ns)| *end <= acked && *sent_ns <= ack.time_ns);
        unacked = left;
        let oldest_ns = covered.iter().map(|(_, sent_ns)| *sent_ns).min();
        let late = oldest_ns.is_some_and(|sent_ns| ack.time_ns - sent_ns >= TIMER_LEAST_NS);
        if late && ack.segment.payload_bytes == 0 {
            by_timer += covered.len() as u64;
        }
    }
    by_timer
}

/// Records requests of which the server leaves a known number to the timer. Gives data segments sent,
/// and how many the timer acknowledged, by the trace.
fn count(requests: u64, delayed: u64) -> (Recorded, u64, u64) {
    let site = Site::loopback("cubic");
    let capture = Capture::start(&site.client).expect("a capture");
    let recorded = site.record(
        &format!("delay-acks --requests {requests} --delayed {delayed}"),
        &format!("request-reply --rounds {requests} --pause-us 3000"),
    );
    let trace = Trace::of(&capture.stop().expect("segments"), recorded.client_end());
    let sent = trace.data(Way::Out).len() as u64;
    (recorded, sent, acked_by_timer(&trace))
}

/// Of 211 requests that nobody holds back, the timer acknowledges 101.
#[test]
fn every_segment_that_the_timer_acknowledged() {
    if !root() {
        return;
    }
    let (requests, delayed) = (211, 101);
    planted(|| {
        let (recorded, sent, by_timer) = count(requests, delayed);
        recorded.report.assert_whole();
        let client = recorded.client_end();
        assert_eq!(number(client, "/totals/acks_by_timer"), by_timer);
        let share = client["totals"]["delayed_ack_share"].as_f64();
        let truth = by_timer as f64 / sent as f64;
        assert!(
            share.is_some_and(|share| (share - truth).abs() < 1e-9),
            "{share:?} where the capture has {truth}"
        );
        assert_eq!(
            number(client, "/totals/nagle_holds"),
            0,
            "none was waited for"
        );
        if (sent, by_timer) == (requests, delayed) {
            Ok(())
        } else {
            Err(format!(
                "{by_timer} of {sent} segments, not {delayed} of {requests}"
            ))
        }
    });
}

/// The same, of none and of all.
#[test]
fn none_and_all_by_the_timer() {
    if !root() {
        return;
    }
    for delayed in [0, 53] {
        let (recorded, _, by_timer) = count(53, delayed);
        let client = recorded.client_end();
        assert_eq!(number(client, "/totals/acks_by_timer"), by_timer);
        assert!(by_timer.abs_diff(delayed) <= 3, "{by_timer} of {delayed}");
    }
}
