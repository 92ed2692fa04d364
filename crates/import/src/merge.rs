//! Functions that a tracer saw, put where a recording knows what its CPUs did at the time: rows of `activity` of both
//! in, rows of both out, nested as one.
//!
//! The recording says which thread had a CPU, and its system calls, interrupts and softirqs; the trace only adds
//! functions, within the time that the recording kept. The two place their ends a little differently (a function that
//! handles an interrupt begins before the interrupt's tracepoint, and may end within it): where spans cross, the function
//! is cut, and its later part has not begun there (`begin_seen`).

use std::collections::{BTreeMap, BTreeSet};

use table::tables::{Activities, Activity};
use table::{ActivityKind, Columns};

/// The recording with a trace's functions merged in, and counts of functions that were left out, by reason.
#[derive(Debug, Default)]
pub struct MergedFunctions {
    /// The recording's rows and the trace's functions.
    pub activities: Activities,
    /// Rows of functions among them; one that was cut is several.
    pub functions: u64,
    /// Functions of the trace that are not: outside of what the recording kept, or of another thread than had the CPU.
    pub outside: u64,
    /// Functions with a time that could not be converted.
    pub timeless: u64,
    /// Rows of the trace that are no functions: the recording has its own.
    pub others: u64,
    /// Errors and gaps of the trace within what the recording kept: functions may be missing there.
    pub gaps: u64,
    /// Largest bound of the error of a function's time, ns: of the conversion, and of what the trace leaves out.
    pub error_ns: u64,
}

/// A span on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct MergedSpan {
    begin_ns: u64,
    end_ns: u64,
    of: SpanSource,
    /// Its row's begin is in it, and its end: not of a piece that was cut off there.
    has_begin: bool,
    has_end: bool,
}

/// The source of a span, and the row's index there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SpanSource {
    Recording(usize),
    Trace(usize),
}

/// A time in which a thread had a CPU, or none had it.
#[derive(Debug, Clone, Copy)]
struct TraceWindow {
    cpu: u16,
    tid: Option<u32>,
    begin_ns: u64,
    end_ns: u64,
}

/// Adds the functions of a trace to what a recording has. `convert`: a time of the trace as the recording's, and the
/// bound of its error, both ns.
pub fn merge(
    recorded: &Activities,
    trace: &Activities,
    convert: impl Fn(u64) -> Option<(u64, u64)>,
) -> MergedFunctions {
    let mut merged = MergedFunctions::default();
    let windows = TraceWindows::from_recording(recorded);
    let mut cpus = recorded_spans(recorded);
    let mut functions: BTreeMap<u16, Vec<MergedSpan>> = BTreeMap::new();
    let left_out_ns = left_out_ns(trace);
    for row in 0..trace.len() {
        let kind = trace.kind[row];
        let is_gap = matches!(kind, ActivityKind::DecodeError | ActivityKind::Untraced);
        if kind != ActivityKind::Function && !is_gap {
            merged.others += 1;
            continue;
        }
        let (Some(begin), Some(end)) = (convert(trace.begin_ns[row]), convert(trace.end_ns[row]))
        else {
            merged.timeless += u64::from(!is_gap);
            continue;
        };
        let span = MergedSpan {
            begin_ns: begin.0,
            end_ns: end.0.max(begin.0),
            of: SpanSource::Trace(row),
            has_begin: true,
            has_end: true,
        };
        let pieces = windows.pieces(&span, trace.cpu[row], trace.tid[row]);
        if is_gap {
            merged.gaps += u64::from(!pieces.is_empty());
            continue;
        }
        merged.outside += u64::from(pieces.is_empty());
        if !pieces.is_empty() {
            let error_ns = begin.1.max(end.1) + left_out_ns;
            merged.error_ns = merged.error_ns.max(error_ns);
        }
        for (cpu, piece) in pieces {
            functions.entry(cpu).or_default().push(piece);
        }
    }
    for (cpu, mut spans) in functions {
        let own = cpus.entry(cpu).or_default();
        spans = cut_all(spans, own);
        merged.functions += spans.len() as u64;
        own.extend(spans);
    }
    for (cpu, spans) in cpus {
        store_nested(cpu, spans, recorded, trace, &mut merged.activities);
    }
    for row in (0..recorded.len()).filter(|row| is_apart(recorded, *row)) {
        merged.activities.push(recorded.row(row));
    }
    merged
}

/// Returns the resolution of a trace's times, ns: text often has microseconds only.
fn left_out_ns(trace: &Activities) -> u64 {
    let mut times = trace.begin_ns.iter().chain(&trace.end_ns);
    let is_whole = times.all(|ns| ns.is_multiple_of(1_000));
    if is_whole { 999 } else { 0 }
}

/// Returns a row that lies in no CPU's nest of spans: of no known CPU, or a moment at which a thread was moved.
fn is_apart(rows: &Activities, row: usize) -> bool {
    rows.cpu[row].is_none() || rows.kind[row] == ActivityKind::Migration
}

/// Returns the recording's spans by CPU, in the order of their starts, outer ones first.
fn recorded_spans(recorded: &Activities) -> BTreeMap<u16, Vec<MergedSpan>> {
    let mut cpus: BTreeMap<u16, Vec<MergedSpan>> = BTreeMap::new();
    for row in (0..recorded.len()).filter(|row| !is_apart(recorded, *row)) {
        let Some(cpu) = recorded.cpu[row] else {
            continue;
        };
        cpus.entry(cpu).or_default().push(MergedSpan {
            begin_ns: recorded.begin_ns[row],
            end_ns: recorded.end_ns[row],
            of: SpanSource::Recording(row),
            has_begin: true,
            has_end: true,
        });
    }
    for spans in cpus.values_mut() {
        spans.sort_by_key(|span| match span.of {
            SpanSource::Recording(row) | SpanSource::Trace(row) => {
                (span.begin_ns, recorded.depth[row])
            }
        });
    }
    cpus
}

/// Threads of each CPU by time, as far as the recording kept them.
struct TraceWindows {
    by_cpu: BTreeMap<u16, Vec<TraceWindow>>,
    by_thread: BTreeMap<u32, Vec<TraceWindow>>,
}

impl TraceWindows {
    /// Returns when which thread ran on which CPU, as the recording saw it.
    fn from_recording(recorded: &Activities) -> Self {
        let mut windows = Self {
            by_cpu: BTreeMap::new(),
            by_thread: BTreeMap::new(),
        };
        for row in 0..recorded.len() {
            let kind = recorded.kind[row];
            let is_known = matches!(kind, ActivityKind::Task | ActivityKind::Idle);
            let Some(cpu) = recorded.cpu[row] else {
                continue;
            };
            if recorded.depth[row] > 0 || !is_known {
                continue;
            }
            let window = TraceWindow {
                cpu,
                tid: recorded.tid[row].filter(|tid| *tid != 0),
                begin_ns: recorded.begin_ns[row],
                end_ns: recorded.end_ns[row],
            };
            windows.by_cpu.entry(cpu).or_default().push(window);
            if let Some(tid) = window.tid {
                windows.by_thread.entry(tid).or_default().push(window);
            }
        }
        let by_cpu = windows.by_cpu.values_mut();
        for all in by_cpu.chain(windows.by_thread.values_mut()) {
            all.sort_by_key(|window| window.begin_ns);
        }
        windows
    }

    /// Returns the pieces of a trace's span that lie within the windows, with their CPU.
    fn pieces(
        &self,
        span: &MergedSpan,
        cpu: Option<u16>,
        tid: Option<u32>,
    ) -> Vec<(u16, MergedSpan)> {
        let tid = tid.filter(|tid| *tid != 0);
        let candidates = match (cpu, tid) {
            (Some(cpu), _) => self.by_cpu.get(&cpu),
            (None, Some(tid)) => self.by_thread.get(&tid),
            (None, None) => None,
        };
        let Some(candidates) = candidates else {
            return Vec::new();
        };
        let first = candidates.partition_point(|window| window.end_ns <= span.begin_ns);
        let within = candidates[first..]
            .iter()
            .take_while(|window| window.begin_ns < span.end_ns.max(span.begin_ns + 1))
            .filter(|window| tid.is_none() || window.tid == tid);
        let piece = |window: &TraceWindow| MergedSpan {
            begin_ns: span.begin_ns.max(window.begin_ns),
            end_ns: span.end_ns.min(window.end_ns),
            of: span.of,
            has_begin: span.begin_ns >= window.begin_ns,
            has_end: span.end_ns <= window.end_ns,
        };
        within.map(|window| (window.cpu, piece(window))).collect()
    }
}

/// Cuts functions where they cross spans of the recording.
fn cut_all(mut functions: Vec<MergedSpan>, recorded: &[MergedSpan]) -> Vec<MergedSpan> {
    functions.sort_by_key(|span| (span.begin_ns, u64::MAX - span.end_ns));
    let mut cuts: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); functions.len()];
    // where a span of the recording that is open at the function's begin ends within it
    let mut open = OpenSpan::new(recorded);
    for (function, cuts) in functions.iter().zip(&mut cuts) {
        for span in open.at(function.begin_ns) {
            if span.begin_ns < function.begin_ns && span.end_ns < function.end_ns {
                cuts.insert(span.end_ns);
            }
        }
    }
    // where one that is open at its end begins within it
    let mut by_end: Vec<usize> = (0..functions.len()).collect();
    by_end.sort_by_key(|index| functions[*index].end_ns);
    let mut open = OpenSpan::new(recorded);
    for index in by_end {
        let function = functions[index];
        for span in open.at(function.end_ns) {
            if span.begin_ns > function.begin_ns && span.begin_ns < function.end_ns {
                cuts[index].insert(span.begin_ns);
            }
        }
    }
    let cut = functions.iter().zip(&cuts);
    cut.flat_map(|(function, cuts)| pieces(*function, cuts))
        .collect()
}

/// Returns a function in pieces.
fn pieces(function: MergedSpan, cuts: &BTreeSet<u64>) -> impl Iterator<Item = MergedSpan> {
    let begins: Vec<u64> = [function.begin_ns]
        .into_iter()
        .chain(cuts.iter().copied())
        .collect();
    let ends = cuts.iter().copied().chain([function.end_ns]);
    let ends: Vec<u64> = ends.collect();
    begins
        .into_iter()
        .zip(ends)
        .map(move |(begin_ns, end_ns)| MergedSpan {
            begin_ns,
            end_ns,
            has_begin: function.has_begin && begin_ns == function.begin_ns,
            has_end: function.has_end && end_ns == function.end_ns,
            ..function
        })
}

/// The spans that are open at one time after another.
struct OpenSpan<'a> {
    next: std::slice::Iter<'a, MergedSpan>,
    open: Vec<MergedSpan>,
}

impl<'a> OpenSpan<'a> {
    /// Begins a walk through spans, with none open.
    fn new(spans: &'a [MergedSpan]) -> Self {
        Self {
            next: spans.iter(),
            open: Vec::new(),
        }
    }

    /// Returns the open spans at a time; call it in the order of time.
    fn at(&mut self, time_ns: u64) -> &[MergedSpan] {
        while let Some(span) = self.next.as_slice().first() {
            if span.begin_ns >= time_ns {
                break;
            }
            self.open.push(*span);
            self.next.next();
        }
        self.open.retain(|span| span.end_ns > time_ns);
        &self.open
    }
}

/// Stores the spans of one CPU, each at its depth.
fn store_nested(
    cpu: u16,
    mut spans: Vec<MergedSpan>,
    recorded: &Activities,
    trace: &Activities,
    to: &mut Activities,
) {
    let order = |span: &MergedSpan| match span.of {
        SpanSource::Recording(row) => (0, recorded.depth[row]),
        SpanSource::Trace(row) => (1, trace.depth[row]),
    };
    spans.sort_by_key(|span| (span.begin_ns, u64::MAX - span.end_ns, order(span)));
    // the end of each, and its source
    let mut around: Vec<(u64, Option<u32>, Option<u32>)> = Vec::new();
    for span in spans {
        while around
            .last()
            .is_some_and(|(end_ns, ..)| *end_ns <= span.begin_ns)
        {
            around.pop();
        }
        let depth = u16::try_from(around.len()).unwrap_or(u16::MAX);
        let mut row = match span.of {
            SpanSource::Recording(row) => recorded.row(row),
            SpanSource::Trace(row) => trace.row(row),
        };
        row.depth = depth;
        if matches!(span.of, SpanSource::Trace(_)) {
            let (_, pid, tid) = around.last().copied().unwrap_or_default();
            row = Activity {
                begin_ns: span.begin_ns,
                end_ns: span.end_ns,
                pid,
                tid,
                cpu: Some(cpu),
                begin_seen: row.begin_seen && span.has_begin,
                end_seen: row.end_seen && span.has_end,
                ..row
            };
        }
        around.push((span.end_ns, row.pid, row.tid));
        to.push(row);
    }
}

#[cfg(test)]
mod tests;
