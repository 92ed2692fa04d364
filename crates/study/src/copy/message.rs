//! The message that all variants send: eight fields, each in a heap block of its own.
//!
//! The first word of each field is a stamp, the message's number, which its receiver checks in every message: a
//! buffer that was written to before it had left shows as a wrong one. The other words never change, so that the
//! checksum of a whole message is known to the receiver without it.

use std::io::{self, IoSlice};
use std::ops::Range;

/// Fields of a message (the published study: `char *field[8]`).
pub(super) const FIELDS: usize = 8;
/// Bytes of a stamp.
pub(super) const STAMP_BYTES: usize = 8;
/// A huge page of x86-64 and of most others.
const HUGE_BYTES: usize = 2 << 20;

/// Messages that are sent in turn.
pub(super) struct MessagePool {
    memory: PoolMemory,
    field_bytes: usize,
    slots: usize,
}

enum PoolMemory {
    /// Fields of all messages, each allocated by itself.
    Heap(Vec<Box<[u8]>>),
    /// The same in huge pages, `stride` bytes apart from `start` on.
    Huge {
        bytes: Vec<u8>,
        start: usize,
        stride: usize,
    },
}

impl MessagePool {
    /// Allocates `slots` messages of `size` bytes, which [`is_size`] accepts.
    pub(super) fn heap(slots: usize, size: usize) -> Self {
        let field_bytes = size / FIELDS;
        let blocks = (0..slots * FIELDS).map(|_| vec![0; field_bytes].into_boxed_slice());
        Self::fill_memory(PoolMemory::Heap(blocks.collect()), slots, field_bytes)
    }

    /// Allocates `slots` messages of `size` bytes in huge pages.
    ///
    /// # Errors
    /// When the kernel refuses the advice, or gave ordinary pages.
    pub(super) fn huge(slots: usize, size: usize) -> io::Result<Self> {
        const PAGE_BYTES: usize = 4096;
        let field_bytes = size / FIELDS;
        // not beside each other, as those of the heap are not
        let stride = field_bytes.next_multiple_of(PAGE_BYTES) + PAGE_BYTES;
        let used = (slots * FIELDS * stride).next_multiple_of(HUGE_BYTES);
        let mut bytes: Vec<u8> = Vec::new();
        bytes.try_reserve_exact(used + HUGE_BYTES)?;
        let start = bytes.as_ptr().align_offset(HUGE_BYTES);
        // SAFETY: the range lies within what was just reserved; the advice changes how it is backed, not what it
        // holds.
        let advised = unsafe {
            libc::madvise(
                bytes.as_mut_ptr().add(start).cast(),
                used,
                libc::MADV_HUGEPAGE,
            )
        };
        if advised != 0 {
            return Err(io::Error::last_os_error());
        }
        bytes.resize(used + HUGE_BYTES, 0);
        if huge_kib(bytes[start..].as_ptr() as usize)?.is_none_or(|kib| kib == 0) {
            return Err(io::Error::other(
                "the kernel gave ordinary pages in spite of MADV_HUGEPAGE",
            ));
        }
        let memory = PoolMemory::Huge {
            bytes,
            start,
            stride,
        };
        Ok(Self::fill_memory(memory, slots, field_bytes))
    }

    /// Fills all messages with their expected bytes.
    fn fill_memory(memory: PoolMemory, slots: usize, field_bytes: usize) -> Self {
        let mut pool = Self {
            memory,
            field_bytes,
            slots,
        };
        for slot in 0..slots {
            for field in 0..FIELDS {
                let words = field * pool.words()..(field + 1) * pool.words();
                for (bytes, word) in pool.field_mut(slot, field).chunks_exact_mut(8).zip(words) {
                    bytes.copy_from_slice(&body_word(word).to_le_bytes());
                }
            }
        }
        pool
    }

    /// Returns the number of 8-byte words in a field.
    fn words(&self) -> usize {
        self.field_bytes / 8
    }

    /// Returns the number of messages in the pool.
    pub(super) fn slots(&self) -> usize {
        self.slots
    }

    /// Returns the bytes of a message.
    pub(super) fn size(&self) -> usize {
        self.field_bytes * FIELDS
    }

    /// Returns the bytes of a field of a message.
    pub(super) fn field(&self, slot: usize, field: usize) -> &[u8] {
        let place = slot * FIELDS + field;
        match &self.memory {
            PoolMemory::Heap(blocks) => &blocks[place],
            PoolMemory::Huge {
                bytes,
                start,
                stride,
            } => &bytes[place_of(place, *start, *stride, self.field_bytes)],
        }
    }

    /// Returns the bytes of a field of a message, to change them.
    pub(super) fn field_mut(&mut self, slot: usize, field: usize) -> &mut [u8] {
        let place = slot * FIELDS + field;
        match &mut self.memory {
            PoolMemory::Heap(blocks) => &mut blocks[place],
            PoolMemory::Huge {
                bytes,
                start,
                stride,
            } => &mut bytes[place_of(place, *start, *stride, self.field_bytes)],
        }
    }

    /// Writes a message's number into its fields.
    pub(super) fn stamp(&mut self, slot: usize, number: u64) {
        for field in 0..FIELDS {
            self.field_mut(slot, field)[..STAMP_BYTES].copy_from_slice(&number.to_le_bytes());
        }
    }

    /// Returns the fields of a message from a byte of it on, as a gathering call takes them.
    pub(super) fn gather(&self, slot: usize, from: usize) -> impl Iterator<Item = IoSlice<'_>> {
        let (first, within) = (from / self.field_bytes, from % self.field_bytes);
        (first..FIELDS).map(move |field| {
            let bytes = self.field(slot, field);
            IoSlice::new(&bytes[if field == first { within } else { 0 }..])
        })
    }

    /// Copies a message into one buffer of its size: what the published study calls consolidation.
    pub(super) fn consolidate(&self, slot: usize, into: &mut [u8]) {
        for (field, part) in into.chunks_exact_mut(self.field_bytes).enumerate() {
            part.copy_from_slice(self.field(slot, field));
        }
    }
}

/// Returns the range of the bytes of one field.
fn place_of(place: usize, start: usize, stride: usize, bytes: usize) -> Range<usize> {
    let from = start + place * stride;
    from..from + bytes
}

/// Returns the KiB of huge pages in the mapping of an address; `None`: not listed.
fn huge_kib(address: usize) -> io::Result<Option<u64>> {
    let smaps = std::fs::read_to_string("/proc/self/smaps")?;
    let mut here = false;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else { continue };
        if let Some((from, to)) = first.split_once('-') {
            let bounds = [from, to].map(|hex| usize::from_str_radix(hex, 16));
            here = matches!(bounds, [Ok(from), Ok(to)] if (from..to).contains(&address));
        } else if here && first == "AnonHugePages:" {
            return Ok(words.next().and_then(|kib| kib.parse().ok()));
        }
    }
    Ok(None)
}

/// Returns whether messages can have this size: eight fields of whole words.
pub(super) fn is_size(size: usize) -> bool {
    size > 0 && size.is_multiple_of(FIELDS * STAMP_BYTES)
}

/// Returns the content of a word of a message that is no stamp.
fn body_word(word: usize) -> u64 {
    (word as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Returns the sum of all words, each times an odd number, so that their order counts.
fn checksum<'a>(fields: impl Iterator<Item = &'a [u8]>) -> u64 {
    let words = fields.flat_map(|bytes| bytes.as_chunks::<8>().0);
    let weighed = words
        .zip((1_u64..).step_by(2))
        .map(|(word, weight)| u64::from_le_bytes(*word).wrapping_mul(weight));
    weighed.fold(0, u64::wrapping_add)
}

/// Layout and checksum with which a receiver verifies each message.
pub(super) struct ExpectedMessage {
    field_bytes: usize,
    /// Of the words that never change.
    checksum: u64,
}

impl ExpectedMessage {
    /// Makes the message that clients expect.
    pub(super) fn new(size: usize) -> Self {
        let mut pool = MessagePool::heap(1, size);
        pool.stamp(0, 0);
        Self {
            field_bytes: size / FIELDS,
            checksum: checksum((0..FIELDS).map(|field| pool.field(0, field))),
        }
    }

    /// Demands that the fields of a message have its number; the error has the wrong field and
    /// stamp.
    pub(super) fn check_stamps<'a>(
        fields: impl Iterator<Item = &'a [u8]>,
        number: u64,
    ) -> Result<(), (usize, u64)> {
        for (field, bytes) in fields.enumerate() {
            let stamp = bytes
                .first_chunk()
                .map_or(0, |stamp| u64::from_le_bytes(*stamp));
            if stamp != number {
                return Err((field, stamp));
            }
        }
        Ok(())
    }

    /// Returns whether all bytes of a message are right.
    pub(super) fn is_whole<'a>(&self, fields: impl Iterator<Item = &'a [u8]>, number: u64) -> bool {
        let words = self.field_bytes as u64 / 8;
        let stamps = (0..FIELDS as u64).map(|field| number.wrapping_mul(2 * field * words + 1));
        stamps.fold(self.checksum, u64::wrapping_add) == checksum(fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_byte_is_detected_anywhere() {
        for size in [64, 512, 4096] {
            let (mut pool, expected) = (MessagePool::heap(2, size), ExpectedMessage::new(size));
            pool.stamp(1, 77);
            let mut whole = vec![0; size];
            pool.consolidate(1, &mut whole);
            let is_whole =
                |bytes: &[u8], number| expected.is_whole(bytes.chunks(size / FIELDS), number);
            let stamped = |bytes: &[u8], number| {
                ExpectedMessage::check_stamps(bytes.chunks(size / FIELDS), number)
            };
            assert_eq!(stamped(&whole, 77), Ok(()));
            assert!(is_whole(&whole, 77) && !is_whole(&whole, 78));
            assert_eq!(stamped(&whole, 78), Err((0, 77)));
            for at in 0..size {
                whole[at] ^= 0x10;
                assert!(!is_whole(&whole, 77), "byte {at} of {size}");
                whole[at] ^= 0x10;
            }
            if size > 64 {
                whole.swap(8, 16);
                assert!(!is_whole(&whole, 77));
            }
        }
    }

    #[test]
    fn gathered_fields_are_the_rest_of_a_message() {
        let pool = MessagePool::heap(3, 512);
        let mut whole = vec![0; 512];
        pool.consolidate(2, &mut whole);
        for from in [0, 1, 63, 64, 65, 511] {
            let parts: Vec<u8> = pool
                .gather(2, from)
                .flat_map(|part| part.to_vec())
                .collect();
            assert_eq!(parts, whole[from..]);
        }
    }

    #[test]
    fn sizes_have_whole_words_in_eight_fields() {
        assert!(is_size(64) && is_size(65_536) && !is_size(0) && !is_size(100) && !is_size(72));
    }
}
