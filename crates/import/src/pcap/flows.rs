//! All connections of a capture. Several files are read side by side, in the order of time.

use std::collections::{HashMap, VecDeque};
use std::io::Read;
use std::net::SocketAddr;

use table::RowSet;

use super::Vantage;
use super::connection::Connection;
use super::segment::{Segment, parse};
use super::source::PacketReader;
use crate::{ImportError, Tally};

/// The first packet has this time in the recording, so that times of the client's end may be before it.
const BEGIN_NS: u64 = 1_000_000_000;

/// Rows that are handed over together.
const ROWS_MOST: usize = 1 << 14;

/// Connections that end together, at the end of the capture: so many are written at a time.
const FLOWS_MOST: usize = 1 << 10;

/// One file, and its next packet.
struct FileInput {
    name: String,
    reader: PacketReader,
    next: Option<(u64, Result<Segment, &'static str>)>,
}

impl FileInput {
    /// Reads the next packet. A file that is damaged ends there.
    fn advance(&mut self, notes: &mut Vec<String>) {
        let next = self
            .reader
            .next(|head, data| (head.time_ns, parse(head, data)));
        self.next = next.unwrap_or_else(|error| {
            notes.push(format!("{}: {error}", self.name));
            None
        });
    }
}

/// Connections that a capture holds, and counts of packets that were used or not.
#[derive(Debug, Default)]
pub struct CaptureImport {
    /// How many packets were used, and why others were not.
    pub tally: Tally,
    /// Notes on the capture for the reader.
    pub notes: Vec<String>,
    /// Connections, each with two ends.
    pub connections: u64,
    /// Attempts to connect that failed.
    pub failed: u64,
    /// Connections that the capture shows from their SYN on.
    pub from_begin: u64,
    /// Bytes that receivers acknowledged and the capture does not have.
    pub unseen_bytes: u64,
    /// Packets that the capturing host dropped, as the files say.
    pub dropped: u64,
    /// Round trips of all connections to the client's side and to the server's, ns: their sums.
    pub trips_ns: [u64; 2],
    /// When the last packet was captured, in the recording's time.
    pub last_ns: u64,
}

/// Key of a connection: its addresses, the lesser first.
type FlowKey = (SocketAddr, SocketAddr);

fn key(segment: &Segment) -> FlowKey {
    let (one, other) = (segment.source, segment.target);
    if one <= other {
        (one, other)
    } else {
        (other, one)
    }
}

/// Connections that live.
#[derive(Default)]
struct FlowTable {
    flows: HashMap<FlowKey, Connection>,
    /// Connections to examine, by when.
    due: VecDeque<(u64, FlowKey)>,
    conns: u64,
    vantage: Vantage,
}

/// Time between two examinations of a connection.
const LOOK_NS: u64 = 20_000_000;

impl FlowTable {
    fn add(&mut self, segment: &Segment, rows: &mut RowSet, import: &mut CaptureImport) {
        let key = key(segment);
        if self
            .flows
            .get(&key)
            .is_some_and(|flow| flow.is_replaced_by(segment))
            && let Some(flow) = self.flows.remove(&key)
        {
            end(flow, rows, import);
        }
        let flow = self.flows.entry(key).or_insert_with(|| {
            self.due.push_back((segment.time_ns + LOOK_NS, key));
            self.conns += 2;
            Connection::new(self.conns - 1, segment)
        });
        match flow.add(segment, self.vantage, rows) {
            true => import.tally.ignore("copies from another interface"),
            false => import.tally.use_one(),
        }
    }

    /// Ends connections that are over by now.
    fn pass_time(&mut self, now_ns: u64, rows: &mut RowSet, import: &mut CaptureImport) {
        while let Some((due_ns, key)) = self.due.front().copied()
            && due_ns <= now_ns
        {
            self.due.pop_front();
            let Some(flow) = self.flows.get_mut(&key) else {
                continue;
            };
            if !flow.pass_time(now_ns, rows) {
                self.due.push_back((now_ns + LOOK_NS, key));
                continue;
            }
            if let Some(flow) = self.flows.remove(&key) {
                end(flow, rows, import);
            }
        }
    }

    /// Returns the open connections, in the order in which they began.
    fn into_open(self) -> Vec<Connection> {
        let mut open: Vec<_> = self.flows.into_values().collect();
        open.sort_unstable_by_key(|flow| flow.conn);
        open
    }
}

fn end(mut flow: Connection, rows: &mut RowSet, import: &mut CaptureImport) {
    flow.finish(rows);
    if flow.is_failed() {
        import.failed += 1;
        return;
    }
    import.connections += 1;
    import.from_begin += u64::from(flow.times.syn_ns.is_some());
    let unseen = flow.halves.iter().map(|half| half.counts.unseen_bytes);
    import.unseen_bytes += unseen.sum::<u64>();
    for (sum, end) in import
        .trips_ns
        .iter_mut()
        .zip([flow.client, 1 - flow.client])
    {
        *sum += flow.sides[end].least_ns.unwrap_or(0);
    }
}

/// Reads captures.
pub struct CaptureReader {
    files: Vec<FileInput>,
    import: CaptureImport,
    /// When the first packet was captured, since 1970.
    first_ns: u64,
}

impl CaptureReader {
    /// Opens files, by their names and bytes.
    ///
    /// # Errors
    /// When one is no capture, or none has a packet.
    pub fn new(
        files: impl IntoIterator<Item = (String, Box<dyn Read + Send>)>,
    ) -> Result<Self, ImportError> {
        let mut import = CaptureImport::default();
        let mut inputs = Vec::new();
        for (name, bytes) in files {
            let reader = PacketReader::new(bytes)?;
            let mut input = FileInput {
                name,
                reader,
                next: None,
            };
            input.advance(&mut import.notes);
            inputs.push(input);
        }
        let times = inputs.iter().filter_map(|it| Some(it.next.as_ref()?.0));
        Ok(Self {
            first_ns: times.min().ok_or(ImportError::NoPackets)?,
            files: inputs,
            import,
        })
    }

    /// Returns when the first packet was captured: since 1970, and in the recording's time.
    pub fn started_ns(&self) -> (u64, u64) {
        (self.first_ns, BEGIN_NS)
    }

    /// Reads all packets, and hands rows over as they come.
    ///
    /// # Errors
    /// Those of `take`, and when no packet is a TCP segment.
    pub fn read<E: From<ImportError>>(
        mut self,
        vantage: Vantage,
        mut take: impl FnMut(RowSet) -> Result<(), E>,
    ) -> Result<CaptureImport, E> {
        let mut flows = FlowTable {
            vantage,
            ..FlowTable::default()
        };
        let mut rows = RowSet::default();
        let mut packets = 0;
        let mut now_ns = BEGIN_NS;
        while let Some((time_ns, segment)) = self.next() {
            now_ns = now_ns.max(
                time_ns
                    .saturating_sub(self.first_ns)
                    .saturating_add(BEGIN_NS),
            );
            match segment {
                Err(reason) => self.import.tally.ignore(reason),
                Ok(mut segment) => {
                    segment.time_ns = now_ns;
                    flows.add(&segment, &mut rows, &mut self.import);
                }
            }
            flows.pass_time(now_ns, &mut rows, &mut self.import);
            packets += 1;
            if packets % ROWS_MOST == 0 {
                take(std::mem::take(&mut rows))?;
            }
        }
        if self.import.tally.used == 0 {
            return Err(ImportError::NoSegments(self.import.tally.to_string()).into());
        }
        for (number, flow) in flows.into_open().into_iter().enumerate() {
            end(flow, &mut rows, &mut self.import);
            if number % FLOWS_MOST == 0 {
                take(std::mem::take(&mut rows))?;
            }
        }
        take(rows)?;
        self.import.last_ns = now_ns;
        self.import.dropped = self.files.iter().map(|it| it.reader.dropped).sum();
        Ok(self.import)
    }

    /// Takes the earliest packet of all files.
    fn next(&mut self) -> Option<(u64, Result<Segment, &'static str>)> {
        let files = self.files.iter_mut();
        let waiting = files.filter(|it| it.next.is_some());
        let file = waiting.min_by_key(|it| it.next.as_ref().map(|(time_ns, _)| *time_ns))?;
        let next = file.next.take();
        file.advance(&mut self.import.notes);
        next
    }
}
