//! Every envelope that a packet may come in.

use proptest::prelude::*;

use super::super::segment::{Segment, parse};
use super::super::source::PacketHead;
use super::*;

/// Reads the bytes of one packet of this link type.
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
    /// Any bytes within an envelope.
    #[test]
    fn any_bytes_are_parsed_or_refused(link in 0..300i32, data in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parsed(link, &data);
        let _ = parsed(1, &data);
        let _ = parsed(101, &data);
    }
}
