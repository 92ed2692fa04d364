//! The container `perf.data`: its header, the attributes of its events, and its records
//! (`tools/perf/Documentation/perf.data-file-format.txt`). Files as written by `perf record`, and
//! streams as written by `perf record -o -`.

use super::bytes::FieldReader;
use crate::error::ImportError;

const MAGIC: &[u8] = b"PERFILE2";
const FILE_HEADER_LEN: u64 = 104;
const PIPE_HEADER_LEN: u64 = 16;

/// Records of the kernel (`enum perf_event_type`) and of perf (`enum perf_user_event_type`).
pub(crate) mod record_type {
    pub(crate) const MMAP: u32 = 1;
    pub(crate) const LOST: u32 = 2;
    pub(crate) const COMM: u32 = 3;
    pub(crate) const SAMPLE: u32 = 9;
    pub(crate) const MMAP2: u32 = 10;
    pub(crate) const AUX: u32 = 11;
    pub(crate) const ITRACE_START: u32 = 12;
    pub(crate) const SWITCH_CPU_WIDE: u32 = 15;
    pub(crate) const HEADER_ATTR: u32 = 64;
    pub(crate) const TRACING_DATA: u32 = 66;
    pub(crate) const AUXTRACE_INFO: u32 = 70;
    pub(crate) const AUXTRACE: u32 = 71;
    pub(crate) const TIME_CONV: u32 = 79;
    pub(crate) const COMPRESSED: u32 = 81;
}

/// Fields of `sample_type` that stand at the end of every record, in this order
/// (`PERF_SAMPLE_TID` and so on).
const SAMPLE_TID: u64 = 1 << 1;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_ID: u64 = 1 << 6;
const SAMPLE_CPU: u64 = 1 << 7;
const SAMPLE_STREAM_ID: u64 = 1 << 9;
const SAMPLE_IDENTIFIER: u64 = 1 << 16;
/// Bit of the attribute's flags: all records have them.
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// Attributes of an event (`struct perf_event_attr`), as far as they are needed here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct EventAttr {
    pub(crate) pmu: u32,
    pub(crate) config: u64,
    sample_type: u64,
    flags: u64,
}

/// One record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PerfRecord<'a> {
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    /// The bytes after the record's header.
    pub(crate) body: &'a [u8],
    /// Trace data that follows an AUXTRACE record.
    pub(crate) trace: &'a [u8],
}

/// Thread, time and CPU from the end of a kernel's record (`sample_id_all`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RecordStamp {
    pub(crate) pid: Option<u32>,
    pub(crate) tid: Option<u32>,
    pub(crate) time_ns: Option<u64>,
    pub(crate) cpu: Option<u32>,
}

/// A file taken apart.
#[derive(Debug, Default)]
pub(crate) struct PerfData<'a> {
    pub(crate) attrs: Vec<EventAttr>,
    pub(crate) records: Vec<PerfRecord<'a>>,
    /// Where the records break off, and why.
    pub(crate) damage: Option<String>,
}

/// Returns whether a file begins as perf.data does, in either byte order.
pub(crate) fn is_perf_data(bytes: &[u8]) -> bool {
    bytes.starts_with(MAGIC) || bytes.starts_with(b"2ELIFREP")
}

impl<'a> PerfData<'a> {
    /// Takes a file apart. One that was cut off gives the records until there.
    ///
    /// # Errors
    /// When its header makes no sense.
    pub(crate) fn parse(bytes: &'a [u8]) -> Result<Self, ImportError> {
        if !bytes.starts_with(MAGIC) {
            return Err(ImportError::ByteOrder);
        }
        let damaged = |what| ImportError::Damaged { what };
        let mut header = FieldReader(&bytes[MAGIC.len()..]);
        let header_len = header.u64().ok_or(damaged("its header is cut off"))?;
        let mut file = Self::default();
        match header_len {
            PIPE_HEADER_LEN => file.read_records(bytes, PIPE_HEADER_LEN, bytes.len() as u64),
            FILE_HEADER_LEN => {
                let (begin, end) = file
                    .read_header(bytes, header)
                    .ok_or(damaged("its header points outside the file"))?;
                file.read_records(bytes, begin, end);
            }
            _ => return Err(damaged("its header has an unknown length")),
        }
        Ok(file)
    }

    /// Reads the attributes; returns where the records are.
    fn read_header(&mut self, bytes: &[u8], mut header: FieldReader<'_>) -> Option<(u64, u64)> {
        let attr_len = header.u64()?;
        let (attrs_begin, attrs_len) = (header.u64()?, header.u64()?);
        let (data_begin, data_len) = (header.u64()?, header.u64()?);
        let attrs = byte_range(bytes, attrs_begin, attrs_begin.checked_add(attrs_len)?)?;
        let attr_len = usize::try_from(attr_len).ok().filter(|len| *len >= 64)?;
        let attrs = attrs.chunks_exact(attr_len).map(EventAttr::parse);
        self.attrs = attrs.collect::<Option<_>>()?;
        // Zero: perf was killed before it could say how long they are.
        let end = match data_len {
            0 => bytes.len() as u64,
            _ => data_begin.checked_add(data_len)?,
        };
        Some((data_begin, end))
    }

    /// Reads all records between two offsets of the file; stops at one that is cut off.
    fn read_records(&mut self, bytes: &'a [u8], begin: u64, end: u64) {
        let mut at = begin;
        while at < end {
            let Some((record, next)) = record_at(bytes, at) else {
                self.damage = Some(format!("the record at byte {at:#x} is cut off"));
                return;
            };
            if record.kind == record_type::HEADER_ATTR {
                self.attrs.extend(EventAttr::parse(record.body));
            }
            self.records.push(record);
            at = next;
        }
    }

    /// Returns the fields at the end of a kernel's record. All events agree on it, or perf would not have
    /// set it for all.
    pub(crate) fn stamp(&self, record: &PerfRecord<'_>) -> RecordStamp {
        let all = |attr: &&EventAttr| attr.flags & SAMPLE_ID_ALL != 0;
        let Some(attr) = self.attrs.iter().find(all) else {
            return RecordStamp::default();
        };
        stamp(record.body, attr.sample_type).unwrap_or_default()
    }
}

impl EventAttr {
    /// Reads the attributes of an event; None if they are cut off.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut fields = FieldReader(bytes);
        let pmu = fields.u32()?;
        fields.u32()?;
        let config = fields.u64()?;
        fields.u64()?;
        let sample_type = fields.u64()?;
        fields.u64()?;
        let flags = fields.u64()?;
        Some(Self {
            pmu,
            config,
            sample_type,
            flags,
        })
    }
}

/// Returns the record at a byte, and the place of the next one.
fn record_at(bytes: &[u8], at: u64) -> Option<(PerfRecord<'_>, u64)> {
    let mut header = FieldReader(byte_range(bytes, at, at.checked_add(8)?)?);
    let (kind, misc, len) = (header.u32()?, header.u16()?, header.u16()?);
    let end = at.checked_add(u64::from(len))?;
    let body = byte_range(bytes, at + 8, end)?;
    let following = match kind {
        record_type::AUXTRACE => FieldReader(body).u64()?,
        record_type::TRACING_DATA => u64::from(FieldReader(body).u32()?).next_multiple_of(8),
        _ => 0,
    };
    let next = end.checked_add(following)?;
    let trace = byte_range(bytes, end, next)?;
    let record = PerfRecord {
        kind,
        misc,
        body,
        trace,
    };
    Some((record, next))
}

/// Returns the bytes between two offsets; None if the file is shorter.
fn byte_range(bytes: &[u8], begin: u64, end: u64) -> Option<&[u8]> {
    bytes.get(usize::try_from(begin).ok()?..usize::try_from(end).ok()?)
}

/// Reads time, thread and CPU from a record's end; None if it is too short.
fn stamp(body: &[u8], sample_type: u64) -> Option<RecordStamp> {
    let present = [
        SAMPLE_TID,
        SAMPLE_TIME,
        SAMPLE_ID,
        SAMPLE_STREAM_ID,
        SAMPLE_CPU,
        SAMPLE_IDENTIFIER,
    ];
    let count = present
        .iter()
        .filter(|bit| sample_type & **bit != 0)
        .count();
    let mut fields = FieldReader(body.get(body.len().checked_sub(count * 8)?..)?);
    let mut stamp = RecordStamp::default();
    if sample_type & SAMPLE_TID != 0 {
        (stamp.pid, stamp.tid) = (known_id(fields.u32()?), known_id(fields.u32()?));
    }
    if sample_type & SAMPLE_TIME != 0 {
        stamp.time_ns = Some(fields.u64()?);
    }
    if sample_type & SAMPLE_ID != 0 {
        fields.u64()?;
    }
    if sample_type & SAMPLE_STREAM_ID != 0 {
        fields.u64()?;
    }
    if sample_type & SAMPLE_CPU != 0 {
        stamp.cpu = Some(fields.u32()?);
    }
    Some(stamp)
}

/// Returns a process or thread id; -1 means none.
pub(crate) fn known_id(id: u32) -> Option<u32> {
    Some(id).filter(|id| *id != u32::MAX)
}
