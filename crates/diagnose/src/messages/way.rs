//! The way of a received message, from its arrival to the end of the call that took it, as parts that
//! follow each other without a gap: their sum is the whole.

use serde::Serialize;
use table::tables::{Message, Messages};

/// A part of the way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// From the first byte's segment to the last one's.
    Arriving,
    /// Until TCP took that: interrupts and softirqs.
    Softirq,
    /// Until it was handed to the socket: earlier bytes were missing, or the thread had the socket.
    Tcp,
    /// Until the thread that waited was woken.
    Wakeup,
    /// Until there was a CPU for it.
    RunQueue,
    /// Until it came to read: it was doing other things.
    Program,
    /// Until the call ended.
    Copy,
}

impl Part {
    /// All, in the order of the way.
    pub const ALL: [Self; 7] = [
        Self::Arriving,
        Self::Softirq,
        Self::Tcp,
        Self::Wakeup,
        Self::RunQueue,
        Self::Program,
        Self::Copy,
    ];

    /// As people call it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arriving => "arriving",
            Self::Softirq => "softirq",
            Self::Tcp => "TCP",
            Self::Wakeup => "wake-up",
            Self::RunQueue => "run queue",
            Self::Program => "program",
            Self::Copy => "copy",
        }
    }
}

/// The way of one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    /// When its first byte arrived.
    pub start_ns: u64,
    /// From there to the end of the call, ns.
    pub whole_ns: u64,
    /// Its parts, in the order of [`Part::ALL`]; `None`: it had no such part.
    pub parts_ns: [Option<u64>; Part::ALL.len()],
}

/// Why a message has no way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// A time on it was not seen.
    Unseen,
    /// Its times are not in the order of the way, which cannot be.
    Disorder,
}

impl Way {
    /// Of a row.
    ///
    /// # Errors
    /// When a time is missing that every message has, or the times are in no order.
    pub fn of(rows: &Messages, row: usize) -> Result<Self, Lack> {
        let seen = |ns: Option<u64>| ns.ok_or(Lack::Unseen);
        let start_ns = seen(rows.first_arrival_ns[row])?;
        let stamps = [
            Some(seen(rows.last_arrival_ns[row])?),
            Some(seen(rows.tcp_ns[row])?),
            Some(seen(rows.ready_ns[row])?),
            rows.woken_ns[row],
            rows.running_ns[row],
            Some(seen(rows.copy_ns[row])?),
            Some(rows.done_ns[row]),
        ];
        let mut parts_ns = [None; Part::ALL.len()];
        let mut from_ns = start_ns;
        for (part_ns, stamp) in parts_ns.iter_mut().zip(stamps) {
            if let Some(until_ns) = stamp {
                *part_ns = Some(until_ns.checked_sub(from_ns).ok_or(Lack::Disorder)?);
                from_ns = until_ns;
            }
        }
        Ok(Self {
            start_ns,
            whole_ns: from_ns - start_ns,
            parts_ns,
        })
    }

    /// Of a message by itself.
    ///
    /// # Errors
    /// As [`Way::of`].
    pub fn of_message(message: Message) -> Result<Self, Lack> {
        use table::Columns;
        let mut rows = Messages::default();
        rows.push(message);
        Self::of(&rows, 0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;

    use super::*;

    fn message(given: serde_json::Value) -> Result<Way, Lack> {
        Way::of_message(row_of(given).expect("a row"))
    }

    #[test]
    fn the_parts_add_up_to_the_whole() {
        let way = message(json!({
            "first_arrival_ns": 100, "last_arrival_ns": 130, "tcp_ns": 131, "ready_ns": 135,
            "woken_ns": 140, "running_ns": 190, "copy_ns": 200, "done_ns": 207,
        }));
        let way = way.expect("a way");
        assert_eq!((way.start_ns, way.whole_ns), (100, 107));
        assert_eq!(way.parts_ns, [30, 1, 4, 5, 50, 10, 7].map(Some));
    }

    #[test]
    fn a_thread_that_did_not_wait_was_busy() {
        let way = message(json!({
            "first_arrival_ns": 100, "last_arrival_ns": 100, "tcp_ns": 101, "ready_ns": 102,
            "copy_ns": 200, "done_ns": 210,
        }));
        let parts = way.expect("a way").parts_ns;
        assert_eq!(
            parts,
            [Some(0), Some(1), Some(1), None, None, Some(98), Some(10)]
        );
    }

    #[test]
    fn what_was_not_seen_or_cannot_be_is_told_apart() {
        assert_eq!(message(json!({"done_ns": 1})), Err(Lack::Unseen));
        let backwards = json!({
            "first_arrival_ns": 100, "last_arrival_ns": 100, "tcp_ns": 99, "ready_ns": 102,
            "copy_ns": 200, "done_ns": 210,
        });
        assert_eq!(message(backwards), Err(Lack::Disorder));
    }
}
