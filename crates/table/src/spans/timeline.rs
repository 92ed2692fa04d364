//! Spans on their way into the table: begun and ended at times that may be equal, so that the order
//! of the source decides what lies within what.

use std::rc::Rc;

use crate::tables::{Activities, Activity};
use crate::{ActivityKind, ActivitySource, Columns};

/// Place on a lane at which a span began or ended, in the order of the source. A begin that was inferred later lies
/// `outward` of everything of its step: before what was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct SpanOrder {
    step: u64,
    /// Zero for what was seen; ever lower for what was inferred.
    outward: i64,
}

/// The owner of a lane's spans: a thread, or a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct SpanOwner {
    /// Process.
    pub pid: Option<u32>,
    /// Thread.
    pub tid: Option<u32>,
    /// CPU.
    pub cpu: Option<u16>,
}

/// The activity that a span shows: kind, name, owner, source.
#[derive(Debug, Clone)]
pub struct SpanSubject {
    /// The kind of activity.
    pub kind: ActivityKind,
    /// As in the table.
    pub name: Option<Rc<str>>,
    /// The thread and CPU.
    pub owner: SpanOwner,
    /// The source of the event.
    pub source: ActivitySource,
}

/// A span of the table that is not numbered by depth yet.
#[derive(Debug)]
struct TimelineSpan {
    begin_ns: u64,
    end_ns: u64,
    opened: SpanOrder,
    closed: SpanOrder,
    what: SpanSubject,
    begin_seen: bool,
    end_seen: bool,
}

/// A time, and the step at which what is inferred to have begun then is put.
#[derive(Debug, Clone, Copy, Default)]
pub struct TimelinePoint {
    /// The time.
    pub time_ns: u64,
    step: u64,
}

/// The spans of one lane: of a thread, or a CPU. One that is open is known by its number.
#[derive(Debug, Default)]
pub struct SpanTimeline {
    spans: Vec<TimelineSpan>,
    step: u64,
    inferred: i64,
}

impl SpanTimeline {
    /// Begins a span; returns its number.
    pub fn open(&mut self, what: SpanSubject, begin_ns: u64, begin_seen: bool) -> usize {
        let opened = self.next_order();
        self.spans.push(TimelineSpan {
            begin_ns,
            end_ns: begin_ns,
            opened,
            closed: opened,
            what,
            begin_seen,
            end_seen: false,
        });
        self.spans.len() - 1
    }

    /// Begins a span that began before the source shows it, around all spans since `began`.
    pub fn open_around(&mut self, began: TimelinePoint, what: SpanSubject) -> usize {
        let span = self.open(what, began.time_ns, false);
        self.inferred -= 1;
        self.spans[span].opened = SpanOrder {
            step: began.step,
            outward: self.inferred,
        };
        span
    }

    /// Ends a span.
    pub fn close(&mut self, span: usize, end_ns: u64, end_seen: bool) {
        let closed = self.next_order();
        let span = &mut self.spans[span];
        (span.end_ns, span.closed, span.end_seen) = (end_ns, closed, end_seen);
    }

    /// Sets when a span began.
    pub fn begin_at(&mut self, span: usize, begin_ns: u64) {
        self.spans[span].begin_ns = begin_ns;
    }

    /// Sets the start of a span to that of another.
    pub fn begin_with(&mut self, span: usize, other: usize) {
        self.spans[span].begin_ns = self.spans[other].begin_ns;
    }

    /// Sets when a span ended.
    pub fn end_at(&mut self, span: usize, end_ns: u64) {
        self.spans[span].end_ns = end_ns;
    }

    /// Returns the present place, for spans that turn out later to have begun by now.
    pub fn moment(&mut self, time_ns: u64) -> TimelinePoint {
        let step = self.next_order().step;
        TimelinePoint { time_ns, step }
    }

    /// Moves the spans into the table, in order of their starts and with their depths.
    pub fn store(mut self, into: &mut Activities) {
        self.spans.sort_by_key(|span| span.opened);
        let mut around: Vec<SpanOrder> = Vec::new();
        for span in self.spans {
            while around.last().is_some_and(|closed| *closed < span.opened) {
                around.pop();
            }
            let depth = u16::try_from(around.len()).unwrap_or(u16::MAX);
            around.push(span.closed);
            into.push(make_row(span, depth));
        }
    }

    /// Returns the place of the next span in the order of begins.
    fn next_order(&mut self) -> SpanOrder {
        self.step += 1;
        SpanOrder {
            step: self.step,
            outward: 0,
        }
    }
}

/// Makes the row of a span that ended.
fn make_row(span: TimelineSpan, depth: u16) -> Activity {
    let TimelineSpan {
        begin_ns,
        end_ns,
        opened: _,
        closed: _,
        what,
        begin_seen,
        end_seen,
    } = span;
    let SpanSubject {
        kind,
        name,
        owner: SpanOwner { pid, tid, cpu },
        source,
    } = what;
    Activity {
        begin_ns,
        // of times that go back, in a file that is damaged or by clocks that differ, the end is not known
        end_ns: end_ns.max(begin_ns),
        depth,
        kind,
        name: name.map(|name| name.to_string()),
        pid,
        tid,
        cpu,
        source,
        begin_seen,
        end_seen: end_seen && end_ns >= begin_ns,
    }
}
