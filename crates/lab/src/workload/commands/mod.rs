//! A command channel, as of an application that starts slowly: `command-client` has its server carry
//! out many commands, waits for the answer to each, and then is ready; `command-server` carries them
//! out. A command is a header and what it is about, its body.
//!
//! Both are instrumented as VTune's recipe "Inefficient TCP/IP Synchronization" says: counters around
//! send and receive, and tasks (`itt` beside this module).

mod client;
mod server;

pub(crate) use client::CommandClient;
pub(crate) use server::CommandServer;

use std::ffi::CStr;

use nix::sys::prctl;

use super::itt::{ByteCounter, Domain, Task, TaskName, name_thread};
use super::peer::{ConnectionTruth, Peer};
use crate::error::LabError;

/// Bytes of a [`CommandHeader`].
const HEADER_BYTES: usize = 8;
/// Bytes of an answer.
const ANSWER_BYTES: usize = 24;

/// Header of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct CommandHeader {
    number: u32,
    body_bytes: u32,
}

impl CommandHeader {
    /// Returns the header as bytes.
    fn to_bytes(self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.number.to_le_bytes());
        bytes[4..].copy_from_slice(&self.body_bytes.to_le_bytes());
        bytes
    }

    /// Reads a header.
    fn from_bytes(bytes: [u8; HEADER_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h] = bytes;
        CommandHeader {
            number: u32::from_le_bytes([a, b, c, d]),
            body_bytes: u32::from_le_bytes([e, f, g, h]),
        }
    }
}

/// ITT domain, tasks and counters with which the program reports its commands.
struct IttReporter {
    domain: Domain,
    start_up: TaskName,
    command: TaskName,
    send: TaskName,
    receive: TaskName,
    sent: ByteCounter,
    received: ByteCounter,
}

impl IttReporter {
    /// Reports the names of the process and its only thread by ITT.
    fn begin(process: &CStr) -> Result<Self, LabError> {
        prctl::set_name(process)
            .map_err(|why| LabError::os("name", "this process", why, "report this"))?;
        let domain = Domain::begin(c"whylat.commands", process);
        Ok(IttReporter {
            start_up: TaskName::new(c"start-up"),
            command: TaskName::new(c"command"),
            send: TaskName::new(c"send"),
            receive: TaskName::new(c"receive"),
            sent: domain.byte_counter(c"sent bytes"),
            received: domain.byte_counter(c"received bytes"),
            domain,
        })
    }

    /// Begins an ITT task; it ends when the result is dropped.
    fn task(&self, name: &TaskName) -> Task<'_> {
        self.domain.task(name)
    }
}

/// A connection that reports its calls by ITT.
struct CountedChannel<'a> {
    peer: Peer,
    reporter: &'a IttReporter,
    /// Sets TCP_QUICKACK after each receive call.
    quickack: bool,
}

impl CountedChannel<'_> {
    /// Sends bytes by one call, and the rest by more.
    fn send(&mut self, bytes: &[u8]) -> Result<(), LabError> {
        self.send_parts([bytes, &[]])
    }

    /// Sends two parts by one call.
    fn send_parts(&mut self, parts: [&[u8]; 2]) -> Result<(), LabError> {
        let _task = self.reporter.task(&self.reporter.send);
        self.peer.send_all_parts(parts)?;
        let sent_bytes = parts[0].len() + parts[1].len();
        self.reporter.sent.set(sent_bytes as u64);
        Ok(())
    }

    /// Receives until `bytes` is full; returns false at the end of the stream.
    fn receive(&mut self, bytes: &mut [u8]) -> Result<bool, LabError> {
        let _task = self.reporter.task(&self.reporter.receive);
        let mut done = 0;
        while done < bytes.len() {
            let got = self.peer.recv(&mut bytes[done..])?;
            if got == 0 && done == 0 {
                return Ok(false);
            }
            if got == 0 {
                return Err(self.peer.end_error(done, bytes.len()));
            }
            if self.quickack {
                self.peer.set_quickack(true)?;
            }
            done += got;
        }
        self.reporter.received.set(done as u64);
        Ok(true)
    }

    /// Closes the connection; returns what it counted.
    fn close(self) -> ConnectionTruth {
        self.peer.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_round_trips() {
        let header = CommandHeader {
            number: 0x0102_0304,
            body_bytes: 70_001,
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes[..5], [4, 3, 2, 1, 0x71]);
        assert_eq!(CommandHeader::from_bytes(bytes), header);
    }
}
