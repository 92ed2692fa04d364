//! The time of each message on this host, as the diagnosis of slow messages counts it.

use diagnose::messages::breakdown::HostTimes;
use diagnose::messages::message::{MessageDirection, MessageRow};
use table::tables::{ReceivedMessage, ReceivedMessages, SentMessage, SentMessages};
use table::{Columns, Field, Table};

/// Columns that are added to messages.
pub const LIFE_FIELDS: [Field; 3] = [
    Field {
        name: "life_begin_ns",
        doc: "When the host had it: all of a received message had arrived, or the call that sends it began.",
        unit: "ns",
        null: "some of its times are unknown",
    },
    Field {
        name: "latency_ns",
        doc: "How long the host had it. A received message: until the call that took it ended. A sent one: \
            until the driver had it.",
        unit: "ns",
        null: "as `life_begin_ns`",
    },
    Field {
        name: "is_sample",
        doc: "1: it counts in distributions. 0: it does not. The page holds only a part of the messages, and \
            this one because it is explained.",
        unit: "",
        null: "never",
    },
];

/// Table of messages.
pub trait MessageLife: Table {
    /// Returns the start and the length of a message's time on this host, ns; `None`: a timestamp is missing.
    fn life(rows: &Self::Columns, row: usize) -> Option<(i64, i64)>;
    /// Returns the message of a row.
    fn message(rows: &Self::Columns, row: usize) -> MessageRow;
    /// Returns the identity of a message: its connection, its direction, and its end in the stream.
    fn id(rows: &Self::Columns, row: usize) -> (u64, MessageDirection, u64);
}

impl MessageLife for ReceivedMessage {
    fn id(rows: &ReceivedMessages, row: usize) -> (u64, MessageDirection, u64) {
        (
            rows.conn[row],
            MessageDirection::Received,
            rows.offset_end[row],
        )
    }

    fn life(rows: &ReceivedMessages, row: usize) -> Option<(i64, i64)> {
        length(&HostTimes::from_received(&rows.row(row))?)
    }

    fn message(rows: &ReceivedMessages, row: usize) -> MessageRow {
        MessageRow::Received(rows.row(row))
    }
}

impl MessageLife for SentMessage {
    fn id(rows: &SentMessages, row: usize) -> (u64, MessageDirection, u64) {
        (rows.conn[row], MessageDirection::Sent, rows.offset_end[row])
    }

    fn life(rows: &SentMessages, row: usize) -> Option<(i64, i64)> {
        length(&HostTimes::from_sent(&rows.row(row))?)
    }

    fn message(rows: &SentMessages, row: usize) -> MessageRow {
        MessageRow::Sent(rows.row(row))
    }
}

/// Returns begin and length of a message, in nanoseconds; None if its end is before its start.
fn length(times: &HostTimes) -> Option<(i64, i64)> {
    let length_ns = times.end_ns.checked_sub(times.start_ns)?;
    Some((times.start_ns.try_into().ok()?, length_ns.try_into().ok()?))
}
