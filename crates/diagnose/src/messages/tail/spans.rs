//! Activity of CPUs and threads, found by time: rows of `activity` in, in any order; out, the spans that overlap an
//! interval, outermost first. A span takes 36 bytes.

use std::collections::{BTreeMap, HashMap};

use table::tables::Activities;
use table::{ActivityKind, Columns};

use crate::waits::NameTable;

/// Label of a span: a kind, a name, and of a thread its program. An index into [`LabelTable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct LabelId(u32);

impl LabelId {
    /// Returns the label's position in the table.
    pub(super) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// See [`LabelId`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SpanLabel {
    pub(super) kind: ActivityKind,
    pub(super) name: Option<String>,
    /// Command name of its process: only of threads. In another recording the same program has another pid.
    pub(super) application: Option<String>,
}

/// A span of one CPU.
#[derive(Debug, Clone, Copy)]
pub(super) struct ActivitySpan {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    /// Zero: not known, or the idle task.
    pub(super) tid: u32,
    pub(super) what: LabelId,
    pub(super) depth: u16,
    /// It began then, not before.
    pub(super) begin_seen: bool,
}

/// The spans of a CPU, in the order of their starts, outer ones first.
#[derive(Debug, Default)]
struct CpuSpans {
    spans: Vec<ActivitySpan>,
    /// Index of the span around each; its own: none.
    around: Vec<u32>,
}

/// When a thread had which CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct CpuInterval {
    pub(super) begin_ns: u64,
    pub(super) end_ns: u64,
    pub(super) cpu: u16,
}

/// A thread was moved to another CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ThreadMove {
    pub(super) at_ns: u64,
    /// The one that it left.
    pub(super) cpu: u16,
}

/// Labels of spans, each once.
#[derive(Debug, Default)]
pub(super) struct LabelTable {
    all: Vec<SpanLabel>,
    ids: HashMap<SpanLabel, LabelId>,
}

/// The spans of a recording, by CPU and thread.
#[derive(Debug, Default)]
pub(super) struct SpanTable {
    cores: BTreeMap<u16, CpuSpans>,
    threads: HashMap<u32, Vec<CpuInterval>>,
    /// When threads that wanted a CPU were moved to another.
    moves: HashMap<u32, Vec<ThreadMove>>,
}

impl LabelTable {
    /// Returns the number of an activity's label; gives a new label the next number.
    fn id(&mut self, rows: &Activities, row: usize, names: &NameTable) -> LabelId {
        let kind = rows.kind[row];
        let pid = rows.pid[row].filter(|_| kind == ActivityKind::Task);
        let application = pid.and_then(|pid| names.comm(pid));
        self.intern_label(SpanLabel {
            kind,
            name: rows.name[row].clone(),
            application: application.map(str::to_owned),
        })
    }

    /// Returns the label of a program's messages.
    pub(super) fn program_label(&mut self, name: Option<&str>) -> LabelId {
        self.intern_label(SpanLabel {
            kind: ActivityKind::Task,
            name: name.map(str::to_owned),
            application: name.map(str::to_owned),
        })
    }

    /// Returns the number of a label; gives a new label the next number.
    fn intern_label(&mut self, what: SpanLabel) -> LabelId {
        if let Some(id) = self.ids.get(&what) {
            return *id;
        }
        let id = LabelId(u32::try_from(self.all.len()).unwrap_or(u32::MAX));
        self.all.push(what.clone());
        self.ids.insert(what, id);
        id
    }

    /// Returns all labels, in the order of their ids.
    pub(super) fn all_labels(&self) -> &[SpanLabel] {
        &self.all
    }

    /// Returns the kind and name of a label.
    pub(super) fn get(&self, id: LabelId) -> &SpanLabel {
        &self.all[id.index()]
    }
}

impl SpanTable {
    /// Adds activities; those without a CPU are ignored.
    pub(super) fn add(&mut self, rows: &Activities, labels: &mut LabelTable, names: &NameTable) {
        let mut last: Option<(usize, LabelId)> = None;
        for row in 0..rows.len() {
            let Some(cpu) = rows.cpu[row] else { continue };
            if rows.kind[row] == ActivityKind::Migration {
                let at_ns = rows.begin_ns[row];
                let moves = self.moves.entry(rows.tid[row].unwrap_or(0));
                moves.or_default().push(ThreadMove { at_ns, cpu });
                continue;
            }
            let same = |before: usize| {
                rows.kind[before] == rows.kind[row]
                    && rows.name[before] == rows.name[row]
                    && rows.pid[before] == rows.pid[row]
            };
            let what = match last {
                Some((before, what)) if same(before) => what,
                _ => labels.id(rows, row, names),
            };
            last = Some((row, what));
            self.cores.entry(cpu).or_default().spans.push(ActivitySpan {
                begin_ns: rows.begin_ns[row],
                end_ns: rows.end_ns[row].max(rows.begin_ns[row]),
                tid: rows.tid[row].unwrap_or(0),
                what,
                depth: rows.depth[row],
                begin_seen: rows.begin_seen[row],
            });
        }
    }

    /// Sorts all spans; call it after the last row, before any question.
    pub(super) fn finish(&mut self) {
        for (cpu, core) in &mut self.cores {
            core.finish();
            for span in &core.spans {
                if span.depth == 0 && span.tid != 0 {
                    self.threads.entry(span.tid).or_default().push(CpuInterval {
                        begin_ns: span.begin_ns,
                        end_ns: span.end_ns,
                        cpu: *cpu,
                    });
                }
            }
        }
        self.threads.values_mut().for_each(|it| it.sort_unstable());
        self.moves.values_mut().for_each(|it| it.sort_unstable());
    }

    /// Returns when a thread had a CPU, from the last time that began before `from_ns` on.
    pub(super) fn thread_intervals(&self, tid: u32, from_ns: u64) -> &[CpuInterval] {
        let Some(times) = self.threads.get(&tid) else {
            return &[];
        };
        let first = times.partition_point(|it| it.begin_ns <= from_ns);
        &times[first.saturating_sub(1)..]
    }

    /// The first time that a thread was moved within an interval.
    pub(super) fn find_move(&self, tid: u32, from_ns: u64, until_ns: u64) -> Option<ThreadMove> {
        let moves = self.moves.get(&tid)?;
        let first = moves.partition_point(|it| it.at_ns < from_ns);
        moves.get(first).copied().filter(|it| it.at_ns < until_ns)
    }

    /// Returns whether the activity of a CPU is known at a time.
    pub(super) fn is_covered(&self, cpu: u16, at_ns: u64, labels: &LabelTable) -> bool {
        let mut covers = false;
        self.visit_overlapping(cpu, at_ns, at_ns + 1, |span| {
            let kind = labels.get(span.what).kind;
            covers |= !matches!(kind, ActivityKind::Untraced | ActivityKind::DecodeError);
        });
        covers
    }

    /// Calls `visit` for every span of a CPU that overlaps the interval, outer spans first.
    pub(super) fn visit_overlapping(
        &self,
        cpu: u16,
        from_ns: u64,
        until_ns: u64,
        mut visit: impl FnMut(&ActivitySpan),
    ) {
        let Some(core) = self.cores.get(&cpu) else {
            return;
        };
        let first = core.spans.partition_point(|it| it.begin_ns <= from_ns);
        let mut open = Vec::new();
        core.open_at(first, from_ns, &mut open);
        open.iter().rev().for_each(|span| visit(span));
        for span in &core.spans[first..] {
            if span.begin_ns >= until_ns {
                return;
            }
            visit(span);
        }
    }
}

impl CpuSpans {
    /// Sorts the spans of a CPU, and finds the span around each.
    fn finish(&mut self) {
        let order = |span: &ActivitySpan| (span.begin_ns, span.depth);
        if !self.spans.is_sorted_by_key(order) {
            self.spans.sort_by_key(order);
        }
        let mut open: Vec<u32> = Vec::new();
        self.around = Vec::with_capacity(self.spans.len());
        for (index, span) in self.spans.iter().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            while let Some(top) = open.last() {
                let top = &self.spans[*top as usize];
                if top.depth < span.depth && top.end_ns > span.begin_ns {
                    break;
                }
                open.pop();
            }
            self.around.push(open.last().copied().unwrap_or(index));
            open.push(index);
        }
    }

    /// The spans that began before span `first` and go on after `from_ns`, innermost first.
    fn open_at<'a>(&'a self, first: usize, from_ns: u64, open: &mut Vec<&'a ActivitySpan>) {
        let Some(mut index) = first.checked_sub(1) else {
            return;
        };
        loop {
            let span = &self.spans[index];
            if span.end_ns > from_ns {
                open.push(span);
            }
            match self.around[index] as usize {
                around if around == index => return,
                around => index = around,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;
    use table::row_of;

    use super::*;

    /// Makes a table of spans: CPU, begin, end, depth.
    fn spans(rows: &[(u16, u64, u64, u16)]) -> SpanTable {
        let mut activities = Activities::default();
        for (cpu, begin_ns, end_ns, depth) in rows {
            let row = json!({
                "cpu": cpu, "tid": 1, "begin_ns": begin_ns, "end_ns": end_ns, "depth": depth,
                "kind": "function", "source": "tracepoints", "begin_seen": true,
            });
            activities.push(row_of(row).expect("a row"));
        }
        let mut spans = SpanTable::default();
        spans.add(
            &activities,
            &mut LabelTable::default(),
            &NameTable::default(),
        );
        spans.finish();
        spans
    }

    /// Returns length and depth of spans within an interval.
    fn found(spans: &SpanTable, from_ns: u64, until_ns: u64) -> Vec<(u64, u16)> {
        let mut found = Vec::new();
        spans.visit_overlapping(0, from_ns, until_ns, |span| {
            found.push((span.begin_ns, span.depth));
        });
        found
    }

    #[test]
    fn open_spans_come_first() {
        let rows = [
            (0, 0, 100, 0),
            (0, 10, 20, 1),
            (0, 30, 90, 1),
            (0, 40, 50, 2),
            (0, 100, 200, 0),
            (1, 45, 60, 0),
        ];
        let spans = spans(&rows);
        assert_eq!(found(&spans, 42, 100), [(0, 0), (30, 1), (40, 2)]);
        assert_eq!(found(&spans, 20, 31), [(0, 0), (30, 1)]);
        assert_eq!(found(&spans, 100, 101), [(100, 0)]);
        assert_eq!(found(&spans, 200, 300), []);
    }

    /// Generates spans as a CPU makes them: each within the span around it.
    fn nested() -> impl Strategy<Value = Vec<(u16, u64, u64, u16)>> {
        prop::collection::vec((0_u64..8, 1_u64..20, 0_u16..4), 1..40).prop_map(|parts| {
            let mut rows: Vec<(u16, u64, u64, u16)> = Vec::new();
            let mut now = 0;
            let mut open: Vec<usize> = Vec::new();
            for (pause, length, depth) in parts {
                now += pause;
                open.truncate(usize::from(depth));
                let depth = open.len() as u16;
                open.push(rows.len());
                for around in &open[..open.len() - 1] {
                    rows[*around].2 = rows[*around].2.max(now + length);
                }
                rows.push((0, now, now + length, depth));
                now += 1;
            }
            // what follows at the same depth ends what was before
            for index in 0..rows.len() {
                let (_, begin, _, depth) = rows[index];
                for before in &mut rows[..index] {
                    if before.3 >= depth {
                        before.2 = before.2.min(begin);
                    }
                }
            }
            rows
        })
    }

    proptest! {
        #[test]
        fn no_span_is_missed_in_any_row_order(
            mut rows in nested(), from in 0_u64..200, length in 1_u64..100, seed in any::<prop::sample::Index>(),
        ) {
            let mut expected: Vec<_> = rows
                .iter()
                .filter(|(_, begin, end, _)| *begin < from + length && *end > from)
                .map(|(_, begin, _, depth)| (*begin, *depth))
                .collect();
            expected.sort_unstable();
            let turn = seed.index(rows.len());
            rows.rotate_left(turn);
            let mut found = found(&spans(&rows), from, from + length);
            found.sort_unstable();
            prop_assert_eq!(found, expected);
        }
    }
}
