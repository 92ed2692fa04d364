//! Whole conversations: connections, turns, retransmissions, and what is left out.

use std::io::Write;

use proptest::prelude::*;
use table::{Columns, Role, TcpEventKind};

use super::*;

#[test]
fn exchange_has_two_ends_a_round_trip_and_turns() {
    let (rows, import) = exchange().read();
    assert_eq!(
        (import.connections, import.failed, import.tally.used),
        (1, 0, 12)
    );
    assert_eq!(import.trips_ns, [20_000, 10 * MS]);
    let ends: Vec<_> = (0..2).map(|at| rows.connections.row(at)).collect();
    assert_eq!(
        ends.iter().map(|it| it.role).collect::<Vec<_>>(),
        [Role::Client, Role::Server]
    );
    assert_eq!(
        (ends[0].local.as_str(), ends[0].remote.as_str()),
        ("10.0.0.1:40000", "10.0.0.2:5432")
    );
    assert_eq!((ends[0].peer_conn, ends[1].peer_conn), (Some(2), Some(1)));
    assert!(ends[0].closed_ns.is_some() && ends[0].errno.is_none());
    let moved: Vec<_> = calls(&rows)
        .iter()
        .map(|it| (it.is_send, it.result, it.offset_end))
        .collect();
    assert_eq!(
        moved,
        [
            (true, 100, 100),
            (false, 1_448, 1_448),
            (false, 1_552, 3_000)
        ]
    );
    let sample = rows.tcp_samples.row(0);
    assert_eq!(sample.min_rtt_us, Some(10_020));
    assert_eq!(
        (sample.bytes_sent, sample.bytes_received),
        (Some(100), 3_000)
    );
}

#[test]
fn file_formats_and_compressions_give_the_same_rows() {
    let frames: Vec<_> = exchange().frames();
    let plain = pcap(&frames);
    let next_generation = pcapng(&frames);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain).expect("written");
    let gzip = gzip.finish().expect("compressed");
    let zstd = zstd::encode_all(&next_generation[..], 1).expect("compressed");
    let expected = read(&plain, Vantage::Estimated).0;
    for file in [next_generation, gzip, zstd] {
        let rows = read(&file, Vantage::Estimated).0;
        assert_eq!(rows.connections, expected.connections);
        assert_eq!(rows.calls, expected.calls);
        assert_eq!(rows.tcp_stages, expected.tcp_stages);
    }
}

#[test]
fn split_segment_that_waits_for_a_delayed_ack_is_a_hold() {
    let mut talk = Talk::begin(20_000, 10 * MS);
    for _ in 0..7 {
        talk.send(MS, 0, 60);
        talk.acknowledge(50 * MS, 1);
        talk.send(30_000, 0, 40);
        talk.send(10 * MS, 1, 200);
        talk.acknowledge(20_000, 0);
    }
    talk.end(MS);
    let client = stages(&talk.read().0, 0);
    assert_eq!(
        (
            client.nagle_holds,
            client.delayed_acks,
            client.acks_by_timer
        ),
        (7, 7, 7)
    );
    assert_eq!(client.delayed_ack_ns / MS, 7 * (50 - 10) - 1);
    assert!(!client.nodelay);
}

#[test]
fn full_receive_window_is_held_by_the_receiver() {
    let mut talk = Talk::begin(20_000, 10 * MS);
    for _ in 0..11 {
        talk.put(20_000, 1, |it| it.window = 1);
        talk.send(20_000, 0, 128);
        talk.put(10 * MS, 1, |it| it.window = 0xffff);
        talk.packets.last_mut().expect("one").window = 1;
    }
    talk.end(MS);
    let client = stages(&talk.read().0, 0);
    assert_eq!(client.receiver_window_ns / MS, 10 * 10);
    assert_eq!(client.max_snd_wnd_bytes, 500 << 7);
}

#[test]
fn retransmissions_are_distinguished_by_their_cause() {
    let mut talk = Talk::begin(20_000, 10 * MS);
    let first = talk.next[0];
    talk.send(MS, 0, 1_448);
    // a timer: nothing came for longer than a round trip and the least timeout
    for _ in 0..2 {
        talk.put(400 * MS, 0, |it| (it.seq, it.bytes) = (first, 1_448));
    }
    talk.acknowledge(10 * MS, 1);
    // three duplicate ACKs
    let lost = talk.next[0];
    (0..5).for_each(|_| talk.send(10_000, 0, 1_448));
    (0..4).for_each(|_| talk.put(2 * MS, 1, |it| it.ack = Some(lost)));
    talk.put(20_000, 0, |it| (it.seq, it.bytes) = (lost, 1_448));
    talk.acknowledge(10 * MS, 1);
    talk.end(MS);
    let (rows, _) = talk.read();
    assert_eq!(count(&rows, TcpEventKind::TailLossProbe), 1);
    assert_eq!(count(&rows, TcpEventKind::TimeoutRetransmit), 1);
    assert_eq!(count(&rows, TcpEventKind::FastRetransmit), 1);
    let client = stages(&rows, 0);
    assert_eq!(
        (
            client.timeout_stalls,
            client.tail_loss_stalls,
            client.thin_stalls
        ),
        (1, 0, 1)
    );
    assert_eq!(client.retransmit_timeout_ns / MS, 799);
}

#[test]
fn reordered_segments_are_not_retransmissions() {
    let mut talk = Talk::begin(20_000, 10 * MS);
    (0..5).for_each(|_| talk.send(10_000, 0, 1_000));
    let mut packets = talk.frames();
    let times: Vec<u64> = packets.iter().map(|it| it.0).collect();
    packets.swap(4, 6);
    packets
        .iter_mut()
        .zip(times)
        .for_each(|(packet, at_ns)| packet.0 = at_ns);
    let (rows, import) = read(&pcap(&packets), Vantage::Estimated);
    assert_eq!(import.unseen_bytes, 0);
    let sample = rows.tcp_samples.row(0);
    assert_eq!((sample.total_retrans, sample.reord_seen), (0, Some(2)));
    let moved: u64 = calls(&rows).iter().map(|it| it.result as u64).sum();
    assert_eq!(moved, 5_000);
}

#[test]
fn capture_that_lacks_bytes_says_so() {
    let mut talk = Talk::begin(20_000, 10 * MS);
    (0..5).for_each(|_| talk.send(10_000, 0, 1_000));
    talk.acknowledge(10 * MS, 1);
    talk.packets.remove(5);
    let (rows, import) = talk.read();
    assert_eq!(import.unseen_bytes, 1_000);
    assert_eq!(rows.tcp_samples.row(0).total_retrans, 0);
}

#[test]
fn capture_begun_in_the_middle_joins_at_what_it_sees() {
    let mut talk = exchange();
    talk.packets.drain(..3);
    let (rows, import) = talk.read();
    assert_eq!(
        (import.connections, import.from_begin, import.unseen_bytes),
        (1, 0, 0)
    );
    let client = rows.connections.row(0);
    assert_eq!((client.role, client.opened_ns), (Role::Client, None));
    let moved: Vec<_> = calls(&rows)
        .iter()
        .map(|it| (it.is_send, it.result))
        .collect();
    assert_eq!(moved, [(true, 100), (false, 1_448), (false, 1_552)]);
}

#[test]
fn attempts_that_fail_are_no_connections() {
    let mut talk = Talk::default();
    talk.put(0, 0, |it| (it.is_syn, it.ack) = (true, None));
    talk.put(1_000 * MS, 0, |it| (it.is_syn, it.ack) = (true, None));
    talk.next[0] += 1;
    talk.put(MS, 1, |it| it.is_rst = true);
    let (rows, import) = talk.read();
    assert_eq!((import.connections, import.failed), (0, 1));
    let failed = rows.failed_connects.row(0);
    assert_eq!((failed.errno, failed.syn_retries), (Some(111), 1));
}

#[test]
fn copies_from_another_interface_count_once() {
    let frames: Vec<_> = exchange().frames();
    let twice = frames
        .iter()
        .flat_map(|it| [it.clone(), (it.0 + 5_000, it.1.clone())]);
    let (rows, import) = read(&pcap(&twice.collect::<Vec<_>>()), Vantage::Estimated);
    assert_eq!(import.tally.used, 12);
    assert_eq!(import.tally.ignored["copies from another interface"], 12);
    assert_eq!(rows.tcp_samples.row(0).total_retrans, 0);
}

proptest! {
    /// Any packets, in any order: no panic, no time judged twice, and every packet accounted for.
    #[test]
    fn any_conversation_is_accounted_for(
        packets in prop::collection::vec(
            (0..300u64, 0..2usize, any::<[bool; 4]>(), 0..6u32, 0..6u32, 0..3usize, any::<u16>()),
            1..120,
        ),
    ) {
        let mut now_ns = 0;
        let packets = packets.into_iter().map(|(ms, from, flags, seq, ack, size, window)| {
            now_ns += ms * MS;
            Packet {
                at_ns: now_ns,
                from,
                is_syn: flags[0] && flags[1],
                is_fin: flags[2] && flags[3],
                is_rst: flags.iter().all(|it| *it),
                seq: (seq * 700).wrapping_sub(1_400),
                ack: flags[3].then_some((ack * 700).wrapping_sub(1_400)),
                bytes: [0, 700, 1_400][size],
                window: window | 1,
                stamps: None,
            }
        });
        let talk = Talk { packets: packets.collect(), ..Talk::default() };
        let (rows, import) = talk.read();
        prop_assert_eq!(import.tally.read as usize, talk.packets.len());
        for at in 0..rows.tcp_stages.len() {
            let row = rows.tcp_stages.row(at);
            let judged: u64 = row.stages_ns().iter().map(|(_, ns)| ns).sum();
            prop_assert_eq!(judged, row.time_ns - row.since_ns);
        }
    }
}
