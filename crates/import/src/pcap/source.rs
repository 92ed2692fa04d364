//! One capture file → its packets: pcap and pcapng, plain or compressed by gzip or zstd.

use std::io::Read;

use pcap_parser::traits::{PcapNGPacketBlock, PcapReaderIterator};
use pcap_parser::{Block, Linktype, PcapBlockOwned, PcapError, PcapHeader, create_reader};

use crate::ImportError;

/// Bytes of the file in memory at first. One packet of the largest snapshot length (262,144 bytes, `MAXIMUM_SNAPLEN` of
/// libpcap) fits, with its block.
const BUFFER_BYTES: usize = 1 << 20;

/// A block of more bytes than this is damage.
const BLOCK_MOST_BYTES: usize = 64 << 20;

/// Interfaces of a section that are kept, so that a damaged file takes no memory.
const INTERFACES_MOST: usize = 65_536;

const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

const NS_PER_S: u64 = 1_000_000_000;

/// Header of a captured packet: pcap's record header, or a packet block of pcapng.
#[derive(Debug, Clone, Copy)]
pub struct PacketHead {
    /// When it was captured, since 1970.
    pub time_ns: u64,
    /// Link type (`LINKTYPE_ETHERNET` = 1, …).
    pub link: i32,
    /// Bytes that it had on the wire.
    pub wire_bytes: u32,
}

/// Interface of a pcapng section, or the one of a pcap file.
#[derive(Debug, Clone, Copy)]
struct Interface {
    link: Linktype,
    /// Steps of its clock per second.
    steps_per_s: u64,
    offset_s: i64,
    snaplen: u32,
}

impl Interface {
    /// Returns the interface of a pcap file, which has only one.
    fn from_header(header: &PcapHeader) -> Self {
        Self {
            link: header.network,
            steps_per_s: match header.is_nanosecond_precision() {
                true => NS_PER_S,
                false => 1_000_000,
            },
            offset_s: 0,
            snaplen: header.snaplen,
        }
    }

    /// Converts a time of the interface's clock to ns since 1970.
    fn time_ns(&self, steps: u64) -> u64 {
        let steps_per_s = self.steps_per_s.max(1);
        // Steps of micro- or nanoseconds, the usual ones, need no division of 128 bits.
        if self.offset_s == 0 && NS_PER_S.is_multiple_of(steps_per_s) {
            return steps.saturating_mul(NS_PER_S / steps_per_s);
        }
        let ns = u128::from(steps) * u128::from(NS_PER_S) / u128::from(steps_per_s);
        let ns = i128::try_from(ns).unwrap_or(i128::MAX);
        let ns = ns.saturating_add(i128::from(self.offset_s) * i128::from(NS_PER_S));
        u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
    }
}

/// Reads the packets of one file.
pub struct PacketReader {
    reader: Box<dyn PcapReaderIterator + Send>,
    interfaces: Vec<Interface>,
    /// Time of the last packet: those of simple packet blocks have none of their own.
    last_ns: u64,
    /// Bytes of packets that the capturing host dropped, as the file says.
    pub dropped: u64,
}

/// Step of reading a file.
enum Step<T> {
    Done(T),
    /// Consume so many bytes and go on.
    Skip(usize),
    /// More bytes are needed, or more room for them.
    More {
        grow: bool,
    },
    /// The file ends here, maybe within a block.
    End {
        is_cut: bool,
    },
}

impl PacketReader {
    /// Opens a capture file by its first bytes.
    ///
    /// # Errors
    /// When it is no capture.
    pub fn new(mut bytes: Box<dyn Read + Send>) -> Result<Self, ImportError> {
        let mut magic = [0; 4];
        let mut filled = 0;
        while filled < magic.len() {
            match bytes.read(&mut magic[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(ImportError::Unreadable(error.to_string())),
            }
        }
        let begin = std::io::Cursor::new(magic).take(filled as u64);
        let whole: Box<dyn Read + Send> = Box::new(begin.chain(bytes));
        let plain: Box<dyn Read + Send> = if magic.starts_with(&GZIP_MAGIC) {
            Box::new(flate2::read::MultiGzDecoder::new(whole))
        } else if magic == ZSTD_MAGIC {
            let decoder = zstd::stream::read::Decoder::new(whole);
            Box::new(decoder.map_err(|error| ImportError::Unreadable(error.to_string()))?)
        } else {
            whole
        };
        let reader = create_reader(BUFFER_BYTES, FullReader(plain));
        Ok(Self {
            reader: reader.map_err(|_| ImportError::NotCapture)?,
            interfaces: Vec::new(),
            last_ns: 0,
            dropped: 0,
        })
    }

    /// Takes the next packet by `take`. Returns what that returns; `None`: there are no more.
    ///
    /// # Errors
    /// When the file is damaged, or cannot be read. What came before stays right.
    pub fn next<T>(
        &mut self,
        mut take: impl FnMut(PacketHead, &[u8]) -> T,
    ) -> Result<Option<T>, ImportError> {
        loop {
            match self.step(&mut take)? {
                Step::Done(taken) => return Ok(Some(taken)),
                Step::Skip(bytes) => self.reader.consume(bytes),
                Step::More { grow } => self.refill_buffer(grow)?,
                Step::End { is_cut: false } => return Ok(None),
                Step::End { is_cut: true } => return Err(ImportError::CaptureCut),
            }
        }
    }

    /// Reads more of the file; `grow` makes the buffer larger first.
    fn refill_buffer(&mut self, grow: bool) -> Result<(), ImportError> {
        if grow {
            let room = (self.reader.data().len() * 2).max(BUFFER_BYTES * 2);
            if room > BLOCK_MOST_BYTES || !self.reader.grow(room) {
                return Err(ImportError::CaptureDamaged);
            }
        }
        let refilled = self.reader.refill();
        refilled.map_err(|_| ImportError::Unreadable("reading stopped".to_owned()))
    }

    /// Reads one block, and calls `take` with its packet.
    fn step<T>(
        &mut self,
        take: &mut impl FnMut(PacketHead, &[u8]) -> T,
    ) -> Result<Step<T>, ImportError> {
        let (bytes, block) = match self.reader.next() {
            Ok(next) => next,
            Err(PcapError::Eof) => return Ok(Step::End { is_cut: false }),
            Err(PcapError::UnexpectedEof) => {
                let is_cut = !self.reader.data().is_empty();
                return Ok(Step::End { is_cut });
            }
            Err(PcapError::Incomplete(_)) => return Ok(Step::More { grow: false }),
            Err(PcapError::BufferTooSmall) => return Ok(Step::More { grow: true }),
            Err(_) => return Err(ImportError::CaptureDamaged),
        };
        let head = match &block {
            PcapBlockOwned::LegacyHeader(header) => {
                self.interfaces = vec![Interface::from_header(header)];
                None
            }
            PcapBlockOwned::Legacy(packet) => self.interfaces.first().map(|interface| {
                let steps = u64::from(packet.ts_sec) * interface.steps_per_s;
                let steps = steps + u64::from(packet.ts_usec);
                (
                    interface.time_ns(steps),
                    *interface,
                    packet.origlen,
                    packet.data,
                )
            }),
            PcapBlockOwned::NG(block) => {
                read_block(block, &mut self.interfaces, &mut self.dropped, self.last_ns)
            }
        };
        let Some((time_ns, interface, wire_bytes, data)) = head else {
            return Ok(Step::Skip(bytes));
        };
        let head = PacketHead {
            time_ns,
            link: interface.link.0,
            wire_bytes,
        };
        let taken = take(head, data);
        self.last_ns = time_ns;
        self.reader.consume(bytes);
        Ok(Step::Done(taken))
    }
}

/// A packet within a block: its time, its interface, its length on the wire and its captured bytes.
type BlockPacket<'a> = (u64, Interface, u32, &'a [u8]);

/// Returns the packet of a block; None if the block describes interfaces or is unknown.
fn read_block<'a>(
    block: &'a Block<'_>,
    interfaces: &mut Vec<Interface>,
    dropped: &mut u64,
    last_ns: u64,
) -> Option<BlockPacket<'a>> {
    match block {
        Block::SectionHeader(_) => interfaces.clear(),
        Block::InterfaceDescription(it) if interfaces.len() < INTERFACES_MOST => {
            interfaces.push(Interface {
                link: it.linktype,
                steps_per_s: it.ts_resolution().unwrap_or(1_000_000),
                offset_s: it.ts_offset(),
                snaplen: it.snaplen,
            });
        }
        Block::InterfaceStatistics(it) => {
            let count = it.isb_ifdrop().and_then(Result::ok).unwrap_or(0);
            let by_os = it.isb_osdrop().and_then(Result::ok).unwrap_or(0);
            *dropped = dropped.saturating_add(count.max(by_os));
        }
        Block::EnhancedPacket(it) => {
            let interface = *interfaces.get(it.if_id as usize)?;
            let steps = u64::from(it.ts_high) << 32 | u64::from(it.ts_low);
            let time_ns = interface.time_ns(steps);
            return Some((time_ns, interface, it.origlen, it.packet_data()));
        }
        Block::SimplePacket(it) => {
            let interface = *interfaces.first()?;
            let data = it.packet_data();
            let most = match interface.snaplen {
                0 => data.len(),
                snaplen => data.len().min(snaplen as usize),
            };
            return Some((last_ns, interface, it.origlen, &data[..most]));
        }
        _ => {}
    }
    None
}

/// Fills the whole of what is asked for, but at the end: a decoder or a pipe gives less, which the parser takes for the
/// end of a file that is shorter than a block.
struct FullReader(Box<dyn Read + Send>);

impl Read for FullReader {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while filled < room.len() {
            match self.0.read(&mut room[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                // a compressed file that is cut: what came before is whole
                Err(_) if filled > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(filled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_any_clock_are_nanoseconds() {
        let time_ns = |steps_per_s, offset_s, steps| {
            let interface = Interface {
                link: Linktype(1),
                steps_per_s,
                offset_s,
                snaplen: 0,
            };
            interface.time_ns(steps)
        };
        assert_eq!(
            time_ns(1_000_000, 0, 1_700_000_000_000_001),
            1_700_000_000_000_001_000
        );
        assert_eq!(time_ns(NS_PER_S, 0, 7), 7);
        assert_eq!(time_ns(1, 0, 2), 2 * NS_PER_S);
        assert_eq!(time_ns(1_000_000, 3, 5), 3 * NS_PER_S + 5_000);
        assert_eq!(time_ns(1_000_000, -1, 5), 0);
        assert_eq!(time_ns(1 << 20, 0, 1 << 19), NS_PER_S / 2);
        assert_eq!(time_ns(10 * NS_PER_S, 0, 25), 2);
        assert_eq!(time_ns(0, 0, 1), NS_PER_S);
        assert_eq!(time_ns(1, 0, u64::MAX), u64::MAX);
    }
}
