//! The same conversation at its sender, at its receiver and between: what each place shows of it.

use super::*;

/// Windows of 64 KiB, in steps of 128 bytes.
const OPEN: u16 = 512;
const RTT: u64 = 10 * MS;

/// A sender that fills the window each time; the receiver acknowledges the data, and opens the window `pause_ns` later.
/// `near_ns`: the round trip between the capture and the sender.
fn full_windows(near_ns: u64, pause_ns: u64) -> Talk {
    let mut talk = Talk::begin(near_ns, RTT - near_ns);
    talk.put(0, 1, |it| it.window = OPEN);
    for _ in 0..11 {
        (0..46).for_each(|_| talk.send(0, 0, 1_424));
        talk.put(RTT - near_ns, 1, |it| it.window = 1);
        talk.put(pause_ns, 1, |it| it.window = OPEN);
        talk.put(near_ns, 0, |_| {});
    }
    talk.end(RTT);
    talk
}

#[test]
fn window_that_stays_full_means_no_read() {
    for near_ns in [0, RTT / 2, RTT] {
        let slow = stages(&full_windows(near_ns, 40 * MS).read().0, 1);
        assert_eq!(slow.window_closed_ns, 11 * 40 * MS, "{near_ns}");
        let quick = stages(&full_windows(near_ns, 0).read().0, 1);
        assert_eq!(quick.window_closed_ns, 0, "{near_ns}");
    }
}

/// The ACK of the data comes late, and opens the window: nothing shows that the reader was slow.
#[test]
fn window_full_of_unacknowledged_data_says_nothing_of_the_reader() {
    for near_ns in [0, RTT / 2, RTT] {
        let mut talk = Talk::begin(near_ns, RTT - near_ns);
        talk.put(0, 1, |it| it.window = OPEN);
        for _ in 0..11 {
            (0..46).for_each(|_| talk.send(0, 0, 1_424));
            talk.put(RTT - near_ns + 60 * MS, 1, |it| it.window = OPEN);
            talk.put(near_ns, 0, |_| {});
        }
        talk.end(RTT);
        let late = stages(&talk.read().0, 1);
        assert_eq!(late.window_closed_ns, 0, "{near_ns}");
    }
}

#[test]
fn window_that_shrinks_means_no_read() {
    let mut talk = Talk::begin(0, RTT);
    talk.put(0, 1, |it| it.window = OPEN);
    talk.send(0, 0, 1_424);
    talk.put(RTT, 1, |it| it.window = OPEN / 4);
    talk.send(50 * MS, 0, 1_424);
    talk.put(RTT, 1, |it| it.window = OPEN);
    talk.end(RTT);
    assert_eq!(stages(&talk.read().0, 1).window_closed_ns, 60 * MS);
}

#[test]
fn ack_shows_data_that_was_lost_before_the_capture() {
    let mut talk = Talk::begin(RTT, 0);
    talk.send(MS, 0, 100);
    talk.send(0, 1, 100);
    // the next request is lost, with its ACK, and the answer is retransmitted; its ACK is after the request
    let lost = talk.next[0];
    talk.next[0] += 100;
    let answer = talk.next[1].wrapping_sub(100);
    talk.put(240 * MS, 1, |it| {
        (it.seq, it.ack, it.bytes) = (answer, Some(lost), 100);
    });
    talk.acknowledge(RTT, 0);
    talk.put(2 * MS, 0, |it| (it.seq, it.bytes) = (lost, 100));
    talk.send(0, 1, 100);
    talk.end(RTT);
    let (rows, import) = talk.read();
    assert_eq!(import.unseen_bytes, 0);
    assert_eq!(count(&rows, TcpEventKind::TailLossProbe), 2);
    assert_eq!(rows.tcp_samples.row(0).total_retrans, 1);
}

#[test]
fn data_that_comes_late_was_sent_when_its_timestamp_says() {
    let mut talk = Talk::begin(RTT, 0);
    let at = |talk: &Talk| (talk.now_ns / MS) as u32;
    let put = |talk: &mut Talk,
               later_ns: u64,
               from: usize,
               stamps: (u32, u32),
               seq: u32,
               bytes: usize| {
        talk.put(later_ns, from, |it| {
            (it.stamps, it.seq, it.bytes) = (Some(stamps), seq, bytes);
        });
        talk.next[from] = talk.next[from].max(seq + bytes as u32);
    };
    for _ in 0..31 {
        let (seq, stamp) = (talk.next[0], at(&talk) + 10);
        put(&mut talk, 10 * MS, 0, (stamp, 0), seq, 100);
        talk.put(0, 1, |it| it.stamps = Some((1, stamp)));
    }
    // the path holds what follows for 500 ms: data, and its retransmission by a timer 250 ms later
    let (seq, stamp) = (talk.next[0], at(&talk) + 10);
    put(&mut talk, 510 * MS, 0, (stamp, 0), seq, 1_400);
    put(&mut talk, 0, 0, (stamp, 0), seq + 1_400, 1_400);
    talk.put(0, 1, |it| it.stamps = Some((1, stamp)));
    put(&mut talk, 0, 0, (stamp + 250, 0), seq, 1_400);
    talk.put(0, 1, |it| it.stamps = Some((1, stamp + 250)));
    let seq = talk.next[0];
    put(&mut talk, RTT, 0, (stamp + 510, 0), seq, 100);
    talk.end(RTT);
    let client = stages(&talk.read().0, 0);
    assert_eq!((client.spurious_timeouts, client.timeout_stalls), (1, 0));
    assert!(client.spurious_timeout_ns > 200 * MS);
}

/// A router shows each packet at two interfaces. SYN-ACKs of Linux have no identification.
#[test]
fn copies_at_another_interface_count_once() {
    let mut talk = Talk::begin(4 * MS, RTT - 4 * MS);
    (0..46).for_each(|_| talk.send(0, 0, 1_424));
    talk.acknowledge(RTT - 4 * MS, 1);
    let mut frames = talk.frames();
    frames[1].1[18..20].fill(0);
    // a whole window comes before any of it goes on
    let copies = frames
        .iter()
        .map(|(at_ns, frame)| (at_ns + 30_000, frame.clone()));
    let mut twice: Vec<_> = frames.iter().cloned().chain(copies).collect();
    twice.sort_by_key(|(at_ns, _)| *at_ns);
    let (rows, import) = read(&pcap(&twice), Vantage::Estimated);
    assert_eq!(import.tally.used as usize, talk.packets.len());
    assert_eq!(import.trips_ns, [4 * MS, RTT - 4 * MS]);
    assert_eq!(rows.tcp_samples.row(0).min_rtt_us, Some(10_000));
}

/// The handshake's ACK comes 80 ms late. The sender's data echoes the timestamps of the ACKs before it at once.
#[test]
fn echo_of_a_timestamp_shows_a_round_trip_though_the_handshake_is_late() {
    let mut talk = Talk::begin(80 * MS + RTT, 0);
    for at in 0..4 {
        talk.put(RTT, 0, |it| {
            (it.bytes, it.stamps) = (1_400, Some((1_000 + at, 7_000 + at)));
        });
        talk.next[0] += 1_400;
        talk.put(0, 1, |it| it.stamps = Some((7_001 + at, 1_000 + at)));
    }
    assert_eq!(talk.read().1.trips_ns, [RTT, 0]);
}

/// The capture begins in the middle, and the client sends only: no ACK of it shows how far it is away.
#[test]
fn round_trip_of_one_side_is_not_that_of_the_path_yet() {
    let mut talk = Talk {
        next: [1_000, 2_000],
        ..Talk::default()
    };
    for _ in 0..7 {
        talk.send(100 * MS, 0, 1_000);
        talk.acknowledge(4 * MS, 1);
    }
    let rows = talk.read().0;
    let least: Vec<_> = (0..rows.tcp_samples.len())
        .map(|at| rows.tcp_samples.row(at).min_rtt_us)
        .collect();
    assert_eq!(least, [None, None, Some(4_000), Some(4_000)]);
}

/// At the receiver, five of forty segments come 2 ms late, before the sender's clock is known. It is as if each had left half a
/// tick after the start of its timestamp's.
#[test]
fn delays_count_when_the_clock_is_known_later() {
    let mut talk = Talk::begin(RTT, 0);
    let begin_ns = talk.now_ns;
    for at in 0..40u32 {
        let left_ns = begin_ns + u64::from(at) * 10 * MS;
        let late_ns = if (5..10).contains(&at) { 2 * MS } else { 0 };
        let later_ns = left_ns + late_ns - talk.now_ns;
        talk.put(later_ns, 0, |it| {
            (it.bytes, it.stamps) = (1_000, Some((7 + 10 * at, 0)));
        });
        talk.next[0] += 1_000;
        talk.acknowledge(0, 1);
    }
    let client = stages(&talk.read().0, 0);
    let sum_us = 40 * 10_000 + 5 * 2_000 - 40 * 500;
    assert_eq!((client.rtt_samples, client.rtt_sum_us), (40, sum_us));
}
