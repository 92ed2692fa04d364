//! Packets that this host dropped, and resets that it sent, by the connection that sent them.

use std::collections::{BTreeMap, HashMap};

use table::DropKind;
use table::tables::{Connection, DropCount, PacketDrop};

use super::events::EventDigest;
use crate::drops::{DropCause, QdiscLevel, overlaps};

/// Rows that are kept until all connections are known: more are not read.
const MOST_ROWS: usize = 200_000;

/// A dropped segment.
#[derive(Debug, Clone)]
struct DroppedSegment {
    time_ns: u64,
    range: (u32, u32),
    bytes: Option<u32>,
    cause: DropCause,
}

/// Drops and resets of one connection.
#[derive(Debug, Clone, Default)]
pub struct DropDigest {
    /// Packets that it sent and this host dropped.
    pub packets: u64,
    /// Segments that it retransmitted after this host had dropped them.
    pub retransmitted: u64,
    /// Causes of these, with the number of segments.
    pub causes: BTreeMap<DropCause, u64>,
    /// Packets and bytes that waited in the qdiscs that dropped its packets.
    pub qdiscs: BTreeMap<DropCause, QdiscLevel>,
    /// Resets that it sent, by the kernel's reason.
    pub resets: BTreeMap<Option<String>, u64>,
    /// When it sent the first one, ns.
    pub reset_ns: Option<u64>,
    segments: Vec<DroppedSegment>,
}

impl DropDigest {
    /// Returns the cause of most of the segments.
    pub fn first_cause(&self) -> Option<&DropCause> {
        let most = self.causes.iter().max_by_key(|(_, segments)| **segments);
        most.map(|(cause, _)| cause)
    }

    /// Returns the number of segments that were retransmitted because this host dropped them for a reason.
    pub fn segments_of(&self, reason: &str) -> u64 {
        let all = self.causes.iter();
        let own = all.filter(|(cause, _)| cause.reason.as_deref() == Some(reason));
        own.map(|(_, segments)| *segments).sum()
    }

    /// Returns the size of the smallest segment that was dropped, from the IP header on.
    pub fn least_bytes(&self) -> Option<u64> {
        let sizes = self.segments.iter().filter_map(|it| it.bytes);
        sizes.min().map(u64::from)
    }

    /// Returns the causes of the segments that were dropped from one time to another, ns, and how many each dropped.
    pub fn causes_within(&self, (from_ns, until_ns): (u64, u64)) -> BTreeMap<&DropCause, u64> {
        let mut causes = BTreeMap::new();
        for segment in &self.segments {
            if (from_ns..=until_ns).contains(&segment.time_ns) {
                *causes.entry(&segment.cause).or_default() += 1;
            }
        }
        causes
    }

    /// Returns from when to when segments were dropped, ns.
    pub fn interval(&self) -> Option<(u64, u64)> {
        let times = || self.segments.iter().map(|it| it.time_ns);
        times().min().zip(times().max())
    }

    /// Counts a dropped packet by its cause, and keeps its range of sequence numbers.
    fn add_packet(&mut self, row: &PacketDrop) {
        self.packets += 1;
        let cause = DropCause::from_row(row);
        if cause.qdisc.is_some() {
            self.qdiscs.entry(cause.clone()).or_default().add(row);
        }
        if let Some(range) = row.seq.zip(row.end_seq) {
            self.segments.push(DroppedSegment {
                time_ns: row.time_ns,
                range,
                bytes: row.bytes,
                cause,
            });
        }
    }

    /// Counts a reset that this host sent, by its reason.
    fn add_reset(&mut self, row: &PacketDrop) {
        *self.resets.entry(row.reason.clone()).or_default() += 1;
        self.reset_ns.get_or_insert(row.time_ns);
    }

    /// Finds out which dropped segments were retransmitted, and keeps only these.
    pub(super) fn join(&mut self, events: &EventDigest) {
        for again in events.retransmissions() {
            let Some(range) = again.range else { continue };
            let dropped = self.segments.iter();
            let mut dropped = dropped.filter(|it| it.time_ns < again.time_ns);
            if let Some(it) = dropped.rfind(|it| overlaps(range, it.range)) {
                self.retransmitted += again.segments;
                *self.causes.entry(it.cause.clone()).or_default() += again.segments;
            }
        }
    }
}

/// Reason, function, namespace and device of a count.
type CountKey = (Option<String>, Option<String>, Option<u32>, Option<u32>);

/// Rows of drops until the connections are known that they belong to.
#[derive(Debug, Default)]
pub struct DropRows {
    rows: Vec<PacketDrop>,
    is_cut: bool,
    unstored: HashMap<CountKey, u64>,
}

impl DropRows {
    /// Adds the row of a dropped packet, unless the drop is ordinary.
    pub fn add(&mut self, row: PacketDrop) {
        let is_wanted = matches!(row.kind, DropKind::Packet | DropKind::ResetSent);
        if !is_wanted || row.ordinary {
            return;
        }
        match self.rows.len() < MOST_ROWS {
            true => self.rows.push(row),
            false => self.is_cut = true,
        }
    }

    /// Adds a reading of the kernel's count of drops; later readings replace earlier ones.
    pub fn add_count(&mut self, row: &DropCount) {
        if row.kind == DropKind::Packet && !row.ordinary {
            let (reason, place) = (row.reason.clone(), row.place.clone());
            let key = (reason, place, row.netns, row.ifindex);
            let unstored = row.selected.saturating_sub(row.stored);
            self.unstored.insert(key, unstored);
        }
    }

    /// Returns the number of dropped packets of recorded sockets without a row.
    pub fn count_unstored(&self) -> u64 {
        self.unstored.values().sum::<u64>() + u64::from(self.is_cut)
    }

    /// Hands each row to the connection that sent the packet or the reset.
    pub(super) fn distribute_rows<'a>(
        &mut self,
        connections: impl Iterator<Item = &'a Connection>,
        mut digest: impl FnMut(u64, &dyn Fn(&mut DropDigest)),
    ) {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return;
        }
        let ends = connections.map(|it| ((it.local.as_str(), it.remote.as_str()), it.conn));
        let by_ends: HashMap<(&str, &str), u64> = ends.collect();
        for row in &rows {
            let Some((source, destination)) = row.source.as_deref().zip(row.destination.as_deref())
            else {
                continue;
            };
            let sender = by_ends.get(&(source, destination));
            // a reset answers a packet that came, or none
            let receiver = by_ends.get(&(destination, source));
            match row.kind {
                DropKind::ResetSent => {
                    if let Some(conn) = sender.filter(|_| row.seq.is_none()).or(receiver) {
                        digest(*conn, &|drops| drops.add_reset(row));
                    }
                }
                _ => {
                    if let Some(conn) = sender {
                        digest(*conn, &|drops| drops.add_packet(row));
                    }
                }
            }
        }
    }
}
