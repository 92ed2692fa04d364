//! Received messages by connection: rows of table `messages` in, batch by batch; one [`MessageReport`] out.
//! What is kept grows with the connections, not with the rows.
//!
//! ```text
//! way       row → the parts of its way, which add up to the whole
//! report    the contract `whylat.messages/1`
//! ```

pub mod report;
pub mod way;

use std::cmp::Reverse;
use std::collections::HashMap;

use table::Columns;
use table::manifest::Header;
use table::tables::{Message, Messages};

use crate::histogram::{Histogram, RELATIVE_ERROR};
use crate::report::{About, Recorded};
use crate::waits::Names;
use report::{MessageReport, PartSpread, Received, SCHEMA, Slow, Spread, Took};
use way::{Lack, Part, Way};

/// Messages of a connection that are shown by themselves.
const SLOWEST: usize = 10;

/// Messages on their way to a report.
#[derive(Debug)]
pub struct MessageTable {
    header: Header,
    names: Names,
    connections: HashMap<u64, Digest>,
    latest_ns: u64,
}

/// How long something took.
#[derive(Debug, Default)]
struct Times {
    histogram: Histogram,
    sum_ns: u64,
}

/// The messages of one connection.
#[derive(Debug, Default)]
struct Digest {
    count: u64,
    bytes: u64,
    spliced_bytes: u64,
    unseen: u64,
    disordered: u64,
    whole: Times,
    parts: [Times; Part::ALL.len()],
    /// Slowest first.
    slowest: Vec<(Way, Message)>,
}

/// What `--message` takes: the connection, and where in its stream the message ends.
pub fn id(message: &Message) -> String {
    format!("{}:{}", message.conn, message.offset_end)
}

impl MessageTable {
    /// Starts with what the manifest says, and names that are complete.
    pub fn new(header: Header, mut names: Names) -> Self {
        names.finish();
        Self {
            latest_ns: header.started_ns,
            header,
            names,
            connections: HashMap::new(),
        }
    }

    /// Adds rows of table `messages`, in any order.
    pub fn add(&mut self, rows: &Messages) {
        if let Some((_, last_ns)) = rows.time_range_ns() {
            self.latest_ns = self.latest_ns.max(last_ns);
        }
        for row in 0..rows.len() {
            self.connections
                .entry(rows.conn[row])
                .or_default()
                .add(rows, row);
        }
    }

    /// The report of all rows added, with at most `limit` connections.
    pub fn report(self, recorded: Recorded, limit: usize) -> MessageReport {
        let mut all: Vec<_> = self.connections.iter().collect();
        let slowest_ns = |digest: &Digest| digest.slowest.first().map_or(0, |it| it.0.whole_ns);
        all.sort_by_key(|(conn, digest)| (Reverse(slowest_ns(digest)), **conn));
        let listed = all.iter().take(limit);
        let connections = listed.map(|(conn, digest)| self.named(**conn, digest));
        MessageReport {
            schema: SCHEMA,
            connections: connections.collect(),
            relative_error: RELATIVE_ERROR,
            all: all.len() as u64,
            about: About::of(&self.header, recorded, self.latest_ns, (0, u64::MAX)),
        }
    }

    fn named(&self, conn: u64, digest: &Digest) -> Received {
        let parts = Part::ALL.iter().zip(&digest.parts);
        let parts = parts.filter_map(|(part, times)| {
            let spread = times.spread()?;
            Some(PartSpread {
                part: *part,
                spread,
            })
        });
        let slowest = digest.slowest.iter();
        Received {
            identity: self.names.connection(conn),
            count: digest.count,
            bytes: digest.bytes,
            spliced_bytes: digest.spliced_bytes,
            unseen: digest.unseen,
            disordered: digest.disordered,
            whole: digest.whole.spread(),
            parts: parts.collect(),
            slowest: slowest
                .map(|(way, message)| slow(way, message, self.header.started_ns))
                .collect(),
        }
    }
}

fn slow(way: &Way, message: &Message, started_ns: u64) -> Slow {
    let parts = Part::ALL.into_iter().zip(way.parts_ns);
    Slow {
        id: id(message),
        since_start_ns: way.start_ns.saturating_sub(started_ns),
        whole_ns: way.whole_ns,
        parts: parts
            .filter_map(|(part, ns)| Some(Took { part, ns: ns? }))
            .collect(),
        message: message.clone(),
    }
}

impl Digest {
    fn add(&mut self, rows: &Messages, row: usize) {
        self.count += 1;
        self.bytes += u64::from(rows.bytes[row]);
        self.spliced_bytes += u64::from(rows.spliced_bytes[row]);
        let way = match Way::of(rows, row) {
            Ok(way) => way,
            Err(Lack::Unseen) => return self.unseen += 1,
            Err(Lack::Disorder) => return self.disordered += 1,
        };
        self.whole.add(way.whole_ns);
        for (times, part_ns) in self.parts.iter_mut().zip(way.parts_ns) {
            part_ns.into_iter().for_each(|ns| times.add(ns));
        }
        self.keep_if_slow(way, rows, row);
    }

    fn keep_if_slow(&mut self, way: Way, rows: &Messages, row: usize) {
        let place = self
            .slowest
            .partition_point(|(kept, _)| kept.whole_ns >= way.whole_ns);
        if place < SLOWEST {
            self.slowest.insert(place, (way, rows.row(row)));
            self.slowest.truncate(SLOWEST);
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
