//! A message: its direction, its row and its id.

use std::str::FromStr;

use serde::Serialize;
use table::tables::{ReceivedMessage, SentMessage};

/// Direction of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageDirection {
    /// From the other end to the program.
    Received,
    /// From the program to the other end.
    Sent,
}

impl MessageDirection {
    /// Returns the direction's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Sent => "sent",
        }
    }
}

/// A message as it was recorded.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
pub enum MessageRow {
    /// A row of `received_messages`.
    Received(ReceivedMessage),
    /// A row of `sent_messages`.
    Sent(SentMessage),
}

/// Id of a message: `CONN:rOFFSET` or `CONN:sOFFSET`. The offset may be of any of its bytes but the first,
/// counted from the connection's first byte; a report names the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct MessageId {
    /// Socket cookie.
    pub conn: u64,
    /// Direction.
    pub direction: MessageDirection,
    /// End of one of its bytes in the stream.
    pub offset_end: u64,
}

impl FromStr for MessageId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!("{text} is not a message: a report names them, such as 4711:r1024 or 4711:s512")
        };
        let (conn, rest) = text.split_once(':').ok_or_else(wrong)?;
        let (direction, offset) = match rest.split_at_checked(1) {
            Some(("r", offset)) => (MessageDirection::Received, offset),
            Some(("s", offset)) => (MessageDirection::Sent, offset),
            _ => return Err(wrong()),
        };
        Ok(Self {
            conn: conn.parse().map_err(|_| wrong())?,
            direction,
            offset_end: offset.parse().map_err(|_| wrong())?,
        })
    }
}

impl std::fmt::Display for MessageId {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = match self.direction {
            MessageDirection::Received => 'r',
            MessageDirection::Sent => 's',
        };
        write!(out, "{}:{letter}{}", self.conn, self.offset_end)
    }
}

impl MessageId {
    /// Returns whether the last byte of this id lies in the message of `bytes` that ends at `offset_end`.
    pub(super) fn is_within(self, conn: u64, offset_end: u64, bytes: u32) -> bool {
        self.conn == conn
            && self.offset_end <= offset_end
            && self.offset_end > offset_end - u64::from(bytes)
    }
}

impl MessageRow {
    /// Returns the message's id.
    pub fn id(&self) -> MessageId {
        match self {
            Self::Received(row) => MessageId {
                conn: row.conn,
                direction: MessageDirection::Received,
                offset_end: row.offset_end,
            },
            Self::Sent(row) => MessageId {
                conn: row.conn,
                direction: MessageDirection::Sent,
                offset_end: row.offset_end,
            },
        }
    }

    /// Returns whether a UDP socket sent or received the message.
    pub fn is_datagram(&self) -> bool {
        match self {
            Self::Received(row) => row.cut_bytes.is_some(),
            Self::Sent(row) => row.packets.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_as_they_are_written() {
        for text in ["4711:r1024", "1:s0"] {
            let id: MessageId = text.parse().expect("an id");
            assert_eq!(id.to_string(), text);
        }
        for text in [
            "",
            "4711",
            "4711:1024",
            "4711:x1",
            "x:r1",
            "1:r",
            "1:é",
            "1:r-1",
        ] {
            assert!(text.parse::<MessageId>().is_err(), "{text}");
        }
    }

    #[test]
    fn any_byte_of_a_message_names_it() {
        let id: MessageId = "7:r100".parse().expect("an id");
        assert!(id.is_within(7, 100, 1) && id.is_within(7, 149, 50));
        assert!(!id.is_within(7, 150, 50) && !id.is_within(7, 99, 50) && !id.is_within(8, 100, 1));
    }
}
