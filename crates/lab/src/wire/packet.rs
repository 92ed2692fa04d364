//! Reads from raw bytes what the wire needs to know of a packet: whether it counts,
//! and its TCP fields for the log.

use serde::{Deserialize, Serialize};

use super::config::WindowScale;

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
const PROTOCOL_TCP: u8 = 6;
const FLAG_SYN: u8 = 2;
const OPTION_END: u8 = 0;
const OPTION_NOP: u8 = 1;
const OPTION_WINDOW_SCALE: u8 = 3;
/// Kind, length and shift.
const WINDOW_SCALE_BYTES: usize = 3;

/// TCP fields of one packet, as sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Sender's port.
    pub source_port: u16,
    /// Receiver's port.
    pub destination_port: u16,
    /// Sequence number of the first payload byte (of the SYN or FIN if there is none).
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Payload length.
    pub payload_bytes: u32,
    /// Flag bits: FIN 1, SYN 2, RST 4, PSH 8, ACK 16, URG 32, ECE 64, CWR 128.
    pub flags: u8,
    /// Receive window field, before scaling.
    pub window: u16,
    /// Window scale option; only SYN segments carry one.
    pub window_scale: Option<u8>,
    /// First SACK block, `[start, end)`. One below `ack` is a DSACK.
    pub first_sack: Option<(u32, u32)>,
}

/// Kind of a packet, as the wire treats it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Packet {
    /// Counts, and is TCP.
    Tcp(Segment),
    /// Counts, another protocol or a later fragment.
    Other,
    /// Multicast or not IP: the devices' own talk.
    Ignored,
}

/// Classifies the bytes of one IP packet.
pub(crate) fn parse(bytes: &[u8]) -> Packet {
    match bytes.first().map(|first| first >> 4) {
        Some(4) if bytes.len() >= IPV4_HEADER => parse_ipv4(bytes),
        Some(6) if bytes.len() >= IPV6_HEADER => parse_ipv6(bytes),
        _ => Packet::Ignored,
    }
}

/// Reads addresses and ports of an IPv4 packet.
fn parse_ipv4(bytes: &[u8]) -> Packet {
    if bytes[16] >= 224 {
        return Packet::Ignored;
    }
    let header_bytes = usize::from(bytes[0] & 0xf) * 4;
    let total = usize::from(read_be16(bytes, 2)).min(bytes.len());
    let fragment = read_be16(bytes, 6) & 0x1fff;
    match bytes.get(header_bytes..total) {
        Some(segment) if bytes[9] == PROTOCOL_TCP && fragment == 0 => parse_tcp(segment),
        _ => Packet::Other,
    }
}

/// Reads addresses and ports of an IPv6 packet.
fn parse_ipv6(bytes: &[u8]) -> Packet {
    if bytes[24] == 0xff {
        return Packet::Ignored;
    }
    let total = (IPV6_HEADER + usize::from(read_be16(bytes, 4))).min(bytes.len());
    if bytes[6] == PROTOCOL_TCP {
        parse_tcp(&bytes[IPV6_HEADER..total])
    } else {
        Packet::Other
    }
}

/// Reads sequence numbers and options of a TCP segment.
fn parse_tcp(segment: &[u8]) -> Packet {
    if segment.len() < TCP_HEADER {
        return Packet::Other;
    }
    let header_bytes = usize::from(segment[12] >> 4) * 4;
    let Some(options) = segment.get(TCP_HEADER..header_bytes) else {
        return Packet::Other;
    };
    let (window_scale, first_sack) = parse_options(options);
    Packet::Tcp(Segment {
        source_port: read_be16(segment, 0),
        destination_port: read_be16(segment, 2),
        seq: read_be32(segment, 4),
        ack: read_be32(segment, 8),
        payload_bytes: u32::try_from(segment.len() - header_bytes).unwrap_or(0),
        flags: segment[13],
        window: read_be16(segment, 14),
        window_scale,
        first_sack,
    })
}

/// Returns window scale and first SACK block of a TCP header; None if absent.
fn parse_options(mut options: &[u8]) -> (Option<u8>, Option<(u32, u32)>) {
    const SACK: u8 = 5;
    let (mut window_scale, mut first_sack) = (None, None);
    while let [kind, rest @ ..] = options {
        let length = match (*kind, rest.first()) {
            (OPTION_END, _) => break,
            (OPTION_NOP, _) => 1,
            (_, Some(length)) => usize::from(*length),
            (_, None) => break,
        };
        let Some(option) = options.get(..length).filter(|_| length > 0) else {
            break;
        };
        match (*kind, length) {
            (OPTION_WINDOW_SCALE, WINDOW_SCALE_BYTES) => window_scale = Some(option[2]),
            (SACK, 10..) => first_sack = Some((read_be32(option, 2), read_be32(option, 6))),
            _ => {}
        }
        options = &options[length..];
    }
    (window_scale, first_sack)
}

/// Changes the window scale option of a SYN, checksum included; returns false if it has none.
pub(crate) fn set_window_scale(bytes: &mut [u8], scale: WindowScale) -> bool {
    let Some((segment, option)) = window_scale_option(bytes) else {
        return false;
    };
    let with = match scale {
        WindowScale::Remove => [OPTION_NOP; WINDOW_SCALE_BYTES],
        WindowScale::Lower(by) => {
            let shift = bytes[option + 2].saturating_sub(by);
            [OPTION_WINDOW_SCALE, WINDOW_SCALE_BYTES as u8, shift]
        }
    };
    for (at, byte) in (option..).zip(with) {
        replace_byte(&mut bytes[segment..], at - segment, byte);
    }
    true
}

/// Returns the offsets of a SYN's TCP header and of its window scale option, bytes.
fn window_scale_option(bytes: &[u8]) -> Option<(usize, usize)> {
    let Packet::Tcp(syn) = parse(bytes) else {
        return None;
    };
    syn.window_scale.filter(|_| syn.flags & FLAG_SYN != 0)?;
    let segment = match bytes[0] >> 4 {
        4 => usize::from(bytes[0] & 0xf) * 4,
        _ => IPV6_HEADER,
    };
    let mut at = segment + TCP_HEADER;
    while bytes[at] != OPTION_WINDOW_SCALE {
        at += match bytes[at] {
            OPTION_NOP => 1,
            _ => usize::from(bytes[at + 1]),
        };
    }
    Some((segment, at))
}

/// Changes a byte of a TCP segment and its checksum (RFC 1624, equation 3).
fn replace_byte(segment: &mut [u8], at: usize, byte: u8) {
    const CHECKSUM: usize = 16;
    let word = at & !1;
    let before = read_be16(segment, word);
    segment[at] = byte;
    let sum = u32::from(!read_be16(segment, CHECKSUM))
        + u32::from(!before)
        + u32::from(read_be16(segment, word));
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    segment[CHECKSUM..CHECKSUM + 2].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

/// Returns the big-endian 16 bits at `at`; the callers have checked the length.
fn read_be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Returns the big-endian 32 bits at `at`; the callers have checked the length.
fn read_be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a TCP segment with these options and bytes of data.
    fn tcp(options: &[u8], payload: usize) -> Vec<u8> {
        let mut bytes = vec![0x12, 0x34, 0x00, 0x50, 0, 0, 0, 9, 0, 0, 0, 7];
        bytes.push(u8::try_from((TCP_HEADER + options.len()) / 4).unwrap() << 4);
        bytes.extend([0x18, 0x01, 0x00, 0, 0, 0, 0]);
        bytes.extend(options);
        bytes.extend(std::iter::repeat_n(0xaa, payload));
        bytes
    }

    /// Makes an IPv4 packet around a segment.
    fn ipv4(segment: &[u8]) -> Vec<u8> {
        let length = u16::try_from(IPV4_HEADER + segment.len())
            .unwrap()
            .to_be_bytes();
        let mut bytes = vec![
            0x45,
            0,
            length[0],
            length[1],
            0,
            0,
            0,
            0,
            64,
            PROTOCOL_TCP,
            0,
            0,
        ];
        bytes.extend([10, 77, 0, 1, 10, 77, 0, 2]);
        bytes.extend(segment);
        bytes
    }

    #[test]
    fn ipv4_and_ipv6_segments_parse_alike() {
        let options = [1, 1, 5, 10, 0, 0, 0, 3, 0, 0, 0, 5];
        let segment = tcp(&options, 11);
        let mut v6 = vec![
            0x60,
            0,
            0,
            0,
            0,
            u8::try_from(segment.len()).unwrap(),
            6,
            64,
        ];
        v6.extend([0xfd; 32]);
        v6.extend(&segment);
        let Packet::Tcp(read) = parse(&ipv4(&segment)) else {
            panic!("not TCP")
        };
        assert_eq!(parse(&v6), Packet::Tcp(read));
        assert_eq!((read.source_port, read.destination_port), (0x1234, 80));
        assert_eq!((read.seq, read.ack, read.payload_bytes), (9, 7, 11));
        assert_eq!(
            (read.flags, read.window, read.first_sack),
            (0x18, 256, Some((3, 5)))
        );
    }

    #[test]
    fn window_scale_is_read_from_a_syn() {
        let Packet::Tcp(read) = parse(&ipv4(&tcp(&[3, 3, 7, 0], 0))) else {
            panic!("not TCP")
        };
        assert_eq!((read.window_scale, read.payload_bytes), (Some(7), 0));
    }

    /// Returns the one's complement sum of a segment's words, as a checksum does.
    fn words(segment: &[u8]) -> u64 {
        let sum: u64 = (0..segment.len() / 2)
            .map(|word| u64::from(read_be16(segment, word * 2)))
            .sum();
        sum % 0xffff
    }

    #[test]
    fn changed_window_scale_keeps_the_checksum() {
        for options in [[3, 3, 7, 0, 2, 4, 5, 0xb4], [2, 4, 5, 0xb4, 1, 3, 3, 7]] {
            for scale in [
                WindowScale::Remove,
                WindowScale::Lower(5),
                WindowScale::Lower(9),
            ] {
                let mut syn = tcp(&options, 0);
                syn[13] = FLAG_SYN;
                let (before, mut packet) = (words(&syn), ipv4(&syn));
                assert!(set_window_scale(&mut packet, scale));
                let Packet::Tcp(read) = parse(&packet) else {
                    panic!("not TCP")
                };
                let wanted = match scale {
                    WindowScale::Remove => None,
                    WindowScale::Lower(by) => Some(7_u8.saturating_sub(by)),
                };
                assert_eq!(read.window_scale, wanted);
                assert_eq!(
                    words(&packet[IPV4_HEADER..]),
                    before,
                    "{options:?} {scale:?}"
                );
            }
        }
        // No SYN: left alone.
        let mut data = ipv4(&tcp(&[3, 3, 7, 0], 5));
        assert!(!set_window_scale(&mut data, WindowScale::Remove));
    }

    #[test]
    fn multicast_and_noise_are_ignored_and_no_prefix_panics() {
        let whole = ipv4(&tcp(&[1, 1, 5, 10, 0, 0, 0, 3, 0, 0, 0, 5], 3));
        for length in 0..whole.len() {
            let read = parse(&whole[..length]);
            assert_eq!(
                read == Packet::Ignored,
                length < IPV4_HEADER,
                "length {length}"
            );
        }
        let mut multicast = whole.clone();
        multicast[16] = 224;
        assert_eq!(parse(&multicast), Packet::Ignored);
        assert_eq!(parse(&[0; 60]), Packet::Ignored);
    }
}
