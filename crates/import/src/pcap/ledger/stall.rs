//! Data that waits for a timer.

use table::tables::TcpStage;

use super::super::sequence::Offset;
use super::ack::ArrivedAck;

/// Means by which a segment was retransmitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetransmitKind {
    /// ACKs showed the loss.
    Fast,
    /// A timer expired.
    Timeout,
    /// A timer for lost tails expired.
    TailLossProbe,
}

/// Data that waits for a timer.
#[derive(Debug, Clone, Copy)]
pub struct Stall {
    /// The timer that expired.
    pub kind: RetransmitKind,
    /// It ends when this byte is acknowledged.
    pub first: Offset,
    /// Too few segments were out for duplicate ACKs.
    pub is_thin: bool,
    /// Timestamp of the first segment that was retransmitted.
    pub stamp: Option<u32>,
}

impl Stall {
    /// Counts the stall in the ledger's row. `ack`: its data is acknowledged; `None`: it never
    /// was.
    pub fn count(&self, row: &mut TcpStage, ns: u64, ack: Option<&ArrivedAck>) {
        if ack.is_some_and(|ack| self.is_spurious(ack)) {
            row.sender_app_ns += ns;
            if self.kind == RetransmitKind::Timeout {
                row.spurious_timeouts += 1;
                row.spurious_timeout_ns += ns;
            }
            return;
        }
        if self.kind == RetransmitKind::TailLossProbe {
            row.tail_loss_ns += ns;
            row.tail_loss_stalls += 1;
        } else {
            row.retransmit_timeout_ns += ns;
            row.timeout_stalls += 1;
            if let Some(held_ns) = ack.and_then(|ack| ack.held_after_timeout_ns) {
                row.timeout_acks_delayed += 1;
                row.timeout_ack_delayed_ns += held_ns.min(ns);
            }
        }
        if self.is_thin {
            row.thin_stalls += 1;
            row.thin_stall_ns += ns;
        }
    }

    /// Returns whether the stall's ACK shows that nothing was lost.
    fn is_spurious(&self, ack: &ArrivedAck) -> bool {
        let ages = ack.echo.zip(self.stamp);
        let is_of_original = ages.is_some_and(|(echo, stamp)| {
            let age = stamp.wrapping_sub(echo);
            0 < age && age < u32::MAX / 2
        });
        is_of_original || ack.is_duplicate
    }
}
