//! Records of the ring → rows. A record is a row of its own, names something, or ends or
//! completes the row of another: each is counted as one of these.

use ::itt::{Body, Identifier, Losses, Record, SyncAction, Value};
use serde_json::Value as Entry;
use table::tables::{Counter, Task};
use table::{Columns, CounterKind, RowSet, TaskKind, ValueSource};

use super::counts::IttCounts;
use super::names::{CounterName, IttNames};
use super::notes::{self, Notes};
use super::open::{End, NamedId, Open, OpenSpan, SpanKey};
use super::words::{counter_kind, id_text, relation_name, scope_name, split};

/// Assembles rows of records.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    names: IttNames,
    open: Open,
    rows: RowSet,
    records: u64,
    rows_taken: u64,
}

/// Says who made a call, and when.
#[derive(Debug, Clone, Copy)]
struct At {
    time_ns: u64,
    pid: u32,
    tid: u32,
    ticks: Option<u64>,
}

impl At {
    /// Returns when and on which thread a record was written.
    fn from_record(record: &Record) -> Self {
        At {
            time_ns: record.time_ns,
            pid: record.pid,
            tid: record.tid,
            ticks: record.given_ticks,
        }
    }

    /// Makes the row of a task that begins here, with nothing else known.
    fn task_row(self, kind: TaskKind) -> Task {
        Task {
            begin_ns: self.time_ns,
            end_ns: None,
            source: ValueSource::Itt,
            kind,
            domain: None,
            name: None,
            pid: self.pid,
            tid: self.tid,
            end_tid: None,
            id: None,
            parent: None,
            object: None,
            scope: None,
            given_begin_ticks: self.ticks,
            given_end_ticks: None,
            metadata: None,
        }
    }

    /// Returns the end of a span here.
    fn end(self) -> End {
        End {
            time_ns: self.time_ns,
            tid: self.tid,
            ticks: self.ticks,
        }
    }
}

impl Assembler {
    /// Adds the rows of a record.
    pub(crate) fn add_record(&mut self, record: Record) {
        self.records += 1;
        let at = At::from_record(&record);
        match record.body {
            Body::Domain { .. }
            | Body::Text { .. }
            | Body::Counter { .. }
            | Body::Histogram { .. }
            | Body::Event { .. }
            | Body::SyncObject { .. }
            | Body::SyncRenamed { .. }
            | Body::CounterContext { .. } => self.names.define(record),
            Body::CounterDestroyed { .. } => {}
            Body::CounterValue { counter, value } => {
                self.value(at, counter, CounterKind::Set, value);
            }
            Body::CounterDelta {
                counter,
                delta,
                is_decrement,
            } => self.value(at, counter, counter_kind(is_decrement), Value::U64(delta)),
            Body::NamedDelta {
                domain,
                name,
                delta,
                is_decrement,
            } => {
                let name = CounterName {
                    domain: self.names.text(domain),
                    name: self.names.text(name).unwrap_or_default(),
                    unit: None,
                };
                let kind = counter_kind(is_decrement);
                self.put_value(at, None, Some(name), kind, Value::U64(delta));
            }
            Body::Sync { action, address } => self.sync(at, action, address),
            body => self.span_or_moment(at, body),
        }
    }

    /// Handles a record that starts or ends a span, or marks a moment.
    fn span_or_moment(&mut self, at: At, body: Body) {
        match body {
            Body::TaskBegin { .. }
            | Body::RegionBegin { .. }
            | Body::FrameBegin { .. }
            | Body::EventStart { .. } => {
                if let Some(span) = self.span(at, &body) {
                    self.open.begin(span, &mut self.rows.tasks);
                }
            }
            Body::TaskEnd { .. }
            | Body::RegionEnd { .. }
            | Body::FrameEnd { .. }
            | Body::EventEnd { .. } => self.end(at, &body),
            Body::Metadata { .. } | Body::MetadataText { .. } => self.attach(at, body),
            body => {
                if let Some(row) = self.moment(at, body) {
                    self.rows.tasks.push(row);
                }
            }
        }
    }

    /// Adds a value of a counter, with the counter's name.
    fn value(&mut self, at: At, counter: u32, kind: CounterKind, value: Value) {
        let name = self.names.counter(counter);
        self.put_value(at, Some(counter), name, kind, value);
    }

    /// Adds the row of a value; `counter` and `name` are None if unknown.
    fn put_value(
        &mut self,
        at: At,
        counter: Option<u32>,
        name: Option<CounterName>,
        kind: CounterKind,
        value: Value,
    ) {
        let CounterName { domain, name, unit } = name.unwrap_or_default();
        let (value_u64, value_s64, value_f64) = split(value);
        self.rows.counters.push(Counter {
            time_ns: at.time_ns,
            source: ValueSource::Itt,
            pid: at.pid,
            tid: at.tid,
            domain,
            name: Some(name).filter(|name| !name.is_empty()),
            counter,
            kind,
            value_u64,
            value_s64,
            value_f64,
            unit,
            given_ticks: at.ticks,
        });
    }

    /// Makes the span that a record begins; `None` if its name is unknown.
    fn span(&self, at: At, body: &Body) -> Option<OpenSpan> {
        let (kind, key) = begun_span(at, body)?;
        let (domain, name, id, parent) = match *body {
            Body::TaskBegin {
                domain,
                name,
                id,
                parent,
                ..
            }
            | Body::RegionBegin {
                domain,
                name,
                id,
                parent,
            } => (Some(domain), name, id, parent),
            Body::FrameBegin { domain, id } => (Some(domain), None, id, None),
            Body::EventStart { event } => (None, Some(event), None, None),
            _ => return None,
        };
        let mut row = at.task_row(kind);
        row.domain = domain.and_then(|domain| self.names.text(domain));
        row.name = name.and_then(|name| self.names.text(name));
        row.id = id.map(id_text);
        row.parent = parent.map(id_text);
        let named = domain.zip(id).map(|(domain, id)| (at.pid, domain, id));
        Some(span_of(key, named, row))
    }

    /// Ends the open span that this record names; keeps the end if no begin has come yet.
    fn end(&mut self, at: At, body: &Body) {
        let At { pid, tid, .. } = at;
        let key = match *body {
            Body::TaskEnd { domain, id: None } => SpanKey::Task { pid, tid, domain },
            Body::TaskEnd { domain, id } => SpanKey::Overlapped { pid, domain, id },
            Body::RegionEnd { domain, id } => SpanKey::Region { pid, domain, id },
            Body::FrameEnd { domain, id } => SpanKey::Frame { pid, domain, id },
            Body::EventEnd { event } => SpanKey::Event { pid, tid, event },
            _ => return,
        };
        let rows = &mut self.rows.tasks;
        if !self.open.end(key, at.end(), rows, |_| ()) {
            self.open.end_early(key, at.end());
        }
    }

    /// Handles an action on a lock: a wait begins, ends or is given up, or the lock is released.
    fn sync(&mut self, at: At, action: SyncAction, address: u64) {
        let At { pid, tid, .. } = at;
        let key = SpanKey::Sync { pid, tid, address };
        let rows = &mut self.rows.tasks;
        let kind = match action {
            SyncAction::Destroyed => return self.names.forget_object(pid, address, at.time_ns),
            SyncAction::Prepare => TaskKind::SyncWait,
            SyncAction::Releasing => TaskKind::SyncReleasing,
            SyncAction::Acquired if self.open.end(key, at.end(), rows, |_| ()) => return,
            SyncAction::Acquired => TaskKind::SyncAcquired,
            SyncAction::Cancel => {
                let give_up = |row: &mut Task| row.kind = TaskKind::SyncGivenUp;
                if !self.open.end(key, at.end(), rows, give_up) {
                    self.open.end_early(key, at.end());
                }
                return;
            }
        };
        let mut row = at.task_row(kind);
        row.object = Some(address);
        if let Some(object) = self.names.object(pid, address, at.time_ns) {
            row.domain.clone_from(&object.object_type);
            row.name = Some(object.name.clone());
        }
        match action {
            SyncAction::Prepare => self.open.begin(span_of(key, None, row), rows),
            _ => rows.push(row),
        }
    }

    /// Attaches metadata to the open span that it names.
    fn attach(&mut self, at: At, body: Body) {
        match body {
            Body::Metadata {
                domain,
                key,
                id,
                values,
                count,
            } => {
                let key = key.and_then(|key| self.names.text(key));
                self.attach_entry(at, domain, id, &notes::number_note(key, &values, count));
            }
            Body::MetadataText {
                domain,
                key,
                id,
                text,
                length_bytes,
            } => {
                let key = key.and_then(|key| self.names.text(key));
                self.attach_entry(at, domain, id, &notes::text(key, &text, length_bytes));
            }
            _ => {}
        }
    }

    /// Attaches an entry to the open span with this id; without one, the entry gets a row of its
    /// own.
    fn attach_entry(&mut self, at: At, domain: u32, id: Option<Identifier>, entry: &Entry) {
        match self.find_subject(at, domain, id) {
            Some(span) if !span.notes.is_full() => span.notes.add(entry),
            _ => {
                let mut row = at.task_row(TaskKind::Metadata);
                row.domain = self.names.text(domain);
                row.id = id.map(id_text);
                row.metadata = Notes::from_entry(entry).text();
                self.rows.tasks.push(row);
            }
        }
    }

    /// Returns the open span with this id; without an id, the thread's current task.
    fn find_subject(
        &mut self,
        at: At,
        domain: u32,
        id: Option<Identifier>,
    ) -> Option<&mut OpenSpan> {
        let At { pid, tid, .. } = at;
        match id {
            Some(id) => self.open.find_named((pid, domain, id)),
            None => self.open.innermost(SpanKey::Task { pid, tid, domain }),
        }
    }

    /// Makes the row of a moment, or of a record with begin and end.
    fn moment(&mut self, at: At, body: Body) -> Option<Task> {
        Some(match body {
            Body::FrameSubmitted {
                domain,
                id,
                begin_ns,
                end_ns,
            } => self.add_frame(at, domain, id, (begin_ns, end_ns)),
            Body::Marker {
                domain,
                name,
                id,
                scope,
            } => Task {
                domain: self.names.text(domain),
                name: name.and_then(|name| self.names.text(name)),
                id: id.map(id_text),
                scope: scope_name(scope).map(str::to_owned),
                ..at.task_row(TaskKind::Marker)
            },
            Body::Relation {
                domain,
                head,
                relation,
                tail,
            } => {
                let id = head.map(id_text).or_else(|| self.current_task(at, domain));
                Task {
                    domain: self.names.text(domain),
                    name: relation_name(relation).map(str::to_owned),
                    id,
                    parent: tail.map(id_text),
                    ..at.task_row(TaskKind::Relation)
                }
            }
            body => return self.bare_moment(at, body),
        })
    }

    /// The id of the thread's current task.
    fn current_task(&mut self, at: At, domain: u32) -> Option<String> {
        let span = self.find_subject(at, domain, None)?;
        span.row.id.clone()
    }

    /// Makes the row of a moment without a domain, or with a name of its own.
    fn bare_moment(&self, at: At, body: Body) -> Option<Task> {
        Some(match body {
            Body::HistogramBatch {
                histogram,
                first,
                y,
                x,
            } => {
                let (domain, name) = self.names.histogram(histogram).unzip();
                Task {
                    domain: domain.flatten(),
                    name,
                    metadata: Notes::from_entry(&notes::point_note(first, &x, &y)).text(),
                    ..at.task_row(TaskKind::Histogram)
                }
            }
            Body::ThreadName { name } => Task {
                name: Some(name),
                ..at.task_row(TaskKind::ThreadName)
            },
            Body::Paused => at.task_row(TaskKind::Paused),
            Body::Resumed => at.task_row(TaskKind::Resumed),
            Body::Detached => at.task_row(TaskKind::Detached),
            Body::ThreadIgnored => at.task_row(TaskKind::ThreadIgnored),
            _ => return None,
        })
    }

    /// A frame that was reported afterwards. Its times are the program's.
    fn add_frame(
        &self,
        at: At,
        domain: u32,
        id: Option<Identifier>,
        (begin_ns, end_ns): (u64, u64),
    ) -> Task {
        let is_possible = begin_ns <= end_ns;
        Task {
            begin_ns,
            end_ns: is_possible.then_some(end_ns),
            end_tid: is_possible.then_some(at.tid),
            domain: self.names.text(domain),
            id: id.map(id_text),
            ..at.task_row(TaskKind::Frame)
        }
    }

    /// Rows that wait to be taken.
    pub(super) fn rows_len(&self) -> usize {
        self.rows.counters.len() + self.rows.tasks.len()
    }

    /// Returns the rows made so far, and removes them.
    pub(crate) fn take_rows(&mut self) -> RowSet {
        self.rows_taken += self.rows_len() as u64;
        std::mem::take(&mut self.rows)
    }

    /// Forgets ends without a start: the ring was read once.
    pub(crate) fn forget_early_ends(&mut self) {
        self.open.forget_early_ends();
    }

    /// Writes the tasks that are still open: no more records come.
    pub(crate) fn finish(&mut self) {
        self.open.finish(&mut self.rows.tasks);
    }

    /// The account, once all rows were taken.
    pub(crate) fn counts(&self, losses: Losses) -> IttCounts {
        let Losses {
            full,
            interrupted,
            invalid,
            missing_definitions,
            damaged_chunks,
        } = losses;
        let lost = full + interrupted + invalid + missing_definitions + damaged_chunks;
        IttCounts {
            produced: self.records + lost,
            filtered: self.records - self.rows_taken - self.open.unpaired,
            lost_no_begin: self.open.unpaired,
            lost_ring_full: full,
            lost_interrupted: interrupted,
            lost_invalid: invalid,
            lost_names: missing_definitions,
            lost_damaged: damaged_chunks,
        }
    }
}

/// Returns the kind of span that a record begins, and the key of its end.
fn begun_span(at: At, body: &Body) -> Option<(TaskKind, SpanKey)> {
    let At { pid, tid, .. } = at;
    Some(match *body {
        Body::TaskBegin {
            domain,
            is_overlapped: false,
            ..
        } => (TaskKind::Task, SpanKey::Task { pid, tid, domain }),
        Body::TaskBegin { domain, id, .. } => {
            let key = SpanKey::Overlapped { pid, domain, id };
            (TaskKind::OverlappedTask, key)
        }
        Body::RegionBegin { domain, id, .. } => {
            (TaskKind::Region, SpanKey::Region { pid, domain, id })
        }
        Body::FrameBegin { domain, id } => (TaskKind::Frame, SpanKey::Frame { pid, domain, id }),
        Body::EventStart { event } => (TaskKind::Event, SpanKey::Event { pid, tid, event }),
        _ => return None,
    })
}

/// Makes a span that is open, without metadata.
fn span_of(key: SpanKey, named: Option<NamedId>, row: Task) -> OpenSpan {
    OpenSpan {
        key,
        named,
        row,
        notes: Notes::default(),
    }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
