//! Writes the record of a call: finds the thread's state, checks that a recorder reads, writes the words.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence};

use crate::collector::chunk_writer::ChunkWriter;
use crate::collector::handles::{HandleEntry, HandleKind};
use crate::collector::state::{Collector, current_collector};
use crate::collector::system::{now_ns, thread_id};
use crate::layout::LossCause;
use crate::wire::{ChunkOwner, RecordHead};

/// State of one thread: its ids, whether it is recorded, and its chunk of the ring.
struct ThreadState {
    /// The process for which the rest was set up; no pid is this large.
    process: Cell<u64>,
    owner_word: Cell<u64>,
    tid: Cell<u32>,
    /// The thread is in the middle of a record.
    is_writing: Cell<bool>,
    is_ignored: Cell<bool>,
    chunk_writer: ChunkWriter,
}

thread_local! {
    static THREAD: ThreadState = const {
        ThreadState {
            process: Cell::new(u64::MAX),
            owner_word: Cell::new(0),
            tid: Cell::new(0),
            is_writing: Cell::new(false),
            is_ignored: Cell::new(false),
            chunk_writer: ChunkWriter::new(),
        }
    };
}

/// Writes the records of one call into the ring. It exists only while a recorder reads the ring, and stays on its
/// thread.
pub(crate) struct RecordWriter {
    pub(crate) collector: &'static Collector,
    thread: &'static ThreadState,
}

/// Time of a record.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RecordTime {
    /// Of this moment.
    Now,
    /// Of this time, ns.
    At(u64),
    /// Of this moment; the program gave a timestamp of some other clock.
    Given(u64),
}

/// Returns the writer of this thread; `None` if it is not recorded.
#[inline(always)]
pub(crate) fn record_writer() -> Option<RecordWriter> {
    let collector = current_collector()?;
    if collector.region.is_closed() {
        return None;
    }
    let thread = THREAD.with(std::ptr::from_ref);
    // SAFETY: it has no destructor, so that it is there as long as its thread, which a pen does
    // not leave: `Cell`s are not shared.
    let thread = unsafe { &*thread };
    let is_known = thread.process.get() == collector.identity.word();
    (is_known || enter(collector, thread)).then_some(RecordWriter { collector, thread })
}

/// Calls `call` if this thread is recorded.
#[inline]
pub(crate) fn with_writer(call: impl FnOnce(&RecordWriter)) {
    if let Some(writer) = record_writer() {
        call(&writer);
    }
}

/// Handles the first call of a thread, also after a fork; returns whether the thread is recorded.
#[cold]
fn enter(collector: &'static Collector, thread: &ThreadState) -> bool {
    if collector.is_silent() || thread.is_ignored.get() {
        return false;
    }
    let pid = collector.identity.remember();
    if thread.process.get() != pid {
        let owner = ChunkOwner {
            pid: pid as u32,
            tid: thread_id(),
            is_same_namespace: collector.region.is_same_pid_namespace(),
        };
        thread.tid.set(owner.tid);
        thread.owner_word.set(owner.pack());
        thread.is_writing.set(false);
        thread.chunk_writer.forget();
        thread.process.set(pid);
        collector.watch_thread_end();
    }
    true
}

/// Gives the chunk of a thread that ends back.
pub(crate) fn release_chunk(collector: &'static Collector) {
    THREAD.with(|thread| {
        if thread.process.get() == u64::from(std::process::id()) {
            thread.chunk_writer.retire(&collector.region);
        }
        // A call of another destructor sets the thread up again.
        thread.process.set(u64::MAX);
    });
}

impl RecordWriter {
    /// Writes a record with these words.
    #[inline(always)]
    pub(crate) fn write<const N: usize>(
        &self,
        head: RecordHead,
        stamp: RecordTime,
        words: [u64; N],
    ) {
        self.put(head, stamp, N, |room| {
            for (place, word) in room.iter().zip(words) {
                place.store(word, Ordering::Relaxed);
            }
        });
    }

    /// Writes a record; `fill` writes its words.
    #[inline(always)]
    pub(crate) fn put(
        &self,
        head: RecordHead,
        stamp: RecordTime,
        words: usize,
        fill: impl FnOnce(&[AtomicU64]),
    ) {
        if self.collector.has_waiting_names.load(Ordering::Relaxed) {
            self.collector.retry_names();
        }
        if self.thread.is_writing.replace(true) {
            return self.count_loss(LossCause::Interrupted);
        }
        // A signal handler of this thread must not see half a record without the mark.
        compiler_fence(Ordering::SeqCst);
        self.put_marked(head, stamp, words, fill);
        compiler_fence(Ordering::SeqCst);
        self.thread.is_writing.set(false);
    }

    /// Writes a record with head and time; `fill` writes the words behind.
    #[inline(always)]
    fn put_marked(
        &self,
        head: RecordHead,
        stamp: RecordTime,
        words: usize,
        fill: impl FnOnce(&[AtomicU64]),
    ) {
        let has_ticks = matches!(stamp, RecordTime::Given(_));
        let before = 2 + usize::from(has_ticks);
        let region = &self.collector.region;
        let room = self.thread.chunk_writer.reserve(
            region,
            region.shape.value_pool(),
            self.thread.owner_word.get(),
            before + words,
        );
        let Some(room) = room else {
            return self.count_loss(LossCause::Full);
        };
        let (start, rest) = room.split_at(before);
        start[0].store(head.pack(room.len(), has_ticks), Ordering::Relaxed);
        let time_ns = match stamp {
            RecordTime::At(time_ns) => time_ns,
            RecordTime::Now | RecordTime::Given(_) => now_ns(),
        };
        start[1].store(time_ns, Ordering::Relaxed);
        if let RecordTime::Given(ticks) = stamp {
            start[2].store(ticks, Ordering::Relaxed);
        }
        fill(rest);
        self.thread.chunk_writer.commit(room.len());
    }

    /// Returns the entry of a handle. A handle without an entry is counted.
    #[inline(always)]
    pub(crate) fn find_entry<T>(&self, handle: *const T, kind: HandleKind) -> Option<HandleEntry> {
        let entry = self.collector.handles.find(handle.addr());
        let entry = entry.filter(|entry| entry.is(kind));
        if entry.is_none() {
            self.count_loss(LossCause::Invalid);
        }
        entry
    }

    /// Returns the id of a text's handle as a word; 0 for none.
    #[inline(always)]
    pub(crate) fn text<T>(&self, handle: *const T) -> u64 {
        if handle.is_null() {
            return 0;
        }
        let entry = self.collector.handles.find(handle.addr());
        let entry = entry.filter(|entry| entry.is(HandleKind::Text));
        entry.map_or(0, |entry| entry.id().into())
    }

    /// Counts a record that is not written.
    #[cold]
    pub(crate) fn count_loss(&self, cause: LossCause) {
        self.collector
            .region
            .count_loss(self.thread.tid.get(), cause);
    }

    /// Records nothing more of this thread.
    pub(crate) fn ignore_thread(&self) {
        self.thread.is_ignored.set(true);
        self.thread.chunk_writer.retire(&self.collector.region);
        self.thread.process.set(u64::MAX);
    }

    /// Returns the stamp of an `_ex` call. Without a clock domain the timestamp should have come from
    /// `__itt_get_timestamp`, which is our clock; some programs give CPU ticks instead, which
    /// are kept as they are.
    pub(crate) fn stamp<T>(&self, clock: *const T, timestamp: u64) -> RecordTime {
        if clock.is_null() && (self.collector.started_ns..=now_ns()).contains(&timestamp) {
            RecordTime::At(timestamp)
        } else {
            RecordTime::Given(timestamp)
        }
    }
}
