//! A1 and A2: the kernel copies, and the sender before it, or not.

use std::io::{self, IoSlice, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, sendmsg};

use super::sender::{Sender, SlotTurn};
use crate::copy::message::{FIELDS, MessagePool};

/// A1: all fields in one buffer, which is kept from message to message.
pub(super) struct ConsolidatedSender {
    stream: TcpStream,
    pool: MessagePool,
    turn: SlotTurn,
    buffer: Vec<u8>,
}

impl ConsolidatedSender {
    /// Makes a sender that copies each message into one buffer.
    pub(super) fn new(stream: TcpStream, pool: MessagePool) -> Self {
        let buffer = vec![0; pool.size()];
        Self {
            stream,
            pool,
            turn: SlotTurn::default(),
            buffer,
        }
    }
}

impl Sender for ConsolidatedSender {
    fn send(&mut self, number: u64) -> io::Result<()> {
        let slot = self.turn.next(self.pool.slots());
        self.pool.stamp(slot, number);
        self.pool.consolidate(slot, &mut self.buffer);
        self.stream.write_all(&self.buffer)
    }
}

/// A2: the kernel gathers the fields.
pub(super) struct GatheredSender {
    stream: TcpStream,
    pool: MessagePool,
    turn: SlotTurn,
}

impl GatheredSender {
    /// Makes a sender that gives all fields to one call.
    pub(super) fn new(stream: TcpStream, pool: MessagePool) -> Self {
        let turn = SlotTurn::default();
        Self { stream, pool, turn }
    }
}

impl Sender for GatheredSender {
    fn send(&mut self, number: u64) -> io::Result<()> {
        let slot = self.turn.next(self.pool.slots());
        self.pool.stamp(slot, number);
        let mut sent = 0;
        while sent < self.pool.size() {
            sent += send_gathered(&self.stream, &self.pool, slot, sent, MsgFlags::MSG_NOSIGNAL)?;
        }
        Ok(())
    }
}

/// Sends a message's fields by sendmsg(), from a byte on; repeats after a signal.
pub(super) fn send_gathered(
    stream: &TcpStream,
    pool: &MessagePool,
    slot: usize,
    from: usize,
    flags: MsgFlags,
) -> nix::Result<usize> {
    let mut fields = [IoSlice::new(&[]); FIELDS];
    let mut count = 0;
    for (place, field) in fields.iter_mut().zip(pool.gather(slot, from)) {
        *place = field;
        count += 1;
    }
    loop {
        match sendmsg::<()>(stream.as_raw_fd(), &fields[..count], &[], flags, None) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}
