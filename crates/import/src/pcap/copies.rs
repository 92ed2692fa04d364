//! Copies of a packet: a capture on all interfaces of a router has each twice.

use std::collections::VecDeque;

use super::segment::Segment;

/// Copies come so soon after one another.
const COPY_NS: u64 = 1_000_000;

/// Segments of one end that are remembered. A driver hands over so many packets at a time (`NAPI_POLL_WEIGHT`), before any of
/// them goes on to another interface.
const RECENT_MOST: usize = 64;

/// Identity of a packet among those of one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PacketKey {
    seq: u32,
    ack: Option<u32>,
    bytes: u32,
    ip_id: Option<u16>,
    stamps: Option<(u32, u32)>,
    is_fin: bool,
}

impl PacketKey {
    /// Returns the key of a segment; `None`: another packet may have the same.
    fn from_segment(segment: &Segment) -> Option<Self> {
        let stamps = segment.options.timestamps;
        // A SYN is retransmitted after a second at the earliest (RFC 6298, 2.1).
        let is_sole = segment.ip_id.is_some_and(|id| id != 0)
            || stamps.is_some() && segment.bytes > 0
            || segment.is_syn;
        is_sole.then_some(Self {
            seq: segment.seq,
            ack: segment.ack,
            bytes: segment.bytes,
            ip_id: segment.ip_id,
            stamps,
            is_fin: segment.is_fin,
        })
    }
}

/// The latest segments of one end.
#[derive(Debug, Clone, Default)]
pub struct RecentPackets(VecDeque<(u64, PacketKey)>);

impl RecentPackets {
    /// Remembers a segment; returns whether it is a copy of one seen before.
    pub fn is_copy(&mut self, segment: &Segment) -> bool {
        let Some(key) = PacketKey::from_segment(segment) else {
            return false;
        };
        let now_ns = segment.time_ns;
        let is_old = |at_ns: u64| now_ns.saturating_sub(at_ns) > COPY_NS;
        while let Some((at_ns, _)) = self.0.front()
            && (is_old(*at_ns) || self.0.len() >= RECENT_MOST)
        {
            self.0.pop_front();
        }
        if self.0.iter().any(|(_, other)| *other == key) {
            return true;
        }
        self.0.push_back((now_ns, key));
        false
    }
}
