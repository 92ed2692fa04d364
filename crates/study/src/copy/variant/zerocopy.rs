//! A3: the kernel is asked to send from the sender's own memory, and says in the error queue when it is done with it.

use std::collections::VecDeque;
use std::io;
use std::net::TcpStream;

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;

use super::plain::send_gathered;
use super::sender::{Sender, SlotTurn};
use crate::copy::errqueue::{self, Notification};
use crate::copy::message::MessagePool;
use crate::copy::protocol::SendTally;

/// Sends with MSG_ZEROCOPY.
pub(super) struct ZerocopySender {
    stream: TcpStream,
    pool: MessagePool,
    turn: SlotTurn,
    pending: PendingSends,
    tally: SendTally,
}

/// Sends that are not over. The kernel numbers those that it took from 0 on; a partial one counts.
#[derive(Debug, Default)]
struct PendingSends {
    /// Number of the first that is not over.
    first: u32,
    /// Slot of each from `first` on, and whether it is over.
    sends: VecDeque<(usize, bool)>,
    /// Sends that are not over, of each slot.
    of_slot: Vec<u32>,
}

impl PendingSends {
    /// Notes that a slot is in use by a send.
    fn begin_send(&mut self, slot: usize) {
        self.sends.push_back((slot, false));
        self.of_slot[slot] += 1;
    }

    /// Returns the number of sends that a notification completes for the first time.
    fn take_completed(&mut self, notification: &Notification) -> u64 {
        let count = notification
            .last
            .wrapping_sub(notification.first)
            .saturating_add(1);
        let from = notification.first.wrapping_sub(self.first) as usize;
        let mut ended = 0;
        let named = self.sends.iter_mut().skip(from).take(count as usize);
        for (slot, over) in named.filter(|(_, over)| !over) {
            *over = true;
            self.of_slot[*slot] -= 1;
            ended += 1;
        }
        while self.sends.front().is_some_and(|(_, over)| *over) {
            self.sends.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        ended
    }
}

impl ZerocopySender {
    /// Makes a sender that uses MSG_ZEROCOPY.
    pub(super) fn new(stream: TcpStream, pool: MessagePool) -> io::Result<Self> {
        errqueue::enable_reports(&stream)?;
        let pending = PendingSends {
            of_slot: vec![0; pool.slots()],
            ..PendingSends::default()
        };
        Ok(Self {
            stream,
            pool,
            turn: SlotTurn::default(),
            pending,
            tally: SendTally::default(),
        })
    }

    /// Takes all notifications; waits for the first if `wait` is set.
    fn take(&mut self, wait: bool) -> io::Result<()> {
        let mut waiting = wait;
        loop {
            let Some(notification) = errqueue::next(&self.stream)? else {
                if !waiting {
                    return Ok(());
                }
                errqueue::wait(&self.stream)?;
                continue;
            };
            waiting = false;
            let ended = self.pending.take_completed(&notification);
            self.tally.notifications += 1;
            self.tally.completed += ended;
            self.tally.copied += if notification.copied { ended } else { 0 };
        }
    }
}

impl Sender for ZerocopySender {
    fn send(&mut self, number: u64) -> io::Result<()> {
        let slot = self.turn.next(self.pool.slots());
        let mut wait = false;
        while self.pending.of_slot[slot] > 0 {
            self.take(wait)?;
            wait = true;
        }
        self.pool.stamp(slot, number);
        let zerocopy = MsgFlags::from_bits_retain(libc::MSG_ZEROCOPY);
        let (mut sent, mut flags) = (0, MsgFlags::MSG_NOSIGNAL | zerocopy);
        while sent < self.pool.size() {
            match send_gathered(&self.stream, &self.pool, slot, sent, flags) {
                Ok(bytes) => {
                    sent += bytes;
                    if flags.contains(zerocopy) {
                        self.tally.zerocopy_sends += 1;
                        self.pending.begin_send(slot);
                    }
                }
                // more is pinned, or noted down, than optmem_max or RLIMIT_MEMLOCK allow
                Err(Errno::ENOBUFS) => {
                    self.tally.enobufs += 1;
                    if self.pending.sends.is_empty() {
                        self.tally.gave_up += 1;
                        flags.remove(zerocopy);
                    } else {
                        self.take(true)?;
                    }
                }
                Err(why) => return Err(why.into()),
            }
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        while !self.pending.sends.is_empty() {
            self.take(true)?;
        }
        Ok(())
    }

    fn tally(&self) -> SendTally {
        self.tally
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a notification of these sends.
    fn range(first: u32, last: u32) -> Notification {
        Notification {
            first,
            last,
            copied: false,
        }
    }

    #[test]
    fn sends_end_in_any_order_and_numbers_wrap() {
        let mut pending = PendingSends {
            first: u32::MAX - 1,
            of_slot: vec![0; 2],
            ..PendingSends::default()
        };
        for slot in [0, 1, 0, 1] {
            pending.begin_send(slot);
        }
        // numbers MAX-1, MAX, 0, 1
        assert_eq!(pending.take_completed(&range(u32::MAX, 0)), 2);
        assert_eq!(pending.of_slot, [1, 1]);
        assert_eq!(
            pending.take_completed(&range(u32::MAX, 0)),
            0,
            "reported twice"
        );
        assert_eq!(
            pending.take_completed(&range(u32::MAX - 1, u32::MAX - 1)),
            1
        );
        assert_eq!((pending.first, pending.sends.len()), (1, 1));
        assert_eq!(pending.take_completed(&range(1, 1)), 1);
        assert_eq!(pending.of_slot, [0, 0]);
    }
}
