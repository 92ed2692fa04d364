//! Firings of USDT probes → rows. A value is a row of `counters`; a task of our own header is a row of
//! `tasks` once it ends; a probe without values is a marker there.

use ::itt::Value;
use table::tables::{Counter, Task};
use table::{Columns, CounterKind, RowSet, TaskKind, ValueSource};

use super::attach::{Firing, FiringCounts};
use super::probe::{Argument, Marker, Meaning, Probe};
use crate::itt::notes::{self, Notes};
use crate::itt::open::{End, Open, OpenSpan, SpanKey};

/// Assembles rows of firings.
#[derive(Debug)]
pub struct Assembler {
    probes: Vec<Probe>,
    open: Open,
    rows: RowSet,
    /// Records taken, as the account counts them.
    taken: u64,
    unread: u64,
    counters: u64,
    tasks: u64,
}

/// Counts of firings, by their fate. A value is a record, and a firing without values is one. Each is a
/// row, filtered (it ended the row of another), or lost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UsdtCounts {
    /// Records, as the kernel counted them.
    pub produced: u64,
    /// Ends of tasks, which completed the rows of their beginnings.
    pub filtered: u64,
    /// The ring was full.
    pub lost_ring_full: u64,
    /// Arguments that were in memory which could not be read.
    pub lost_unread: u64,
    /// Ends of tasks that were never seen to begin.
    pub lost_no_begin: u64,
    /// Rows of `counters` that were made.
    pub counters: u64,
    /// Rows of `tasks` that were made.
    pub tasks: u64,
}

impl Assembler {
    /// Creates the assembly of these probes' firings.
    pub fn new(probes: &[Probe]) -> Self {
        Self {
            probes: probes.to_vec(),
            open: Open::default(),
            rows: RowSet::default(),
            taken: 0,
            unread: 0,
            counters: 0,
            tasks: 0,
        }
    }

    /// Adds the rows of a firing.
    pub fn add_firing(&mut self, firing: &Firing) {
        let Some(probe) = self.probes.get(firing.probe) else {
            return;
        };
        self.taken += probe.width();
        match &probe.meaning {
            Meaning::Marker => match marker(firing) {
                Some(marker) => take_marker(probe, firing, marker, &mut self.open, &mut self.rows),
                None => self.unread += 1,
            },
            Meaning::Values(arguments) => {
                for argument in arguments {
                    match firing.value(argument) {
                        Some(value) => {
                            let row = counter_row(probe, firing, argument.name.clone(), value);
                            self.rows.counters.push(row);
                        }
                        None => self.unread += 1,
                    }
                }
            }
            Meaning::Moment => {
                let row = task_row(probe, firing, TaskKind::Marker);
                self.rows.tasks.push(row);
            }
        }
    }

    /// Returns the rows made so far, and removes them.
    pub fn take_rows(&mut self) -> RowSet {
        self.counters += self.rows.counters.len() as u64;
        self.tasks += self.rows.tasks.len() as u64;
        std::mem::take(&mut self.rows)
    }

    /// Returns the last rows, also those of tasks that never ended; no more firings follow.
    pub fn finish(&mut self) -> RowSet {
        self.open.finish(&mut self.rows.tasks);
        self.take_rows()
    }

    /// Returns the account, after [`finish`](Self::finish).
    pub fn counts(&self, fired: &[FiringCounts]) -> UsdtCounts {
        let of_all = |count: fn(&FiringCounts) -> u64| {
            let probes = self.probes.iter().zip(fired);
            probes
                .map(|(probe, fired)| probe.width() * count(fired))
                .sum()
        };
        let rows = self.counters + self.tasks;
        UsdtCounts {
            produced: of_all(|fired| fired.fired),
            filtered: self.taken - rows - self.unread - self.open.unpaired,
            lost_ring_full: of_all(|fired| fired.lost_ring_full),
            lost_unread: self.unread,
            lost_no_begin: self.open.unpaired,
            counters: self.counters,
            tasks: self.tasks,
        }
    }
}

impl Firing {
    /// Returns whether the kernel program could read this argument.
    fn is_read(&self, index: usize) -> bool {
        self.unread & (1 << index) == 0
    }

    /// Returns the value of an argument; None if it could not be read.
    fn value(&self, argument: &Argument) -> Option<Value> {
        let value = *self.values.get(argument.index)?;
        self.is_read(argument.index)
            .then(|| typed_value(value, !argument.is_signed))
    }
}

/// Returns the kind of whylat's own marker; None if the arguments are not those of one.
fn marker(firing: &Firing) -> Option<Marker> {
    let is_read = firing.is_read(0) && firing.is_read(1);
    Marker::from_kind(firing.values[0]).filter(|_| is_read)
}

fn typed_value(value: i64, is_unsigned: bool) -> Value {
    match is_unsigned {
        true => Value::U64(value.cast_unsigned()),
        false => Value::S64(value),
    }
}

/// Adds the rows of a marker: a value, a moment, or begin and end of a span.
fn take_marker(probe: &Probe, firing: &Firing, marker: Marker, open: &mut Open, rows: &mut RowSet) {
    let value = firing.values[1];
    let key = SpanKey::Event {
        pid: firing.pid,
        tid: firing.tid,
        event: firing.probe as u32,
    };
    match marker {
        Marker::Counter { is_unsigned } => {
            let value = typed_value(value, is_unsigned);
            rows.counters
                .push(counter_row(probe, firing, probe.name.clone(), value));
        }
        Marker::Mark { is_unsigned } => {
            let numbers = notes::number_note(
                Some("value".to_owned()),
                &[typed_value(value, is_unsigned)],
                1,
            );
            rows.tasks.push(Task {
                metadata: Notes::from_entry(&numbers).text(),
                ..task_row(probe, firing, TaskKind::Marker)
            });
        }
        Marker::Begin => {
            let span = OpenSpan {
                key,
                named: None,
                row: task_row(probe, firing, TaskKind::Task),
                notes: Notes::default(),
            };
            open.begin(span, &mut rows.tasks);
        }
        Marker::End => {
            let end = End {
                time_ns: firing.time_ns,
                tid: firing.tid,
                ticks: None,
            };
            if !open.end(key, end, &mut rows.tasks, |_| ()) {
                open.end_early(key, end);
            }
        }
    }
}

/// Makes the row of a counter's value.
fn counter_row(probe: &Probe, firing: &Firing, name: String, value: Value) -> Counter {
    let (value_u64, value_s64, value_f64) = crate::itt::words::split(value);
    Counter {
        time_ns: firing.time_ns,
        source: ValueSource::Usdt,
        pid: firing.pid,
        tid: firing.tid,
        domain: Some(probe.provider.clone()),
        name: Some(name),
        counter: None,
        kind: CounterKind::Set,
        value_u64,
        value_s64,
        value_f64,
        unit: None,
        given_ticks: None,
    }
}

/// Makes the row of a task that begins here, with nothing else known.
fn task_row(probe: &Probe, firing: &Firing, kind: TaskKind) -> Task {
    Task {
        begin_ns: firing.time_ns,
        end_ns: None,
        source: ValueSource::Usdt,
        kind,
        domain: Some(probe.provider.clone()),
        name: Some(probe.name.clone()),
        pid: firing.pid,
        tid: firing.tid,
        end_tid: None,
        id: None,
        parent: None,
        object: None,
        scope: None,
        given_begin_ticks: None,
        given_end_ticks: None,
        metadata: None,
    }
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
mod tests;
