//! Definitions on their way into the ring. They wait, in order, for as long as there is no room.

use std::collections::VecDeque;
use std::ffi::c_int;
use std::sync::atomic::Ordering;

use crate::collector::chunk_writer::ChunkWriter;
use crate::collector::system::{now_ns, thread_id};
use crate::layout::{TEXT_BYTES, WORD_MISSING};
use crate::region::Region;
use crate::wire::{ChunkOwner, RecordCode, RecordHead};

/// Definitions that may wait; more are given up, and stay counted as missing.
const WAITING_MAX: usize = 1 << 16;

/// A definition in words; the head is packed last, when the length is known.
pub(crate) struct Definition {
    head: RecordHead,
    words: Vec<u64>,
}

impl Definition {
    /// Begins a definition, with time and thread.
    pub(crate) fn new(head: RecordHead) -> Self {
        Definition {
            head,
            words: vec![0, now_ns(), u64::from(thread_id())],
        }
    }

    /// Makes the definition of a counter's context.
    pub(crate) fn from_context(
        counter: u32,
        context_type: c_int,
        number: u64,
        text: &[u8],
    ) -> Self {
        let detail = u8::try_from(context_type).unwrap_or(0);
        let head = RecordHead::with(RecordCode::CounterContext, detail, counter);
        Self::new(head).word(number).text(text)
    }

    /// Adds a number to the definition.
    pub(crate) fn word(mut self, word: u64) -> Self {
        self.words.push(word);
        self
    }

    /// Adds a text, cut after [`TEXT_BYTES`].
    pub(crate) fn text(mut self, text: &[u8]) -> Self {
        let text = &text[..text.len().min(TEXT_BYTES)];
        self.words.push(text.len() as u64);
        self.words.extend(text.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_ne_bytes(word)
        }));
        self
    }

    /// Returns the words of the definition, with its length in the head.
    fn finish(mut self) -> Vec<u64> {
        self.words[0] = self.head.pack(self.words.len(), false);
        self.words
    }
}

/// The way of a process's definitions into the ring.
pub(crate) struct DefinitionQueue {
    chunk_writer: ChunkWriter,
    waiting: VecDeque<Vec<u64>>,
    /// How many of those waiting are counted as missing in the ring.
    counted: usize,
    /// Whether the process's pid means the same to the recorder.
    is_same_namespace: bool,
}

impl DefinitionQueue {
    /// Makes an empty queue.
    pub(crate) const fn new() -> Self {
        DefinitionQueue {
            chunk_writer: ChunkWriter::new(),
            waiting: VecDeque::new(),
            counted: 0,
            is_same_namespace: false,
        }
    }

    /// Writes a definition, or queues it if there is no room.
    pub(crate) fn push(&mut self, region: &'static Region, definition: Definition) {
        if self.waiting.len() < WAITING_MAX {
            self.waiting.push_back(definition.finish());
        } else {
            region.word(WORD_MISSING).fetch_add(1, Ordering::Relaxed);
        }
        self.flush(region);
    }

    /// Writes queued definitions, as far as there is room; returns whether all were written.
    pub(crate) fn flush(&mut self, region: &'static Region) -> bool {
        let owner = ChunkOwner {
            pid: std::process::id(),
            tid: std::process::id(),
            is_same_namespace: self.is_same_namespace,
        };
        let pool = region.shape.definition_pool();
        while let Some(words) = self.waiting.front() {
            let room = self
                .chunk_writer
                .reserve(region, pool.clone(), owner.pack(), words.len());
            let Some(room) = room else {
                break;
            };
            for (place, word) in room.iter().zip(words) {
                place.store(*word, Ordering::Relaxed);
            }
            self.chunk_writer.commit(words.len());
            self.waiting.pop_front();
        }
        self.count_missing(region);
        self.waiting.is_empty()
    }

    /// Counts definitions for which the ring had no room.
    fn count_missing(&mut self, region: &Region) {
        let missing = region.word(WORD_MISSING);
        let waiting = self.waiting.len();
        if waiting > self.counted {
            missing.fetch_add((waiting - self.counted) as u64, Ordering::Relaxed);
        } else {
            missing.fetch_sub((self.counted - waiting) as u64, Ordering::Relaxed);
        }
        self.counted = waiting;
    }

    /// Empties the queue in a forked child: its entries belong to the parent.
    pub(crate) fn start(&mut self, region: &Region) {
        self.is_same_namespace = region.is_same_pid_namespace();
        self.chunk_writer.forget();
        self.waiting.clear();
        self.counted = 0;
    }
}
