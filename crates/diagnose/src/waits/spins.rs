//! Rows of table `spins` in the groups of the waits: samples of a CPU that found a thread which asked what is
//! ready, and did not wait.

use table::Columns;
use table::tables::Spins;

use super::group::WaitSums;
use super::keys::{ObjectKey, ThreadKey};
use super::{Grouping, WaitTable};

impl WaitTable {
    /// Adds rows of table `spins`, in any order. Nobody ends them, and none has a duration: they are in no
    /// grouping by waker, and pass no filter by duration.
    pub fn add_spins(&mut self, rows: &Spins) {
        if let Some((_, last_ns)) = rows.time_range_ns() {
            self.latest_ns = self.latest_ns.max(last_ns);
        }
        for row in 0..rows.len() {
            self.add_spin(rows, row);
        }
    }

    /// Adds the time that a thread spun on a lock.
    fn add_spin(&mut self, rows: &Spins, row: usize) {
        let (pid, tid, time_ns) = (rows.pid[row], rows.tid[row], rows.time_ns[row]);
        let object = self.objects.number(ObjectKey::from_spin(rows, row));
        let filter = &self.filter;
        let passes = (self.span.0..=self.span.1).contains(&time_ns)
            && filter.pid.is_none_or(|wanted| wanted == pid)
            && filter.tid.is_none_or(|wanted| wanted == tid)
            && filter.longer_than_ns.is_none();
        if !(self.is_wanted(object) && passes) {
            return;
        }
        let thread = self.threads.number(ThreadKey { pid, tid });
        let stack = self.names.stacks.number(rows.stack[row]);
        let group = match self.grouping {
            Grouping::Object => object,
            Grouping::Thread => thread,
            Grouping::Stack => stack.unwrap_or(self.names.stacks.unknown()),
            Grouping::Waker => return,
            Grouping::Task => self.names.spans.innermost(pid, tid, time_ns),
            Grouping::Pod | Grouping::Workload => self.place(pid),
        } as usize;
        if group >= self.groups.len() {
            self.groups.resize_with(group + 1, WaitSums::default);
        }
        let length_ns = rows.length_ns[row];
        let sums = &mut self.groups[group];
        sums.first_ns = sums.first_ns.min(time_ns.saturating_sub(length_ns));
        sums.last_ns = sums.last_ns.max(time_ns);
        let spun = sums.spun.get_or_insert_default();
        spun.looks += 1;
        spun.length_ns += length_ns;
        spun.threads.add(thread, length_ns);
        spun.objects.add(object, length_ns);
        if let Some(stack) = stack {
            spun.stacks.add(stack, length_ns);
        }
    }
}
