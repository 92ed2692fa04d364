//! Messages by connection and direction: rows of the tables `received_messages` and `sent_messages` in, batch
//! by batch; one [`MessageReport`] out. What is kept grows with the connections, not with the rows.
//!
//! ```text
//! way       row → the parts of its way, which add up to the whole
//! marks     which times of a row are begin and ends of these, in their order
//! story     one message by itself, step by step
//! doing     what its CPUs did meanwhile
//! nic       when the network adapter put it on the wire
//! ends      what is known at both ends of a connection
//! tail      why slow messages are slow
//! report    the contracts `whylat.messages/1` and `whylat.message/1`
//! ```

pub mod doing;
pub mod ends;
mod marks;
pub mod nic;
pub mod report;
pub mod story;
pub mod tail;
pub mod way;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::rc::Rc;

use table::manifest::Header;
use table::tables::{Activities, ClockPairs, ReceivedMessages, SentMessages};
use table::{Columns, Consumer, Rows, TableId};

use crate::answer::{About, Recorded};
use crate::histogram::{Histogram, RELATIVE_ERROR};
use crate::waits::Names;
use doing::Doing;
use nic::{NicClocks, Stamped};
use report::{
    End, Group, Lifetime, MessageReport, MessageStory, PartSpread, Row, SCHEMA, STORY_SCHEMA,
    Spread, Took,
};
use story::MessageId;
use way::{Direction, Lack, PARTS_MOST, Way};

/// Messages of a group that are shown by themselves.
const SLOWEST: usize = 10;

/// Messages on their way to a report.
#[derive(Debug)]
pub struct MessageTable {
    header: Header,
    names: Rc<Names>,
    groups: HashMap<(u64, Direction), Digest>,
    /// The one that is looked for, if one is.
    wanted: Option<MessageId>,
    found: Option<(Result<Way, Lack>, Row)>,
    nics: NicClocks,
    doings: Vec<Doing>,
    latest_ns: u64,
}

/// How long something took.
#[derive(Debug, Default)]
struct Times {
    histogram: Histogram,
    sum_ns: u64,
}

/// The messages of one connection, one way.
#[derive(Debug, Default)]
struct Digest {
    count: u64,
    bytes: u64,
    spliced_bytes: u64,
    resent: Option<u64>,
    doubtful: u64,
    doubt_ns: u64,
    cut: Option<u64>,
    unseen: u64,
    disordered: u64,
    stamped: Option<Stamped>,
    whole: Times,
    parts: [Times; PARTS_MOST],
    /// Slowest first.
    slowest: Vec<(Way, Row)>,
}

impl Consumer for MessageTable {
    fn wants(&self, table: TableId) -> bool {
        match table {
            TableId::ClockPair | TableId::ReceivedMessage | TableId::SentMessage => true,
            TableId::Activity => self.wanted.is_some(),
            _ => false,
        }
    }

    fn take(&mut self, rows: Rows<'_>) {
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
    /// Starts with what the manifest says, and names that are complete.
    pub fn new(header: Header, names: Rc<Names>) -> Self {
        Self {
            latest_ns: header.started_ns,
            header,
            names,
            groups: HashMap::new(),
            wanted: None,
            found: None,
            nics: NicClocks::default(),
            doings: Vec::new(),
        }
    }

    /// Looks for one message in the rows that will be added: see [`MessageTable::story`].
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
            let key = (rows.conn[row], Direction::Received);
            let row = rows.row(row);
            let way = Way::of_received(&row);
            let digest = self.groups.entry(key).or_default();
            digest.doubtful += u64::from(row.doubt_ns > 0);
            digest.doubt_ns = digest.doubt_ns.max(row.doubt_ns);
            if let Some(cut_bytes) = row.cut_bytes {
                *digest.cut.get_or_insert(0) += u64::from(cut_bytes > 0);
            }
            self.add(key, way, Row::Received(row));
        }
    }

    /// Adds rows of table `activity`, in any order, after those of the messages: what belongs to the message
    /// that is looked for.
    pub fn add_activities(&mut self, rows: &Activities) {
        if let Some((_, row)) = &self.found {
            row.meanwhile().add(rows, &mut self.doings);
        }
    }

    /// Adds rows of table `sent_messages`, in any order.
    pub fn add_sent(&mut self, rows: &SentMessages) {
        self.note_latest(rows.time_range_ns());
        for row in 0..rows.len() {
            let key = (rows.conn[row], Direction::Sent);
            let row = rows.row(row);
            let digest = self.groups.entry(key).or_default();
            let placed = self.nics.place(&row);
            let on_wire = placed.and_then(|placed| {
                let stamped = digest.stamped.get_or_insert_default();
                stamped.count(&placed)
            });
            let way = Way::of_sent(&row, on_wire);
            if row.packets.is_none() {
                *digest.resent.get_or_insert(0) += u64::from(row.resent_segments > 0);
            }
            self.add(key, way, Row::Sent(row));
        }
    }

    fn add(&mut self, key: (u64, Direction), way: Result<Way, Lack>, row: Row) {
        let (offset_end, bytes, spliced_bytes) = match &row {
            Row::Received(row) => (row.offset_end, row.bytes, row.spliced_bytes),
            Row::Sent(row) => (row.offset_end, row.bytes, row.spliced_bytes),
        };
        if self.is_wanted(key, offset_end, bytes) {
            self.found = Some((way, row.clone()));
        }
        let digest = self.groups.entry(key).or_default();
        digest.add(bytes, spliced_bytes, way, row);
    }

    fn note_latest(&mut self, range_ns: Option<(u64, u64)>) {
        let last_ns = range_ns.map_or(0, |(_, last_ns)| last_ns);
        self.latest_ns = self.latest_ns.max(last_ns);
    }

    fn is_wanted(&self, (conn, direction): (u64, Direction), offset_end: u64, bytes: u32) -> bool {
        self.wanted
            .is_some_and(|id| id.direction == direction && id.is(conn, offset_end, bytes))
    }

    /// The message that was looked for; `None`: no such row was added.
    pub fn story(self, recorded: Recorded) -> Option<MessageStory> {
        let (way, row) = self.found?;
        let id = row.id();
        let way = way.ok();
        Some(MessageStory {
            schema: STORY_SCHEMA,
            about: About::of(&self.header, recorded, self.latest_ns, (0, u64::MAX)),
            end: end(&self.names, id.conn),
            direction: id.direction,
            steps: row.steps(way.as_ref()),
            meanwhile: row.meanwhile().select(self.doings),
            lifetime: way.map(|way| lifetime(&way, &row, self.header.started_ns)),
        })
    }

    /// The report of all rows added, with at most `limit` groups.
    pub fn report(self, recorded: Recorded, limit: usize) -> MessageReport {
        let mut all: Vec<_> = self.groups.iter().collect();
        let slowest_ns = |digest: &Digest| digest.slowest.first().map_or(0, |it| it.0.whole_ns);
        all.sort_by_key(|(key, digest)| (Reverse(slowest_ns(digest)), **key));
        let listed = all.iter().take(limit);
        let groups = listed.map(|(key, digest)| self.group(**key, digest));
        MessageReport {
            schema: SCHEMA,
            groups: groups.collect(),
            relative_error: RELATIVE_ERROR,
            all: all.len() as u64,
            about: About::of(&self.header, recorded, self.latest_ns, (0, u64::MAX)),
        }
    }

    fn group(&self, (conn, direction): (u64, Direction), digest: &Digest) -> Group {
        let parts = direction.parts().iter().zip(&digest.parts);
        let parts = parts.filter_map(|(part, times)| {
            let spread = times.spread()?;
            Some(PartSpread {
                part: *part,
                spread,
            })
        });
        let slowest = digest.slowest.iter();
        Group {
            end: end(&self.names, conn),
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
            dropped: digest.cut.and_then(|_| self.names.dropped(conn)),
            whole: digest.whole.spread(),
            parts: parts.collect(),
            slowest: slowest
                .map(|(way, row)| lifetime(way, row, self.header.started_ns))
                .collect(),
        }
    }
}

fn end(names: &Names, conn: u64) -> End {
    let identity = names.connection(conn);
    End {
        conn,
        name: identity.name,
        process: identity.process,
    }
}

fn lifetime(way: &Way, row: &Row, started_ns: u64) -> Lifetime {
    Lifetime {
        id: row.id().to_string(),
        since_start_ns: way.start_ns.saturating_sub(started_ns),
        whole_ns: way.whole_ns,
        parts: way.parts().map(|(part, ns)| Took { part, ns }).collect(),
        on_wire: way.on_wire,
        message: row.clone(),
    }
}

impl Digest {
    fn add(&mut self, bytes: u32, spliced_bytes: u32, way: Result<Way, Lack>, row: Row) {
        self.count += 1;
        self.bytes += u64::from(bytes);
        self.spliced_bytes += u64::from(spliced_bytes);
        let way = match way {
            Ok(way) => way,
            Err(Lack::Unseen) => return self.unseen += 1,
            Err(Lack::Disorder) => return self.disordered += 1,
        };
        self.whole.add(way.whole_ns);
        for (times, part_ns) in self.parts.iter_mut().zip(way.parts_ns()) {
            part_ns.into_iter().for_each(|ns| times.add(ns));
        }
        let slowest = &mut self.slowest;
        let place = slowest.partition_point(|(kept, _)| kept.whole_ns >= way.whole_ns);
        if place < SLOWEST {
            slowest.insert(place, (way, row));
            slowest.truncate(SLOWEST);
        }
    }
}

impl Times {
    fn add(&mut self, ns: u64) {
        self.histogram.add(ns);
        self.sum_ns += ns;
    }

    fn spread(&self) -> Option<Spread> {
        let quantile = |share| self.histogram.quantile_ns(share);
        Some(Spread {
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
