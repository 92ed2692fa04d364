//! Spans that have begun and not ended. In: begins and ends, in the order of each thread, but of
//! several threads in any order. Out: rows, once both are known.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ::itt::Identifier;
use table::Columns;
use table::tables::{Task, Tasks};

use super::notes::Notes;

/// Spans that are open at a time. The oldest of more is stored without an end: a program that
/// never ends its spans must not take the recorder's memory.
const MOST_OPEN: usize = 65_536;
/// Ends that wait for their beginning.
const MOST_EARLY: usize = 65_536;
/// Readings of the ring for which an end waits: its thread may have been read just before the one
/// in which the span began.
const EARLY_READINGS: u64 = 2;

/// The key that pairs an end with its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum SpanKey {
    /// The innermost of thread and domain.
    Task { pid: u32, tid: u32, domain: u32 },
    /// By id.
    Overlapped {
        pid: u32,
        domain: u32,
        id: Option<Identifier>,
    },
    /// By id.
    Region {
        pid: u32,
        domain: u32,
        id: Option<Identifier>,
    },
    /// By id; without one, the domain's.
    Frame {
        pid: u32,
        domain: u32,
        id: Option<Identifier>,
    },
    /// The last one of the thread.
    Event { pid: u32, tid: u32, event: u32 },
    /// The thread's wait for an object.
    Sync { pid: u32, tid: u32, address: u64 },
}

impl SpanKey {
    /// Returns whether one thread begins and ends spans of this key: of them the last begun ends
    /// first.
    fn is_of_thread(self) -> bool {
        match self {
            Self::Task { .. } | Self::Event { .. } | Self::Sync { .. } => true,
            Self::Overlapped { .. } | Self::Region { .. } | Self::Frame { .. } => false,
        }
    }
}

/// An `__itt_id`, which is unique within process and domain.
pub(crate) type NamedId = (u32, u32, Identifier);

/// A span that has begun.
#[derive(Debug)]
pub(crate) struct OpenSpan {
    pub(crate) key: SpanKey,
    pub(crate) named: Option<NamedId>,
    pub(crate) row: Task,
    pub(crate) notes: Notes,
}

impl OpenSpan {
    /// Returns the row of the span, with its metadata.
    fn row(self) -> Task {
        let metadata = self.notes.text();
        Task {
            metadata,
            ..self.row
        }
    }
}

/// An end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct End {
    pub(crate) time_ns: u64,
    pub(crate) tid: u32,
    pub(crate) ticks: Option<u64>,
}

/// Holds spans that have begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct Open {
    /// In the order in which they began.
    spans: BTreeMap<u64, OpenSpan>,
    by_key: HashMap<SpanKey, VecDeque<u64>>,
    by_name: HashMap<NamedId, u64>,
    /// Ends with the reading in which they came.
    early: HashMap<SpanKey, VecDeque<(u64, End)>>,
    early_len: usize,
    begun: u64,
    reading: u64,
    /// Ends without a beginning.
    pub(crate) unpaired: u64,
}

impl Open {
    /// Begins a span; at once ends it if its end was read before.
    pub(crate) fn begin(&mut self, mut span: OpenSpan, rows: &mut Tasks) {
        if let Some(end) = self.take_early(span.key, span.row.begin_ns) {
            finish(&mut span.row, end);
            return rows.push(span.row());
        }
        self.begun += 1;
        self.by_key
            .entry(span.key)
            .or_default()
            .push_back(self.begun);
        if let Some(named) = span.named {
            self.by_name.insert(named, self.begun);
        }
        self.spans.insert(self.begun, span);
        if self.spans.len() > MOST_OPEN {
            self.give_up_oldest(rows);
        }
    }

    /// Returns the end that was read before this start.
    fn take_early(&mut self, key: SpanKey, begin_ns: u64) -> Option<End> {
        let ends = self.early.get_mut(&key)?;
        let mut found = None;
        while let Some((_, end)) = ends.pop_front() {
            self.early_len -= 1;
            if end.time_ns >= begin_ns {
                found = Some(end);
                break;
            }
            self.unpaired += 1;
        }
        if ends.is_empty() {
            self.early.remove(&key);
        }
        found
    }

    /// Writes the oldest open span without an end.
    fn give_up_oldest(&mut self, rows: &mut Tasks) {
        if let Some((number, _)) = self.spans.first_key_value()
            && let Some(span) = self.remove_span(*number)
        {
            rows.push(span.row());
        }
    }

    /// Ends the open span of this key after `close` changed its row; returns false if none is open.
    pub(crate) fn end(
        &mut self,
        key: SpanKey,
        end: End,
        rows: &mut Tasks,
        close: impl FnOnce(&mut Task),
    ) -> bool {
        let Some(mut span) = self
            .ended_span(key, end.time_ns)
            .and_then(|number| self.remove_span(number))
        else {
            return false;
        };
        close(&mut span.row);
        if !finish(&mut span.row, end) {
            self.unpaired += 1;
        }
        rows.push(span.row());
        true
    }

    /// Returns which open span of this key ends now: the innermost of a thread, else the oldest
    /// that had begun.
    fn ended_span(&self, key: SpanKey, time_ns: u64) -> Option<u64> {
        let numbers = self.by_key.get(&key)?;
        if key.is_of_thread() {
            return numbers.back().copied();
        }
        let has_begun = |number: &&u64| {
            let span = self.spans.get(number);
            span.is_some_and(|span| span.row.begin_ns <= time_ns)
        };
        numbers.iter().find(has_begun).copied()
    }

    /// Keeps an end with a beginning that may still be read.
    pub(crate) fn end_early(&mut self, key: SpanKey, end: End) {
        if key.is_of_thread() || self.early_len >= MOST_EARLY {
            self.unpaired += 1;
            return;
        }
        self.early_len += 1;
        let ends = self.early.entry(key).or_default();
        ends.push_back((self.reading, end));
    }

    /// Notes that the ring was read once more, and forgets ends that came too long before their
    /// begins.
    pub(crate) fn forget_early_ends(&mut self) {
        self.reading += 1;
        if self.early_len == 0 {
            return;
        }
        let reading = self.reading;
        let before = self.early_len;
        let is_young = |(came, _): &(u64, End)| came + EARLY_READINGS >= reading;
        self.early.retain(|_, ends| {
            ends.retain(is_young);
            !ends.is_empty()
        });
        self.early_len = self.early.values().map(VecDeque::len).sum();
        self.unpaired += (before - self.early_len) as u64;
    }

    /// Returns the open span with this id.
    pub(crate) fn find_named(&mut self, named: NamedId) -> Option<&mut OpenSpan> {
        self.spans.get_mut(self.by_name.get(&named)?)
    }

    /// The innermost open span of a key.
    pub(crate) fn innermost(&mut self, key: SpanKey) -> Option<&mut OpenSpan> {
        self.spans.get_mut(self.by_key.get(&key)?.back()?)
    }

    /// Removes an open span by its number.
    fn remove_span(&mut self, number: u64) -> Option<OpenSpan> {
        let span = self.spans.remove(&number)?;
        if let Some(numbers) = self.by_key.get_mut(&span.key) {
            // Nearly always the first or the last.
            if numbers.back() == Some(&number) {
                numbers.pop_back();
            } else if numbers.front() == Some(&number) {
                numbers.pop_front();
            } else {
                numbers.retain(|other| *other != number);
            }
            if numbers.is_empty() {
                self.by_key.remove(&span.key);
            }
        }
        if let Some(named) = span.named
            && self.by_name.get(&named) == Some(&number)
        {
            self.by_name.remove(&named);
        }
        Some(span)
    }

    /// Writes all open spans without an end.
    pub(crate) fn finish(&mut self, rows: &mut Tasks) {
        for span in std::mem::take(&mut self.spans).into_values() {
            rows.push(span.row());
        }
        self.by_key.clear();
        self.by_name.clear();
        self.early.clear();
        self.unpaired += std::mem::take(&mut self.early_len) as u64;
    }
}

/// Sets the end of a row; returns false for an end before its start.
fn finish(row: &mut Task, end: End) -> bool {
    let is_possible = end.time_ns >= row.begin_ns;
    if is_possible {
        row.end_ns = Some(end.time_ns);
        row.end_tid = Some(end.tid);
        row.given_end_ticks = end.ticks;
    }
    is_possible
}
