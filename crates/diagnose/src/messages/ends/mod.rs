//! Messages that are known at both ends: rows of two recordings in (or of one that has both ends), one
//! [`EndsReport`] out.
//!
//! ```text
//! join      what one end sent and the other received, by the range of the stream
//! offset    how far two hosts' clocks are apart, from the messages themselves
//! report    the contract `whylat.ends/1`
//! ```

mod join;
mod offset;
pub mod report;

use std::cmp::Reverse;
use std::collections::HashMap;

use table::manifest::Header;
use table::tables::{Connections, ReceivedMessages, SentMessages};
use table::{Columns, Rows, TableConsumer, TableId, fold_connections};

use super::message::MessageDirection;
use super::message::MessageId;
use super::report::DurationSpread;
use super::{DurationSums, connection_end};
use crate::answer::{About, RecordingState};
use crate::histogram::RELATIVE_ERROR;
use crate::waits::NameTable;
use join::{Crossing, JoinResult, ReceivedTimes, SentTimes, join};
use offset::{ClockOffset, OffsetPair, estimate_offsets};
use report::{
    ClockRelation, CrossingGroup, EndsReport, LegSpread, LegTime, PathLeg, SCHEMA, SlowCrossing,
};

/// Messages of a group that are shown by themselves.
const SLOWEST: usize = 10;

/// One recording: its connections, and what was sent and received on each.
#[derive(Debug)]
pub struct EndRecording {
    header: Header,
    names: NameTable,
    connections: Connections,
    sent: HashMap<u64, Vec<SentTimes>>,
    received: HashMap<u64, Vec<ReceivedTimes>>,
    latest_ns: u64,
}

impl TableConsumer for EndRecording {
    fn is_reader_of(&self, table: TableId) -> bool {
        let is_message = matches!(table, TableId::SentMessage | TableId::ReceivedMessage);
        is_message || self.names.is_reader_of(table)
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::SentMessage(rows) => self.add_sent(rows),
            Rows::ReceivedMessage(rows) => self.add_received(rows),
            Rows::Connection(rows) => self.connections.append(rows.clone()),
            _ => {}
        }
        self.names.add_rows(rows);
    }
}

impl EndRecording {
    /// Makes the empty recording of one end, with the manifest's first line.
    pub fn new(header: Header) -> Self {
        Self {
            latest_ns: header.started_ns,
            names: NameTable::from_header(&header),
            header,
            connections: Connections::default(),
            sent: HashMap::new(),
            received: HashMap::new(),
        }
    }

    /// Adds rows of table `sent_messages`, in any order.
    pub fn add_sent(&mut self, rows: &SentMessages) {
        self.note_latest(rows.time_range_ns());
        for row in 0..rows.len() {
            let of_connection = self.sent.entry(rows.conn[row]).or_default();
            of_connection.push(SentTimes {
                offset_end: rows.offset_end[row],
                bytes: rows.bytes[row],
                call_ns: rows.call_ns[row],
                driver_ns: rows.driver_ns[row],
            });
        }
    }

    /// Adds rows of table `received_messages`, in any order.
    pub fn add_received(&mut self, rows: &ReceivedMessages) {
        self.note_latest(rows.time_range_ns());
        for row in 0..rows.len() {
            let of_connection = self.received.entry(rows.conn[row]).or_default();
            of_connection.push(ReceivedTimes {
                offset_end: rows.offset_end[row],
                bytes: rows.bytes[row],
                arrived_ns: rows.last_arrival_ns[row],
                readable_ns: rows.running_ns[row].or(rows.ready_ns[row]),
                done_ns: rows.done_ns[row],
                at_once: rows.segments[row] == 1,
            });
        }
    }

    /// Moves the end of the recording to the last time of these rows.
    fn note_latest(&mut self, range_ns: Option<(u64, u64)>) {
        let last_ns = range_ns.map_or(0, |(_, last_ns)| last_ns);
        self.latest_ns = self.latest_ns.max(last_ns);
    }

    /// Sorts the messages of each connection; call it after the last row.
    fn finish(&mut self) {
        self.names.finish();
        self.connections = fold_connections(std::mem::take(&mut self.connections));
        let sent = self.sent.values_mut();
        sent.for_each(|all| all.sort_by_key(|it| it.offset_end));
        let received = self.received.values_mut();
        received.for_each(|all| all.sort_by_key(|it| it.offset_end));
    }

    /// Converts this end's clock to time of day, by the offset at the recording's start, ns.
    fn realtime_ns(&self, ns: u64) -> i128 {
        i128::from(ns) - i128::from(self.header.started_ns)
            + i128::from(self.header.started_realtime_ns)
    }
}

/// One direction of a connection: its sender and its receiver.
struct EndsPath<'a> {
    from: (&'a EndRecording, u64),
    to: (&'a EndRecording, u64),
    /// The receiver is of the second recording.
    forth: bool,
    joined: JoinResult,
}

/// The report of two recordings, with at most `limit` groups. `first` names the host and the coverage.
pub fn report(
    mut first: EndRecording,
    mut other: EndRecording,
    recorded: RecordingState,
    limit: usize,
) -> EndsReport {
    first.finish();
    other.finish();
    let pairs = pair_connections(&first, &other);
    let mut paths = Vec::new();
    for (here, there) in pairs {
        paths.extend(path((&first, here), (&other, there), true));
        paths.extend(path((&other, there), (&first, here), false));
    }
    let clocks = relate_clocks(&first, &other, &paths);
    let mut groups: Vec<_> = paths
        .iter()
        .map(|path| crossing_group(path, &clocks))
        .collect();
    let slowest_ns = |group: &CrossingGroup| group.slowest.first().map_or(0, |it| it.whole_ns);
    groups.sort_by_key(|group| (Reverse(slowest_ns(group)), group.from.conn));
    let all = groups.len() as u64;
    groups.truncate(limit);
    EndsReport {
        schema: SCHEMA,
        other_host: other.header.host,
        clocks,
        relative_error: RELATIVE_ERROR,
        all,
        groups,
        about: About::new(&first.header, recorded, first.latest_ns, (0, u64::MAX)),
    }
}

/// Returns pairs of connections that are two ends of one: by the kernel's ids on one host, else by
/// addresses.
fn pair_connections(first: &EndRecording, other: &EndRecording) -> Vec<(u64, u64)> {
    let same_host = first.header.boot_id == other.header.boot_id;
    let mut by_address: HashMap<(&str, &str), Vec<usize>> = HashMap::new();
    let there = &other.connections;
    for row in 0..there.len() {
        let key = (there.remote[row].as_str(), there.local[row].as_str());
        by_address.entry(key).or_default().push(row);
    }
    let here = &first.connections;
    let mut pairs = Vec::new();
    for row in 0..here.len() {
        let key = (here.local[row].as_str(), here.remote[row].as_str());
        let known = here.peer_conn[row].filter(|_| same_host);
        let meet = by_address.get(&key).into_iter().flatten().copied();
        let meet = meet.filter(|at| known.is_none_or(|conn| there.conn[*at] == conn));
        let meet: Vec<_> = meet
            .filter(|at| has_overlap(first, row, other, *at))
            .collect();
        if let [only] = meet[..] {
            pairs.push((here.conn[row], there.conn[only]));
        }
    }
    // a recording that has both ends has each pair twice
    pairs.retain(|(here, there)| !same_host || here != there);
    if first.header == other.header {
        pairs.retain(|(here, there)| here < there);
    }
    pairs
}

/// Returns whether two sockets existed at the same time, within the second in which clocks of hosts usually agree.
fn has_overlap(first: &EndRecording, here: usize, other: &EndRecording, there: usize) -> bool {
    const ABOUT_NS: i128 = 1_000_000_000;
    let span = |side: &EndRecording, row: usize| {
        let opened = side.connections.opened_ns[row].unwrap_or(side.header.started_ns);
        let closed = side.connections.closed_ns[row].unwrap_or(side.latest_ns);
        (side.realtime_ns(opened), side.realtime_ns(closed))
    };
    let (here, there) = (span(first, here), span(other, there));
    here.0 <= there.1 + ABOUT_NS && there.0 <= here.1 + ABOUT_NS
}

/// Joins the messages of one direction; None if the sender recorded none.
fn path<'a>(
    from: (&'a EndRecording, u64),
    to: (&'a EndRecording, u64),
    forth: bool,
) -> Option<EndsPath<'a>> {
    let sent = from.0.sent.get(&from.1)?;
    let none = Vec::new();
    let received = to.0.received.get(&to.1).unwrap_or(&none);
    Some(EndsPath {
        from,
        to,
        forth,
        joined: join(sent, received),
    })
}

/// Estimates the clock offset of two hosts from messages in both directions.
fn relate_clocks(
    first: &EndRecording,
    other: &EndRecording,
    paths: &[EndsPath<'_>],
) -> ClockRelation {
    if first.header.boot_id == other.header.boot_id {
        return ClockRelation::Same;
    }
    let mut pairs = Vec::new();
    for path in paths {
        pairs.extend(path.joined.crossings.iter().map(|it| {
            let (here, there) = match path.forth {
                true => (it.driver_ns, it.arrived_ns),
                false => (it.arrived_ns, it.driver_ns),
            };
            OffsetPair {
                at_ns: here,
                difference_ns: there.cast_signed().wrapping_sub(here.cast_signed()),
                forth: path.forth,
            }
        }));
    }
    pairs.sort_by_key(|pair| pair.at_ns);
    let offsets = estimate_offsets(&pairs);
    match offsets.is_empty() {
        true => ClockRelation::Unknown,
        false => ClockRelation::Apart { offsets },
    }
}

/// Returns how much the receiver's clock is ahead of the sender's, and how far that may be off.
fn clock_lead(
    clocks: &ClockRelation,
    path: &EndsPath<'_>,
    crossing: &Crossing,
) -> Option<(i64, u64)> {
    let ClockRelation::Apart { offsets } = clocks else {
        return (*clocks == ClockRelation::Same).then_some((0, 0));
    };
    let here_ns = match path.forth {
        true => crossing.driver_ns,
        false => crossing.arrived_ns,
    };
    let ClockOffset {
        offset_ns,
        error_ns,
        ..
    } = offset::offset_at(offsets, here_ns)?;
    let ahead_ns = if path.forth { offset_ns } else { -offset_ns };
    Some((ahead_ns, error_ns))
}

/// Returns when the sender's own receive calls ended, in order: its answer begins there.
fn taken_ns(path: &EndsPath<'_>) -> Vec<u64> {
    let own = path.from.0.received.get(&path.from.1);
    let mut taken: Vec<u64> = own.into_iter().flatten().map(|it| it.done_ns).collect();
    taken.sort_unstable();
    taken
}

/// Sums the parts of all messages of one direction, and keeps the slowest.
fn crossing_group(path: &EndsPath<'_>, clocks: &ClockRelation) -> CrossingGroup {
    let (sender, conn) = path.from;
    let sent = sender.sent.get(&conn).map_or(&[][..], |all| all);
    let taken_ns = taken_ns(path);
    let (mut whole, mut error_ns, mut unmatched) =
        (DurationSums::default(), 0, path.joined.unmatched);
    let mut legs: [DurationSums; PathLeg::ALL.len()] = Default::default();
    let mut slowest: Vec<SlowCrossing> = Vec::new();
    let mut before_ns = 0;
    for crossing in &path.joined.crossings {
        let thought_since = taken_ns
            .partition_point(|ns| *ns <= crossing.call_ns)
            .checked_sub(1);
        let thought_since = thought_since
            .map(|at| taken_ns[at])
            .filter(|ns| *ns >= before_ns);
        before_ns = crossing.call_ns;
        let Some((ahead_ns, error)) = clock_lead(clocks, path, crossing) else {
            unmatched += 1;
            continue;
        };
        error_ns = error_ns.max(error);
        let took = leg_times(crossing, ahead_ns, thought_since);
        for LegTime { leg, ns } in &took {
            legs[*leg as usize].add(*ns);
        }
        let after = took.iter().filter(|it| it.leg.is_of_whole());
        let whole_ns = after.map(|it| it.ns).sum();
        whole.add(whole_ns);
        let place = slowest.partition_point(|kept| kept.whole_ns >= whole_ns);
        if place < SLOWEST {
            let id = MessageId {
                conn,
                direction: MessageDirection::Sent,
                offset_end: crossing.offset_end,
            };
            let id = id.to_string();
            slowest.insert(
                place,
                SlowCrossing {
                    id,
                    whole_ns,
                    legs: took,
                },
            );
            slowest.truncate(SLOWEST);
        }
    }
    CrossingGroup {
        from: connection_end(&sender.names, conn),
        to: connection_end(&path.to.0.names, path.to.1),
        count: sent.len() as u64,
        bytes: sent.iter().map(|it| u64::from(it.bytes)).sum(),
        shared: path.joined.shared,
        unmatched,
        error_ns,
        whole: whole.duration_spread(),
        legs: leg_spreads(&legs),
        slowest,
    }
}

/// Returns the percentiles of each part of the path that has a value.
fn leg_spreads(legs: &[DurationSums]) -> Vec<LegSpread> {
    let legs = PathLeg::ALL.into_iter().zip(legs);
    let legs = legs.filter_map(|(leg, times)| {
        let spread: DurationSpread = times.duration_spread()?;
        Some(LegSpread { leg, spread })
    });
    legs.collect()
}

/// Returns the time of each leg of one message's path; a negative wire time counts as 0. A wire
/// that seems shorter than nothing is so by less than the clocks' error.
fn leg_times(crossing: &Crossing, ahead_ns: i64, thought_since: Option<u64>) -> Vec<LegTime> {
    let wire_ns =
        i128::from(crossing.arrived_ns) - i128::from(crossing.driver_ns) - i128::from(ahead_ns);
    let readable_ns = crossing.readable_ns.max(crossing.arrived_ns);
    let legs = [
        (
            PathLeg::SenderApplication,
            thought_since.map(|ns| crossing.call_ns - ns),
        ),
        (
            PathLeg::SenderKernel,
            crossing.driver_ns.checked_sub(crossing.call_ns),
        ),
        (PathLeg::Wire, Some(u64::try_from(wire_ns).unwrap_or(0))),
        (
            PathLeg::ReceiverKernel,
            Some(readable_ns - crossing.arrived_ns),
        ),
        (
            PathLeg::ReceiverApplication,
            crossing.done_ns.checked_sub(readable_ns),
        ),
    ];
    let legs = legs.into_iter();
    legs.filter_map(|(leg, ns)| Some(LegTime { leg, ns: ns? }))
        .collect()
}

impl std::fmt::Debug for EndsPath<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} to {}: {:?}", self.from.1, self.to.1, self.joined)
    }
}
