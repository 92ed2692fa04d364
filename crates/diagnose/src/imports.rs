//! A trace of another tool as a report: rows of table `activity` of an imported recording in; out, its threads and functions
//! by CPU time, and the time that the trace does not show.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;
use table::tables::{Activities, Activity};
use table::{ActivityKind, ActivitySource, Columns, Recording, Rows, TableConsumer, TableId};

/// `detail` of a recording that `whylat import` made.
const DETAIL: &str = "import";

/// Entries of each list: more than anyone reads.
const MOST: usize = 1_000;

/// A trace that was imported.
#[derive(Debug, Clone, Serialize)]
pub struct ImportedTrace {
    /// Tools that saw it.
    pub sources: Vec<ActivitySource>,
    /// Spans.
    pub spans: u64,
    /// Time from the first begin to the last end, ns.
    pub length_ns: u64,
    /// CPUs with a span; 0: the trace does not name CPUs.
    pub cpus: u64,
    /// Spans by kind, most first.
    pub kinds: Vec<ActivitySum>,
    /// Threads by the time that they had a CPU, most first.
    pub threads: Vec<ThreadSum>,
    /// Functions by their own time, most first.
    pub functions: Vec<FunctionSum>,
    /// Time without a record, by the message of the source, most first.
    pub gaps: Vec<ActivitySum>,
}

/// Spans of one kind, or with one message.
#[derive(Debug, Clone, Serialize)]
pub struct ActivitySum {
    /// Kind.
    pub kind: ActivityKind,
    /// Message of the source; `None`: it gives none, or the sum is of a kind.
    pub name: Option<String>,
    /// Spans.
    pub count: u64,
    /// Their time, ns.
    pub total_ns: u64,
}

/// Time of one thread.
#[derive(Debug, Clone, Serialize)]
pub struct ThreadSum {
    /// Name; `None`: not known.
    pub name: Option<String>,
    /// Thread.
    pub tid: Option<u32>,
    /// How often it had a CPU.
    pub count: u64,
    /// Time that it had one, ns.
    pub total_ns: u64,
}

/// Calls of one function.
#[derive(Debug, Clone, Serialize)]
pub struct FunctionSum {
    /// Name; `None`: not known.
    pub name: Option<String>,
    /// Calls.
    pub count: u64,
    /// Time of the calls with what they called, ns.
    pub total_ns: u64,
    /// Time without the spans within them, ns.
    pub own_ns: u64,
}

/// Number of a CPU or a thread, on which spans are nested.
type TrackKey = (Option<u16>, Option<u32>);

/// Calls, time and own time of a function.
#[derive(Debug, Clone, Copy, Default)]
struct FunctionTimes {
    count: u64,
    total_ns: u64,
    own_ns: u64,
}

/// A span that is open on a track.
#[derive(Debug)]
struct OpenSpan {
    depth: u16,
    length_ns: u64,
    within_ns: u64,
    /// `None`: no function.
    function: Option<Option<String>>,
}

/// Sums of all spans. Rows come in the order of their starts.
#[derive(Debug, Default)]
struct TraceSums {
    sources: BTreeSet<ActivitySource>,
    cpus: BTreeSet<u16>,
    range: Option<(u64, u64)>,
    spans: u64,
    kinds: BTreeMap<ActivityKind, (u64, u64)>,
    gaps: BTreeMap<(ActivityKind, Option<String>), (u64, u64)>,
    threads: BTreeMap<(Option<u32>, Option<String>), (u64, u64)>,
    functions: HashMap<Option<String>, FunctionTimes>,
    tracks: HashMap<TrackKey, Vec<OpenSpan>>,
    /// Spans that start at one time, the outer ones first when they are taken.
    at_once: Vec<Activity>,
}

impl TableConsumer for TraceSums {
    fn is_reader_of(&self, table: TableId) -> bool {
        table == TableId::Activity
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        if let Rows::Activity(rows) = rows {
            self.add(rows);
        }
    }
}

impl TraceSums {
    /// Adds spans; spans of one begin time wait until all of them are there.
    fn add(&mut self, rows: &Activities) {
        for index in 0..rows.len() {
            let row = rows.row(index);
            let is_later = self
                .at_once
                .first()
                .is_some_and(|it| it.begin_ns != row.begin_ns);
            if is_later {
                self.flush();
            }
            self.at_once.push(row);
        }
    }

    /// Adds the waiting spans, outermost first.
    fn flush(&mut self) {
        let mut rows = std::mem::take(&mut self.at_once);
        rows.sort_by_key(|row| row.depth);
        rows.into_iter().for_each(|row| self.add_span(row));
    }

    /// Adds one span to the sums of its kind, thread and gap.
    fn add_span(&mut self, row: Activity) {
        let length_ns = row.end_ns.saturating_sub(row.begin_ns);
        let (first, last) = self.range.unwrap_or((row.begin_ns, row.end_ns));
        self.range = Some((first.min(row.begin_ns), last.max(row.end_ns)));
        self.spans += 1;
        self.sources.insert(row.source);
        self.cpus.extend(row.cpu);
        count(self.kinds.entry(row.kind).or_default(), length_ns);
        match row.kind {
            ActivityKind::Untraced | ActivityKind::DecodeError => {
                let gap = self.gaps.entry((row.kind, row.name.clone()));
                count(gap.or_default(), length_ns);
            }
            ActivityKind::Task => {
                let thread = self.threads.entry((row.tid, row.name.clone()));
                count(thread.or_default(), length_ns);
            }
            _ => {}
        }
        self.nest_span(row, length_ns);
    }

    /// Puts a span on its track; its time is taken off its caller's own time.
    fn nest_span(&mut self, row: Activity, length_ns: u64) {
        let track = match row.cpu {
            Some(cpu) => (Some(cpu), None),
            None => (None, row.tid),
        };
        self.close(track, row.depth);
        let open = self.tracks.entry(track).or_default();
        if let Some(outer) = open.last_mut() {
            outer.within_ns += length_ns;
        }
        open.push(OpenSpan {
            depth: row.depth,
            length_ns,
            within_ns: 0,
            function: (row.kind == ActivityKind::Function).then_some(row.name),
        });
    }

    /// Ends the spans of a track from this depth on.
    fn close(&mut self, track: TrackKey, depth: u16) {
        let open = self.tracks.entry(track).or_default();
        while let Some(span) = open.pop_if(|span| span.depth >= depth) {
            let Some(name) = span.function else { continue };
            let times = self.functions.entry(name).or_default();
            times.count += 1;
            times.total_ns += span.length_ns;
            times.own_ns += span.length_ns.saturating_sub(span.within_ns);
        }
    }

    /// Returns the sums of the imported trace for the report.
    fn report(mut self) -> ImportedTrace {
        self.flush();
        let tracks: Vec<TrackKey> = self.tracks.keys().copied().collect();
        tracks.into_iter().for_each(|track| self.close(track, 0));
        let (first_ns, last_ns) = self.range.unwrap_or_default();
        let sum = |((kind, name), (count, total_ns))| ActivitySum {
            kind,
            name,
            count,
            total_ns,
        };
        let kinds = self
            .kinds
            .into_iter()
            .map(|(kind, sums)| ((kind, None), sums));
        let threads = self.threads.into_iter();
        let threads = threads.map(|((tid, name), (count, total_ns))| ThreadSum {
            name,
            tid,
            count,
            total_ns,
        });
        let functions = self.functions.into_iter();
        let functions = functions.map(|(name, times)| FunctionSum {
            name,
            count: times.count,
            total_ns: times.total_ns,
            own_ns: times.own_ns,
        });
        ImportedTrace {
            sources: self.sources.into_iter().collect(),
            spans: self.spans,
            length_ns: last_ns - first_ns,
            cpus: self.cpus.len() as u64,
            kinds: take_largest(kinds.map(sum).collect(), |it| (it.total_ns, it.kind.name())),
            threads: take_largest(threads.collect(), |it| (it.total_ns, it.tid)),
            functions: take_largest(functions.collect(), |it| (it.own_ns, it.name.clone())),
            gaps: take_largest(self.gaps.into_iter().map(sum).collect(), |it| {
                (it.total_ns, it.name.clone())
            }),
        }
    }
}

/// Adds one span to a number of spans and their time.
fn count(sums: &mut (u64, u64), length_ns: u64) {
    sums.0 += 1;
    sums.1 += length_ns;
}

/// Returns the first entries by a number, the largest first.
fn take_largest<T, K: Ord>(mut all: Vec<T>, by: impl Fn(&T) -> K) -> Vec<T> {
    all.sort_by_key(|it| Reverse(by(it)));
    all.truncate(MOST);
    all
}

/// Returns the trace of a recording that `whylat import` made; `None`: it is another one.
pub fn find_trace(recording: &Recording) -> Option<ImportedTrace> {
    if recording.header().detail != DETAIL {
        return None;
    }
    let mut sums = TraceSums::default();
    recording.feed(&[TableId::Activity], &mut [&mut sums]);
    Some(sums.report())
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;

    use super::*;

    #[test]
    fn own_time_is_without_the_spans_within() {
        let mut rows = Activities::default();
        for (begin_ns, end_ns, depth, kind, name) in [
            (0, 100, 0, "task", "app"),
            (10, 60, 1, "function", "outer"),
            (10, 30, 2, "function", "inner"),
            (40, 50, 2, "irq", "timer"),
            (70, 80, 1, "function", "inner"),
            (100, 130, 0, "decode_error", "LOST 3 EVENTS"),
        ] {
            let row = json!({
                "begin_ns": begin_ns, "end_ns": end_ns, "depth": depth, "kind": kind, "name": name,
                "pid": 7, "tid": 71, "cpu": 1, "source": "function_graph", "begin_seen": true,
                "end_seen": true,
            });
            rows.push(row_of::<Activity>(row).expect("a row"));
        }
        let mut sums = TraceSums::default();
        sums.add(&rows);
        let trace = sums.report();
        assert_eq!((trace.spans, trace.length_ns, trace.cpus), (6, 130, 1));
        let functions = trace.functions.iter();
        let functions: Vec<_> = functions
            .map(|it| (it.name.as_deref(), it.count, it.total_ns, it.own_ns))
            .collect();
        assert_eq!(
            functions,
            [(Some("inner"), 2, 30, 30), (Some("outer"), 1, 50, 20)]
        );
        let threads = trace.threads.iter().map(|it| (it.tid, it.total_ns));
        assert_eq!(threads.collect::<Vec<_>>(), [(Some(71), 100)]);
        let gaps = trace
            .gaps
            .iter()
            .map(|it| (it.name.as_deref(), it.total_ns));
        assert_eq!(gaps.collect::<Vec<_>>(), [(Some("LOST 3 EVENTS"), 30)]);
    }
}
