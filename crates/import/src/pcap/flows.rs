//! All connections of a capture. Several files are read side by side, in the order of time.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::Read;
use std::net::SocketAddr;

use table::RowSet;

use super::Vantage;
use super::connection::Connection;
use super::due::{DueQueues, QueuedKinds};
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

/// A connection that lives.
struct Flow {
    connection: Connection,
    queued: QueuedKinds,
}

/// Connections that live.
#[derive(Default)]
struct FlowTable {
    /// Boxed: the table grows without moving them.
    flows: HashMap<FlowKey, Box<Flow>>,
    /// Connections to examine, by address and number.
    due: DueQueues<(FlowKey, u64)>,
    conns: u64,
    vantage: Vantage,
}

impl FlowTable {
    fn add(&mut self, segment: &Segment, rows: &mut RowSet, import: &mut CaptureImport) {
        let key = key(segment);
        let begin = |conns: &mut u64| {
            *conns += 2;
            Box::new(Flow {
                connection: Connection::new(*conns - 1, segment),
                queued: QueuedKinds::default(),
            })
        };
        let flow = match self.flows.entry(key) {
            Entry::Vacant(entry) => entry.insert(begin(&mut self.conns)),
            Entry::Occupied(entry) => {
                let flow = entry.into_mut();
                if flow.connection.is_replaced_by(segment) {
                    let old = std::mem::replace(flow, begin(&mut self.conns));
                    end(old.connection, rows, import);
                }
                flow
            }
        };
        let connection = &mut flow.connection;
        match connection.add(segment, self.vantage, rows) {
            true => import.tally.ignore("copies from another interface"),
            false => import.tally.use_one(),
        }
        let name = || (key, connection.conn);
        let is_waiting = |kind| connection.is_waiting(kind);
        self.due
            .push(segment.time_ns, &mut flow.queued, is_waiting, name);
    }

    /// Ends connections that are over by now.
    fn pass_time(&mut self, now_ns: u64, rows: &mut RowSet, import: &mut CaptureImport) {
        while let Some((kind, name)) = self.due.pop(now_ns) {
            let Entry::Occupied(mut entry) = self.flows.entry(name.0) else {
                continue;
            };
            let flow = entry.get_mut();
            if flow.connection.conn != name.1 {
                continue;
            }
            flow.queued.remove(kind);
            if flow.connection.pass_time(now_ns, rows) {
                end(entry.remove().connection, rows, import);
                continue;
            }
            let is_waiting = |kind| flow.connection.is_waiting(kind);
            self.due.push(now_ns, &mut flow.queued, is_waiting, || name);
        }
    }

    /// Returns the open connections, in the order in which they began.
    #[allow(clippy::vec_box)] // sorting moves pointers: a connection has some kilobytes
    fn into_open(self) -> Vec<Box<Flow>> {
        let flows = self.flows.into_values();
        let mut open: Vec<_> = flows.collect();
        open.sort_unstable_by_key(|flow| flow.connection.conn);
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
            end(flow.connection, &mut rows, &mut self.import);
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
