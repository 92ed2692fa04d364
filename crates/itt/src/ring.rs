//! The recorder's end of the ring: creates it, reads it, says when nobody reads any more.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use crate::decode::decode;
use crate::error::Error;
use crate::layout::{
    ChunkControl, LossCause, RingShape, WORD_BYTES, WORD_CLOSED, WORD_FREED, WORD_MISSING,
};
use crate::losses::Losses;
use crate::record::Record;
use crate::region::Region;
use crate::wire::ChunkOwner;

/// No count of losses is larger: programs may write anything into the ring, and sums of counts must not overflow.
const MOST_LOST: u64 = 1 << 56;

/// A ring that programs write into and the recorder reads.
#[derive(Debug)]
pub struct Ring {
    region: Region,
    path: PathBuf,
    /// For each chunk, how many of its words were read.
    read_words: Vec<usize>,
    damaged_chunks: u64,
}

/// A chunk that has an owner, as it was at one moment.
#[derive(Debug, Clone, Copy)]
struct HeldChunk {
    chunk: usize,
    owner_word: u64,
    owner: ChunkOwner,
    sequence: u64,
    words: usize,
    is_retired: bool,
}

impl Ring {
    /// Creates the ring's file, which must not exist, readable by its owner only. The recorder
    /// removes it; a directory in memory (`/dev/shm`) spares the disk.
    pub fn create(path: &Path, shape: RingShape) -> Result<Self, Error> {
        let region = Region::create(path, shape)?;
        Ok(Ring::from_region(region, path.to_owned()))
    }

    /// Creates a ring in memory that has no name in any file system: it is gone with the last
    /// process that has its descriptor or maps it. Programs find it as `/proc/PID/fd/N` of a
    /// process that has the descriptor and that they may look into; [`Ring::path`] is that of this
    /// process.
    pub fn nameless(shape: RingShape) -> Result<(Self, OwnedFd), Error> {
        let (region, fd) = Region::create_nameless(shape)?;
        let path = format!("/proc/{}/fd/{}", std::process::id(), fd.as_raw_fd());
        Ok((Ring::from_region(region, path.into()), fd))
    }

    /// Makes the reader of a ring.
    fn from_region(region: Region, path: PathBuf) -> Self {
        Ring {
            read_words: vec![0; region.shape.all_chunks().len()],
            region,
            path,
            damaged_chunks: 0,
        }
    }

    /// Returns the file, for [`crate::RING_VARIABLE`].
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Calls `take` for each record since the last call; returns their number. Definitions come
    /// first; the records of a thread come in its order. Call it often enough that chunks do not
    /// run out, a few times a second.
    pub fn drain(&mut self, mut take: impl FnMut(Record)) -> usize {
        // Values are read before definitions, and handed out after them: whatever a value
        // uses was defined before it was written.
        let values = self.chunks_in_use(self.region.shape.value_pool());
        let definitions = self.chunks_in_use(self.region.shape.definition_pool());
        let mut records = 0;
        for held in definitions.into_iter().chain(values) {
            records += self.read(held, &mut take);
            self.free_if_done(held);
        }
        records
    }

    /// Returns the losses so far.
    pub fn losses(&self) -> Losses {
        let sum = |cause| {
            RingShape::losses_at(cause)
                .map(|word| self.load(word))
                .fold(0, u64::wrapping_add)
                .min(MOST_LOST)
        };
        Losses {
            full: sum(LossCause::Full),
            interrupted: sum(LossCause::Interrupted),
            invalid: sum(LossCause::Invalid),
            missing_definitions: self.load(WORD_MISSING).min(MOST_LOST),
            damaged_chunks: self.damaged_chunks,
        }
    }

    /// Marks the ring as closed: the programs' calls do nothing from now on. What they have written
    /// can still be drained.
    pub fn close(&self) {
        self.region.word(WORD_CLOSED).store(1, Ordering::Release);
    }

    /// Returns a word of the ring's head.
    fn load(&self, word: usize) -> u64 {
        self.region.word(word).load(Ordering::Relaxed)
    }

    /// Returns the chunks in use, in the order in which to read them. A thread's newest is read
    /// first: all that came before it is then in the older ones.
    fn chunks_in_use(&self, pool: Range<usize>) -> Vec<HeldChunk> {
        let mut all = self.taken(pool);
        all.sort_unstable_by_key(|held| (held.owner_word, held.sequence, held.chunk));
        for held in all.iter_mut().rev() {
            let control = |field| self.region.control(held.chunk, field);
            held.is_retired = control(ChunkControl::Retired).load(Ordering::Acquire) != 0;
            // Without a sequence it is being taken; its records come next time.
            if held.sequence != 0 {
                held.words = self.committed_words(held.chunk);
            }
        }
        all
    }

    /// Returns the chunks in use, without a gap: a thread may have taken one that was passed already, and
    /// then one that was not: its records would come too early. So they are passed twice: what
    /// a thread took before its newest of the first time is there the second time.
    fn taken(&self, pool: Range<usize>) -> Vec<HeldChunk> {
        let mut newest = HashMap::<u64, u64>::new();
        for held in pool.clone().filter_map(|chunk| self.held_chunk(chunk)) {
            let sequence = newest.entry(held.owner_word).or_default();
            *sequence = held.sequence.max(*sequence);
        }
        let is_no_newer = |held: &HeldChunk| {
            let newest = newest.get(&held.owner_word);
            newest.is_some_and(|newest| held.sequence <= *newest)
        };
        let held = pool.filter_map(|chunk| self.held_chunk(chunk));
        held.filter(is_no_newer).collect()
    }

    /// Returns which thread has a chunk; None if it is free.
    fn held_chunk(&self, chunk: usize) -> Option<HeldChunk> {
        let control = |field| self.region.control(chunk, field);
        let owner_word = control(ChunkControl::Owner).load(Ordering::Acquire);
        let owner = ChunkOwner::unpack(owner_word)?;
        let sequence = control(ChunkControl::Sequence).load(Ordering::Acquire);
        Some(HeldChunk {
            chunk,
            owner_word,
            owner,
            sequence,
            words: 0,
            is_retired: false,
        })
    }

    /// Returns how many words of a chunk are written.
    fn committed_words(&self, chunk: usize) -> usize {
        let committed = self.region.control(chunk, ChunkControl::Committed);
        let words = committed.load(Ordering::Acquire) / WORD_BYTES as u64;
        let limit = self.region.shape.chunk_bytes / WORD_BYTES;
        usize::try_from(words).unwrap_or(limit).min(limit)
    }

    /// Reads the new records of a chunk.
    fn read(&mut self, held: HeldChunk, take: &mut impl FnMut(Record)) -> usize {
        let first = self.read_words[held.chunk];
        let Some(fresh) = self.region.chunk(held.chunk).get(first..held.words) else {
            return 0;
        };
        // A copy: the program may write over the chunk while it is decoded.
        let words: Vec<u64> = fresh
            .iter()
            .map(|word| word.load(Ordering::Relaxed))
            .collect();
        self.read_words[held.chunk] = held.words;
        let mut rest = words.as_slice();
        let mut records = 0;
        while !rest.is_empty() {
            let Some((record, length)) = decode(held.owner, rest) else {
                self.damaged_chunks += 1;
                break;
            };
            take(record);
            records += 1;
            rest = &rest[length..];
        }
        records
    }

    /// Frees a chunk if all of it was read and its owner writes no more.
    fn free_if_done(&mut self, held: HeldChunk) {
        let is_over = held.is_retired || is_dead(held.owner);
        // What the owner wrote before it died is there now.
        if !is_over || self.committed_words(held.chunk) != self.read_words[held.chunk] {
            return;
        }
        self.read_words[held.chunk] = 0;
        let control = |field| self.region.control(held.chunk, field);
        for field in [
            ChunkControl::Committed,
            ChunkControl::Sequence,
            ChunkControl::Retired,
        ] {
            control(field).store(0, Ordering::Relaxed);
        }
        control(ChunkControl::Owner).store(0, Ordering::Release);
        let freed = self.region.word(WORD_FREED);
        freed.fetch_add(1, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.close();
    }
}

/// Returns whether an owner is certainly gone. One in another pid namespace cannot be asked for; its
/// chunks come back only when its threads end.
fn is_dead(owner: ChunkOwner) -> bool {
    if !owner.is_same_namespace {
        return false;
    }
    // SAFETY: signal 0 is never delivered; the call only looks whether the thread is there.
    let found = unsafe {
        libc::syscall(
            libc::SYS_tgkill,
            owner.pid as libc::pid_t,
            owner.tid as libc::pid_t,
            0,
        )
    };
    found != 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}
