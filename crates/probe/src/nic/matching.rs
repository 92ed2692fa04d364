//! Stamps meet the messages that they belong to. In: stamps of packets, and rows of `sent_messages`; a stamp may
//! come after the row of its message, as the adapter's driver reports it when it likes. Out: the rows, with
//! their stamps.

use std::collections::{HashMap, VecDeque};

use table::Columns;
use table::tables::{SentMessage, SentMessages};

/// How long after its acknowledgement a message waits for its stamp: drivers report one within a few
/// milliseconds, also those that poll for it.
const WAIT_NS: u64 = 100_000_000;

/// Stamps that a connection keeps for messages to come: rows of messages come in batches of 64.
const STAMPS_MOST: usize = 1024;

/// With so many connections, those are forgotten that have had no stamp for so long.
const CONNECTIONS_MANY: usize = 4096;
const FORGET_NS: u64 = 60_000_000_000;

/// The adapter put a packet on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    /// By its own clock.
    pub(super) phc_ns: i64,
    /// Says which clock.
    pub(super) ptp: u16,
    /// The bytes of the stream in it, modulo 2³².
    pub(super) offset: u32,
    pub(super) offset_end: u32,
    /// A message has it already.
    pub(super) used: bool,
}

impl Stamp {
    /// Returns whether the byte that ends at an offset was in the packet.
    fn has_byte(&self, offset_end: u64) -> bool {
        let end = offset_end as u32; // modulo 2^32
        let at = end.wrapping_sub(self.offset);
        at > 0 && at <= self.offset_end.wrapping_sub(self.offset)
    }
}

/// Matches stamps with messages.
#[derive(Debug, Default)]
pub(super) struct Matcher {
    connections: HashMap<u64, Stamps>,
    waiting: VecDeque<SentMessage>,
    /// Stamps that a message has.
    pub(super) used: u64,
}

#[derive(Debug, Default)]
struct Stamps {
    newest_ns: u64,
    /// In the order in which they came.
    stamps: VecDeque<Stamp>,
}

impl Matcher {
    /// Adds a stamp of a connection.
    pub(super) fn add(&mut self, conn: u64, stamp: Stamp, now_ns: u64) {
        let of_conn = self.connections.entry(conn).or_default();
        of_conn.newest_ns = now_ns;
        if of_conn.stamps.len() == STAMPS_MOST {
            of_conn.stamps.pop_front();
        }
        of_conn.stamps.push_back(stamp);
    }

    /// Takes rows of sent messages, and returns those that have their stamp now, or will get none. `now_ns`:
    /// `CLOCK_MONOTONIC`.
    pub(super) fn add_stamps(&mut self, rows: &SentMessages, now_ns: u64) -> SentMessages {
        self.waiting
            .extend((0..rows.len()).map(|row| rows.row(row)));
        let mut done = SentMessages::default();
        while let Some(mut row) = self.waiting.pop_front() {
            if !self.stamp(&mut row) && may_be_stamped(&row, now_ns) {
                self.waiting.push_front(row);
                break;
            }
            done.push(row);
        }
        if self.connections.len() > CONNECTIONS_MANY {
            self.connections
                .retain(|_, of_conn| of_conn.newest_ns.saturating_add(FORGET_NS) > now_ns);
        }
        done
    }

    /// Sets the first stamp of a packet that held the row's last byte.
    fn stamp(&mut self, row: &mut SentMessage) -> bool {
        let of_conn = self.connections.get_mut(&row.conn);
        let mut stamps = of_conn.into_iter().flat_map(|found| &mut found.stamps);
        let Some(stamp) = stamps.find(|stamp| stamp.has_byte(row.offset_end)) else {
            return false;
        };
        self.used += u64::from(!std::mem::replace(&mut stamp.used, true));
        row.nic_phc_ns = Some(stamp.phc_ns);
        row.nic_ptp = Some(stamp.ptp);
        true
    }
}

/// Returns whether a stamp may still come. Datagrams are not stamped.
fn may_be_stamped(row: &SentMessage, now_ns: u64) -> bool {
    let last_ns = row.acked_ns.unwrap_or(row.done_ns);
    row.packets.is_none() && row.driver_ns.is_some() && last_ns.saturating_add(WAIT_NS) > now_ns
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;

    use super::*;

    /// Makes a stamp of the adapter's clock for bytes up to `offset_end`.
    fn stamp(phc_ns: i64, offset: u32, offset_end: u32) -> Stamp {
        Stamp {
            phc_ns,
            ptp: 1,
            offset,
            offset_end,
            used: false,
        }
    }

    /// Makes messages of connection 7 that end at these offsets, acknowledged at 1000.
    fn rows(ends: &[u64]) -> SentMessages {
        let mut rows = SentMessages::default();
        for offset_end in ends {
            let row =
                json!({"conn": 7, "offset_end": offset_end, "driver_ns": 900, "acked_ns": 1000});
            rows.push(row_of(row).expect("a row"));
        }
        rows
    }

    #[test]
    fn a_packet_stamps_every_message_that_ends_in_it() {
        let mut matcher = Matcher::default();
        matcher.add(7, stamp(50, 100, 200), 0);
        matcher.add(7, stamp(60, 100, 200), 0); // retransmitted
        matcher.add(7, stamp(70, 200, 300), 0);
        matcher.add(8, stamp(80, 0, 400), 0);
        let done = matcher.add_stamps(&rows(&[300, 101, 200, 400, 100]), WAIT_NS + 1000);
        let stamps = [Some(70), Some(50), Some(50), None, None];
        assert_eq!(done.nic_phc_ns, stamps);
        assert_eq!(done.nic_ptp[..4], [Some(1), Some(1), Some(1), None]);
        assert_eq!(matcher.used, 2);
    }

    #[test]
    fn offsets_go_on_beyond_4_gib() {
        let mut matcher = Matcher::default();
        matcher.add(7, stamp(50, u32::MAX - 9, 10), 0);
        let ends = [
            (1 << 32) - 10,
            (1 << 32) - 9,
            (1 << 32) + 10,
            (1 << 32) + 11,
        ];
        let done = matcher.add_stamps(&rows(&ends), WAIT_NS + 1000);
        assert_eq!(done.nic_phc_ns, [None, Some(50), Some(50), None]);
    }

    #[test]
    fn a_stamp_may_come_after_the_acknowledgement() {
        let mut matcher = Matcher::default();
        assert_eq!(matcher.add_stamps(&rows(&[10, 20]), 1001).len(), 0);
        matcher.add(7, stamp(50, 0, 10), 1002);
        assert_eq!(matcher.add_stamps(&rows(&[]), 1003).nic_phc_ns, [Some(50)]);
        assert_eq!(matcher.add_stamps(&rows(&[]), WAIT_NS).len(), 0);
        let late = matcher.add_stamps(&rows(&[]), WAIT_NS + 1000);
        assert_eq!(late.nic_phc_ns, [None]);
    }

    #[test]
    fn pending_rows_are_bounded() {
        let mut matcher = Matcher::default();
        for number in 0..5000_u32 {
            matcher.add(7, stamp(0, number, number + 1), 0);
            matcher.add(number.into(), stamp(0, 0, 1), 0);
        }
        assert_eq!(matcher.connections[&7].stamps.len(), STAMPS_MOST);
        matcher.add(9, stamp(0, 1, 2), FORGET_NS);
        matcher.add_stamps(&rows(&[]), FORGET_NS);
        assert_eq!(matcher.connections.len(), 1);
    }
}
