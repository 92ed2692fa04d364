//! Packets → branches, as far as packets alone tell them.
//!
//! Most packets make sense only beside the program's code: a TNT packet says that a conditional
//! branch was taken, and not where it was. Where the code is not at hand, as here, decoding stops at
//! such a packet with an error, and goes on at the next packet that holds a whole address. That is
//! what perf does with a program that it cannot find, and this decoder stops and goes on where perf's
//! (`intel-pt-decoder.c`) does, at the same times. perf keeps quiet about most of its stops, namely
//! all but the first in each file; here each is an event.

use super::clock::{Clock, Ratios};
use super::packet::{Address, Block, PSB, Packet, parse};
use crate::branch::{BranchKind, Edge};

/// Why decoding stopped. The words are perf's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    NoCode,
    BadPacket,
    Overflow,
    Mismatch,
}

impl Stop {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::NoCode => "Failed to get instruction",
            Self::BadPacket => "Bad packet",
            Self::Overflow => "Overflow packet",
            Self::Mismatch => "Trace doesn't match instruction",
        }
    }
}

/// What the packets tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Branch {
        kind: BranchKind,
        edge: Edge,
        from: u64,
        to: u64,
    },
    Stop {
        why: Stop,
        at: u64,
    },
}

/// Something told, and the time stamp counter then.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PtEvent {
    pub(crate) tsc: u64,
    pub(crate) told: Told,
}

/// Where the decoder stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It looks for a PSB.
    Lost,
    /// It looks for a whole address.
    NoAddress,
    /// It looks for any address.
    Resync,
    InSync,
}

/// What became of a group of packets after a PSB.
enum Group {
    Done,
    /// A packet that does not belong there, which is still to be read.
    Unexpected,
    Told(Told),
    End,
}

/// The events of one buffer.
pub(crate) struct Decoder<'a> {
    bytes: &'a [u8],
    at: usize,
    step: usize,
    block: Block,
    clock: Clock,
    state: State,
    /// Tracing is on.
    tracing: bool,
    address: u64,
    last_address: u64,
    have_last: bool,
    overflowed: bool,
    /// Latest time of an event: perf's samples never go back.
    latest: u64,
}

impl<'a> Decoder<'a> {
    /// A decoder of a buffer; `reference` is a time stamp near its own.
    pub(crate) fn new(bytes: &'a [u8], ratios: Ratios, reference: u64) -> Self {
        Self {
            bytes,
            at: 0,
            step: 0,
            block: Block::None,
            clock: Clock::new(ratios, reference),
            state: State::Lost,
            tracing: false,
            address: 0,
            last_address: 0,
            have_last: false,
            overflowed: false,
            latest: 0,
        }
    }

    fn decode(&mut self) -> Option<Told> {
        loop {
            let told = match self.state {
                State::Lost => self.synchronise()?,
                State::NoAddress | State::Resync => self.find_address()?,
                State::InSync => Some(self.follow()?),
            };
            if told.is_some() {
                return told;
            }
        }
    }

    /// The next packet but padding. Bytes that are none are passed over one by one.
    fn next_packet(&mut self) -> Option<Result<Packet, Told>> {
        loop {
            self.at += std::mem::take(&mut self.step);
            let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
            let Some((packet, len)) = parse(rest, self.block) else {
                self.step = 1;
                self.clock.lose_crystal();
                return Some(Err(self.stop(Stop::BadPacket)));
            };
            self.step = len;
            match packet {
                Packet::Pad => continue,
                Packet::BlockBegin { small: true } => self.block = Block::Small,
                Packet::BlockBegin { small: false } => self.block = Block::Large,
                Packet::BlockEnd { .. } | Packet::Psb => self.block = Block::None,
                _ => {}
            }
            return Some(Ok(packet));
        }
    }

    /// The packet just read is to be read again.
    fn unread(&mut self) {
        self.step = 0;
    }

    /// Takes what a packet says of the time. Returns whether that was all.
    fn tell_clock(&mut self, packet: Packet) -> bool {
        match packet {
            Packet::Tsc(payload) => self.clock.tsc(payload),
            Packet::Tma { ctc, fast } => self.clock.tma(ctc, fast),
            Packet::Mtc(payload) => self.clock.mtc(payload),
            Packet::Cyc(count) => self.clock.cyc(count),
            Packet::Cbr(cbr) => self.clock.cbr(cbr),
            _ => return false,
        }
        true
    }

    fn stop(&self, why: Stop) -> Told {
        Told::Stop {
            why,
            at: self.address,
        }
    }

    /// The code at the present address is needed.
    fn no_code(&mut self) -> Told {
        self.state = State::NoAddress;
        self.stop(Stop::NoCode)
    }

    fn overflow(&mut self) -> Told {
        let told = self.stop(Stop::Overflow);
        self.state = State::InSync;
        self.address = 0;
        self.tracing = false;
        self.overflowed = true;
        told
    }

    fn set_last(&mut self, address: Address) -> bool {
        let Some(address) = address.after(self.last_address) else {
            return false;
        };
        self.last_address = address;
        self.have_last = true;
        true
    }

    fn set_address(&mut self, address: Address) -> bool {
        let set = self.set_last(address);
        if set {
            self.address = self.last_address;
        }
        set
    }

    /// As [`Self::set_address`], if the address can be known.
    fn set_if_known(&mut self, address: Address) -> bool {
        let known = self.have_last || matches!(address, Address::Whole(_));
        known && self.set_address(address)
    }

    fn begins_here(&self) -> Told {
        Told::Branch {
            kind: BranchKind::Unknown,
            edge: Edge::Begin,
            from: 0,
            to: self.address,
        }
    }

    /// Looks for a PSB, and reads the group of packets after it.
    fn synchronise(&mut self) -> Option<Option<Told>> {
        self.tracing = false;
        self.have_last = false;
        (self.address, self.last_address) = (0, 0);
        self.at += std::mem::take(&mut self.step);
        let rest = self.bytes.get(self.at..)?;
        self.at += rest.windows(PSB.len()).position(|window| window == PSB)?;
        self.step = PSB.len();
        self.block = Block::None;
        self.have_last = true;
        self.state = State::InSync;
        self.group_out_of_sync()
    }

    /// The group of packets after a PSB, while the address is not known.
    fn group_out_of_sync(&mut self) -> Option<Option<Told>> {
        Some(match self.group(true) {
            Group::Done => None,
            Group::Told(told) => Some(told),
            Group::Unexpected => Some(self.stop(Stop::Mismatch)),
            Group::End => return None,
        })
    }

    /// Reads packets until the PSBEND. Out of sync, an address among them is where the code is.
    fn group(&mut self, out_of_sync: bool) -> Group {
        loop {
            let packet = match self.next_packet() {
                None => return Group::End,
                Some(Err(told)) => return Group::Told(told),
                Some(Ok(packet)) => packet,
            };
            if self.tell_clock(packet) {
                self.note_time();
                continue;
            }
            match packet {
                Packet::PsbEnd => return Group::Done,
                Packet::Overflow => return Group::Told(self.overflow()),
                Packet::Fup(address) => {
                    self.tracing = true;
                    if out_of_sync {
                        self.set_if_known(address);
                    } else {
                        self.set_last(address);
                    }
                }
                Packet::Tnt | Packet::TraceStop if out_of_sync => {
                    self.clock.lose_crystal();
                    self.tracing &= packet == Packet::Tnt;
                    self.state = match self.address {
                        0 => State::Resync,
                        _ => State::InSync,
                    };
                    return Group::Unexpected;
                }
                Packet::ModeExec | Packet::ModeTsx { .. } => {}
                Packet::Other => {}
                Packet::Psb if out_of_sync => {}
                _ => {
                    if !out_of_sync {
                        self.clock.lose_crystal();
                        self.unread();
                    }
                    return Group::Unexpected;
                }
            }
        }
    }

    /// Times within a PSB's group count for the events that follow.
    fn note_time(&mut self) {
        self.latest = self.latest.max(self.clock.tsc);
    }

    /// Looks for an address. `Some(None)`: found in the group after a PSB, which is no branch.
    fn find_address(&mut self) -> Option<Option<Told>> {
        if self.state == State::NoAddress {
            self.have_last = false;
            (self.address, self.last_address) = (0, 0);
        }
        self.overflowed = false;
        loop {
            let packet = match self.next_packet()? {
                Err(told) => return Some(Some(told)),
                Ok(packet) => packet,
            };
            if self.tell_clock(packet) {
                continue;
            }
            let address = match packet {
                Packet::Tip(address) | Packet::TipPge(address) => {
                    self.tracing = true;
                    address
                }
                Packet::TipPgd(address) => {
                    self.tracing = false;
                    address
                }
                Packet::Fup(address) => address,
                Packet::Overflow => return Some(Some(self.overflow())),
                Packet::TraceStop => {
                    self.tracing = false;
                    self.clock.lose_crystal();
                    continue;
                }
                Packet::Psb => {
                    self.last_address = 0;
                    self.have_last = true;
                    let told = self.group_out_of_sync()?;
                    if told.is_none() && self.address != 0 {
                        self.state = State::InSync;
                    }
                    return Some(told);
                }
                _ => continue,
            };
            self.set_if_known(address);
            if self.address == 0 {
                continue;
            }
            self.state = State::InSync;
            return Some(Some(match packet {
                Packet::TipPgd(_) => Told::Branch {
                    kind: BranchKind::Unknown,
                    edge: Edge::Inside,
                    from: 0,
                    to: self.address,
                },
                _ => self.begins_here(),
            }));
        }
    }

    /// Follows the packets from a known address until one needs the code.
    fn follow(&mut self) -> Option<Told> {
        // The next FUP does not come before a TIP.
        let mut alone = false;
        loop {
            let packet = match self.next_packet()? {
                Err(told) => return Some(told),
                Ok(packet) => packet,
            };
            if self.tell_clock(packet) {
                continue;
            }
            match packet {
                Packet::Tnt => return Some(self.no_code()),
                Packet::Tip(address) | Packet::TipPgd(address) => {
                    self.set_last(address);
                    return Some(self.no_code());
                }
                Packet::TipPge(address) => {
                    self.tracing = true;
                    self.overflowed = false;
                    if self.set_address(address) {
                        return Some(self.begins_here());
                    }
                }
                Packet::Overflow => return Some(self.overflow()),
                Packet::Fup(address) => {
                    if let Some(told) = self.flow_update(address, alone)? {
                        return Some(told);
                    }
                    alone = false;
                }
                Packet::TraceStop => {
                    self.tracing = false;
                    self.clock.lose_crystal();
                }
                Packet::Psb => {
                    if let Some(told) = self.group_in_sync()? {
                        return Some(told);
                    }
                }
                Packet::ModeExec | Packet::WithFup | Packet::BlockEnd { with_fup: true } => {
                    alone |= self.fup_is_next();
                }
                Packet::ModeTsx { aborted } => {
                    alone |= self.tracing && !aborted && self.fup_is_next();
                }
                Packet::Mwait => alone = true,
                _ => {}
            }
        }
    }

    /// A FUP: the address at which something happened. `Some(None)`: it happened here, and no branch.
    fn flow_update(&mut self, address: Address, alone: bool) -> Option<Option<Told>> {
        if !self.set_last(address) {
            return Some(None);
        }
        if !self.tracing {
            self.address = self.last_address;
            if !std::mem::take(&mut self.overflowed) {
                return Some(None);
            }
            self.tracing = true;
            return Some(Some(self.begins_here()));
        }
        if self.address != self.last_address {
            return Some(Some(self.no_code()));
        }
        self.overflowed = false;
        if alone {
            return Some(None);
        }
        self.interrupted().map(Some)
    }

    /// After a FUP: where the interrupt or exception went.
    fn interrupted(&mut self) -> Option<Told> {
        loop {
            let packet = match self.next_packet()? {
                Err(told) => return Some(told),
                Ok(packet) => packet,
            };
            let from = self.address;
            let (kind, edge, address) = match packet {
                Packet::Mtc(_) | Packet::Cyc(_) | Packet::Cbr(_) => {
                    self.tell_clock(packet);
                    continue;
                }
                Packet::ModeExec | Packet::Other => continue,
                Packet::Overflow => return Some(self.overflow()),
                Packet::Tip(address) => (BranchKind::Interrupt, Edge::Inside, address),
                Packet::TipPgd(address) => {
                    self.tracing = false;
                    (BranchKind::Unknown, Edge::End, address)
                }
                Packet::TipPge(address) => {
                    self.tracing = true;
                    self.set_address(address);
                    return Some(self.begins_here());
                }
                _ => {
                    self.unread();
                    self.state = State::Resync;
                    return Some(self.stop(Stop::Mismatch));
                }
            };
            let to = match self.set_address(address) {
                true => self.address,
                false => 0,
            };
            return Some(Told::Branch {
                kind,
                edge,
                from,
                to,
            });
        }
    }

    /// The group of packets after a PSB. `Some(None)`: it tells nothing new.
    fn group_in_sync(&mut self) -> Option<Option<Told>> {
        if let Some(address) = self.address_in_group() {
            self.set_last(address);
            if self.address != self.last_address {
                return Some(Some(self.no_code()));
            }
        }
        self.last_address = 0;
        self.have_last = true;
        Some(match self.group(false) {
            Group::Done | Group::Unexpected => None,
            Group::Told(told) => Some(told),
            Group::End => return None,
        })
    }

    /// Looks ahead for the address in the group after a PSB. One with a TIP.PGE soon after does not
    /// count: tracing was off.
    fn address_in_group(&self) -> Option<Address> {
        let (mut found, mut left) = (None, None::<u32>);
        for packet in self.ahead() {
            match (packet, left) {
                (Packet::TipPge(_), Some(_)) => return None,
                (Packet::Fup(_), Some(_)) => return found,
                (Packet::Fup(Address::None), None) => return found,
                (Packet::Fup(_), None) if found.is_some() => return found,
                (Packet::Fup(address), None) => found = Some(address),
                (Packet::PsbEnd, _) => {
                    found?;
                    left = Some(6);
                }
                (
                    Packet::Tnt
                    | Packet::Tip(_)
                    | Packet::TipPgd(_)
                    | Packet::TipPge(_)
                    | Packet::Psb
                    | Packet::Overflow
                    | Packet::TraceStop,
                    _,
                ) => return found,
                (_, Some(1)) => return found,
                (_, Some(count)) => left = Some(count - 1),
                (_, None) => {}
            }
        }
        found
    }

    fn fup_is_next(&self) -> bool {
        matches!(self.ahead().next(), Some(Packet::Fup(_)))
    }

    /// The packets from here on, without padding.
    fn ahead(&self) -> impl Iterator<Item = Packet> {
        let mut rest = self.bytes.get(self.at + self.step..).unwrap_or_default();
        let block = self.block;
        let packets = std::iter::from_fn(move || {
            let (packet, len) = parse(rest, block)?;
            rest = &rest[len..];
            Some(packet)
        });
        packets.filter(|packet| *packet != Packet::Pad)
    }
}

impl Iterator for Decoder<'_> {
    type Item = PtEvent;

    fn next(&mut self) -> Option<PtEvent> {
        let told = self.decode()?;
        self.latest = self.latest.max(self.clock.now());
        Some(PtEvent {
            tsc: self.latest,
            told,
        })
    }
}
