//! Data that is lost before the capture or behind it, and what repairs it.

use super::*;

const RTT: u64 = 10 * MS;
/// A full segment.
const FULL: u32 = 1_448;

/// Sends `count` full segments at once, the first one after `later_ns`.
fn send_full(talk: &mut Talk, later_ns: u64, count: u32) {
    talk.send(later_ns, 0, FULL as usize);
    (1..count).for_each(|_| talk.send(0, 0, FULL as usize));
}

/// Retransmits a full segment of the first end.
fn resend(talk: &mut Talk, later_ns: u64, seq: u32) {
    talk.put(later_ns, 0, |it| {
        (it.seq, it.bytes) = (seq, FULL as usize);
    });
}

/// Adds an ACK of the second end up to this byte.
fn acknowledge_until(talk: &mut Talk, later_ns: u64, ack: u32) {
    talk.put(later_ns, 1, |it| it.ack = Some(ack));
}

/// The probe is of the last segment, the timeout of the first: the ACK of that one ends the stall, and its receiver held it
/// back.
#[test]
fn timeout_after_a_probe_ends_with_the_ack_of_the_first_segment() {
    let mut talk = Talk::begin(20_000, RTT);
    let first = talk.next[0];
    send_full(&mut talk, MS, 3);
    resend(&mut talk, 30 * MS, first + 2 * FULL);
    resend(&mut talk, 220 * MS, first);
    acknowledge_until(&mut talk, RTT + 50 * MS, first + FULL);
    resend(&mut talk, 20_000, first + FULL);
    resend(&mut talk, 0, first + 2 * FULL);
    talk.acknowledge(RTT, 1);
    talk.end(MS);
    let client = stages(&talk.read().0, 0);
    assert_eq!((client.timeout_stalls, client.tail_loss_stalls), (1, 0));
    let held = (client.timeout_acks_delayed, client.timeout_ack_delayed_ns);
    assert_eq!(held, (1, 50 * MS));
}

/// After a pause 40 segments leave at once. At the receiver, 20 come, and what follows them shows that others left with them.
#[test]
fn burst_loses_its_end_before_the_capture() {
    for near_ns in [0, RTT] {
        let mut talk = Talk::begin(near_ns, RTT - near_ns);
        send_full(&mut talk, MS, 1);
        talk.acknowledge(RTT - near_ns, 1);
        let first = talk.next[0];
        send_full(&mut talk, 1_000 * MS, 20);
        let arrived = first + 20 * FULL;
        if near_ns == 0 {
            send_full(&mut talk, 0, 20);
        } else {
            talk.next[0] += 20 * FULL;
        }
        acknowledge_until(&mut talk, RTT - near_ns, arrived);
        send_full(&mut talk, near_ns, 4);
        (0..4).for_each(|at| {
            let later_ns = if at == 0 { RTT - near_ns } else { 0 };
            acknowledge_until(&mut talk, later_ns, arrived);
        });
        (0..20).for_each(|at| {
            let later_ns = if at == 0 { near_ns } else { 0 };
            resend(&mut talk, later_ns, arrived + at * FULL);
        });
        talk.acknowledge(RTT - near_ns, 1);
        talk.end(RTT);
        let client = stages(&talk.read().0, 0);
        let bursts = (client.bursts_after_idle, client.burst_losses);
        assert_eq!((bursts, client.loss_episodes), ((1, 1), 1), "{near_ns}");
    }
}

/// With selective ACKs, each that shows an arrival lets another segment go, though it acknowledges nothing.
#[test]
fn data_after_duplicate_acks_had_waited_for_the_congestion_window() {
    let mut talk = Talk::begin(0, RTT);
    let first = talk.next[0];
    send_full(&mut talk, MS, 10);
    for at in 0..10 {
        acknowledge_until(&mut talk, if at == 0 { RTT } else { MS }, first);
        send_full(&mut talk, 0, 1);
    }
    talk.acknowledge(MS, 1);
    talk.end(MS);
    let client = stages(&talk.read().0, 0);
    assert_eq!(client.cwnd_startup_ns, RTT + 9 * MS);
    // until the last ACK, and until that of the FIN
    assert_eq!(client.in_flight_ns, MS + 10 * MS);
}

/// The probe repeats what had arrived: after the pause nothing was lost.
#[test]
fn probe_of_data_that_arrived_is_no_loss() {
    let mut talk = Talk::begin(0, RTT);
    send_full(&mut talk, MS, 1);
    talk.acknowledge(RTT, 1);
    send_full(&mut talk, 1_000 * MS, 20);
    let last = talk.next[0].wrapping_sub(FULL);
    resend(&mut talk, 30 * MS, last);
    talk.acknowledge(MS, 1);
    talk.end(RTT);
    let client = stages(&talk.read().0, 0);
    assert_eq!(client.tail_loss_stalls, 1);
    let losses = (
        client.bursts_after_idle,
        client.burst_losses,
        client.loss_episodes,
    );
    assert_eq!(losses, (1, 0, 0));
}

/// 20 segments each round trip, a loss, then two: of that only what duplicate ACKs found is a loss that limits the rate. What
/// a timeout costs is its stall.
#[test]
fn window_that_a_timeout_made_small_is_of_the_timeout() {
    for is_timeout in [false, true] {
        let mut talk = Talk::begin(0, RTT);
        for _ in 0..30 {
            send_full(&mut talk, 0, 20);
            talk.acknowledge(RTT, 1);
        }
        let first = talk.next[0];
        send_full(&mut talk, 0, 20);
        if is_timeout {
            resend(&mut talk, 300 * MS, first);
        } else {
            (0..3).for_each(|at| {
                let later_ns = if at == 0 { RTT } else { 0 };
                acknowledge_until(&mut talk, later_ns, first);
            });
            resend(&mut talk, 0, first);
        }
        talk.acknowledge(RTT, 1);
        for _ in 0..30 {
            send_full(&mut talk, 0, 2);
            talk.acknowledge(RTT, 1);
        }
        talk.end(RTT);
        let client = stages(&talk.read().0, 0);
        assert_eq!(client.loss_episodes, 1);
        assert_eq!(client.loss_limited_ns == 0, is_timeout);
    }
}

/// An ACK is for two segments, and lets two go; the path behind them is slow, so that they pass one after another.
#[test]
fn segments_of_one_ack_pass_one_after_another() {
    let mut talk = Talk::begin(RTT, 0);
    send_full(&mut talk, MS, 2);
    for _ in 0..20 {
        talk.acknowledge(0, 1);
        send_full(&mut talk, RTT - MS, 1);
        send_full(&mut talk, MS, 1);
    }
    talk.acknowledge(0, 1);
    let client = stages(&talk.read().0, 0);
    assert_eq!(client.cwnd_startup_ns, 20 * RTT);
}
