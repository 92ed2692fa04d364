//! Packets of Intel PT (Intel SDM volume 3, "Trace Packets and Data Types").

/// An address of a packet: often only its lower bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PtAddress {
    /// Left out.
    None,
    /// The lowest two, four or six bytes; those above are of the address before.
    Lower { bytes: u8, value: u64 },
    /// Whole.
    Whole(u64),
}

impl PtAddress {
    /// Returns the whole address, completed by the address before.
    pub(crate) fn after(self, last: u64) -> Option<u64> {
        match self {
            Self::None => None,
            Self::Lower { bytes, value } => Some(last >> (bytes * 8) << (bytes * 8) | value),
            Self::Whole(value) => Some(value),
        }
    }
}

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PtPacket {
    Pad,
    /// Conditional branches, taken or not.
    Tnt,
    Tip(PtAddress),
    TipPge(PtAddress),
    TipPgd(PtAddress),
    Fup(PtAddress),
    /// The lower seven bytes of the time stamp counter.
    Tsc(u64),
    /// The crystal clock's counter at a time stamp, and what the time stamp counter went beyond it.
    Tma {
        ctc: u16,
        fast: u16,
    },
    /// Eight bits of the crystal clock's counter.
    Mtc(u8),
    Cyc(u64),
    /// Core frequency in units of the bus clock.
    Cbr(u8),
    ModeExec,
    /// Whether a transaction was aborted.
    ModeTsx {
        aborted: bool,
    },
    Psb,
    PsbEnd,
    Overflow,
    TraceStop,
    /// One with its address in a FUP that follows.
    WithFup,
    /// The processor will wait; an address may follow in a FUP.
    Mwait,
    /// Begin of a block of items: their packets have the form of others.
    BlockBegin {
        small: bool,
    },
    BlockEnd {
        with_fup: bool,
    },
    /// One without information about flow or time.
    Other,
}

/// Within a block of items, some bytes mean an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum ItemBlock {
    #[default]
    None,
    /// Items of four bytes.
    Small,
    /// Items of eight bytes.
    Large,
}

/// Sixteen bytes that occur nowhere else.
pub(crate) const PSB: [u8; 16] =
    *b"\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82\x02\x82";

/// Returns the packet at the beginning of some bytes, and its length; `None`: there is none, or not all.
pub(crate) fn parse(bytes: &[u8], block: ItemBlock) -> Option<(PtPacket, usize)> {
    let first = *bytes.first()?;
    let whole = |(packet, len): (PtPacket, usize)| (len <= bytes.len()).then_some((packet, len));
    if block != ItemBlock::None && first & 7 == 4 {
        return whole((
            PtPacket::Other,
            if block == ItemBlock::Small { 5 } else { 9 },
        ));
    }
    match first {
        0x00 => Some((PtPacket::Pad, 1)),
        0x02 => whole(decode_extended(bytes)?),
        0x19 => Some((PtPacket::Tsc(number(bytes, 1, 7)?), 8)),
        0x59 => Some((PtPacket::Mtc(*bytes.get(1)?), 2)),
        0x99 => Some((decode_mode(*bytes.get(1)?)?, 2)),
        _ if first & 1 == 0 => Some((PtPacket::Tnt, 1)),
        _ if first & 3 == 3 => decode_cycles(bytes),
        _ => decode_target(bytes),
    }
}

/// Decodes a packet with an extended opcode; returns it with its length in bytes.
fn decode_extended(bytes: &[u8]) -> Option<(PtPacket, usize)> {
    let second = *bytes.get(1)?;
    Some(match second {
        0x03 => (PtPacket::Cbr(*bytes.get(2)?), 4),
        0x13 => match bytes.get(2)? & 0x80 {
            0 => (PtPacket::Other, 4),
            _ => (PtPacket::WithFup, 4),
        },
        0x22 => (PtPacket::Other, 4),
        0x23 => (PtPacket::PsbEnd, 2),
        0x33 => (PtPacket::BlockEnd { with_fup: false }, 2),
        0xb3 => (PtPacket::BlockEnd { with_fup: true }, 2),
        0x43 => (PtPacket::Other, 8),
        0x53 => (PtPacket::Other, 11),
        0x62 => (PtPacket::Other, 2),
        0xe2 => (PtPacket::WithFup, 2),
        0x63 => {
            let small = bytes.get(2)? & 0x80 != 0;
            (PtPacket::BlockBegin { small }, 3)
        }
        0x73 => {
            let ctc = number(bytes, 2, 2)? as u16;
            let fast = number(bytes, 5, 2)? as u16 & 0x1ff;
            (PtPacket::Tma { ctc, fast }, 7)
        }
        0x82 if bytes.starts_with(&PSB) => (PtPacket::Psb, PSB.len()),
        0x83 => (PtPacket::TraceStop, 2),
        0xa2 => (PtPacket::Other, 7),
        0xa3 => (PtPacket::Tnt, 8),
        0xc2 => (PtPacket::Mwait, 10),
        0xc3 => match bytes.get(2)? {
            0x88 => (PtPacket::Other, 11),
            _ => return None,
        },
        0xc8 => (PtPacket::Other, 7),
        0xf3 => (PtPacket::Overflow, 2),
        _ if second & 0x1f == 0x12 => {
            let len = match second >> 5 & 3 {
                0 => 6,
                1 => 10,
                _ => return None,
            };
            let packet = match second & 0x80 {
                0 => PtPacket::Other,
                _ => PtPacket::WithFup,
            };
            (packet, len)
        }
        _ => return None,
    })
}

/// Decodes a MODE packet; None for an unknown kind.
fn decode_mode(second: u8) -> Option<PtPacket> {
    match second >> 5 {
        0 => Some(PtPacket::ModeExec),
        1 => Some(PtPacket::ModeTsx {
            aborted: second & 2 != 0,
        }),
        _ => None,
    }
}

/// Decodes a CYC packet: five bits of the first byte, seven of each further one.
fn decode_cycles(bytes: &[u8]) -> Option<(PtPacket, usize)> {
    let mut count = u64::from(bytes[0] >> 3);
    let mut more = bytes[0] & 4 != 0;
    let (mut len, mut shift) = (1, 5);
    while more {
        let byte = *bytes.get(len)?;
        if shift > 57 {
            return None;
        }
        count |= u64::from(byte >> 1) << shift;
        more = byte & 1 != 0;
        len += 1;
        shift += 7;
    }
    Some((PtPacket::Cyc(count), len))
}

/// Decodes a packet with an address; returns it with its length in bytes.
fn decode_target(bytes: &[u8]) -> Option<(PtPacket, usize)> {
    let first = bytes[0];
    let lower = |bytes: u8, value| PtAddress::Lower { bytes, value };
    let (address, len) = match first >> 5 {
        0 => (PtAddress::None, 1),
        1 => (lower(2, number(bytes, 1, 2)?), 3),
        2 => (lower(4, number(bytes, 1, 4)?), 5),
        // The upper two bytes repeat the sign.
        3 => {
            let value = number(bytes, 1, 6)?;
            (
                PtAddress::Whole((value << 16).cast_signed().wrapping_shr(16).cast_unsigned()),
                7,
            )
        }
        4 => (lower(6, number(bytes, 1, 6)?), 7),
        6 => (PtAddress::Whole(number(bytes, 1, 8)?), 9),
        _ => return None,
    };
    let packet = match first & 0x1f {
        0x0d => PtPacket::Tip(address),
        0x11 => PtPacket::TipPge(address),
        0x01 => PtPacket::TipPgd(address),
        0x1d => PtPacket::Fup(address),
        _ => return None,
    };
    Some((packet, len))
}

/// Returns a little-endian number of some bytes.
fn number(bytes: &[u8], begin: usize, len: usize) -> Option<u64> {
    let bytes = bytes.get(begin..begin + len)?;
    let add = |number, byte: &u8| number << 8 | u64::from(*byte);
    Some(bytes.iter().rev().fold(0, add))
}
