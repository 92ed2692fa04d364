//! Rows of `drops`, `drop_counts`, `net_counters` and `tcp_events` → the report.

use std::collections::BTreeMap;
use std::rc::Rc;

use table::DropKind;
use table::manifest::Header;
use table::tables::{DropCount, NetCounter, PacketDrop, TcpEvent};

use super::flow::{FlowKey, Flows};
use super::hook::hook_of_stack;
use super::join::SegmentJoin;
use super::meaning::find_meaning;
use super::qdisc::{DroppingQdisc, candidates_of};
use super::report::{
    ConnectionDrops, DeviceDrops, DropReport, DropTotal, GrownCounter, ListedDrop, ListedQdisc,
    NamedCount, ReasonGroup, SCHEMA,
};
use crate::answer::{About, RecordingState};
use crate::waits::NameTable;

/// Reason of packets that netfilter dropped.
const NETFILTER: &str = "NETFILTER_DROP";

/// Words in the names of counters of drops: all others count what went well.
const LOSSES: [&str; 13] = [
    "Drop", "drop", "Overflow", "Errors", "errors", "Errs", "NoRoutes", "NoPorts", "Discards",
    "Fail", "Rsts", "Rst", "Csum",
];

/// Counts that a reading has of one reason, place, namespace and device.
type CountKey = (
    DropKind,
    Option<String>,
    Option<String>,
    Option<u32>,
    Option<String>,
    Option<u32>,
);
type GroupKey = (DropKind, Option<String>, Option<String>, bool);
type Tally = BTreeMap<String, u64>;

/// Takes the rows of a recording.
#[derive(Debug)]
pub struct DropTable {
    header: Header,
    names: Rc<NameTable>,
    flows: Flows,
    counts: BTreeMap<CountKey, DropCount>,
    counters: Vec<GrownCounter>,
    hooks: BTreeMap<GroupKey, Tally>,
    qdiscs: BTreeMap<GroupKey, Tally>,
    connections: BTreeMap<FlowKey, (ConnectionDrops, Tally)>,
    join: SegmentJoin,
    drops: Vec<ListedDrop>,
    limit: usize,
    latest_ns: u64,
}

impl DropTable {
    /// Makes an empty table that lists at most `limit` drops. Names are complete.
    pub fn new(header: Header, names: Rc<NameTable>, limit: usize) -> Self {
        Self {
            header,
            flows: Flows::new(&names),
            names,
            counts: BTreeMap::new(),
            counters: Vec::new(),
            hooks: BTreeMap::new(),
            qdiscs: BTreeMap::new(),
            connections: BTreeMap::new(),
            join: SegmentJoin::default(),
            drops: Vec::new(),
            limit,
            latest_ns: 0,
        }
    }

    /// Adds a reading of a count; the last one of each is kept.
    pub fn add_count(&mut self, row: DropCount) {
        self.latest_ns = self.latest_ns.max(row.time_ns);
        let key = (
            row.kind,
            row.reason.clone(),
            row.place.clone(),
            row.netns,
            row.device.clone(),
            row.ifindex,
        );
        let is_newer = |last: &DropCount| last.time_ns <= row.time_ns;
        if self.counts.get(&key).is_none_or(is_newer) {
            self.counts.insert(key, row);
        }
    }

    /// Adds a counter that grew.
    pub fn add_counter(&mut self, row: NetCounter) {
        self.latest_ns = self.latest_ns.max(row.time_ns);
        if LOSSES.iter().any(|word| row.name.contains(word)) {
            self.counters.push(GrownCounter {
                netns: row.netns,
                device: row.device,
                name: row.name,
                grew: row.last.saturating_sub(row.first),
            });
        }
    }

    /// Adds a stored drop or reset.
    pub fn add_drop(&mut self, row: &PacketDrop) {
        self.latest_ns = self.latest_ns.max(row.time_ns);
        let hook = row.stack.as_deref().and_then(hook_of_stack);
        let hook = hook.filter(|_| row.reason.as_deref() == Some(NETFILTER));
        if let Some(hook) = hook {
            let hooks = self.hooks.entry(group_key(row)).or_default();
            *hooks.entry(hook.to_owned()).or_default() += 1;
        }
        if let Some(qdisc) = DroppingQdisc::from_row(row) {
            let qdiscs = self.qdiscs.entry(group_key(row)).or_default();
            *qdiscs
                .entry(name_qdisc(&qdisc, row.qdisc_full))
                .or_default() += 1;
        }
        let flow = self.flows.key(row);
        if let (FlowKey::Connection(conn), DropKind::Packet) = (&flow, row.kind) {
            self.join_drop(*conn, row);
        }
        if !row.ordinary {
            self.add_to_connection(flow.clone(), row);
        }
        if self.drops.len() < self.limit {
            self.drops
                .push(list_connections(row, hook, &flow, self.header.started_ns));
        }
    }

    /// Joins a drop with the retransmission of the end that sent the segment.
    fn join_drop(&mut self, conn: u64, row: &PacketDrop) {
        let ends = row.source.as_deref().zip(row.destination.as_deref());
        let sender = ends.and_then(|(source, destination)| self.flows.find(source, destination));
        if sender == Some(conn) {
            self.join.add_drop(conn, row);
        }
    }

    /// Adds one drop to the counts and reasons of its connection.
    fn add_to_connection(&mut self, flow: FlowKey, row: &PacketDrop) {
        let names = &self.names;
        let (sums, reasons) = self
            .connections
            .entry(flow)
            .or_insert_with_key(|flow| (nothing_of(names, flow), Tally::new()));
        match row.kind {
            DropKind::Packet => sums.packets += 1,
            DropKind::ResetSent => sums.resets_sent += 1,
            DropKind::ResetReceived => sums.resets_received += 1,
            DropKind::IcmpSent => sums.icmp_sent += 1,
            DropKind::QueueFull | DropKind::UdpQueueFull => {}
        }
        let is_named = matches!(row.kind, DropKind::Packet | DropKind::ResetSent);
        if let Some(reason) = row.reason.as_ref().filter(|_| is_named) {
            *reasons.entry(reason.clone()).or_default() += 1;
        }
    }

    /// Adds a reading of how many segments a connection has retransmitted, a counter.
    pub fn add_reading(&mut self, conn: u64, time_ns: u64, segments: u32) {
        self.join.add_reading(conn, time_ns, segments);
    }

    /// Adds an event of a connection, after all drops, counts and readings.
    pub fn add_event(&mut self, event: &TcpEvent) {
        let is_whole = self.has_all_packets();
        self.join.add_event(event, is_whole);
    }

    /// Returns whether every dropped packet of recorded sockets is stored.
    fn has_all_packets(&self) -> bool {
        let mut packets = self
            .counts
            .values()
            .filter(|it| it.kind == DropKind::Packet);
        packets.all(|it| it.selected == it.stored && (it.reason.is_some() || it.place.is_some()))
    }

    /// Returns all that is known.
    pub fn report(self, recorded: RecordingState) -> DropReport {
        let total = total(self.counts.values());
        let reasons = group_reasons(&self.counts, &self.hooks, &self.qdiscs);
        let devices = sum_devices(self.counts.values());
        let mut connections: Vec<ConnectionDrops> = self
            .connections
            .into_values()
            .map(|(sums, reasons)| ConnectionDrops {
                reasons: most_first(reasons),
                ..sums
            })
            .collect();
        let all = |it: &ConnectionDrops| it.packets + it.resets_sent + it.resets_received;
        connections.sort_by_key(|it| std::cmp::Reverse(all(it)));
        let mut counters = self.counters;
        counters.sort_by_key(|it| std::cmp::Reverse(it.grew));
        DropReport {
            schema: SCHEMA,
            about: About::new(&self.header, recorded, self.latest_ns, (0, u64::MAX)),
            total,
            reasons,
            connections,
            devices,
            counters,
            retransmissions: self.join.finish(),
            drops: self.drops,
        }
    }
}

/// Returns the group of a stored drop.
fn group_key(row: &PacketDrop) -> GroupKey {
    (
        row.kind,
        row.reason.clone(),
        row.place.clone(),
        row.ordinary,
    )
}

/// Returns kind and device of a qdisc, whether it was full, and which of its children may have dropped the packet.
fn name_qdisc(qdisc: &DroppingQdisc, is_full: Option<bool>) -> String {
    let device = qdisc.device.as_deref().unwrap_or("a device");
    let full = if is_full == Some(true) { ", full" } else { "" };
    let candidates = qdisc.name_candidates().map(|names| format!(", {names}"));
    let candidates = candidates.unwrap_or_default();
    format!("{} of {device}{full}{candidates}", qdisc.kind)
}

/// Makes the counts of a connection before its first drop.
fn nothing_of(names: &NameTable, flow: &FlowKey) -> ConnectionDrops {
    let (conn, name, process) = match flow {
        FlowKey::Connection(conn) => {
            let identity = names.connection(*conn);
            (Some(*conn), identity.title(), identity.process)
        }
        FlowKey::Addresses(addresses) => (None, addresses.clone(), None),
    };
    ConnectionDrops {
        conn,
        name,
        process,
        packets: 0,
        resets_sent: 0,
        resets_received: 0,
        icmp_sent: 0,
        reasons: Vec::new(),
    }
}

/// Makes the report's entry of one drop, with connection, reason and stack.
fn list_connections(
    row: &PacketDrop,
    hook: Option<&'static str>,
    flow: &FlowKey,
    started_ns: u64,
) -> ListedDrop {
    let conn = match flow {
        FlowKey::Connection(conn) => Some(*conn),
        FlowKey::Addresses(_) => row.conn,
    };
    ListedDrop {
        time_ns: row.time_ns.saturating_sub(started_ns),
        kind: row.kind,
        reason: row.reason.clone(),
        place: row.place.clone(),
        hook,
        stack: row.stack.clone(),
        conn,
        netns: row.netns,
        device: row.device.clone(),
        protocol: row.protocol,
        source: row.source.clone(),
        destination: row.destination.clone(),
        tcp_flags: row.tcp_flags,
        seq: row.seq,
        end_seq: row.end_seq,
        bytes: row.bytes,
        qdisc: list_qdisc(row),
    }
}

/// Returns the qdisc that dropped the packet; None if no qdisc did.
fn list_qdisc(row: &PacketDrop) -> Option<ListedQdisc> {
    Some(ListedQdisc {
        kind: row.qdisc.clone()?,
        child: row.qdisc_child.clone(),
        candidates: candidates_of(row),
        limit: row.qdisc_limit,
        packets: row.qdisc_packets,
        bytes: row.qdisc_bytes,
        full: row.qdisc_full,
    })
}

/// Sums the kernel's counts by kind of drop.
fn total<'a>(counts: impl Iterator<Item = &'a DropCount>) -> DropTotal {
    let mut total = DropTotal::default();
    for row in counts {
        let sum = match row.kind {
            DropKind::Packet if row.ordinary => &mut total.ordinary,
            DropKind::Packet => {
                total.selected += row.selected;
                total.stored += row.stored;
                &mut total.packets
            }
            DropKind::ResetSent => &mut total.resets_sent,
            DropKind::ResetReceived => &mut total.resets_received,
            DropKind::QueueFull | DropKind::UdpQueueFull => &mut total.queue_full,
            DropKind::IcmpSent => &mut total.icmp_sent,
        };
        *sum += row.count;
    }
    total
}

/// Groups counts by kind, reason and place.
fn group_reasons(
    counts: &BTreeMap<CountKey, DropCount>,
    hooks: &BTreeMap<GroupKey, Tally>,
    qdiscs: &BTreeMap<GroupKey, Tally>,
) -> Vec<ReasonGroup> {
    let mut groups: BTreeMap<GroupKey, (ReasonGroup, Tally)> = BTreeMap::new();
    for row in counts.values() {
        let key = (
            row.kind,
            row.reason.clone(),
            row.place.clone(),
            row.ordinary,
        );
        let (group, devices) = groups
            .entry(key)
            .or_insert_with(|| (nothing_for(row), Tally::new()));
        group.count += row.count;
        group.selected += row.selected;
        group.stored += row.stored;
        if let Some(device) = &row.device {
            *devices.entry(device.clone()).or_default() += row.count;
        }
    }
    let mut all: Vec<ReasonGroup> = groups
        .into_iter()
        .map(|(key, (group, devices))| ReasonGroup {
            hooks: most_first(hooks.get(&key).cloned().unwrap_or_default()),
            qdiscs: most_first(qdiscs.get(&key).cloned().unwrap_or_default()),
            devices: most_first(devices),
            ..group
        })
        .collect();
    all.sort_by_key(|it| (it.ordinary, std::cmp::Reverse((it.selected, it.count))));
    all
}

/// Makes the group of a reason, with its meaning, before anything is counted.
fn nothing_for(row: &DropCount) -> ReasonGroup {
    let known = row.reason.as_deref();
    let known = known.and_then(|reason| find_meaning(row.kind, reason, row.place.as_deref()));
    ReasonGroup {
        kind: row.kind,
        reason: row.reason.clone(),
        place: row.place.clone(),
        meaning: known.map(|it| it.what),
        remedy: known.map(|it| it.remedy),
        ordinary: row.ordinary,
        count: 0,
        selected: 0,
        stored: 0,
        hooks: Vec::new(),
        qdiscs: Vec::new(),
        devices: Vec::new(),
    }
}

/// Sums the counts by network device.
fn sum_devices<'a>(counts: impl Iterator<Item = &'a DropCount>) -> Vec<DeviceDrops> {
    let mut sums: BTreeMap<(Option<String>, Option<u32>), u64> = BTreeMap::new();
    for row in counts.filter(|row| row.kind == DropKind::Packet && !row.ordinary) {
        *sums.entry((row.device.clone(), row.netns)).or_default() += row.count;
    }
    let mut all: Vec<DeviceDrops> = sums
        .into_iter()
        .map(|((device, netns), packets)| DeviceDrops {
            device,
            netns,
            packets,
        })
        .collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.packets));
    all
}

/// Sorts named counts, the largest first.
fn most_first(tally: Tally) -> Vec<NamedCount> {
    let named = tally.into_iter();
    let mut all: Vec<NamedCount> = named
        .map(|(name, count)| NamedCount { name, count })
        .collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.count));
    all
}
