//! Spans that programs report: rows of table `tasks` in; out, the innermost span of a thread at a time, and how long the
//! spans of one name took.

use std::collections::HashMap;

use table::tables::{Task, Tasks};
use table::{Columns, TaskKind};

use super::report::{Durations, SpanTimes};
use crate::histogram::Histogram;

/// Number of the group of waits outside of all spans.
pub const OUTSIDE: u32 = 0;

/// Property that the spans of one group share.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpanKey {
    /// Process, as the program knows itself.
    pub pid: u32,
    /// Kind of span.
    pub kind: TaskKind,
    /// Its domain.
    pub domain: Option<String>,
    /// Its name.
    pub name: Option<String>,
}

impl SpanKey {
    /// Returns the task's title, as reports print it: `shop: place_order`.
    pub fn title(&self) -> String {
        let kind = self.kind.name().replace('_', " ");
        let title = match (self.kind, self.name.as_deref()) {
            (TaskKind::Task, Some(name)) => name.to_owned(),
            (_, Some(name)) => format!("{name} ({kind})"),
            (_, None) => kind,
        };
        match &self.domain {
            Some(domain) => format!("{domain}: {title}"),
            None => title,
        }
    }
}

/// A span of a thread.
#[derive(Debug, Clone, Copy)]
struct ThreadSpan {
    begin_ns: u64,
    end_ns: u64,
    group: u32,
    /// The latest end of this span and of those that began before it.
    latest_ns: u64,
}

/// Sums of the spans of one group.
#[derive(Debug, Default)]
struct SpanSums {
    durations: Histogram,
    total_ns: u64,
    unfinished: u64,
    handed_over: u64,
}

/// Spans by thread and by name. Their rows are complete before those of waits.
#[derive(Debug, Default)]
pub struct SpanTable {
    numbers: HashMap<SpanKey, u32>,
    keys: Vec<SpanKey>,
    sums: Vec<SpanSums>,
    threads: HashMap<(u32, u32), Vec<ThreadSpan>>,
}

/// Returns whether a row is a span in which a thread works: not a moment, nor a wait itself.
fn is_work(kind: TaskKind) -> bool {
    matches!(
        kind,
        TaskKind::Task
            | TaskKind::OverlappedTask
            | TaskKind::Region
            | TaskKind::Frame
            | TaskKind::Event
    )
}

impl SpanTable {
    /// Adds rows, in any order.
    pub fn add(&mut self, rows: &Tasks) {
        for index in 0..rows.len() {
            if is_work(rows.kind[index]) {
                self.add_span(rows.row(index));
            }
        }
    }

    /// Adds a program's task or event; one without an end counts as unfinished.
    fn add_span(&mut self, row: Task) {
        let thread = (row.pid, row.tid);
        let (begin_ns, end_ns, end_tid) = (row.begin_ns, row.end_ns, row.end_tid);
        let is_moment = row.kind == TaskKind::Event && end_ns.is_none();
        if is_moment {
            return;
        }
        let group = self.number(SpanKey {
            pid: row.pid,
            kind: row.kind,
            domain: row.domain,
            name: row.name,
        });
        let sums = &mut self.sums[group as usize - 1];
        let Some(end_ns) = end_ns else {
            sums.unfinished += 1;
            return;
        };
        let length_ns = end_ns.saturating_sub(begin_ns);
        sums.durations.add(length_ns);
        sums.total_ns += length_ns;
        if end_tid.is_some_and(|tid| tid != row.tid) {
            sums.handed_over += 1;
            return;
        }
        self.threads.entry(thread).or_default().push(ThreadSpan {
            begin_ns,
            end_ns,
            group,
            latest_ns: end_ns,
        });
    }

    /// Returns the number of a task's key; gives a new key the next number.
    fn number(&mut self, key: SpanKey) -> u32 {
        if let Some(number) = self.numbers.get(&key) {
            return *number;
        }
        self.keys.push(key.clone());
        self.sums.push(SpanSums::default());
        let number = self.keys.len() as u32;
        self.numbers.insert(key, number);
        number
    }

    /// Sorts the spans of each thread; call it after the last row.
    pub fn finish(&mut self) {
        for spans in self.threads.values_mut() {
            // of two that start at once the longer one is the outer one
            spans.sort_by_key(|span| (span.begin_ns, std::cmp::Reverse(span.end_ns)));
            let mut latest_ns = 0;
            for span in spans {
                latest_ns = latest_ns.max(span.end_ns);
                span.latest_ns = latest_ns;
            }
        }
    }

    /// Returns the group of the innermost span in which a thread was at a time; [`OUTSIDE`]: in none.
    pub fn innermost(&self, pid: u32, tid: u32, at_ns: u64) -> u32 {
        let Some(spans) = self.threads.get(&(pid, tid)) else {
            return OUTSIDE;
        };
        let begun = spans.partition_point(|span| span.begin_ns <= at_ns);
        let open = spans[..begun].iter().rev();
        let mut open = open.take_while(|span| span.latest_ns > at_ns);
        open.find(|span| span.end_ns > at_ns)
            .map_or(OUTSIDE, |span| span.group)
    }

    /// Returns the number of groups, including the one outside of all spans.
    pub fn groups(&self) -> usize {
        self.keys.len() + 1
    }

    /// Returns the key that the spans of a group share; `None`: it is outside of all spans.
    pub fn key(&self, group: u32) -> Option<&SpanKey> {
        self.keys.get((group as usize).checked_sub(1)?)
    }

    /// Returns how long the spans of a group took; `None`: it is outside of all spans.
    pub fn times(&self, group: u32) -> Option<SpanTimes> {
        let sums = self.sums.get((group as usize).checked_sub(1)?)?;
        Some(SpanTimes {
            count: sums.durations.count(),
            total_ns: sums.total_ns,
            unfinished: sums.unfinished,
            handed_over: sums.handed_over,
            durations: Durations::from_histogram(&sums.durations),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use table::row_of;

    use super::*;

    /// Makes a table of tasks: begin, end, name.
    fn table(spans: &[(u64, u64, &str)]) -> SpanTable {
        let mut rows = Tasks::default();
        for (begin_ns, end_ns, name) in spans {
            let row = json!({
                "begin_ns": begin_ns, "end_ns": end_ns, "source": "itt", "kind": "task",
                "domain": "shop", "name": name, "pid": 7, "tid": 71, "end_tid": 71,
            });
            rows.push(row_of::<Task>(row).expect("a row"));
        }
        let mut table = SpanTable::default();
        table.add(&rows);
        table.finish();
        table
    }

    /// Returns the title of the innermost task of a thread at a time.
    fn name_at(table: &SpanTable, at_ns: u64) -> Option<String> {
        let group = table.innermost(7, 71, at_ns);
        table.key(group).map(SpanKey::title)
    }

    #[test]
    fn a_wait_belongs_to_the_innermost_span() {
        let table = table(&[(40, 45, "late"), (10, 90, "outer"), (20, 30, "inner")]);
        let names = [5, 10, 20, 29, 30, 44, 45, 89, 90].map(|at_ns| name_at(&table, at_ns));
        let expected = [
            None,
            Some("shop: outer"),
            Some("shop: inner"),
            Some("shop: inner"),
            Some("shop: outer"),
            Some("shop: late"),
            Some("shop: outer"),
            Some("shop: outer"),
            None,
        ];
        assert_eq!(names, expected.map(|name| name.map(str::to_owned)));
        assert_eq!(table.innermost(7, 72, 20), OUTSIDE, "another thread");
    }

    #[test]
    fn spans_of_one_name_are_one_group() {
        let table = table(&[(10, 20, "a"), (30, 70, "a"), (80, 81, "b")]);
        assert_eq!(table.groups(), 3);
        let times = table.times(1).expect("times");
        assert_eq!((times.count, times.total_ns, times.unfinished), (2, 50, 0));
        assert!(table.times(OUTSIDE).is_none());
    }
}
