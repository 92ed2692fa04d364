//! Conversations that are written here, packet by packet.

use std::io::Cursor;

mod connections;
mod envelopes;
mod losses;
mod places;

use etherparse::{PacketBuilder, TcpOptionElement};
use table::tables::{Call, TcpStage};
use table::{Columns, RowSet, TcpEventKind};

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
    /// Timestamps: its own, and the echo.
    stamps: Option<(u32, u32)>,
}

impl Packet {
    /// Returns the packet as an Ethernet frame.
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
        let mut options = Vec::new();
        if self.is_syn {
            options.extend([
                TcpOptionElement::MaximumSegmentSize(1_460),
                TcpOptionElement::WindowScale(7),
                TcpOptionElement::SelectiveAcknowledgementPermitted,
            ]);
            tcp = tcp.syn();
        }
        let stamps = self.stamps;
        options.extend(stamps.map(|(own, echo)| TcpOptionElement::Timestamp(own, echo)));
        tcp = tcp.options(&options).expect("room for options");
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
    /// Makes a connection's handshake; the round trips to client and server are `near_ns` and
    /// `far_ns`.
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

    /// Adds a packet of an end, `later_ns` after the last one; `change` sets its fields.
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

    /// Adds data of one end.
    fn send(&mut self, later_ns: u64, from: usize, bytes: usize) {
        self.put(later_ns, from, |it| it.bytes = bytes);
        self.next[from] = self.next[from].wrapping_add(bytes as u32);
    }

    /// Adds an ACK of one end, for all that the other sent.
    fn acknowledge(&mut self, later_ns: u64, from: usize) {
        self.put(later_ns, from, |_| {});
    }

    /// Adds FIN of both ends and the last ACK.
    fn end(&mut self, later_ns: u64) {
        for (later_ns, from) in [(later_ns, 0), (10 * MS, 1)] {
            self.put(later_ns, from, |it| it.is_fin = true);
            self.next[from] = self.next[from].wrapping_add(1);
        }
        self.acknowledge(20_000, 0);
    }

    /// Returns time and bytes of all packets.
    fn frames(&self) -> Vec<(u64, Vec<u8>)> {
        let mut numbers = [0, 0];
        let packets = self.packets.iter();
        let frames = packets.map(|it| {
            numbers[it.from] += 1;
            (it.at_ns, it.frame(numbers[it.from]))
        });
        frames.collect()
    }

    /// Imports the packets as a capture file.
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

/// Makes a block of a pcapng file.
fn block(kind: u32, body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body.resize(body.len().next_multiple_of(4), 0);
    let length = (body.len() as u32 + 12).to_le_bytes();
    [&kind.to_le_bytes()[..], &length, &body, &length].concat()
}

/// Makes a pcapng file with two interfaces in turn: stamps in ns, and in µs.
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

/// Imports a capture file.
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

/// Returns the rows of calls.
fn calls(rows: &RowSet) -> Vec<Call> {
    (0..rows.calls.len()).map(|at| rows.calls.row(at)).collect()
}

/// Returns the number of events of a kind.
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
