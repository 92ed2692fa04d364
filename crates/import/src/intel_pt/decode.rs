//! Packets → branches, as far as packets alone show them.
//!
//! Most packets make sense only beside the program's code: a TNT packet says that a conditional
//! branch was taken, and not where it was. Where the code is not at hand, as here, decoding stops at
//! such a packet with an error, and goes on at the next packet that holds a whole address. That is
//! what perf does with a program that it cannot find, and this decoder stops and goes on where perf's
//! (`intel-pt-decoder.c`) does, at the same times. perf keeps quiet about most of its stops, namely
//! all but the first in each file; here each is an event.

use super::clock::{ClockRatios, PtClock};
use super::packet::{ItemBlock, PtAddress, PtPacket, parse};
use crate::branch::{BranchKind, FlowEdge};

/// The reason why decoding stopped. The words are perf's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StopReason {
    NoCode,
    BadPacket,
    Overflow,
    Mismatch,
}

impl StopReason {
    /// Returns why decoding stopped, as text.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::NoCode => "Failed to get instruction",
            Self::BadPacket => "Bad packet",
            Self::Overflow => "Overflow packet",
            Self::Mismatch => "Trace doesn't match instruction",
        }
    }
}

/// A branch, or the end of decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FlowEvent {
    Branch {
        kind: BranchKind,
        edge: FlowEdge,
        from: u64,
        to: u64,
    },
    Stop {
        why: StopReason,
        at: u64,
    },
}

/// A branch or stop, with the time stamp counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PtEvent {
    pub(crate) tsc: u64,
    pub(crate) flow: FlowEvent,
}

/// The state of a decoder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DecoderState {
    /// It looks for a PSB.
    Lost,
    /// It looks for a whole address.
    NoAddress,
    /// It looks for any address.
    Resync,
    InSync,
}

/// The events of one buffer.
pub(crate) struct Decoder<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
    pub(super) step: usize,
    pub(super) block: ItemBlock,
    pub(super) clock: PtClock,
    pub(super) state: DecoderState,
    /// Tracing is on.
    pub(super) tracing: bool,
    pub(super) address: u64,
    pub(super) last_address: u64,
    pub(super) have_last: bool,
    pub(super) overflowed: bool,
    /// Latest time of an event: perf's samples never go back.
    pub(super) latest: u64,
}

impl<'a> Decoder<'a> {
    /// Makes a decoder of a buffer; `reference` is a time stamp near its own.
    pub(crate) fn new(bytes: &'a [u8], ratios: ClockRatios, reference: u64) -> Self {
        Self {
            bytes,
            at: 0,
            step: 0,
            block: ItemBlock::None,
            clock: PtClock::new(ratios, reference),
            state: DecoderState::Lost,
            tracing: false,
            address: 0,
            last_address: 0,
            have_last: false,
            overflowed: false,
            latest: 0,
        }
    }

    /// Returns the next branch or stop; None at the end of the trace.
    fn decode(&mut self) -> Option<FlowEvent> {
        loop {
            let event = match self.state {
                DecoderState::Lost => self.synchronise()?,
                DecoderState::NoAddress | DecoderState::Resync => self.find_address()?,
                DecoderState::InSync => Some(self.follow_packets()?),
            };
            if event.is_some() {
                return event;
            }
        }
    }

    /// Returns the next packet but padding. Bytes that are none are passed over one by one.
    pub(super) fn next_packet(&mut self) -> Option<Result<PtPacket, FlowEvent>> {
        loop {
            self.at += std::mem::take(&mut self.step);
            let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
            let Some((packet, len)) = parse(rest, self.block) else {
                self.step = 1;
                self.clock.lose_crystal();
                return Some(Err(self.stop(StopReason::BadPacket)));
            };
            self.step = len;
            match packet {
                PtPacket::Pad => continue,
                PtPacket::BlockBegin { small: true } => self.block = ItemBlock::Small,
                PtPacket::BlockBegin { small: false } => self.block = ItemBlock::Large,
                PtPacket::BlockEnd { .. } | PtPacket::Psb => self.block = ItemBlock::None,
                _ => {}
            }
            return Some(Ok(packet));
        }
    }

    /// Puts the packet just read back, so that it is read again.
    pub(super) fn unread(&mut self) {
        self.step = 0;
    }

    /// Applies a packet's time to the clock; returns whether the packet has nothing else.
    pub(super) fn update_clock(&mut self, packet: PtPacket) -> bool {
        match packet {
            PtPacket::Tsc(payload) => self.clock.tsc(payload),
            PtPacket::Tma { ctc, fast } => self.clock.tma(ctc, fast),
            PtPacket::Mtc(payload) => self.clock.mtc(payload),
            PtPacket::Cyc(count) => self.clock.cyc(count),
            PtPacket::Cbr(cbr) => self.clock.cbr(cbr),
            _ => return false,
        }
        true
    }

    /// Makes the event of a stop at the present address.
    pub(super) fn stop(&self, why: StopReason) -> FlowEvent {
        FlowEvent::Stop {
            why,
            at: self.address,
        }
    }

    /// The code at the present address is needed.
    pub(super) fn no_code(&mut self) -> FlowEvent {
        self.state = DecoderState::NoAddress;
        self.stop(StopReason::NoCode)
    }

    /// Makes the event of a processor's overflow; decoding goes on at the next address.
    pub(super) fn overflow(&mut self) -> FlowEvent {
        let event = self.stop(StopReason::Overflow);
        self.state = DecoderState::InSync;
        self.address = 0;
        self.tracing = false;
        self.overflowed = true;
        event
    }

    /// Sets the last address that the trace gave; false if it cannot be completed.
    pub(super) fn set_last(&mut self, address: PtAddress) -> bool {
        let Some(address) = address.after(self.last_address) else {
            return false;
        };
        self.last_address = address;
        self.have_last = true;
        true
    }

    /// Sets the present address; false if it cannot be completed.
    fn set_address(&mut self, address: PtAddress) -> bool {
        let set = self.set_last(address);
        if set {
            self.address = self.last_address;
        }
        set
    }

    /// Sets the present address if it can be completed.
    pub(super) fn set_if_known(&mut self, address: PtAddress) -> bool {
        let known = self.have_last || matches!(address, PtAddress::Whole(_));
        known && self.set_address(address)
    }

    /// Makes the event of a trace that starts at the present address.
    fn begins_here(&self) -> FlowEvent {
        FlowEvent::Branch {
            kind: BranchKind::Unknown,
            edge: FlowEdge::Begin,
            from: 0,
            to: self.address,
        }
    }

    /// Reads packets until an address is known. `Some(None)`: found in the group after a PSB,
    /// which is no branch.
    fn find_address(&mut self) -> Option<Option<FlowEvent>> {
        if self.state == DecoderState::NoAddress {
            self.have_last = false;
            (self.address, self.last_address) = (0, 0);
        }
        self.overflowed = false;
        loop {
            let packet = match self.next_packet()? {
                Err(event) => return Some(Some(event)),
                Ok(packet) => packet,
            };
            if self.update_clock(packet) {
                continue;
            }
            let address = match packet {
                PtPacket::Tip(address) | PtPacket::TipPge(address) => {
                    self.tracing = true;
                    address
                }
                PtPacket::TipPgd(address) => {
                    self.tracing = false;
                    address
                }
                PtPacket::Fup(address) => address,
                PtPacket::Overflow => return Some(Some(self.overflow())),
                PtPacket::TraceStop => {
                    self.tracing = false;
                    self.clock.lose_crystal();
                    continue;
                }
                PtPacket::Psb => {
                    self.last_address = 0;
                    self.have_last = true;
                    let event = self.group_out_of_sync()?;
                    if event.is_none() && self.address != 0 {
                        self.state = DecoderState::InSync;
                    }
                    return Some(event);
                }
                _ => continue,
            };
            self.set_if_known(address);
            if self.address == 0 {
                continue;
            }
            self.state = DecoderState::InSync;
            return Some(Some(match packet {
                PtPacket::TipPgd(_) => FlowEvent::Branch {
                    kind: BranchKind::Unknown,
                    edge: FlowEdge::Inside,
                    from: 0,
                    to: self.address,
                },
                _ => self.begins_here(),
            }));
        }
    }

    /// Follows the packets from a known address until one needs the code.
    fn follow_packets(&mut self) -> Option<FlowEvent> {
        // The next FUP does not come before a TIP.
        let mut alone = false;
        loop {
            let packet = match self.next_packet()? {
                Err(event) => return Some(event),
                Ok(packet) => packet,
            };
            if self.update_clock(packet) {
                continue;
            }
            match packet {
                PtPacket::Tnt => return Some(self.no_code()),
                PtPacket::Tip(address) | PtPacket::TipPgd(address) => {
                    self.set_last(address);
                    return Some(self.no_code());
                }
                PtPacket::TipPge(address) => {
                    self.tracing = true;
                    self.overflowed = false;
                    if self.set_address(address) {
                        return Some(self.begins_here());
                    }
                }
                PtPacket::Overflow => return Some(self.overflow()),
                PtPacket::Fup(address) => {
                    if let Some(event) = self.flow_update(address, alone)? {
                        return Some(event);
                    }
                    alone = false;
                }
                PtPacket::TraceStop => {
                    self.tracing = false;
                    self.clock.lose_crystal();
                }
                PtPacket::Psb => {
                    if let Some(event) = self.group_in_sync()? {
                        return Some(event);
                    }
                }
                PtPacket::ModeExec | PtPacket::WithFup | PtPacket::BlockEnd { with_fup: true } => {
                    alone |= self.fup_is_next();
                }
                PtPacket::ModeTsx { aborted } => {
                    alone |= self.tracing && !aborted && self.fup_is_next();
                }
                PtPacket::Mwait => alone = true,
                _ => {}
            }
        }
    }

    /// Reads a FUP, which has the address of an event. `Some(None)`: the event is at this address, and is no branch.
    fn flow_update(&mut self, address: PtAddress, alone: bool) -> Option<Option<FlowEvent>> {
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
        self.decode_interrupt().map(Some)
    }

    /// Decodes the packets after a FUP: where the interrupt or exception went.
    fn decode_interrupt(&mut self) -> Option<FlowEvent> {
        loop {
            let packet = match self.next_packet()? {
                Err(event) => return Some(event),
                Ok(packet) => packet,
            };
            let from = self.address;
            let (kind, edge, address) = match packet {
                PtPacket::Mtc(_) | PtPacket::Cyc(_) | PtPacket::Cbr(_) => {
                    self.update_clock(packet);
                    continue;
                }
                PtPacket::ModeExec | PtPacket::Other => continue,
                PtPacket::Overflow => return Some(self.overflow()),
                PtPacket::Tip(address) => (BranchKind::Interrupt, FlowEdge::Inside, address),
                PtPacket::TipPgd(address) => {
                    self.tracing = false;
                    (BranchKind::Unknown, FlowEdge::End, address)
                }
                PtPacket::TipPge(address) => {
                    self.tracing = true;
                    self.set_address(address);
                    return Some(self.begins_here());
                }
                _ => {
                    self.unread();
                    self.state = DecoderState::Resync;
                    return Some(self.stop(StopReason::Mismatch));
                }
            };
            let to = match self.set_address(address) {
                true => self.address,
                false => 0,
            };
            return Some(FlowEvent::Branch {
                kind,
                edge,
                from,
                to,
            });
        }
    }

    /// Looks ahead for the address in the group after a PSB. One with a TIP.PGE soon after does not
    /// count: tracing was off.
    pub(super) fn address_in_group(&self) -> Option<PtAddress> {
        let (mut found, mut left) = (None, None::<u32>);
        for packet in self.packets_ahead() {
            match (packet, left) {
                (PtPacket::TipPge(_), Some(_)) => return None,
                (PtPacket::Fup(_), Some(_)) => return found,
                (PtPacket::Fup(PtAddress::None), None) => return found,
                (PtPacket::Fup(_), None) if found.is_some() => return found,
                (PtPacket::Fup(address), None) => found = Some(address),
                (PtPacket::PsbEnd, _) => {
                    found?;
                    left = Some(6);
                }
                (
                    PtPacket::Tnt
                    | PtPacket::Tip(_)
                    | PtPacket::TipPgd(_)
                    | PtPacket::TipPge(_)
                    | PtPacket::Psb
                    | PtPacket::Overflow
                    | PtPacket::TraceStop,
                    _,
                ) => return found,
                (_, Some(1)) => return found,
                (_, Some(count)) => left = Some(count - 1),
                (_, None) => {}
            }
        }
        found
    }

    /// Returns whether the next packet has the source address of an event (FUP).
    fn fup_is_next(&self) -> bool {
        matches!(self.packets_ahead().next(), Some(PtPacket::Fup(_)))
    }

    /// Reads the packets from here on, without padding.
    fn packets_ahead(&self) -> impl Iterator<Item = PtPacket> {
        let mut rest = self.bytes.get(self.at + self.step..).unwrap_or_default();
        let block = self.block;
        let packets = std::iter::from_fn(move || {
            let (packet, len) = parse(rest, block)?;
            rest = &rest[len..];
            Some(packet)
        });
        packets.filter(|packet| *packet != PtPacket::Pad)
    }
}

impl Iterator for Decoder<'_> {
    type Item = PtEvent;

    fn next(&mut self) -> Option<PtEvent> {
        let event = self.decode()?;
        self.latest = self.latest.max(self.clock.now());
        Some(PtEvent {
            tsc: self.latest,
            flow: event,
        })
    }
}
