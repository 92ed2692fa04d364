//! The interface of a sender.

use std::io;

use super::super::protocol::SendTally;

/// Sends messages, each by a number that its receiver expects in it.
pub(in crate::copy) trait Sender {
    /// Sends the next message, whole. Memory that the kernel may still read is not touched.
    ///
    /// # Errors
    /// When the peer is gone.
    fn send(&mut self, number: u64) -> io::Result<()>;

    /// Waits until the kernel no longer needs the sender's memory.
    ///
    /// # Errors
    /// When the peer is gone.
    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn tally(&self) -> SendTally {
        SendTally::default()
    }
}

/// Slots in turn.
#[derive(Debug, Default)]
pub(super) struct SlotTurn {
    sent: usize,
}

impl SlotTurn {
    /// Returns the slot of the next message, in turn.
    pub(super) fn next(&mut self, slots: usize) -> usize {
        let slot = self.sent % slots;
        self.sent += 1;
        slot
    }
}
