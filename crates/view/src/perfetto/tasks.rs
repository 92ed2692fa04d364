//! Spans and moments of programs, by ITT or USDT. A span's row is written when it ends, after
//! those within it: a short form of each is held until all are known, and drawn in the order of begins.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use table::tables::{Task, Tasks};
use table::{Columns, Recording, TaskKind};

use super::lanes::TrackLanes;
use super::trace::{NoteValue, TraceEvent};
use super::tracks::TraceDrawing;

/// Where spans are nested.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    pid: u32,
    /// `None`: on no thread of its own.
    tid: Option<u32>,
    name: String,
    is_nested: bool,
}

/// Short form of a span.
struct Span {
    begin_ns: u64,
    end_ns: u64,
    kind: TaskKind,
    name: Box<str>,
    metadata: Option<Box<str>>,
}

/// Writes the tasks and events that programs reported.
pub(super) fn draw(drawing: &mut TraceDrawing<'_>, recording: &Recording) -> io::Result<()> {
    let mut places: BTreeMap<Place, Vec<Span>> = BTreeMap::new();
    for rows in recording.batches::<Task>() {
        for row in 0..rows.len() {
            match (RowShape::from_row(rows.kind[row]), rows.end_ns[row]) {
                (RowShape::Not, _) => {}
                (RowShape::Name, _) => {
                    let name = rows.name[row].as_deref().unwrap_or_default();
                    drawing.name_thread(rows.pid[row], rows.tid[row], name)?;
                }
                (RowShape::Span { .. }, None) | (RowShape::Moment, _) => {
                    draw_moment(drawing, &rows, row)?
                }
                (
                    RowShape::Span {
                        on_thread,
                        is_nested,
                    },
                    Some(end_ns),
                ) => {
                    let place = Place::from_row(&rows, row, on_thread, is_nested);
                    let span = Span::from_row(&rows, row, end_ns);
                    places.entry(place).or_default().push(span);
                }
            }
        }
    }
    for (place, spans) in places {
        place.draw(drawing, spans)?;
    }
    Ok(())
}

/// How a kind is drawn.
enum RowShape {
    /// A span; one without an end is a moment.
    Span {
        on_thread: bool,
        is_nested: bool,
    },
    Moment,
    /// It names its thread.
    Name,
    /// It has no place in time, or belongs to something else.
    Not,
}

impl RowShape {
    /// Returns how a kind of task is drawn: span or moment, on its thread or beside it.
    fn from_row(kind: TaskKind) -> Self {
        let span = |on_thread, is_nested| Self::Span {
            on_thread,
            is_nested,
        };
        match kind {
            TaskKind::Task | TaskKind::Event => span(true, true),
            TaskKind::SyncWait | TaskKind::SyncGivenUp => span(true, true),
            TaskKind::Region | TaskKind::Frame => span(false, true),
            TaskKind::OverlappedTask => span(false, false),
            TaskKind::SyncAcquired | TaskKind::SyncReleasing | TaskKind::Marker => Self::Moment,
            TaskKind::Paused | TaskKind::Resumed | TaskKind::Detached => Self::Moment,
            TaskKind::ThreadIgnored => Self::Moment,
            TaskKind::ThreadName => Self::Name,
            TaskKind::Metadata | TaskKind::Relation | TaskKind::Histogram => Self::Not,
        }
    }
}

/// Returns the task's name, or that of its kind.
fn name(rows: &Tasks, row: usize) -> &str {
    rows.name[row].as_deref().unwrap_or(rows.kind[row].name())
}

/// Writes a task without a length.
fn draw_moment(drawing: &mut TraceDrawing<'_>, rows: &Tasks, row: usize) -> io::Result<()> {
    let track = drawing.thread(rows.pid[row], rows.tid[row])?;
    let domain = rows.domain[row].as_deref();
    let domain = domain.map(|domain| ("domain", NoteValue::Text(domain)));
    let metadata = rows.metadata[row].as_deref();
    let metadata = metadata.map(|text| ("metadata", NoteValue::Text(text)));
    let notes: Vec<_> = domain.into_iter().chain(metadata).collect();
    let what = TraceEvent {
        name: name(rows, row),
        category: rows.kind[row].name(),
        flow: None,
        notes: &notes,
    };
    drawing.trace.instant(track, rows.begin_ns[row], &what)
}

impl Place {
    /// Returns where a task is drawn: process, thread, and name of the track.
    fn from_row(rows: &Tasks, row: usize, on_thread: bool, is_nested: bool) -> Self {
        let domain = rows.domain[row].as_deref().unwrap_or("(no domain)");
        let name = match rows.kind[row] {
            TaskKind::Task | TaskKind::OverlappedTask => domain.to_owned(),
            TaskKind::SyncWait | TaskKind::SyncGivenUp => "synchronisation".to_owned(),
            kind => format!("{domain} {kind}s"),
        };
        Self {
            pid: rows.pid[row],
            tid: on_thread.then_some(rows.tid[row]),
            name,
            is_nested,
        }
    }

    /// Writes the spans of one place.
    fn draw(self, drawing: &mut TraceDrawing<'_>, mut spans: Vec<Span>) -> io::Result<()> {
        let within = match self.tid {
            Some(tid) => drawing.thread(self.pid, tid)?,
            None => drawing.process(self.pid)?,
        };
        let mut lanes = TrackLanes::new(self.name, Some(within));
        // Of two at one place, the one with the later row ended later, and is around the other.
        spans.reverse();
        spans.sort_by_key(|span| (span.begin_ns, Reverse(span.end_ns)));
        for span in spans {
            let metadata = span.metadata.as_deref();
            let notes: Vec<_> = metadata
                .iter()
                .map(|text| ("metadata", NoteValue::Text(text)))
                .collect();
            let what = TraceEvent {
                name: &span.name,
                category: span.kind.name(),
                flow: None,
                notes: &notes,
            };
            let times = (span.begin_ns, span.end_ns);
            if self.is_nested {
                lanes.nest(&mut drawing.trace, times, None, &what)?;
            } else {
                lanes.apart(&mut drawing.trace, times, &what, std::iter::empty())?;
            }
        }
        lanes.finish(&mut drawing.trace)
    }
}

impl Span {
    /// Takes a task's span; `end_ns` may be the recording's end.
    fn from_row(rows: &Tasks, row: usize, end_ns: u64) -> Self {
        Self {
            begin_ns: rows.begin_ns[row],
            end_ns,
            kind: rows.kind[row],
            name: name(rows, row).into(),
            metadata: rows.metadata[row].as_deref().map(Into::into),
        }
    }
}
