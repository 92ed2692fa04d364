//! Waits by object, thread or waker: rows of table `waits` in, batch by batch, with a filter; one
//! [`WaitReport`] out. What is kept grows with the groups (a histogram of about 2 kB each), not with
//! the rows.
//!
//! ```text
//! filter       which waits, and what a group has in common
//! keys         row → object, thread and waker, as small numbers
//! names        what people call them
//! group        the sums of a group
//! histogram    durations, in log-linear buckets
//! top          who takes part most, in bounded memory
//! populations  one population of durations, or a fast and a slow one
//! report       the contract `whylat.waits/1`
//! ```

mod assemble;
mod filter;
mod group;
mod histogram;
mod keys;
mod names;
mod populations;
pub mod report;
mod top;

use table::Columns;
use table::manifest::Header;
use table::tables::Waits;

pub use assemble::Recorded;
pub use filter::{Grouping, WaitFilter};
pub use names::Names;
pub use report::WaitReport;

use group::{Sums, Wait};
use keys::{Numbers, ObjectKey, ThreadKey, WakerKey};

/// Waits on their way to a report.
#[derive(Debug)]
pub struct WaitTable {
    header: Header,
    names: Names,
    grouping: Grouping,
    filter: WaitFilter,
    span: (u64, u64),
    objects: Numbers<ObjectKey>,
    threads: Numbers<ThreadKey>,
    wakers: Numbers<WakerKey>,
    /// Whether the filter means the object, by its number.
    wanted: Vec<bool>,
    /// By the number of what the group has in common.
    groups: Vec<Sums>,
    /// Rows that do not pass the filter.
    filtered: u64,
    latest_ns: u64,
}

impl WaitTable {
    /// Starts with what the manifest says, and names that are complete.
    pub fn new(header: Header, mut names: Names, grouping: Grouping, filter: WaitFilter) -> Self {
        names.finish();
        Self {
            span: filter.span_ns(header.started_ns),
            latest_ns: header.started_ns,
            header,
            names,
            grouping,
            filter,
            objects: Numbers::default(),
            threads: Numbers::default(),
            wakers: Numbers::default(),
            wanted: Vec::new(),
            groups: Vec::new(),
            filtered: 0,
        }
    }

    /// Adds rows of table `waits`, in any order.
    pub fn add(&mut self, rows: &Waits) {
        if let Some((_, last_ns)) = rows.time_range_ns() {
            self.latest_ns = self.latest_ns.max(last_ns);
        }
        for index in 0..rows.len() {
            match self.wait(rows, index) {
                Some(wait) => self.count(&wait),
                None => self.filtered += 1,
            }
        }
    }

    /// A row as a wait; `None` if it does not pass the filter.
    fn wait(&mut self, rows: &Waits, index: usize) -> Option<Wait> {
        let object = self.objects.number(ObjectKey::of(rows, index));
        let filter = &self.filter;
        let (start_ns, end_ns) = (rows.start_ns[index], rows.end_ns[index]);
        let (pid, tid) = (rows.pid[index], rows.tid[index]);
        let woken_ns = rows.woken_ns[index];
        let blocked_ns = woken_ns.unwrap_or(end_ns).saturating_sub(start_ns);
        let passes = (self.span.0..=self.span.1).contains(&end_ns)
            && filter.pid.is_none_or(|wanted| wanted == pid)
            && filter.tid.is_none_or(|wanted| wanted == tid)
            && filter.longer_than_ns.is_none_or(|least| blocked_ns > least);
        if !(self.is_wanted(object) && passes) {
            return None;
        }
        let ready = rows.ready_conn[index].map(ObjectKey::conn);
        Some(Wait {
            blocked_ns,
            runq_ns: woken_ns.map(|woken_ns| end_ns.saturating_sub(woken_ns)),
            start_ns,
            end_ns,
            object,
            thread: self.threads.number(ThreadKey { pid, tid }),
            waker: self.wakers.number(WakerKey::of(rows, index)),
            ready: ready.map(|ready| self.objects.number(ready)),
        })
    }

    /// Whether the filter means an object; asked of its name once.
    fn is_wanted(&mut self, object: u32) -> bool {
        let Some(wanted) = &self.filter.object else {
            return true;
        };
        while let Some(new) = self.objects.keys().get(self.wanted.len()) {
            self.wanted.push(self.names.means(wanted, *new));
        }
        self.wanted[object as usize]
    }

    fn count(&mut self, wait: &Wait) {
        let Wait {
            object,
            thread,
            waker,
            blocked_ns,
            ..
        } = *wait;
        let group = match self.grouping {
            Grouping::Object => object,
            Grouping::Thread => thread,
            Grouping::Waker => waker,
        };
        if group as usize >= self.groups.len() {
            self.groups.resize_with(group as usize + 1, Sums::default);
        }
        let sums = &mut self.groups[group as usize];
        sums.add(wait);
        if self.grouping != Grouping::Object {
            sums.objects.add(object, blocked_ns);
        }
        if self.grouping != Grouping::Thread {
            sums.threads.add(thread, blocked_ns);
        }
        if self.grouping != Grouping::Waker {
            sums.wakers.add(waker, blocked_ns);
        }
    }

    /// Whether the filter names an object and no row has it.
    pub fn object_is_missing(&self) -> bool {
        self.filter.object.is_some() && !self.wanted.contains(&true)
    }
}
