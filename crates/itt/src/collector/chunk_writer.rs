//! The chunk into which one thread writes, and how it gets the next one.

use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::layout::{ChunkControl, WORD_BYTES, WORD_FREED};
use crate::region::Region;

/// A chunk that belongs to the thread.
#[derive(Clone, Copy)]
struct Chunk {
    index: usize,
    words: &'static [AtomicU64],
    committed: &'static AtomicU64,
}

/// Chunk of the ring into which one writer writes, and its place in it.
pub(crate) struct ChunkWriter {
    chunk: Cell<Option<Chunk>>,
    used_words: Cell<usize>,
    /// How many chunks this writer has had.
    sequence: Cell<u64>,
    /// How often chunks had been freed when none was found. Until that changes, none is there.
    full_at: Cell<Option<u64>>,
}

impl ChunkWriter {
    /// Makes a lane without a chunk.
    pub(crate) const fn new() -> Self {
        ChunkWriter {
            chunk: Cell::new(None),
            used_words: Cell::new(0),
            sequence: Cell::new(0),
            full_at: Cell::new(None),
        }
    }

    /// Returns room for a record of `words` words; `None` if no chunk is free.
    #[inline(always)]
    pub(crate) fn reserve(
        &self,
        region: &'static Region,
        pool: Range<usize>,
        owner_word: u64,
        words: usize,
    ) -> Option<&'static [AtomicU64]> {
        let used = self.used_words.get();
        if let Some(chunk) = self.chunk.get()
            && let Some(room) = chunk.words.get(used..used + words)
        {
            return Some(room);
        }
        self.take_chunk(region, pool, owner_word, words)
    }

    /// Makes the record in the reserved room visible to the reader at once.
    #[inline(always)]
    pub(crate) fn commit(&self, words: usize) {
        if let Some(chunk) = self.chunk.get() {
            let used = self.used_words.get() + words;
            self.used_words.set(used);
            let bytes = (used * WORD_BYTES) as u64;
            chunk.committed.store(bytes, Ordering::Release);
        }
    }

    /// Takes a free chunk of the pool for this thread; None if the pool is full.
    #[cold]
    fn take_chunk(
        &self,
        region: &'static Region,
        pool: Range<usize>,
        owner_word: u64,
        words: usize,
    ) -> Option<&'static [AtomicU64]> {
        self.retire(region);
        // Read before the search, so that a chunk freed meanwhile is searched for again.
        let freed = region.word(WORD_FREED).load(Ordering::Acquire);
        if self.full_at.get() == Some(freed) {
            return None;
        }
        let found = pool.into_iter().find(|chunk| {
            let owner = region.control(*chunk, ChunkControl::Owner);
            owner.load(Ordering::Relaxed) == 0
                && owner
                    .compare_exchange(0, owner_word, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
        });
        let Some(index) = found else {
            self.full_at.set(Some(freed));
            return None;
        };
        self.sequence.set(self.sequence.get() + 1);
        let sequence = region.control(index, ChunkControl::Sequence);
        sequence.store(self.sequence.get(), Ordering::Release);
        let chunk = Chunk {
            index,
            words: region.chunk(index),
            committed: region.control(index, ChunkControl::Committed),
        };
        self.chunk.set(Some(chunk));
        self.used_words.set(0);
        chunk.words.get(..words)
    }

    /// Ends the chunk: nothing more is written into it, and the reader may free it.
    pub(crate) fn retire(&self, region: &Region) {
        if let Some(chunk) = self.chunk.take() {
            let retired = region.control(chunk.index, ChunkControl::Retired);
            retired.store(1, Ordering::Release);
        }
    }

    /// Forgets the chunk after a fork: it belongs to the parent process.
    pub(crate) fn forget(&self) {
        self.chunk.set(None);
        self.sequence.set(0);
        self.full_at.set(None);
    }
}
