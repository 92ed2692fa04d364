//! The ring through which the kernel hands over records of an event of perf (perf_event_open(2), "MMAP layout").

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use memmap2::{MmapOptions, MmapRaw};

/// `data_head` and `data_tail` of `struct perf_event_mmap_page`.
const HEAD: usize = 1024;
const TAIL: usize = 1032;

/// Bytes of `struct perf_event_header`: kind, `misc`, bytes of the record.
const HEADER: usize = 8;

/// A ring of one event; only whoever has it reads it.
#[derive(Debug)]
pub(crate) struct PerfRing {
    memory: MmapRaw,
    page: usize,
    /// The kernel writes until it is closed.
    _event: OwnedFd,
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PerfRecord<'a> {
    /// `PERF_RECORD_…`.
    pub(crate) kind: u32,
    pub(crate) misc: u16,
    /// Bytes after the header.
    pub(crate) body: &'a [u8],
}

impl PerfRing {
    /// Maps the ring of an event, with so many bytes for records: a power of two; a page if that is larger.
    pub(crate) fn map(event: OwnedFd, bytes: usize) -> io::Result<Self> {
        // SAFETY: sysconf reads a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        let page = usize::try_from(page).map_err(io::Error::other)?;
        let memory = MmapOptions::new()
            .len(page + bytes.max(page))
            .map_raw(event.as_raw_fd())?;
        Ok(Self {
            memory,
            page,
            _event: event,
        })
    }

    /// Hands over all records that the kernel has written, and makes room for others.
    pub(crate) fn drain(&mut self, mut take: impl FnMut(PerfRecord<'_>)) {
        let head = self.position(HEAD).load(Ordering::Acquire);
        let tail = self.position(TAIL).load(Ordering::Relaxed);
        let bytes = self.copy(tail, head);
        self.position(TAIL).store(head, Ordering::Release);
        let mut rest = bytes.as_slice();
        while let Some((record, after)) = split_record(rest) {
            take(record);
            rest = after;
        }
    }

    /// Returns a position that is shared with the kernel.
    fn position(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: the first page is mapped as long as `self` lives; both positions are aligned u64 in it, which the kernel, too,
        // reads and writes whole.
        unsafe { &*self.memory.as_ptr().add(offset).cast::<AtomicU64>() }
    }

    /// Copies what lies between two positions. The kernel does not touch it before the tail has moved.
    fn copy(&self, tail: u64, head: u64) -> Vec<u8> {
        let room = self.memory.len() - self.page;
        let bytes = usize::try_from(head.wrapping_sub(tail)).unwrap_or(0);
        let begin = usize::try_from(tail).unwrap_or(0) & (room - 1);
        let bytes = bytes.min(room);
        let first = bytes.min(room - begin);
        let mut copied = Vec::with_capacity(bytes);
        for (offset, part) in [(begin, first), (0, bytes - first)] {
            // SAFETY: `offset + part` is at most `room`, which is mapped behind the first page; the kernel has written these
            // bytes, and writes there again only after the tail has moved.
            copied.extend_from_slice(unsafe {
                std::slice::from_raw_parts(self.memory.as_ptr().add(self.page + offset), part)
            });
        }
        copied
    }
}

/// Returns the first record, and what follows; None if there is no whole one.
fn split_record(bytes: &[u8]) -> Option<(PerfRecord<'_>, &[u8])> {
    let (header, _) = bytes.split_first_chunk::<HEADER>()?;
    let kind = u32::from_ne_bytes(header[..4].try_into().ok()?);
    let misc = u16::from_ne_bytes(header[4..6].try_into().ok()?);
    let length = u16::from_ne_bytes(header[6..].try_into().ok()?);
    let (record, rest) = bytes.split_at_checked(usize::from(length))?;
    let body = record.get(HEADER..)?;
    Some((PerfRecord { kind, misc, body }, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_ends_where_its_length_says() {
        let bytes = [3, 0, 0, 0, 1, 2, 10, 0, 7, 8, 9];
        let (record, rest) = split_record(&bytes).expect("a record");
        let expected = PerfRecord {
            kind: 3,
            misc: 0x201,
            body: &[7, 8],
        };
        assert_eq!((record, rest), (expected, &[9][..]));
        for cut in 0..10 {
            assert_eq!(split_record(&bytes[..cut]), None, "{cut}");
        }
        // a length below the header's is no record: the ring is left alone
        assert_eq!(split_record(&[3, 0, 0, 0, 0, 0, 4, 0, 7]), None);
    }
}
