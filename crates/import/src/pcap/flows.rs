//! Captures → rows. Several files are read side by side, in the order of time.

use std::io::Read;

use table::RowSet;

use super::Vantage;
use super::capture_import::CaptureImport;
use super::flow_table::FlowTable;
use super::segment::{Segment, parse};
use super::source::PacketReader;
use crate::ImportError;

/// The first packet has this time in the recording, so that times of the client's end may be before it.
const BEGIN_NS: u64 = 1_000_000_000;

/// Rows that are handed over together.
const ROWS_MOST: usize = 1 << 14;

/// Connections that end together, at the end of the capture: so many are written at a time.
const FLOWS_MOST: usize = 1 << 10;

/// A packet: its time, and its segment, or why it is none.
type CapturedPacket = (u64, Result<Segment, &'static str>);

/// One file, and its next packet.
struct FileInput {
    name: String,
    reader: PacketReader,
    next: Option<CapturedPacket>,
}

impl FileInput {
    /// Reads the next packet. A file that is damaged ends there.
    fn read_packet(&mut self, notes: &mut Vec<String>) {
        let next = self
            .reader
            .next(|head, data| (head.time_ns, parse(head, data)));
        self.next = next.unwrap_or_else(|error| {
            notes.push(format!("{}: {error}", self.name));
            None
        });
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
            input.read_packet(&mut import.notes);
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
        let mut flows = FlowTable::new(vantage);
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
        for (number, connection) in flows.into_open().enumerate() {
            self.import.finish(connection, &mut rows);
            if number % FLOWS_MOST == 0 {
                take(std::mem::take(&mut rows))?;
            }
        }
        take(rows)?;
        self.import.last_ns = now_ns;
        self.import.dropped = self.files.iter().map(|it| it.reader.dropped).sum();
        Ok(self.import)
    }

    /// Returns the earliest packet of all files.
    fn next(&mut self) -> Option<CapturedPacket> {
        let files = self.files.iter_mut();
        let waiting = files.filter(|it| it.next.is_some());
        let file = waiting.min_by_key(|it| it.next.as_ref().map(|(time_ns, _)| *time_ns))?;
        let next = file.next.take();
        file.read_packet(&mut self.import.notes);
        next
    }
}
