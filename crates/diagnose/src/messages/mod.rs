//! Messages by connection and direction: rows of the tables `received_messages` and `sent_messages` in, batch
//! by batch; one [`MessageReport`] out. What is kept grows with the connections, not with the rows.
//!
//! ```text
//! message   what a message is: direction, row, id
//! parts     names of what happens to messages, and of the parts of their time
//! breakdown row → parts of its time, which add up to the whole
//! story     one message by itself, step by step
//! activity  CPU activity during a message
//! nic       when the network adapter put it on the wire
//! ends      what is known at both ends of a connection
//! tail      why slow messages are slow
//! report    the contracts `whylat.messages/1` and `whylat.message/1`
//! ```

pub mod activity;
pub mod breakdown;
pub mod ends;
pub mod message;
pub mod nic;
pub mod parts;
pub mod report;
pub mod story;
pub mod tail;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

use table::manifest::Header;
use table::tables::{Activities, ClockPairs, ReceivedMessages, SentMessages};
use table::{Columns, Rows, TableConsumer, TableId};

use crate::answer::{About, RecordingState};
use crate::histogram::{Histogram, RELATIVE_ERROR};
use crate::waits::NameTable;
use activity::CpuActivity;
use breakdown::{BreakdownError, LatencyBreakdown, PARTS_MOST};
use message::{MessageDirection, MessageId, MessageRow};
use nic::{NicClocks, NicStamps};
use report::{
    ConnectionEnd, DurationSpread, MessageGroup, MessageLifetime, MessageReport, MessageStory,
    PartSpread, PartTime, SCHEMA, STORY_SCHEMA,
};

/// Messages of a group that are shown by themselves.
const SLOWEST: usize = 10;

/// Messages on their breakdown to a report.
#[derive(Debug)]
pub struct MessageTable {
    header: Header,
    names: Rc<NameTable>,
    groups: HashMap<(u64, MessageDirection), MessageDigest>,
    /// The wanted message, if one is.
    wanted: Option<MessageId>,
    found: Option<(Result<LatencyBreakdown, BreakdownError>, MessageRow)>,
    nics: NicClocks,
    activities: Vec<CpuActivity>,
    latest_ns: u64,
}

/// How long something took.
#[derive(Debug, Default)]
struct DurationSums {
    histogram: Histogram,
    sum_ns: u64,
}

/// The messages of one connection, one breakdown.
#[derive(Debug, Default)]
struct MessageDigest {
    count: u64,
    bytes: u64,
    spliced_bytes: u64,
    resent: Option<u64>,
    doubtful: u64,
    doubt_ns: u64,
    cut: Option<u64>,
    unseen: u64,
    disordered: u64,
    stamped: Option<NicStamps>,
    whole: DurationSums,
    parts: [DurationSums; PARTS_MOST],
    /// Slowest first.
    slowest: Vec<(LatencyBreakdown, MessageRow)>,
}

impl TableConsumer for MessageTable {
    fn is_reader_of(&self, table: TableId) -> bool {
        match table {
            TableId::ClockPair | TableId::ReceivedMessage | TableId::SentMessage => true,
            TableId::Activity => self.wanted.is_some(),
            _ => false,
        }
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::ClockPair(rows) => self.add_clock_pairs(rows),
            Rows::ReceivedMessage(rows) => self.add_received(rows),
            Rows::SentMessage(rows) => self.add_sent(rows),
            Rows::Activity(rows) => self.add_activities(rows),
            _ => {}
        }
    }
}

impl MessageTable {
    /// Makes an empty table of messages; `names` are complete.
    pub fn new(header: Header, names: Rc<NameTable>) -> Self {
        Self {
            latest_ns: header.started_ns,
            header,
            names,
            groups: HashMap::new(),
            wanted: None,
            found: None,
            nics: NicClocks::default(),
            activities: Vec::new(),
        }
    }

    /// Keeps one message of the rows that follow: see [`MessageTable::into_story`].
    #[must_use]
    pub fn looking_for(mut self, wanted: MessageId) -> Self {
        self.wanted = Some(wanted);
        self
    }

    /// Adds rows of table `clock_pairs`, in the order of time, before those of the messages: stamps of network adapters
    /// are converted by them.
    pub fn add_clock_pairs(&mut self, rows: &ClockPairs) {
        self.nics.add(rows);
    }

    /// Adds rows of table `received_messages`, in any order.
    pub fn add_received(&mut self, rows: &ReceivedMessages) {
        self.note_latest(rows.time_range_ns());
        for row in 0..rows.len() {
            let key = (rows.conn[row], MessageDirection::Received);
            let row = rows.row(row);
            let breakdown = LatencyBreakdown::from_received(&row);
            let digest = self.groups.entry(key).or_default();
            digest.doubtful += u64::from(row.doubt_ns > 0);
            digest.doubt_ns = digest.doubt_ns.max(row.doubt_ns);
            if let Some(cut_bytes) = row.cut_bytes {
                *digest.cut.get_or_insert(0) += u64::from(cut_bytes > 0);
            }
            self.add(key, breakdown, MessageRow::Received(row));
        }
    }

    /// Adds rows of table `activity`, in any order, after those of the messages: what belongs to the message
    /// that is wanted.
    pub fn add_activities(&mut self, rows: &Activities) {
        if let Some((_, row)) = &self.found {
            row.message_window().add(rows, &mut self.activities);
        }
    }

    /// Adds rows of table `sent_messages`, in any order.
    pub fn add_sent(&mut self, rows: &SentMessages) {
        self.note_latest(rows.time_range_ns());
        for row in 0..rows.len() {
            let key = (rows.conn[row], MessageDirection::Sent);
            let row = rows.row(row);
            let digest = self.groups.entry(key).or_default();
            let placed = self.nics.stamp_time(&row);
            let on_wire = placed.and_then(|placed| {
                let stamped = digest.stamped.get_or_insert_default();
                stamped.count(&placed)
            });
            let breakdown = LatencyBreakdown::from_sent(&row, on_wire);
            if row.packets.is_none() {
                *digest.resent.get_or_insert(0) += u64::from(row.resent_segments > 0);
            }
            self.add(key, breakdown, MessageRow::Sent(row));
        }
    }

    /// Adds a message to the digest of its connection and direction.
    fn add(
        &mut self,
        key: (u64, MessageDirection),
        breakdown: Result<LatencyBreakdown, BreakdownError>,
        row: MessageRow,
    ) {
        let (offset_end, bytes, spliced_bytes) = match &row {
            MessageRow::Received(row) => (row.offset_end, row.bytes, row.spliced_bytes),
            MessageRow::Sent(row) => (row.offset_end, row.bytes, row.spliced_bytes),
        };
        if self.is_wanted(key, offset_end, bytes) {
            self.found = Some((breakdown, row.clone()));
        }
        let digest = self.groups.entry(key).or_default();
        digest.add(bytes, spliced_bytes, breakdown, row);
    }

    /// Moves the end of the recording to the last time of these rows.
    fn note_latest(&mut self, range_ns: Option<(u64, u64)>) {
        let last_ns = range_ns.map_or(0, |(_, last_ns)| last_ns);
        self.latest_ns = self.latest_ns.max(last_ns);
    }

    /// Returns whether the user asked for this one message.
    fn is_wanted(
        &self,
        (conn, direction): (u64, MessageDirection),
        offset_end: u64,
        bytes: u32,
    ) -> bool {
        self.wanted
            .is_some_and(|id| id.direction == direction && id.is_within(conn, offset_end, bytes))
    }

    /// Returns the story of the wanted message; `None`: no row was of it.
    pub fn into_story(self, recorded: RecordingState) -> Option<MessageStory> {
        let (breakdown, row) = self.found?;
        let id = row.id();
        let breakdown = breakdown.ok();
        Some(MessageStory {
            schema: STORY_SCHEMA,
            about: About::new(&self.header, recorded, self.latest_ns, (0, u64::MAX)),
            end: connection_end(&self.names, id.conn),
            direction: id.direction,
            steps: row.known_steps(breakdown.as_ref()),
            meanwhile: row.message_window().select(self.activities),
            lifetime: breakdown
                .map(|breakdown| message_lifetime(&breakdown, &row, self.header.started_ns)),
        })
    }

    /// The report of all rows added, with at most `limit` groups.
    pub fn report(self, recorded: RecordingState, limit: usize) -> MessageReport {
        let mut all: Vec<_> = self.groups.iter().collect();
        let slowest_ns =
            |digest: &MessageDigest| digest.slowest.first().map_or(0, |it| it.0.whole_ns);
        all.sort_by_key(|(key, digest)| (Reverse(slowest_ns(digest)), **key));
        let listed = all.iter().take(limit);
        let groups = listed.map(|(key, digest)| self.group(**key, digest));
        MessageReport {
            schema: SCHEMA,
            groups: groups.collect(),
            relative_error: RELATIVE_ERROR,
            all: all.len() as u64,
            about: About::new(&self.header, recorded, self.latest_ns, (0, u64::MAX)),
        }
    }

    /// Makes the report of the messages of one connection and direction.
    fn group(
        &self,
        (conn, direction): (u64, MessageDirection),
        digest: &MessageDigest,
    ) -> MessageGroup {
        let parts = direction.parts().iter().zip(&digest.parts);
        let parts = parts.filter_map(|(part, times)| {
            let spread = times.duration_spread()?;
            Some(PartSpread {
                part: *part,
                spread,
            })
        });
        let slowest = digest.slowest.iter();
        MessageGroup {
            end: connection_end(&self.names, conn),
            direction,
            count: digest.count,
            bytes: digest.bytes,
            spliced_bytes: digest.spliced_bytes,
            resent: digest.resent,
            doubtful: digest.doubtful,
            doubt_ns: digest.doubt_ns,
            unseen: digest.unseen,
            disordered: digest.disordered,
            cut: digest.cut,
            stamped: digest.stamped,
            dropped: digest.cut.and_then(|_| self.names.count_dropped(conn)),
            whole: digest.whole.duration_spread(),
            parts: parts.collect(),
            slowest: slowest
                .map(|(breakdown, row)| message_lifetime(breakdown, row, self.header.started_ns))
                .collect(),
        }
    }
}

/// Returns name and process of a connection's end on this host.
fn connection_end(names: &NameTable, conn: u64) -> ConnectionEnd {
    let identity = names.connection(conn);
    ConnectionEnd {
        conn,
        name: identity.name,
        process: identity.process,
    }
}

/// Returns the parts and events of one message, in order.
fn message_lifetime(
    breakdown: &LatencyBreakdown,
    row: &MessageRow,
    started_ns: u64,
) -> MessageLifetime {
    MessageLifetime {
        id: row.id().to_string(),
        since_start_ns: breakdown.start_ns.saturating_sub(started_ns),
        whole_ns: breakdown.whole_ns,
        parts: breakdown
            .parts()
            .map(|(part, ns)| PartTime { part, ns })
            .collect(),
        on_wire: breakdown.on_wire,
        message: row.clone(),
    }
}

impl MessageDigest {
    /// Counts a message, adds its parts, and keeps the slowest messages.
    fn add(
        &mut self,
        bytes: u32,
        spliced_bytes: u32,
        breakdown: Result<LatencyBreakdown, BreakdownError>,
        row: MessageRow,
    ) {
        self.count += 1;
        self.bytes += u64::from(bytes);
        self.spliced_bytes += u64::from(spliced_bytes);
        let breakdown = match breakdown {
            Ok(breakdown) => breakdown,
            Err(BreakdownError::MissingTimestamp) => return self.unseen += 1,
            Err(BreakdownError::OutOfOrder) => return self.disordered += 1,
        };
        self.whole.add(breakdown.whole_ns);
        for (times, part_ns) in self.parts.iter_mut().zip(breakdown.parts_ns()) {
            part_ns.into_iter().for_each(|ns| times.add(ns));
        }
        let slowest = &mut self.slowest;
        let place = slowest.partition_point(|(kept, _)| kept.whole_ns >= breakdown.whole_ns);
        if place < SLOWEST {
            slowest.insert(place, (breakdown, row));
            slowest.truncate(SLOWEST);
        }
    }
}

impl DurationSums {
    /// Adds one duration to the histogram and the sum.
    fn add(&mut self, ns: u64) {
        self.histogram.add(ns);
        self.sum_ns += ns;
    }

    /// Returns percentiles and mean; None without a duration.
    fn duration_spread(&self) -> Option<DurationSpread> {
        let quantile = |share| self.histogram.quantile_ns(share);
        Some(DurationSpread {
            count: self.histogram.count(),
            sum_ns: self.sum_ns,
            p50_ns: quantile(0.5)?,
            p90_ns: quantile(0.9)?,
            p99_ns: quantile(0.99)?,
            p999_ns: quantile(0.999)?,
            max_ns: self.histogram.range_ns()?.1,
        })
    }
}
