//! Conversations that are written here, packet by packet, and every envelope that a packet may come in.

use std::io::{Cursor, Write};

use etherparse::PacketBuilder;
use proptest::prelude::*;
use table::tables::{Call, TcpStage};
use table::{Columns, Role, RowSet, TcpEventKind};

use super::segment::{Segment, parse};
use super::source::PacketHead;
use super::{CaptureImport, CaptureReader, Vantage};
use crate::ImportError;

const MS: u64 = 1_000_000;
const CLIENT: ([u8; 4], u16) = ([10, 0, 0, 1], 40_000);
const SERVER: ([u8; 4], u16) = ([10, 0, 0, 2], 5_432);
const ETHERNET: u16 = 1;

/// One segment: who sends it (0: the client), flags, sequence numbers and bytes.
#[derive(Debug, Clone, Copy, Default)]
struct Packet {
    at_ns: u64,
    from: usize,
    is_syn: bool,
    is_fin: bool,
    is_rst: bool,
    seq: u32,
    ack: Option<u32>,
    bytes: usize,
    window: u16,
}

impl Packet {
    fn frame(&self, number: usize) -> Vec<u8> {
        let (source, target) = match self.from {
            0 => (CLIENT, SERVER),
            _ => (SERVER, CLIENT),
        };
        let window = if self.window == 0 { 500 } else { self.window };
        let mut tcp = PacketBuilder::ethernet2([1; 6], [2; 6])
            .ip(etherparse::IpHeaders::Ipv4(
                etherparse::Ipv4Header {
                    source: source.0,
                    destination: target.0,
                    time_to_live: 64,
                    identification: number as u16 + 1,
                    ..Default::default()
                },
                Default::default(),
            ))
            .tcp(source.1, target.1, self.seq, window);
        if self.is_syn {
            tcp = tcp
                .options(&[
                    etherparse::TcpOptionElement::MaximumSegmentSize(1_460),
                    etherparse::TcpOptionElement::WindowScale(7),
                    etherparse::TcpOptionElement::SelectiveAcknowledgementPermitted,
                ])
                .expect("room for options")
                .syn();
        }
        if self.is_fin {
            tcp = tcp.fin();
        }
        if self.is_rst {
            tcp = tcp.rst();
        }
        if let Some(ack) = self.ack {
            tcp = tcp.ack(ack);
        }
        let mut frame = Vec::new();
        tcp.write(&mut frame, &vec![0; self.bytes])
            .expect("written");
        frame
    }
}

/// A conversation as the place of the capture sees it.
#[derive(Debug, Default)]
struct Talk {
    packets: Vec<Packet>,
    now_ns: u64,
    next: [u32; 2],
}

impl Talk {
    /// The handshake: the client is `near_ns` away, the server `far_ns`, there and back.
    fn begin(near_ns: u64, far_ns: u64) -> Self {
        let mut talk = Self {
            next: [1_000, 0xffff_ff00],
            ..Self::default()
        };
        talk.put(0, 0, |it| (it.is_syn, it.ack) = (true, None));
        talk.next[0] += 1;
        talk.put(far_ns, 1, |it| it.is_syn = true);
        talk.next[1] = talk.next[1].wrapping_add(1);
        talk.put(near_ns, 0, |_| {});
        talk
    }

    fn put(&mut self, later_ns: u64, from: usize, change: impl FnOnce(&mut Packet)) {
        self.now_ns += later_ns;
        let mut packet = Packet {
            at_ns: self.now_ns,
            from,
            seq: self.next[from],
            ack: Some(self.next[1 - from]),
            ..Packet::default()
        };
        change(&mut packet);
        self.packets.push(packet);
    }

    fn send(&mut self, later_ns: u64, from: usize, bytes: usize) {
        self.put(later_ns, from, |it| it.bytes = bytes);
        self.next[from] = self.next[from].wrapping_add(bytes as u32);
    }

    fn acknowledge(&mut self, later_ns: u64, from: usize) {
        self.put(later_ns, from, |_| {});
    }

    fn end(&mut self, later_ns: u64) {
        for (later_ns, from) in [(later_ns, 0), (10 * MS, 1)] {
            self.put(later_ns, from, |it| it.is_fin = true);
            self.next[from] = self.next[from].wrapping_add(1);
        }
        self.acknowledge(20_000, 0);
    }

    fn frames(&self) -> Vec<(u64, Vec<u8>)> {
        let mut numbers = [0, 0];
        let packets = self.packets.iter();
        let frames = packets.map(|it| {
            numbers[it.from] += 1;
            (it.at_ns, it.frame(numbers[it.from]))
        });
        frames.collect()
    }

    fn read(&self) -> (RowSet, CaptureImport) {
        read(&pcap(&self.frames()), Vantage::Estimated)
    }
}

/// A pcap file with stamps in nanoseconds.
fn pcap(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    file.extend(0xa1b2_3c4d_u32.to_le_bytes());
    file.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    file.extend(262_144_u32.to_le_bytes());
    file.extend(u32::from(ETHERNET).to_le_bytes());
    for (at_ns, frame) in frames {
        let words = [
            7 + (at_ns / 1_000_000_000) as u32,
            (at_ns % 1_000_000_000) as u32,
            frame.len() as u32,
            frame.len() as u32,
        ];
        file.extend(words.into_iter().flat_map(u32::to_le_bytes));
        file.extend(frame);
    }
    file
}

fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, &body, &length].concat()
}

/// A pcapng file: an interface with stamps in nanoseconds, and one in microseconds, in turn.
fn pcapng(frames: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let section = [
        0x1a2b_3c4d_u32.to_le_bytes(),
        [1, 0, 0, 0],
        [0xff; 4],
        [0xff; 4],
    ]
    .concat();
    let mut file = block(0x0a0d_0d0a, &section);
    for resolution in [9, 6] {
        let mut body = ETHERNET.to_le_bytes().to_vec();
        body.extend([0; 6]);
        body.extend([9, 0, 1, 0, resolution, 0, 0, 0, 0, 0, 0, 0]);
        file.extend(block(1, &body));
    }
    for (number, (at_ns, frame)) in frames.iter().enumerate() {
        let interface = number as u32 % 2;
        let ns = 7_000_000_000 + at_ns;
        let stamp = if interface == 0 { ns } else { ns / 1_000 };
        let length = frame.len() as u32;
        let words = [
            interface,
            (stamp >> 32) as u32,
            stamp as u32,
            length,
            length,
        ];
        let mut body: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        body.extend(frame);
        file.extend(block(6, &body));
    }
    file
}

fn read(file: &[u8], vantage: Vantage) -> (RowSet, CaptureImport) {
    let input = [("x".to_owned(), Box::new(Cursor::new(file.to_vec())) as _)];
    let reader = CaptureReader::new(input).expect("a capture");
    let mut all = RowSet::default();
    let import = reader.read(vantage, |rows| -> Result<(), ImportError> {
        all.append(rows);
        Ok(())
    });
    let import = import.expect("segments");
    assert_eq!(import.tally.residual(), 0);
    (all, import)
}

/// Returns the last stages of an end; 0: the client.
fn stages(rows: &RowSet, end: usize) -> TcpStage {
    let stages = (0..rows.tcp_stages.len()).map(|at| rows.tcp_stages.row(at));
    let last = stages.rev().find(|row| row.conn == end as u64 + 1);
    let last = last.expect("a row");
    let judged: u64 = last.stages_ns().iter().map(|(_, ns)| ns).sum();
    assert_eq!(judged, last.time_ns - last.since_ns);
    last
}

fn calls(rows: &RowSet) -> Vec<Call> {
    (0..rows.calls.len()).map(|at| rows.calls.row(at)).collect()
}

fn count(rows: &RowSet, kind: TcpEventKind) -> usize {
    rows.tcp_events
        .kind
        .iter()
        .filter(|it| **it == kind)
        .count()
}

/// A request of 100 bytes, answered after 50 ms beyond the round trip by 3,000 bytes.
fn exchange() -> Talk {
    let mut talk = Talk::begin(20_000, 10 * MS);
    talk.send(MS, 0, 100);
    talk.acknowledge(10 * MS, 1);
    talk.send(50 * MS, 1, 1_448);
    talk.send(10_000, 1, 1_448);
    talk.send(10_000, 1, 104);
    talk.acknowledge(20_000, 0);
    talk.end(MS);
    talk
}

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
fn window_that_is_full_is_the_receivers() {
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
fn segments_that_overtake_each_other_are_not_sent_again() {
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

fn parsed(link: i32, data: &[u8]) -> Result<Segment, &'static str> {
    let head = PacketHead {
        time_ns: 1,
        link,
        wire_bytes: data.len() as u32,
    };
    parse(head, data)
}

#[test]
fn envelopes_hold_the_same_segment() {
    let packet = Packet {
        seq: 7,
        ack: Some(11),
        bytes: 13,
        ..Packet::default()
    };
    let frame = packet.frame(1);
    let expected = parsed(1, &frame).expect("a segment");
    assert_eq!(
        (expected.seq, expected.ack, expected.bytes),
        (7, Some(11), 13)
    );
    let (macs, ip) = (&frame[..12], &frame[14..]);
    let tagged = [macs, &[0x81, 0, 0, 5, 0x08, 0], ip].concat();
    let twice = [macs, &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 0x08, 0], ip].concat();
    let cooked = [&[0, 4, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0, 0x08, 0], ip].concat();
    let cooked2 = [
        &[
            0x08, 0, 0, 0, 0, 0, 0, 1, 0, 1, 4, 6, 1, 2, 3, 4, 5, 6, 0, 0,
        ],
        ip,
    ]
    .concat();
    let null = [&[2, 0, 0, 0], ip].concat();
    for (link, data) in [
        (1, tagged),
        (1, twice),
        (113, cooked),
        (276, cooked2),
        (0, null),
    ] {
        assert_eq!(parsed(link, &data), Ok(expected), "link type {link}");
    }
    assert_eq!(parsed(101, ip), Ok(expected));
    let outer = |protocol: u8, bytes: usize| {
        let total = (20 + bytes as u16).to_be_bytes();
        let mut header = [0x45, 0, total[0], total[1], 0, 9, 0, 0, 64, protocol, 0, 0].to_vec();
        header.extend([192, 0, 2, 1, 192, 0, 2, 2]);
        header
    };
    let gre = [&[0x20, 0, 0x08, 0, 0, 0, 0, 1], ip].concat();
    let vxlan_bytes = (frame.len() as u16 + 16).to_be_bytes();
    let vxlan = [
        &[0xc0, 0, 0x12, 0xb5],
        &vxlan_bytes[..],
        &[0, 0, 8, 0, 0, 0, 0, 0, 9, 0],
        &frame,
    ]
    .concat();
    for (protocol, inner) in [(47, gre), (17, vxlan), (4, ip.to_vec())] {
        let data = [outer(protocol, inner.len()), inner].concat();
        assert_eq!(parsed(101, &data), Ok(expected), "protocol {protocol}");
    }
}

#[test]
fn packets_that_are_cut_keep_their_length() {
    let packet = Packet {
        ack: Some(1),
        bytes: 1_000,
        ..Packet::default()
    };
    let frame = packet.frame(1);
    for kept in [14 + 20 + 20, 14 + 20 + 20 + 100] {
        let head = PacketHead {
            time_ns: 1,
            link: 1,
            wire_bytes: frame.len() as u32,
        };
        let segment = parse(head, &frame[..kept]).expect("a segment");
        assert_eq!(segment.bytes, 1_000);
    }
    assert!(parsed(1, &frame[..14 + 20 + 19]).is_err());
    assert!(parsed(147, &frame).is_err());
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

    /// Any bytes within an envelope.
    #[test]
    fn any_bytes_are_parsed_or_refused(link in 0..300i32, data in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parsed(link, &data);
        let _ = parsed(1, &data);
        let _ = parsed(101, &data);
    }
}
