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

/// What whylat counted of the client's segments is what the trace says. It is never more; an
/// ACK may pass no hook (see [`planted`]), and then it is less. So many may go `astray`: the first request can come before the server has told its socket to wait.
fn compare(requests: u64, delayed: u64, astray: u64) -> Result<Recorded, String> {
    let (recorded, sent, by_timer) = count(requests, delayed);
    recorded.report.assert_whole();
    let counted = number(recorded.client_end(), "/totals/acks_by_timer");
    assert!(
        counted <= by_timer,
        "{counted} where the trace has {by_timer}"
    );
    let as_planned = sent == requests && by_timer.abs_diff(delayed) <= astray;
    if as_planned && counted == by_timer {
        return Ok(recorded);
    }
    Err(format!(
        "{counted} counted, {by_timer} of {sent} segments in the trace, {delayed} of {requests} planned"
    ))
}

/// Of 211 requests that nobody holds back, the timer acknowledges 101.
#[test]
fn every_segment_that_the_timer_acknowledged() {
    if !root() {
        return;
    }
    let recorded = planted(|| compare(211, 101, 0));
    let totals = &recorded.client_end()["totals"];
    assert_eq!(totals["nagle_holds"], 0, "none was waited for");
    let share = totals["delayed_ack_share"].as_f64().expect("a share");
    assert!((share - 101.0 / 211.0).abs() < 1e-9, "{share}");
}

/// The same, of none and of all.
#[test]
fn none_and_all_by_the_timer() {
    if root() {
        planted(|| compare(53, 0, 5));
        planted(|| compare(53, 53, 5));
    }
}
