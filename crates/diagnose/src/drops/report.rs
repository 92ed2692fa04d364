//! The contract `whylat.drops/1`: what `whylat report --drops` says, as it is printed as JSON
//! (`docs/drops.schema.json`) and drawn as text. A null means "not known", never zero.

use serde::Serialize;
use table::DropKind;

use crate::answer::{About, Process};

/// Name and version of the contract.
pub const SCHEMA: &str = "whylat.drops/1";

/// Drops and resets of a recording.
#[derive(Debug, Clone, Serialize)]
pub struct DropReport {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// Of what recording.
    #[serde(flatten)]
    pub about: About,
    /// All of the host.
    pub total: DropTotal,
    /// By kind, reason and place, most first.
    pub reasons: Vec<ReasonGroup>,
    /// Of stored ones, by connection, most first.
    pub connections: Vec<ConnectionDrops>,
    /// Dropped packets by device, most first.
    pub devices: Vec<DeviceDrops>,
    /// Counters of namespaces and devices that grew and count drops, resets or errors.
    pub counters: Vec<GrownCounter>,
    /// Retransmissions, and whether they answer a drop on this host; `None`: nothing was retransmitted.
    pub retransmissions: Option<RetransmissionCauses>,
    /// Stored drops and resets, in the order of time.
    pub drops: Vec<ListedDrop>,
}

/// Numbers of drops and resets; ordinary ones are counted apart.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DropTotal {
    /// Packets that this host dropped.
    pub packets: u64,
    /// Packets that it dropped for reasons that are no problem.
    pub ordinary: u64,
    /// Of all but ordinary packets, those of recorded sockets.
    pub selected: u64,
    /// Of these, those that are stored.
    pub stored: u64,
    /// Resets that it sent.
    pub resets_sent: u64,
    /// Resets that its sockets received.
    pub resets_received: u64,
    /// Packets that a full receive queue refused; they are in `packets`, too.
    pub queue_full: u64,
    /// ICMP errors that it sent.
    pub icmp_sent: u64,
}

/// Drops or resets of one reason and place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReasonGroup {
    /// Kind.
    pub kind: DropKind,
    /// The kernel's reason; `None`: it gives none.
    pub reason: Option<String>,
    /// The function; `None`: no packet, or its name is hidden.
    pub place: Option<String>,
    /// Its meaning; `None`: not known here.
    pub meaning: Option<&'static str>,
    /// A remedy; `None`: not known here.
    pub remedy: Option<&'static str>,
    /// Whether it is no problem.
    pub ordinary: bool,
    /// All of the host.
    pub count: u64,
    /// Of these, those of recorded sockets; 0 of ordinary ones.
    pub selected: u64,
    /// Of these, those that are stored.
    pub stored: u64,
    /// Of stored ones that netfilter dropped: at which hook.
    pub hooks: Vec<NamedCount>,
    /// Of stored ones that a qdisc dropped: by which, and whether it was full.
    pub qdiscs: Vec<NamedCount>,
    /// Devices, most first.
    pub devices: Vec<NamedCount>,
}

/// A name and how often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NamedCount {
    /// Name.
    pub name: String,
    /// How often.
    pub count: u64,
}

/// Stored drops and resets of a connection, or of packets with the same addresses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ConnectionDrops {
    /// Socket cookie; `None`: no recorded connection.
    pub conn: Option<u64>,
    /// Its name.
    pub name: String,
    /// Owner; `None`: not known.
    pub process: Option<Process>,
    /// Packets dropped.
    pub packets: u64,
    /// Resets sent.
    pub resets_sent: u64,
    /// Resets received.
    pub resets_received: u64,
    /// ICMP errors sent about its packets.
    pub icmp_sent: u64,
    /// Reasons of dropped packets and sent resets, most first.
    pub reasons: Vec<NamedCount>,
}

/// Packets dropped at a device, for reasons that are a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DeviceDrops {
    /// Name of the device; `None`: none, or not known.
    pub device: Option<String>,
    /// Its namespace; `None`: not known.
    pub netns: Option<u32>,
    /// Packets.
    pub packets: u64,
}

/// A counter of the kernel that grew.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GrownCounter {
    /// Namespace.
    pub netns: u32,
    /// Device; `None`: a counter of the namespace.
    pub device: Option<String>,
    /// Name.
    pub name: String,
    /// By how much.
    pub grew: u64,
}

/// Retransmissions, and whether they answer a drop on this host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RetransmissionCauses {
    /// Segments that this host had dropped.
    pub dropped_here: u64,
    /// Segments that it had not dropped: the loss is elsewhere.
    pub not_dropped_here: u64,
    /// Segments without an answer: not all drops are stored, the recording has no sequence numbers, or only the kernel's
    /// counter has them (those that it could not send).
    pub unknown: u64,
    /// Reasons of those that were dropped here, most first.
    pub by: Vec<RetransmittedBy>,
}

/// Segments that were dropped for one reason at one place, and retransmitted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RetransmittedBy {
    /// The kernel's reason; `None`: it gives none.
    pub reason: Option<String>,
    /// The function; `None`: its name is hidden.
    pub place: Option<String>,
    /// Segments retransmitted.
    pub segments: u64,
}

/// A stored drop or reset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedDrop {
    /// When, ns from the recording's start.
    pub time_ns: u64,
    /// Kind.
    pub kind: DropKind,
    /// The kernel's reason.
    pub reason: Option<String>,
    /// The function.
    pub place: Option<String>,
    /// Hook of netfilter; `None`: not dropped by it, or not known.
    pub hook: Option<&'static str>,
    /// Callers of the place, innermost first, with ` < ` between them.
    pub stack: Option<String>,
    /// Recorded connection.
    pub conn: Option<u64>,
    /// Namespace.
    pub netns: Option<u32>,
    /// Device.
    pub device: Option<String>,
    /// Protocol above IP.
    pub protocol: Option<u8>,
    /// Sender.
    pub source: Option<String>,
    /// Receiver.
    pub destination: Option<String>,
    /// Flags of TCP.
    pub tcp_flags: Option<u8>,
    /// First sequence number.
    pub seq: Option<u32>,
    /// Sequence number after the last byte.
    pub end_seq: Option<u32>,
    /// Length from the IP header on.
    pub bytes: Option<u32>,
    /// The qdisc that dropped it; `None`: none did, or it is not known.
    pub qdisc: Option<ListedQdisc>,
}

/// A qdisc right after it dropped a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ListedQdisc {
    /// Kind.
    pub kind: String,
    /// Kind of its child that dropped it, or of its only child; `None`: it has none, or it is not known.
    pub child: Option<String>,
    /// Kinds of its children that may have dropped it, if they are several.
    pub candidates: Vec<String>,
    /// Limit of the child or, without one, of the qdisc: packets, of bfifo bytes; `None`: not known.
    pub limit: Option<u32>,
    /// Packets in it; `None`: not known.
    pub packets: Option<u32>,
    /// Bytes in it; `None`: not known.
    pub bytes: Option<u32>,
    /// Whether it held as much as its limit; `None`: not known.
    pub full: Option<bool>,
}
