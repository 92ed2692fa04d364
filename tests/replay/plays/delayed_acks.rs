//! Segments that the receiver's delayed-ACK timer acknowledged, counted one by one. The truth is
//! what the sender's own TCP sent and heard, stamped by the kernel: on a busy machine the timer may
//! acknowledge others than the server had left to it.

use lab::{Capture, CaptureDirection};

use crate::play::{Outcome, Play, under};
use crate::shrink::CONNECTIONS;
use crate::truth::Trace;
use testbed::Site;
use testbed::report::number;

pub fn plays() -> Vec<Play> {
    let play =
        |name, record, judge| under("cubic", "delayed_acks", name, CONNECTIONS, record, judge);
    vec![
        play(
            "some_by_the_timer",
            |cubic| record(cubic, 211, 101, 0),
            counted_without_holds,
        ),
        play(
            "none_by_the_timer",
            |cubic| record(cubic, 53, 0, 5),
            counted,
        ),
        play(
            "all_by_the_timer",
            |cubic| record(cubic, 53, 53, 5),
            counted,
        ),
    ]
}

/// TCP_DELACK_MIN (include/net/tcp.h) less a jiffy at HZ=250, by which the timer may be early.
const TIMER_LEAST_NS: u64 = 36_000_000;

/// Data segments of this trace that a bare ACK was the first to cover, so late after the oldest that
/// it covers that the timer sent it.
fn acked_by_timer(trace: &Trace) -> u64 {
    let mut unacked: Vec<(u64, u64)> = trace
        .data(CaptureDirection::Out)
        .iter()
        .map(|sent| {
            let end = sent.segment.seq.wrapping_add(sent.segment.payload_bytes);
            (trace.offset(end), sent.time_ns)
        })
        .collect();
    let mut by_timer = 0;
    for ack in trace
        .passed(CaptureDirection::In)
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

/// Records requests. The server leaves a known number of them to the timer. So many may go `astray`: the first
/// request can come before the server has set its socket to wait.
fn record(congctl: &str, requests: u64, delayed: u64, astray: u64) -> Result<Outcome, String> {
    let site = Site::loopback(congctl);
    let capture = Capture::start(&site.client).expect("a capture");
    let recorded = site.record(
        &format!("delay-acks --requests {requests} --delayed {delayed}"),
        &format!("request-reply --rounds {requests} --pause-us 3000"),
    );
    let passed = capture.stop().expect("segments");
    let trace = Trace::new(&passed, &recorded.client["connections"][0]);
    let sent = trace.data(CaptureDirection::Out).len() as u64;
    let by_timer = acked_by_timer(&trace);
    if sent != requests || by_timer.abs_diff(delayed) > astray {
        return Err(format!(
            "{by_timer} of {sent} segments in the trace, {delayed} of {requests} planned"
        ));
    }
    Ok(Outcome::from(recorded)
        .with("sent", sent)
        .with("by_timer", by_timer))
}

/// Checks that whylat counted the client's segments as the trace does.
fn counted(outcome: &Outcome) {
    outcome.report.assert_whole();
    let totals = &outcome.client_end()["totals"];
    let by_timer = number(&outcome.truth, "/by_timer");
    assert_eq!(number(totals, "/acks_by_timer"), by_timer);
    let share = totals["delayed_ack_share"].as_f64().expect("a share");
    let known = by_timer as f64 / number(&outcome.truth, "/sent") as f64;
    assert!((share - known).abs() < 1e-9, "{share}, not {known}");
}

/// Of requests that nobody holds back.
fn counted_without_holds(outcome: &Outcome) {
    counted(outcome);
    let totals = &outcome.client_end()["totals"];
    assert_eq!(totals["nagle_holds"], 0, "none was waited for");
}
