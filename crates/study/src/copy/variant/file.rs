//! From a file: the kernel sends its own pages of the file. Messages stand in it ready, so that their numbers begin
//! again after the last.

use std::fs::File;
use std::io::{self, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use nix::fcntl::{FcntlArg, SpliceFFlags, fcntl, splice};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::sendfile::sendfile64;

use super::sender::Sender;
use crate::copy::message::MessagePool;

/// Bytes of a pipe by default.
const PIPE_BYTES: usize = 65_536;

/// A file in memory (memfd) with messages numbered from 0.
struct MessageFile {
    file: File,
    size: usize,
    slots: u64,
}

impl MessageFile {
    /// Writes all messages into a file in memory.
    fn new(pool: &MessagePool) -> io::Result<Self> {
        let mut file = File::from(memfd_create(c"whylat-copy", MFdFlags::MFD_CLOEXEC)?);
        let mut numbered = MessagePool::heap(pool.slots(), pool.size());
        let mut whole = vec![0; pool.size()];
        for slot in 0..pool.slots() {
            numbered.stamp(slot, slot as u64);
            numbered.consolidate(slot, &mut whole);
            file.write_all(&whole)?;
        }
        Ok(Self {
            file,
            size: pool.size(),
            slots: pool.slots() as u64,
        })
    }

    /// Returns the offset of a message in the file, bytes.
    fn offset(&self, number: u64) -> i64 {
        (number % self.slots * self.size as u64) as i64
    }
}

/// `sendfile()`.
pub(super) struct SendfileSender {
    stream: TcpStream,
    messages: MessageFile,
}

impl SendfileSender {
    /// Makes a sender that uses sendfile(2).
    pub(super) fn new(stream: TcpStream, pool: &MessagePool) -> io::Result<Self> {
        let messages = MessageFile::new(pool)?;
        Ok(Self { stream, messages })
    }
}

impl Sender for SendfileSender {
    fn send(&mut self, number: u64) -> io::Result<()> {
        let mut offset = self.messages.offset(number);
        let end = offset + self.messages.size as i64;
        while offset < end {
            let left = (end - offset) as usize;
            if sendfile64(&self.stream, &self.messages.file, Some(&mut offset), left)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(())
    }
}

/// `splice()` into a pipe, and from it into the socket.
pub(super) struct SpliceSender {
    stream: TcpStream,
    messages: MessageFile,
    reader: OwnedFd,
    writer: OwnedFd,
}

impl SpliceSender {
    /// Makes a sender that uses splice(2).
    pub(super) fn new(stream: TcpStream, pool: &MessagePool) -> io::Result<Self> {
        let (reader, writer) = nix::unistd::pipe()?;
        if pool.size() > PIPE_BYTES {
            let wanted = i32::try_from(pool.size()).unwrap_or(i32::MAX);
            // a smaller one only takes more calls
            let _ = fcntl(&writer, FcntlArg::F_SETPIPE_SZ(wanted));
        }
        Ok(Self {
            stream,
            messages: MessageFile::new(pool)?,
            reader,
            writer,
        })
    }
}

impl Sender for SpliceSender {
    fn send(&mut self, number: u64) -> io::Result<()> {
        let mut offset = self.messages.offset(number);
        let end = offset + self.messages.size as i64;
        let none = SpliceFFlags::empty();
        while offset < end {
            let left = (end - offset) as usize;
            let file = &self.messages.file;
            let mut in_pipe = splice(file, Some(&mut offset), &self.writer, None, left, none)?;
            if in_pipe == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            while in_pipe > 0 {
                let more = if offset < end {
                    SpliceFFlags::SPLICE_F_MORE
                } else {
                    none
                };
                in_pipe -= splice(&self.reader, None, &self.stream, None, in_pipe, more)?;
            }
        }
        Ok(())
    }
}
