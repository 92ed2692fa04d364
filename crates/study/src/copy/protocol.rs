//! The protocol beside messages: the client says what is to be sent and how; a request
//! is a number and a phase; at the end the server says what it did.

use std::io::{self, Read, Write};
use std::net::TcpStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::counters::CounterValues;
use super::matrix::SendVariant;

/// The server's port: the published study's.
pub(super) const PORT: u16 = 9000;
/// Names the protocol and its version.
pub(super) const MAGIC: &str = "whylat-copy/1";
/// Bytes of a request.
pub(super) const REQUEST_BYTES: usize = 8;
/// No frame is longer.
const LONGEST_FRAME: u32 = 1 << 20;

/// The first message of a client: variant, size and slots of the stream that it wants. Serialized as JSON.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct StreamRequest {
    pub(super) magic: String,
    #[serde(rename = "impl")]
    pub(super) variant: SendVariant,
    pub(super) size: usize,
    /// Messages that the server has memory for, and sends in turn.
    pub(super) slots: usize,
    /// Place of this client among its fellows, where threads are to be pinned.
    pub(super) pin: Option<usize>,
}

/// The server's answer to a [`StreamRequest`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct StreamReply {
    /// Why not.
    pub(super) skipped: Option<String>,
}

/// The server's last message on a connection: messages and bytes that it sent, and its counters. Serialized as JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ServerAccount {
    /// Connections that the server had at a time, of this run.
    pub(super) active: usize,
    pub(super) messages: u64,
    pub(super) bytes: u64,
    /// Those of them between the first measured request and the end.
    pub(super) measured: u64,
    pub(super) tally: SendTally,
    pub(super) counts: CounterValues,
}

/// Calls and completions of a sender.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SendTally {
    /// Calls that asked the kernel not to copy, and that it took.
    pub(super) zerocopy_sends: u64,
    /// Of them, those that it has reported as over.
    pub(super) completed: u64,
    /// Of those, the ones that it copied in spite of it.
    pub(super) copied: u64,
    /// Notifications of it: the kernel puts several into one.
    pub(super) notifications: u64,
    /// Sends refused because too much was pinned or noted down.
    pub(super) enobufs: u64,
    /// Messages, or parts of them, sent with a copy in the end because of that.
    pub(super) gave_up: u64,
}

impl SendTally {
    /// Adds another thread's counts.
    pub(super) fn add(&mut self, other: &SendTally) {
        self.zerocopy_sends += other.zerocopy_sends;
        self.completed += other.completed;
        self.copied += other.copied;
        self.notifications += other.notifications;
        self.enobufs += other.enobufs;
        self.gave_up += other.gave_up;
    }
}

/// Phase of the run to which a request belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestPhase {
    WarmUp,
    Measured,
    /// Nothing more is wanted.
    End,
}

const NUMBER_BITS: u32 = 56;

/// Returns the bytes of a request.
pub(super) fn request(number: u64, phase: RequestPhase) -> [u8; REQUEST_BYTES] {
    (number | (phase as u64) << NUMBER_BITS).to_le_bytes()
}

/// Returns the number and phase of a request.
///
/// # Errors
/// When it is none.
pub(super) fn parse(bytes: [u8; REQUEST_BYTES]) -> io::Result<(u64, RequestPhase)> {
    let word = u64::from_le_bytes(bytes);
    let phase = match word >> NUMBER_BITS {
        0 => RequestPhase::WarmUp,
        1 => RequestPhase::Measured,
        2 => RequestPhase::End,
        _ => return Err(io::Error::other("this is no request of the copy study")),
    };
    Ok((word & ((1 << NUMBER_BITS) - 1), phase))
}

/// Writes a value as JSON, with its length before it.
pub(super) fn write_frame(mut stream: &TcpStream, value: &impl Serialize) -> io::Result<()> {
    let text = serde_json::to_vec(value)?;
    let mut frame = (text.len() as u32).to_le_bytes().to_vec();
    frame.extend(text);
    stream.write_all(&frame)
}

/// Reads a value that `write_frame` wrote.
pub(super) fn read_frame<T: DeserializeOwned>(mut stream: &TcpStream) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > LONGEST_FRAME {
        return Err(io::Error::other("the peer is not of the copy study"));
    }
    let mut text = vec![0; length as usize];
    stream.read_exact(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_as_written() {
        for phase in [
            RequestPhase::WarmUp,
            RequestPhase::Measured,
            RequestPhase::End,
        ] {
            assert_eq!(parse(request(1 << 40, phase)).unwrap(), (1 << 40, phase));
        }
        assert!(parse([0xff; 8]).is_err());
    }
}
