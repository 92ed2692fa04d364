//! Layout of the ring file. This is the only description of it; all numbers are 64-bit
//! words in the machine's own byte order.
//!
//! ```text
//! byte 0      header     WORD_*: what the file is, whether anybody reads, what is missing
//! 4096        losses     LOSS_CELLS cells of 64 bytes; a thread counts in the one of its tid
//! 8192        controls   64 bytes a chunk: owner, committed, sequence, retired
//! then        chunks     `chunk_bytes` each, the first `definition_chunks` for definitions
//! ```
//!
//! A chunk belongs to one thread from the moment in which it puts itself into `owner` (compare
//! and swap) until the reader puts 0 there. The owner alone writes: it fills words after those
//! committed, then moves `committed` past them, so that a record is whole or not there, also when
//! the program is killed in between. It takes another chunk when a record no longer fits, and
//! marks the old one `retired`. The reader frees a chunk that is read to its end and retired, or
//! with a dead owner. Nothing is ever overwritten: without a free chunk, a record is counted as
//! lost. Definitions (names) have a chunk a process, of a pool that values cannot fill.
//!
//! A record is a head word (code, detail, length in words, id), the time in ns, then what
//! `wire::RecordCode` says.

use std::ops::Range;

/// First word of the file.
pub(crate) const MAGIC: u64 = u64::from_le_bytes(*b"whylatit");
/// Version of this layout and of the records. A collector of another version does nothing.
pub(crate) const VERSION: u64 = 1;
/// Bytes of a word.
pub(crate) const WORD_BYTES: usize = 8;
/// Memory page: the unit in which files are mapped (4,096 bytes, or a multiple of it).
const PAGE_BYTES: usize = 4096;
/// Words of a cell or a control: a cache line, so that threads do not share any.
const LINE_WORDS: usize = 8;

/// `MAGIC`.
pub(crate) const WORD_MAGIC: usize = 0;
/// `VERSION`.
pub(crate) const WORD_VERSION: usize = 1;
/// How many chunks there are.
pub(crate) const WORD_CHUNKS: usize = 2;
/// Bytes of a chunk.
pub(crate) const WORD_CHUNK_BYTES: usize = 3;
/// How many of the chunks are for definitions.
pub(crate) const WORD_DEFINITION_CHUNKS: usize = 4;
/// 1 once nobody reads any more.
pub(crate) const WORD_CLOSED: usize = 5;
/// Inode of the recorder's pid namespace; 0 if it is not known.
pub(crate) const WORD_PID_NAMESPACE: usize = 6;
/// How often the reader has freed chunks. In a cache line of its own, as it changes.
pub(crate) const WORD_FREED: usize = LINE_WORDS;
/// Id of the next definition.
pub(crate) const WORD_NEXT_ID: usize = 2 * LINE_WORDS;
/// How many definitions are not in the ring: they wait for room, or were given up.
pub(crate) const WORD_MISSING: usize = 3 * LINE_WORDS;

const LOSSES_AT: usize = PAGE_BYTES / WORD_BYTES;
const LOSS_CELLS: usize = 64;
const CONTROLS_AT: usize = LOSSES_AT + LOSS_CELLS * LINE_WORDS;

/// Longest text in a record. A longer one is cut: ittnotify itself keeps 4,096 bytes of a name.
pub(crate) const TEXT_BYTES: usize = 4000;
/// Smallest chunk: the longest record, a text with at most eight other words, fits.
const CHUNK_BYTES_MIN: usize = 2 * PAGE_BYTES;
const _: () = assert!(TEXT_BYTES + 8 * WORD_BYTES <= CHUNK_BYTES_MIN);
/// Largest file that is believed.
const FILE_BYTES_MAX: u64 = 1 << 36;

/// A word of a chunk's control.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChunkControl {
    /// The writer ([`crate::wire::ChunkOwner`]); 0 if there is none.
    Owner = 0,
    /// How many bytes are written.
    Committed = 1,
    /// Number of the chunk among its owner's, from 1; 0 while it is being taken.
    Sequence = 2,
    /// 1 if the owner will write no more.
    Retired = 3,
}

/// The reason why a record is not in the ring.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LossCause {
    /// No chunk was free.
    Full = 0,
    /// The call came from a signal handler that had interrupted another one.
    Interrupted = 1,
    /// The call had a handle that nobody had created, or no value.
    Invalid = 2,
}

/// Size of a ring. The file is allocated at once, in full, so that the program can never meet a full disk; on tmpfs
/// it is memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingShape {
    /// Chunks for values. Each thread that makes ITT calls holds one; a busy thread takes more.
    pub chunks: usize,
    /// Chunks for definitions. Each process that makes ITT calls holds one.
    pub definition_chunks: usize,
    /// Bytes of a chunk, a multiple of 4,096 and at least 8,192.
    pub chunk_bytes: usize,
}

impl Default for RingShape {
    /// 32 MiB for values: 1.3 million counter values between two readings, or 2,048 threads.
    fn default() -> Self {
        RingShape {
            chunks: 2048,
            definition_chunks: 128,
            chunk_bytes: 16 << 10,
        }
    }
}

impl RingShape {
    /// Returns the bytes of the ring's file; the error says why the shape is impossible.
    pub(crate) fn file_bytes(&self) -> Result<u64, &'static str> {
        let RingShape {
            chunks,
            definition_chunks,
            chunk_bytes,
        } = *self;
        if chunks == 0 || definition_chunks == 0 {
            return Err("it needs chunks for values and for definitions");
        }
        if chunk_bytes < CHUNK_BYTES_MIN || !chunk_bytes.is_multiple_of(PAGE_BYTES) {
            return Err("a chunk has a multiple of 4096 bytes, at least 8192");
        }
        let all = chunks as u128 + definition_chunks as u128;
        let control_bytes = LINE_WORDS * WORD_BYTES;
        let bytes = CONTROLS_AT as u128 * WORD_BYTES as u128
            + (all * control_bytes as u128).next_multiple_of(PAGE_BYTES as u128)
            + all * chunk_bytes as u128;
        match u64::try_from(bytes) {
            Ok(bytes) if bytes <= FILE_BYTES_MAX => Ok(bytes),
            _ => Err("it is larger than 64 GiB"),
        }
    }

    /// Returns the numbers of all chunks; those for definitions come first.
    pub(crate) fn all_chunks(&self) -> Range<usize> {
        0..self.definition_chunks + self.chunks
    }

    /// Returns the chunks for definitions.
    pub(crate) fn definition_pool(&self) -> Range<usize> {
        0..self.definition_chunks
    }

    /// Returns the chunks for values.
    pub(crate) fn value_pool(&self) -> Range<usize> {
        self.definition_chunks..self.definition_chunks + self.chunks
    }

    /// Returns the index of a word of a chunk's control.
    pub(crate) fn control_at(chunk: usize, field: ChunkControl) -> usize {
        CONTROLS_AT + chunk * LINE_WORDS + field as usize
    }

    /// Returns the indices of a chunk's words.
    pub(crate) fn chunk_at(&self, chunk: usize) -> Range<usize> {
        let controls = self.all_chunks().len() * LINE_WORDS;
        let first = CONTROLS_AT + controls.next_multiple_of(PAGE_BYTES / WORD_BYTES);
        let words = self.chunk_bytes / WORD_BYTES;
        first + chunk * words..first + (chunk + 1) * words
    }

    /// Returns the index of the word in which this thread counts losses of this cause.
    pub(crate) fn loss_at(tid: u32, cause: LossCause) -> usize {
        LOSSES_AT + (tid as usize % LOSS_CELLS) * LINE_WORDS + cause as usize
    }

    /// Returns the indices of all words that count losses of this cause.
    pub(crate) fn losses_at(cause: LossCause) -> impl Iterator<Item = usize> {
        (0..LOSS_CELLS).map(move |cell| LOSSES_AT + cell * LINE_WORDS + cause as usize)
    }
}
