//! Waits by object, thread or waker: rows of table `waits` in, batch by batch, with a filter; one
//! [`WaitReport`] out. What is kept grows with the groups (a histogram of about 2 kB each), not with
//! the rows.
//!
//! ```text
//! filter       which waits, and what a group has in common
//! keys         row → object, thread and waker, as small numbers
//! places       row → pod or workload, as small numbers
//! names        what people call them
//! stacks       call stacks; the same has several numbers
//! glibc        names of its functions as programs call them
//! group        the sums of a group
//! spins        the same for threads that ask without waiting
//! tasks        spans that programs report: the innermost one of a wait
//! populations  one population of durations, or a fast and a slow one
//! join         what went before the slow waits
//! counters     what programs count, by name
//! report       the contract `whylat.waits/1`
//! ```

mod assemble;
mod counter_report;
pub mod counters;
mod filter;
mod glibc;
mod group;
pub mod join;
mod keys;
mod names;
mod places;
pub(crate) mod populations;
pub mod report;
mod sampled;
mod spins;
mod stacks;
mod tasks;
mod titles;

use std::collections::HashMap;
use std::rc::Rc;

use table::manifest::Header;
use table::tables::Waits;
use table::{Columns, Rows, TableConsumer, TableId, WaitObject};

pub use filter::{Grouping, WaitFilter};
pub use names::NameTable;
use report::LockKind;
pub use report::WaitReport;
pub use sampled::{NoName, SampledFunction};
pub use stacks::{INTERPRETER_FUNCTIONS, KernelPurpose, StackPurpose, Stacks};
pub use titles::ObjectTitles;

use counters::CounterTable;
use group::{WaitParts, WaitSums, WaitTimes};
use join::report::Preceding;
use keys::{KeyNumbers, ObjectKey, ThreadKey, WakerKey};
use places::PlaceNumbers;

/// Groups that fit, with sums of about 1 kB each in use, into the second-level cache of a CPU: half the
/// time a row, measured with 10,000 groups (example `waits_speed`).
const CACHED: usize = 1_024;

/// Waits on their way to a report. Their names are complete before them.
#[derive(Debug)]
pub struct WaitTable {
    header: Header,
    names: Rc<NameTable>,
    grouping: Grouping,
    filter: WaitFilter,
    span: (u64, u64),
    objects: KeyNumbers<ObjectKey>,
    threads: KeyNumbers<ThreadKey>,
    wakers: KeyNumbers<WakerKey>,
    places: PlaceNumbers,
    /// Uses of futexes, by their numbers.
    locks: HashMap<u32, LockKind>,
    /// Whether the filter means the object, by its number.
    wanted: Vec<bool>,
    /// By the number of what the group has in common.
    groups: Vec<WaitSums>,
    /// Rows that do not pass the filter.
    filtered: u64,
    latest_ns: u64,
    /// Where slow waits begin in the groups that were asked already, by number.
    boundaries: HashMap<u32, Option<usize>>,
    /// Counters of programs; `None`: not asked.
    counters: Option<CounterTable>,
    /// Preceding calls by the number of the group; empty: not asked.
    preceding: Vec<Option<Preceding>>,
    /// Rows of the batch that pass, and their order by group; kept for the next batch.
    passed: Vec<WaitParts>,
    order: Vec<u32>,
}

impl TableConsumer for WaitTable {
    fn is_reader_of(&self, table: TableId) -> bool {
        matches!(table, TableId::Wait | TableId::Spin)
    }

    fn add_rows(&mut self, rows: Rows<'_>) {
        match rows {
            Rows::Wait(rows) => self.add(rows),
            Rows::Spin(rows) => self.add_spins(rows),
            _ => {}
        }
    }
}

impl WaitTable {
    /// Makes an empty table of waits; `names` are complete.
    pub fn new(
        header: Header,
        names: Rc<NameTable>,
        grouping: Grouping,
        filter: WaitFilter,
    ) -> Self {
        Self {
            span: filter.span_ns(header.started_ns),
            latest_ns: header.started_ns,
            boundaries: HashMap::new(),
            counters: None,
            preceding: Vec::new(),
            header,
            names,
            grouping,
            filter,
            objects: KeyNumbers::default(),
            threads: KeyNumbers::default(),
            wakers: KeyNumbers::default(),
            places: PlaceNumbers::default(),
            locks: HashMap::new(),
            wanted: Vec::new(),
            groups: Vec::new(),
            filtered: 0,
            passed: Vec::new(),
            order: Vec::new(),
        }
    }

    /// Adds counters, which are reported beside the waits.
    #[must_use]
    pub fn with_counters(mut self, counters: CounterTable) -> Self {
        self.counters = Some(counters);
        self
    }

    /// Adds rows of table `waits`, in any order.
    pub fn add(&mut self, rows: &Waits) {
        if let Some((_, last_ns)) = rows.time_range_ns() {
            self.latest_ns = self.latest_ns.max(last_ns);
        }
        let mut passed = std::mem::take(&mut self.passed);
        let least_ns = self.filter.longer_than_ns;
        passed.clear();
        passed.extend((0..rows.len()).filter_map(|row| self.passed(rows, row, least_ns)));
        self.filtered += (rows.len() - passed.len()) as u64;
        self.sort(&passed);
        for index in 0..passed.len() {
            self.count(&passed[self.order[index] as usize]);
        }
        self.passed = passed;
    }

    /// Sorts rows by group, if the sums of many groups exceed a CPU cache (counting sort: Knuth,
    /// TAOCP 3, 5.2, algorithm D). Every group gets a place.
    fn sort(&mut self, passed: &[WaitParts]) {
        let most = passed.iter().map(|it| self.group(it)).max();
        let groups = most.map_or(0, |most| most + 1).max(self.groups.len());
        self.groups.resize_with(groups, WaitSums::default);
        self.order.clear();
        if groups <= CACHED {
            self.order.extend(0..passed.len() as u32);
            return;
        }
        let mut places = vec![0; groups + 1];
        for it in passed {
            places[self.group(it) + 1] += 1;
        }
        for group in 0..groups {
            places[group + 1] += places[group];
        }
        self.order.resize(passed.len(), 0);
        for (index, it) in (0_u32..).zip(passed) {
            let place: &mut usize = &mut places[self.group(it)];
            self.order[*place] = index;
            *place += 1;
        }
    }

    /// Returns the number of a row's group.
    fn group(&self, it: &WaitParts) -> usize {
        (match self.grouping {
            Grouping::Object => it.object,
            Grouping::Thread => it.thread,
            Grouping::Stack => it.stack.unwrap_or(self.names.stacks.unknown()),
            Grouping::Waker => it.waker,
            Grouping::Task => it.task,
            Grouping::Pod | Grouping::Workload => it.place,
        }) as usize
    }

    /// Returns the number of the pod or workload of a process; of other groupings, always the same.
    fn place(&mut self, pid: u32) -> u32 {
        let names = &self.names;
        match self.grouping {
            Grouping::Pod => self.places.number(pid, || names.pod(pid)),
            Grouping::Workload => self.places.number(pid, || names.workload(pid)),
            _ => 0,
        }
    }

    /// Returns a row with its numbers; `None` if it does not pass the filter.
    #[inline(always)] // costs the grouping a third of its speed otherwise
    fn passed(
        &mut self,
        rows: &Waits,
        row: usize,
        longer_than_ns: Option<u64>,
    ) -> Option<WaitParts> {
        let object = self.objects.number(ObjectKey::from_wait(rows, row));
        let filter = &self.filter;
        let (pid, tid) = (rows.pid[row], rows.tid[row]);
        let times = WaitTimes::from_row(rows, row);
        let passes = (self.span.0..=self.span.1).contains(&times.end_ns)
            && filter.pid.is_none_or(|wanted| wanted == pid)
            && filter.tid.is_none_or(|wanted| wanted == tid)
            && longer_than_ns.is_none_or(|least| times.blocked_ns > least);
        if !(self.is_wanted(object) && passes) {
            return None;
        }
        let ready = rows.ready_conn[row].map(ObjectKey::conn);
        let stack = self.names.stacks.number(rows.stack[row]);
        if rows.kind[row] == WaitObject::Futex {
            self.note_lock(object, stack);
        }
        Some(WaitParts {
            times,
            object,
            thread: self.threads.number(ThreadKey { pid, tid }),
            waker: self.wakers.number(WakerKey::from_wait(rows, row)),
            stack,
            kernel_stack: self.names.stacks.number(rows.kernel_stack[row]),
            task: match self.grouping {
                Grouping::Task => self.names.spans.innermost(pid, tid, times.start_ns),
                _ => tasks::OUTSIDE,
            },
            place: self.place(pid),
            ready: ready.map(|ready| self.objects.number(ready)),
        })
    }

    /// Notes the kind of lock of a futex, by the first stack that shows it.
    fn note_lock(&mut self, object: u32, stack: Option<u32>) {
        if let Some(stack) = stack.and_then(|stack| self.names.stacks.stack(stack))
            && !self.locks.contains_key(&object)
            && let Some(lock) = stack.lock()
        {
            self.locks.insert(object, lock);
        }
    }

    /// Returns whether the filter selects an object; asks once for each object.
    fn is_wanted(&mut self, object: u32) -> bool {
        let Some(wanted) = &self.filter.object else {
            return true;
        };
        while let Some(new) = self.objects.keys().get(self.wanted.len()) {
            self.wanted.push(self.names.means(wanted, *new));
        }
        self.wanted[object as usize]
    }

    /// Adds a row to the sums of its group.
    fn count(&mut self, it: &WaitParts) {
        let group = self.group(it);
        let sums = &mut self.groups[group];
        let blocked_ns = it.times.blocked_ns;
        sums.add(it.times);
        if self.grouping != Grouping::Object {
            sums.objects.add(it.object, blocked_ns);
        }
        if self.grouping != Grouping::Thread {
            sums.threads.add(it.thread, blocked_ns);
        }
        if self.grouping != Grouping::Waker {
            sums.wakers.add(it.waker, blocked_ns);
        }
        if self.grouping != Grouping::Stack
            && let Some(stack) = it.stack
        {
            sums.stacks.add(stack, blocked_ns);
        }
        if let Some(stack) = it.kernel_stack {
            sums.kernel_stacks.add(stack, blocked_ns);
        }
        if let Some(ready) = it.ready {
            sums.ready.add(ready, blocked_ns);
        }
    }

    /// Returns whether the filter names an object and no row has it.
    pub fn object_is_missing(&self) -> bool {
        self.filter.object.is_some() && !self.wanted.contains(&true)
    }
}

#[cfg(test)]
mod tests;
