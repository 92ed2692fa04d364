//! The group of packets after a PSB: where a decoder begins, and learns the address and the time.

use super::decode::{Decoder, DecoderState, FlowEvent, StopReason};
use super::packet::{ItemBlock, PSB, PtPacket};

/// Outcome of a group of packets after a PSB.
enum PsbGroup {
    Done,
    /// A packet that does not belong there, which is still to be read.
    Unexpected,
    Event(FlowEvent),
    End,
}

impl Decoder<'_> {
    /// Searches for a PSB, and reads the group of packets after it.
    pub(super) fn synchronise(&mut self) -> Option<Option<FlowEvent>> {
        self.tracing = false;
        self.have_last = false;
        (self.address, self.last_address) = (0, 0);
        self.at += std::mem::take(&mut self.step);
        let rest = self.bytes.get(self.at..)?;
        self.at += rest.windows(PSB.len()).position(|window| window == PSB)?;
        self.step = PSB.len();
        self.block = ItemBlock::None;
        self.have_last = true;
        self.state = DecoderState::InSync;
        self.group_out_of_sync()
    }

    /// Reads the group of packets after a PSB, while the address is unknown.
    pub(super) fn group_out_of_sync(&mut self) -> Option<Option<FlowEvent>> {
        Some(match self.group(true) {
            PsbGroup::Done => None,
            PsbGroup::Event(event) => Some(event),
            PsbGroup::Unexpected => Some(self.stop(StopReason::Mismatch)),
            PsbGroup::End => return None,
        })
    }

    /// Reads packets until the PSBEND. Out of sync, an address among them is where the code is.
    fn group(&mut self, out_of_sync: bool) -> PsbGroup {
        loop {
            let packet = match self.next_packet() {
                None => return PsbGroup::End,
                Some(Err(event)) => return PsbGroup::Event(event),
                Some(Ok(packet)) => packet,
            };
            if self.update_clock(packet) {
                self.note_time();
                continue;
            }
            match packet {
                PtPacket::PsbEnd => return PsbGroup::Done,
                PtPacket::Overflow => return PsbGroup::Event(self.overflow()),
                PtPacket::Fup(address) => {
                    self.tracing = true;
                    if out_of_sync {
                        self.set_if_known(address);
                    } else {
                        self.set_last(address);
                    }
                }
                PtPacket::Tnt | PtPacket::TraceStop if out_of_sync => {
                    self.clock.lose_crystal();
                    self.tracing &= packet == PtPacket::Tnt;
                    self.state = match self.address {
                        0 => DecoderState::Resync,
                        _ => DecoderState::InSync,
                    };
                    return PsbGroup::Unexpected;
                }
                PtPacket::ModeExec | PtPacket::ModeTsx { .. } => {}
                PtPacket::Other => {}
                PtPacket::Psb if out_of_sync => {}
                _ => {
                    if !out_of_sync {
                        self.clock.lose_crystal();
                        self.unread();
                    }
                    return PsbGroup::Unexpected;
                }
            }
        }
    }

    /// Uses the times within a PSB's group for the events that follow.
    fn note_time(&mut self) {
        self.latest = self.latest.max(self.clock.tsc);
    }

    /// Reads the group of packets after a PSB. `Some(None)`: nothing new is in it.
    pub(super) fn group_in_sync(&mut self) -> Option<Option<FlowEvent>> {
        if let Some(address) = self.address_in_group() {
            self.set_last(address);
            if self.address != self.last_address {
                return Some(Some(self.no_code()));
            }
        }
        self.last_address = 0;
        self.have_last = true;
        Some(match self.group(false) {
            PsbGroup::Done | PsbGroup::Unexpected => None,
            PsbGroup::Event(event) => Some(event),
            PsbGroup::End => return None,
        })
    }
}
