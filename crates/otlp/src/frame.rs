//! Messages through a pipe: each a line of JSON, and the bytes that it counts. The last line is what was written.

use std::io::{self, BufRead, Read, Write};

use serde::{Deserialize, Serialize};

use crate::export::ExportSummary;
use crate::signal::{Message, Signal};

/// Bytes of a message, at most: metrics come as one.
const BYTES_MOST: u64 = 1 << 30;

/// One thing out of the pipe.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message.
    Message(Message),
    /// The end.
    End(ExportSummary),
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Head {
    Message {
        signal: Signal,
        items: u64,
        bytes: u64,
    },
    End(ExportSummary),
}

/// Writes a message.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_message(message: &Message, out: &mut dyn Write) -> io::Result<()> {
    let head = Head::Message {
        signal: message.signal,
        items: message.items,
        bytes: message.bytes.len() as u64,
    };
    write_head(&head, out)?;
    out.write_all(&message.bytes)
}

/// Writes the last frame, with the summary.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_end(summary: ExportSummary, out: &mut dyn Write) -> io::Result<()> {
    write_head(&Head::End(summary), out)
}

/// Writes the head as a line of JSON.
fn write_head(head: &Head, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer(&mut *out, head)?;
    out.write_all(b"\n")
}

/// Reads the next frame; `None`: the writer ended.
///
/// # Errors
/// When it cannot be read, or is no frame.
pub fn read(from: &mut dyn BufRead) -> io::Result<Option<Frame>> {
    let mut line = Vec::new();
    if from.read_until(b'\n', &mut line)? == 0 {
        return Ok(None);
    }
    let (signal, items, length) = match serde_json::from_slice(&line)? {
        Head::End(summary) => return Ok(Some(Frame::End(summary))),
        Head::Message {
            signal,
            items,
            bytes,
        } => (signal, items, bytes.min(BYTES_MOST)),
    };
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(Frame::Message(Message {
        signal,
        items,
        bytes,
    })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_frames_are_read_back_and_a_cut_one_is_an_error() {
        let message = Message {
            signal: Signal::Logs,
            items: 2,
            bytes: b"\n{}\n".to_vec(),
        };
        let summary = ExportSummary {
            findings: 2,
            ..ExportSummary::default()
        };
        let mut bytes = Vec::new();
        write_message(&message, &mut bytes).expect("memory");
        write_end(summary.clone(), &mut bytes).expect("memory");
        let mut rest = bytes.as_slice();
        assert_eq!(
            read(&mut rest).expect("a frame"),
            Some(Frame::Message(message))
        );
        assert_eq!(read(&mut rest).expect("a frame"), Some(Frame::End(summary)));
        assert_eq!(read(&mut rest).expect("the end"), None);
        let mut cut = bytes.as_slice().take(45);
        assert!(read(&mut io::BufReader::new(&mut cut)).is_err());
    }
}
