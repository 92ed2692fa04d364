//! Calls and counters before slow waits: rows of `waits`, `calls` and `counters` in, once the groups and their
//! populations are known; for each group out, which sizes of sends, numbers of sends since the last
//! receive and values of counters its slow waits go with ([`report::Preceding`]).
//!
//! Rows come from three tables at once, each a little out of order. Whoever reads asks which table
//! [`Join::lacks`] rows of; so no table runs ahead by more than a batch, and what is held in memory does
//! not grow with the recording.
//!
//! ```text
//! history      the join: what went before each wait
//! counters     counters by name
//! sides        slow and fast waits of a group, by what went before
//! factor       waits by one number, and all cuts through it
//! association  the best cut, if it is more than chance
//! ```

pub(crate) mod association;
pub(super) mod counters;
pub(crate) mod factor;
mod groups;
mod history;
pub mod report;
mod sides;

use table::tables::{Calls, Counters, Waits};
use table::{Columns, WaitObject};

use super::WaitTable;
use super::keys::{KeyNumbers, ThreadKey};
use crate::rows::in_order::InOrder;
use crate::rows::sends::{CallBytes, PrecedingCalls};
use history::{CallTimes, History, WaitInterval};
use report::Preceding;
use sides::WaitSides;

/// Rows that are held back to be put in order: more than come from all tables between two drains of the
/// kernel's buffers.
const ROWS_KEPT: usize = 1 << 16;

/// A table that takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinSource {
    /// `counters`.
    Counters,
    /// `waits`.
    Waits,
    /// `calls`.
    Calls,
}

const SOURCES: [JoinSource; 3] = [JoinSource::Counters, JoinSource::Waits, JoinSource::Calls];

/// A row, as far as it matters. Of equal times, values come before waits, and waits before the calls
/// that they may be within.
#[derive(Debug)]
enum JoinRow {
    Value { counter: u16, value: f64 },
    Wait(WaitInterval),
    Call(CallTimes),
}

type JoinKey = (u64, u8);

/// Groups of waits on their way to what went before them.
#[derive(Debug)]
pub struct Join<'a> {
    table: &'a mut WaitTable,
    /// By the number of the group; `None`: nothing is asked of it.
    sides: Vec<Option<WaitSides>>,
    /// Until when the rows of each source have come, ns; `None`: all have.
    reached_ns: [Option<u64>; SOURCES.len()],
    threads: KeyNumbers<ThreadKey>,
    names: counters::CounterNames,
    waiting: InOrder<JoinKey, (u32, JoinRow)>,
    history: History,
}

impl<'a> Join<'a> {
    /// Begins the join for the groups of a table; in each, waits of `slow_from_ns` or longer are
    /// slow.
    pub(super) fn new(table: &'a mut WaitTable, slow_from_ns: Vec<Option<u64>>) -> Self {
        let sides = slow_from_ns.into_iter().map(|ns| ns.map(WaitSides::new));
        Self {
            sides: sides.collect(),
            table,
            reached_ns: [Some(0); SOURCES.len()],
            threads: KeyNumbers::default(),
            names: counters::CounterNames::default(),
            waiting: InOrder::new(ROWS_KEPT),
            history: History::default(),
        }
    }

    /// Sets another number of rows that are held back.
    #[cfg(test)]
    fn with_held_rows(mut self, rows: usize) -> Self {
        self.waiting = InOrder::new(rows);
        self
    }

    /// The table of the next rows; `None`: all have come.
    pub fn lacks(&self) -> Option<JoinSource> {
        let reached = SOURCES.into_iter().zip(self.reached_ns);
        let behind = reached.filter_map(|(source, ns)| Some((ns?, source)));
        behind.min_by_key(|(ns, _)| *ns).map(|(_, source)| source)
    }

    /// Takes the next rows of table `counters`; `None`: there are no more.
    pub fn add_counters(&mut self, rows: Option<&Counters>) {
        let Some(rows) = rows else {
            return self.advance_source(JoinSource::Counters, None);
        };
        for row in 0..rows.len() {
            let number = self.names.number(rows, row);
            if let (Some(counter), Some(value)) = (number, counters::value(rows, row)) {
                let thread = self.thread(rows.pid[row], rows.tid[row]);
                let row_of = JoinRow::Value { counter, value };
                self.waiting.push((rows.time_ns[row], 0), (thread, row_of));
            }
        }
        self.advance_source(JoinSource::Counters, Some(rows.time_range_ns()));
    }

    /// Takes the next rows of table `waits`; `None`: there are no more.
    pub fn add_waits(&mut self, rows: Option<&Waits>) {
        let Some(rows) = rows else {
            return self.advance_source(JoinSource::Waits, None);
        };
        for row in 0..rows.len() {
            let Some(passed) = self.table.passed(rows, row, None) else {
                continue;
            };
            let group = self.table.group(&passed);
            let Some(Some(sides)) = self.sides.get(group) else {
                continue;
            };
            let is_connection = rows.kind[row] == WaitObject::Connection;
            let own = rows.conn[row].filter(|_| is_connection);
            let wait = WaitInterval {
                start_ns: passed.times.start_ns,
                conn: own.or(rows.ready_conn[row]),
                may_be_in_call: own.is_some(),
                group: group as u32,
                is_slow: passed.times.blocked_ns >= sides.slow_from_ns,
            };
            let thread = self.thread(rows.pid[row], rows.tid[row]);
            let key = (passed.times.end_ns, 1);
            self.waiting.push(key, (thread, JoinRow::Wait(wait)));
        }
        self.advance_source(JoinSource::Waits, Some(rows.time_range_ns()));
    }

    /// Takes the next rows of table `calls`; `None`: there are no more.
    pub fn add_calls(&mut self, rows: Option<&Calls>) {
        let Some(rows) = rows else {
            return self.advance_source(JoinSource::Calls, None);
        };
        for row in 0..rows.len() {
            let (end_ns, is_send) = (rows.end_ns[row], rows.is_send[row]);
            let (result, offset_end) = (rows.result[row], rows.offset_end[row]);
            let call = CallTimes {
                conn: rows.conn[row],
                blocked_from_ns: rows.start_ns[row],
                moved: CallBytes::new(end_ns, is_send, result, offset_end, rows.flags[row]),
            };
            let thread = self.thread(rows.pid[row], rows.tid[row]);
            self.waiting
                .push((end_ns, 2), (thread, JoinRow::Call(call)));
        }
        self.advance_source(JoinSource::Calls, Some(rows.time_range_ns()));
    }

    /// Returns the number of a thread.
    fn thread(&mut self, pid: u32, tid: u32) -> u32 {
        self.threads.number(ThreadKey { pid, tid })
    }

    /// Notes that rows of a source have come, up to the end of `range`; `None`: all have come.
    fn advance_source(&mut self, source: JoinSource, range: Option<Option<(u64, u64)>>) {
        let reached = &mut self.reached_ns[source as usize];
        let until_ns = reached.unwrap_or(0);
        *reached = range.map(|range| range.map_or(until_ns, |(_, last_ns)| last_ns.max(until_ns)));
        if self.waiting.is_full() {
            let least_ns = self.reached_ns.into_iter().flatten().min();
            let Self { sides, history, .. } = self;
            let first = self.waiting.release(least_ns.map(|ns| (ns, 0)));
            first.for_each(|(_, (thread, row))| join(sides, history, thread, row));
        }
    }

    /// Gives the results to the table's report; no more rows follow.
    pub fn finish(mut self) {
        self.join_held_rows();
        let report = |sides: &Option<WaitSides>| -> Option<Preceding> {
            sides.as_ref().map(|sides| sides.report(&self.names))
        };
        self.table.preceding = self.sides.iter().map(report).collect();
    }

    /// Joins all that was held back.
    fn join_held_rows(&mut self) {
        let Self { sides, history, .. } = self;
        let rest = self.waiting.finish();
        rest.for_each(|(_, (thread, row))| join(sides, history, thread, row));
        history.finish(|wait, before| add_wait(sides, wait, before));
    }
}

/// Joins a row that comes after all others.
fn join(sides: &mut [Option<WaitSides>], history: &mut History, thread: u32, row: JoinRow) {
    match row {
        JoinRow::Value { counter, value } => history.value(thread, counter, value),
        JoinRow::Call(call) => {
            history.call(thread, call, |wait, before| add_wait(sides, wait, before))
        }
        JoinRow::Wait(wait) => {
            history.wait(thread, wait, |wait, before| add_wait(sides, wait, before));
            if let Some(sides) = &mut sides[wait.group as usize] {
                let values = history.values(thread);
                sides.add(wait.is_slow, wait.conn.is_some(), values);
            }
        }
    }
}

/// Adds what is known of the calls before a wait to its group.
fn add_wait(sides: &mut [Option<WaitSides>], wait: WaitInterval, before: PrecedingCalls) {
    if let Some(sides) = &mut sides[wait.group as usize] {
        sides.add_calls(wait.is_slow, before);
    }
}

#[cfg(test)]
mod tests;
