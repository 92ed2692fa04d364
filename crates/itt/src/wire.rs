//! The words of a record: what the collector packs and the reader unpacks.

/// Kinds of records. In comments: the use of the head's detail and id, then the words after
/// the time. `[ticks]` words precede them if the head has [`GIVEN_TICKS`]. A text is its length in
/// bytes, then the bytes, padded with zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum RecordCode {
    // Definitions. The first word is the tid of the caller: a process shares a chunk.
    /// id; tid, name.
    Domain = 1,
    /// id; tid, text.
    Text,
    /// id, detail: value type; tid, domain's name, name.
    Counter,
    /// id, detail: y type; tid, id of the domain, x type, name.
    Histogram,
    /// id; tid, name.
    Event,
    /// tid, name.
    ThreadName,
    /// tid, address, attribute, type, name.
    SyncObject,
    /// tid, address, name.
    SyncRenamed,
    /// id of the counter, detail: context type; tid, number, text.
    CounterContext,
    // Values.
    /// id of the counter, detail: value type; bits.
    CounterValue,
    /// id of the counter, detail: 1 for a decrement; delta.
    CounterDelta,
    /// id of the domain, detail: 1 for a decrement; id of the name's text, delta.
    NamedDelta,
    /// id of the counter.
    CounterDestroyed,
    /// id of the domain, detail: 1 if overlapped; id of the name's text, task id, parent id.
    TaskBegin,
    /// id of the domain.
    TaskEnd,
    /// id of the domain; task id.
    TaskEndOverlapped,
    /// id of the domain; id of the name's text, region id, parent id.
    RegionBegin,
    /// id of the domain; region id.
    RegionEnd,
    /// id of the domain; frame id.
    FrameBegin,
    /// id of the domain; frame id.
    FrameEnd,
    /// id of the domain; frame id, begin, end.
    FrameSubmitted,
    /// id of the domain, detail: scope; id of the name's text, marker id.
    Marker,
    /// id of the event.
    EventStart,
    /// id of the event.
    EventEnd,
    /// detail: what happened; address.
    Sync,
    /// id of the domain, detail: value type; id of the key's text, object id, count, values.
    Metadata,
    /// id of the domain; id of the key's text, object id, length in the program, text.
    MetadataText,
    /// id of the domain, detail: relation; head id (0 for the current task), tail id.
    Relation,
    /// id of the histogram, detail: x type, or 0 without x; y type, first index, count, ys, xs.
    HistogramBatch,
    /// Nothing else, like the three that follow.
    Paused,
    Resumed,
    Detached,
    ThreadIgnored,
}

impl RecordCode {
    /// The last code; they are numbered from 1 without gaps.
    const LAST: u8 = RecordCode::ThreadIgnored as u8;

    /// Returns the record code with this number; `None`: there is none.
    pub(crate) fn from_number(number: u8) -> Option<Self> {
        if number == 0 || number > Self::LAST {
            return None;
        }
        // SAFETY: the enum is a `u8` with every number from 1 to `LAST`.
        Some(unsafe { std::mem::transmute::<u8, RecordCode>(number) })
    }
}

/// Bit beside the code: the word after the time is a timestamp that the program gave, of a
/// clock that is not ours.
pub(crate) const GIVEN_TICKS: u8 = 0x80;

/// First word of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RecordHead {
    /// The kind of record.
    pub(crate) code: RecordCode,
    /// A small number; the code defines its meaning.
    pub(crate) detail: u8,
    /// A definition's id; 0 for none.
    pub(crate) id: u32,
}

impl RecordHead {
    /// Makes a head without detail.
    #[inline(always)]
    pub(crate) fn new(code: RecordCode, id: u32) -> Self {
        RecordHead {
            code,
            detail: 0,
            id,
        }
    }

    /// Returns a head with detail.
    #[inline(always)]
    pub(crate) fn with(code: RecordCode, detail: u8, id: u32) -> Self {
        RecordHead { code, detail, id }
    }

    /// Packs the head of a record of `words` words into one word.
    #[inline(always)]
    pub(crate) fn pack(self, words: usize, given_ticks: bool) -> u64 {
        let mark = if given_ticks { GIVEN_TICKS } else { 0 };
        u64::from(self.code as u8 | mark)
            | u64::from(self.detail) << 8
            | (words as u64 & 0xffff) << 16
            | u64::from(self.id) << 32
    }

    /// Returns head, length in words, and whether the program gave ticks.
    pub(crate) fn unpack(word: u64) -> Option<(Self, usize, bool)> {
        let number = word as u8;
        let head = RecordHead {
            code: RecordCode::from_number(number & !GIVEN_TICKS)?,
            detail: (word >> 8) as u8,
            id: (word >> 32) as u32,
        };
        let words = (word >> 16) as u16;
        Some((head, usize::from(words), number & GIVEN_TICKS != 0))
    }
}

/// Returns the words that a text takes.
#[inline(always)]
pub(crate) fn text_words(bytes: usize) -> usize {
    1 + bytes.div_ceil(8)
}

/// Writer of a chunk: process and thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ChunkOwner {
    /// Process, as it knows itself.
    pub(crate) pid: u32,
    /// Thread, as it knows itself; of a definition chunk, the pid.
    pub(crate) tid: u32,
    /// Whether the two mean the same to the recorder: the pid namespace is one.
    pub(crate) is_same_namespace: bool,
}

/// Pids are below 2^22 (`PID_MAX_LIMIT`), so that the top bit is free.
const SAME_NAMESPACE: u64 = 1 << 63;

impl ChunkOwner {
    /// Returns the control word; never 0, as no pid is.
    pub(crate) fn pack(self) -> u64 {
        let mark = if self.is_same_namespace {
            SAME_NAMESPACE
        } else {
            0
        };
        mark | u64::from(self.pid) << 32 | u64::from(self.tid)
    }

    /// Returns the owner of a chunk from its control word; `None` if the chunk is free.
    pub(crate) fn unpack(word: u64) -> Option<Self> {
        (word != 0).then_some(ChunkOwner {
            pid: ((word & !SAME_NAMESPACE) >> 32) as u32,
            tid: word as u32,
            is_same_namespace: word & SAME_NAMESPACE != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_head_round_trips() {
        for number in 1..=RecordCode::LAST {
            let code = RecordCode::from_number(number).expect("a code");
            let head = RecordHead::with(code, 7, u32::MAX - 1);
            assert_eq!(
                RecordHead::unpack(head.pack(520, true)),
                Some((head, 520, true))
            );
        }
        assert_eq!(RecordCode::from_number(RecordCode::LAST + 1), None);
    }

    #[test]
    fn chunk_owner_round_trips() {
        let owner = ChunkOwner {
            pid: 4_194_303,
            tid: 17,
            is_same_namespace: true,
        };
        assert_eq!(ChunkOwner::unpack(owner.pack()), Some(owner));
        assert_eq!(ChunkOwner::unpack(0), None);
    }
}
