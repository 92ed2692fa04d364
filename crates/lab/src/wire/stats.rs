//! The wire's own account: counters per direction and a log of packets. It is the
//! event-level truth that a diagnosis is compared with, so every packet that enters
//! ends in exactly one counter.

use std::io::{self, Write};

use serde::{Deserialize, Serialize};

use super::config::Direction;
use super::packet::Segment;

/// The reason why a packet did not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// Random loss (`loss_ppm`).
    Random,
    /// Loss inside a scheduled window.
    Window,
    /// Loss inside a burst.
    Burst,
    /// The direction was a black hole.
    Blackhole,
    /// It was larger than the direction takes (`mtu_bytes`).
    TooLarge,
    /// The data segment was named in `lose_data`.
    Chosen,
    /// It did not fit into the queue.
    Queue,
    /// The receiving device did not take it.
    Refused,
    /// It was still travelling when the wire stopped.
    Discarded,
}

/// Packets and their bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    /// Number of IP packets.
    pub packets: u64,
    /// Their lengths, IP header included.
    pub bytes: u64,
}

impl Count {
    /// Counts a packet.
    pub(crate) fn add(&mut self, packet_bytes: u32) {
        self.packets += 1;
        self.bytes += u64::from(packet_bytes);
    }

    /// Takes a packet out of the count.
    pub(crate) fn remove(&mut self, packet_bytes: u32) {
        self.packets -= 1;
        self.bytes -= u64::from(packet_bytes);
    }
}

impl std::iter::Sum for Count {
    fn sum<I: Iterator<Item = Count>>(counts: I) -> Count {
        counts.fold(Count::default(), |sum, count| Count {
            packets: sum.packets + count.packets,
            bytes: sum.bytes + count.bytes,
        })
    }
}

/// Dropped packets by [`Cause`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DropCounts {
    /// [`Cause::Random`]
    pub random: Count,
    /// [`Cause::Window`]
    pub window: Count,
    /// [`Cause::Burst`]
    pub burst: Count,
    /// [`Cause::Blackhole`]
    pub blackhole: Count,
    /// [`Cause::TooLarge`]
    #[serde(default)]
    pub too_large: Count,
    /// [`Cause::Chosen`]
    pub chosen: Count,
    /// [`Cause::Queue`]
    pub queue: Count,
    /// [`Cause::Refused`]
    pub refused: Count,
    /// [`Cause::Discarded`]
    pub discarded: Count,
}

impl DropCounts {
    /// Returns the counter of a cause of drops.
    pub(crate) fn counter(&mut self, cause: Cause) -> &mut Count {
        match cause {
            Cause::Random => &mut self.random,
            Cause::Window => &mut self.window,
            Cause::Burst => &mut self.burst,
            Cause::Blackhole => &mut self.blackhole,
            Cause::TooLarge => &mut self.too_large,
            Cause::Chosen => &mut self.chosen,
            Cause::Queue => &mut self.queue,
            Cause::Refused => &mut self.refused,
            Cause::Discarded => &mut self.discarded,
        }
    }

    /// Returns all drops together.
    pub fn total(&self) -> Count {
        let DropCounts {
            random,
            window,
            burst,
            blackhole,
            too_large,
            chosen,
            queue,
            refused,
            discarded,
        } = *self;
        [
            random, window, burst, blackhole, too_large, chosen, queue, refused, discarded,
        ]
        .into_iter()
        .sum()
    }
}

/// Counters of one direction. `entered = delivered + travelling + dropped`, always.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectionStats {
    /// Packets that the wire took from the sending device.
    pub entered: Count,
    /// Packets handed to the receiving device.
    pub delivered: Count,
    /// Packets that wait for rate or delay now.
    pub travelling: Count,
    /// Packets that will not arrive.
    pub dropped: DropCounts,
    /// Multicast and non-IP packets, left out of everything else.
    pub ignored: Count,
    /// SYN segments with a changed window scale option.
    pub window_scales_changed: u64,
    /// Packets that the sending device dropped before the wire saw them; `None` when
    /// the device is gone.
    pub dropped_before_wire: Option<u64>,
}

impl DirectionStats {
    /// Returns whether every packet that entered is accounted for.
    pub fn balances(&self) -> bool {
        [self.delivered, self.travelling, self.dropped.total()]
            .into_iter()
            .sum::<Count>()
            == self.entered
    }
}

/// Counters of a wire.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireStats {
    /// From `a` to `b`.
    pub a_to_b: DirectionStats,
    /// From `b` to `a`.
    pub b_to_a: DirectionStats,
    /// When the first packet came, `CLOCK_MONOTONIC`: loss windows count from it.
    pub first_packet_ns: Option<u64>,
    /// Packets that the log had no room for.
    pub log_missed: u64,
    /// Why forwarding ended by itself, if it did.
    pub failure: Option<String>,
}

impl WireStats {
    /// Returns the counters of one direction.
    pub fn direction(&self, direction: Direction) -> &DirectionStats {
        match direction {
            Direction::AToB => &self.a_to_b,
            Direction::BToA => &self.b_to_a,
        }
    }
}

/// Fate of a logged packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Still on its way.
    Travelling,
    /// Handed to the receiving device.
    Delivered,
    /// It did not arrive.
    Dropped(Cause),
}

/// One packet on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketRecord {
    /// When the wire took it, `CLOCK_MONOTONIC`.
    pub time_ns: u64,
    /// Its direction.
    pub direction: Direction,
    /// Its number in this direction, from 0.
    pub index: u64,
    /// IP packet length in bytes.
    pub packet_bytes: u32,
    /// Ports, sequence numbers, flags and length; `None` for what is not TCP.
    pub tcp: Option<Segment>,
    /// Whether it arrived.
    pub verdict: Verdict,
    /// When it began to be handed over, `CLOCK_MONOTONIC`; `None` unless delivered. The receiver's kernel
    /// takes it between then and `delivered_ns`.
    pub handing_ns: Option<u64>,
    /// When it was handed over, `CLOCK_MONOTONIC`; `None` unless delivered.
    pub delivered_ns: Option<u64>,
}

/// Writes records as one JSON object a line.
///
/// # Errors
/// What `out` returns.
pub fn write_log(records: &[PacketRecord], out: &mut impl Write) -> io::Result<()> {
    for record in records {
        serde_json::to_writer(&mut *out, record)?;
        out.write_all(b"\n")?;
    }
    out.flush()
}
