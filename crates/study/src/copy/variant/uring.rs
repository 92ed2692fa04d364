//! io_uring: a ring for each connection; only the sends go through it, so that what differs from A2 and A3
//! is how messages are sent.
//!
//! By the crate `io-uring`: a ring is memory shared with the kernel, and its barriers are better not written again.

use std::io;
use std::net::TcpStream;
use std::os::fd::AsRawFd;

use io_uring::{IoUring, Probe, cqueue, opcode, squeue, types};

use super::sender::{Sender, SlotTurn};
use crate::copy::message::{FIELDS, MessagePool};
use crate::copy::protocol::SendTally;

/// From include/uapi/linux/io_uring.h.
const SEND_ZC_REPORT_USAGE: u16 = 1 << 3;
const NOTIF_USAGE_ZC_COPIED: i32 = i32::MIN;

/// Makes a ring; fails if the kernel does not have an operation.
fn make_ring(entries: u32, code: u8) -> io::Result<IoUring> {
    let ring = IoUring::new(entries)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe)?;
    if !probe.is_supported(code) {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(ring)
}

/// io_uring's SENDMSG.
pub(super) struct UringSender {
    ring: IoUring,
    stream: TcpStream,
    pool: MessagePool,
    turn: SlotTurn,
}

impl UringSender {
    /// Makes a sender that uses io_uring.
    pub(super) fn new(stream: TcpStream, pool: MessagePool) -> io::Result<Self> {
        Ok(Self {
            ring: make_ring(2, opcode::SendMsg::CODE)?,
            stream,
            pool,
            turn: SlotTurn::default(),
        })
    }

    /// Sends a message from this byte on, and waits until the kernel has taken a part of it.
    fn send_gathered(&mut self, slot: usize, from: usize) -> io::Result<usize> {
        let mut fields: Vec<_> = self.pool.gather(slot, from).collect();
        // SAFETY: a msghdr is numbers and pointers, and zero is a value of all of them.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_iov = fields.as_mut_ptr().cast();
        header.msg_iovlen = fields.len() as _;
        let entry = opcode::SendMsg::new(types::Fd(self.stream.as_raw_fd()), &raw const header)
            .flags((libc::MSG_NOSIGNAL | libc::MSG_WAITALL) as u32)
            .build();
        // SAFETY: header and fields live until the operation is over, which is waited for below; IoSlice has the
        // layout of iovec.
        unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
        loop {
            if let Some(result) = self.ring.completion().next().map(|entry| entry.result()) {
                return taken_bytes(result);
            }
            wait(&self.ring)?;
        }
    }
}

impl Sender for UringSender {
    fn send(&mut self, number: u64) -> io::Result<()> {
        let slot = self.turn.next(self.pool.slots());
        self.pool.stamp(slot, number);
        let mut sent = 0;
        while sent < self.pool.size() {
            sent += self.send_gathered(slot, sent)?;
        }
        Ok(())
    }
}

/// io_uring's SEND_ZC: each field is a registered buffer with pages that were pinned once.
pub(super) struct UringZerocopySender {
    // goes first: the kernel needs no more of the buffers when it is gone
    ring: IoUring,
    stream: TcpStream,
    pool: MessagePool,
    turn: SlotTurn,
    /// Sends of each slot that still need its memory.
    of_slot: Vec<u32>,
    /// Sends of the last message without a result.
    unknown: u32,
    failed: Option<io::Error>,
    tally: SendTally,
}

impl UringZerocopySender {
    /// Makes a sender that uses io_uring without copying.
    pub(super) fn new(stream: TcpStream, pool: MessagePool) -> io::Result<Self> {
        // a send has two completions: its result, and the end of its memory's use
        let entries = (2 * FIELDS * pool.slots()).next_power_of_two() as u32;
        let ring = make_ring(entries, opcode::SendZc::CODE)?;
        let places = (0..pool.slots()).flat_map(|slot| (0..FIELDS).map(move |field| (slot, field)));
        let buffers = places.map(|(slot, field)| {
            let bytes = pool.field(slot, field);
            libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            }
        });
        let buffers: Vec<libc::iovec> = buffers.collect();
        // SAFETY: the pool lives as long as the ring, and its fields never move.
        unsafe { ring.submitter().register_buffers(&buffers) }?;
        Ok(Self {
            ring,
            stream,
            of_slot: vec![0; pool.slots()],
            pool,
            turn: SlotTurn::default(),
            unknown: 0,
            failed: None,
            tally: SendTally::default(),
        })
    }

    /// Submits the eight sends of a message; each starts after the one before.
    fn submit(&mut self, slot: usize) -> io::Result<()> {
        let fd = types::Fd(self.stream.as_raw_fd());
        for field in 0..FIELDS {
            let bytes = self.pool.field(slot, field);
            let is_last = field + 1 == FIELDS;
            let more = if is_last { 0 } else { libc::MSG_MORE };
            let entry = opcode::SendZc::new(fd, bytes.as_ptr(), bytes.len() as u32)
                .buf_index(Some((slot * FIELDS + field) as u16))
                .flags(libc::MSG_NOSIGNAL | libc::MSG_WAITALL | more)
                .zc_flags(SEND_ZC_REPORT_USAGE)
                .build()
                .user_data(slot as u64);
            let entry = if is_last {
                entry
            } else {
                entry.flags(squeue::Flags::IO_LINK)
            };
            // SAFETY: the field is of the pool, which lives as long as the ring, and is not written to before its
            // notification has come.
            unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
            self.unknown += 1;
        }
        Ok(())
    }

    /// Handles finished sends.
    fn take(&mut self) {
        let field_bytes = self.pool.size() / FIELDS;
        for entry in self.ring.completion() {
            let slot = entry.user_data() as usize;
            if cqueue::notif(entry.flags()) {
                self.of_slot[slot] -= 1;
                self.tally.notifications += 1;
                self.tally.completed += 1;
                self.tally.copied += u64::from(entry.result() & NOTIF_USAGE_ZC_COPIED != 0);
                continue;
            }
            self.unknown -= 1;
            if cqueue::more(entry.flags()) {
                self.of_slot[slot] += 1;
                self.tally.zerocopy_sends += 1;
            }
            match taken_bytes(entry.result()) {
                Ok(bytes) if bytes == field_bytes => {}
                Ok(_) => self.failed = Some(io::Error::other("a field was sent in part")),
                Err(why) => self.failed = Some(why),
            }
        }
    }
}

impl Sender for UringZerocopySender {
    fn send(&mut self, number: u64) -> io::Result<()> {
        let slot = self.turn.next(self.pool.slots());
        while self.of_slot[slot] > 0 {
            self.take();
            if self.of_slot[slot] > 0 {
                wait(&self.ring)?;
            }
        }
        self.pool.stamp(slot, number);
        self.submit(slot)?;
        while self.unknown > 0 {
            wait(&self.ring)?;
            self.take();
        }
        match self.failed.take() {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> io::Result<()> {
        self.take();
        while self.of_slot.iter().any(|sends| *sends > 0) {
            wait(&self.ring)?;
            self.take();
        }
        Ok(())
    }

    fn tally(&self) -> SendTally {
        self.tally
    }
}

/// Submits all operations, and waits until one is finished.
fn wait(ring: &IoUring) -> io::Result<()> {
    match ring.submit_and_wait(1) {
        Err(why) if why.kind() == io::ErrorKind::Interrupted => Ok(()),
        other => other.map(drop),
    }
}

/// Returns the bytes that an operation sent, or its error.
fn taken_bytes(result: i32) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result))
}
