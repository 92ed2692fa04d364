//! The rows between two snapshots of a live view. In: the rows that a recording would store. Out: all that came since
//! the last snapshot.

use std::cell::RefCell;

use table::RowSet;
use table::manifest::Line;

use crate::account::{RowCounts, add_counts, count_rows};
use crate::store::RowSink;

/// Buffers rows between two snapshots.
#[derive(Default)]
pub(crate) struct LiveBuffer {
    rows: RefCell<RowSet>,
    taken: RefCell<RowCounts>,
}

impl LiveBuffer {
    /// The rows since the last call.
    pub(crate) fn take(&self) -> RowSet {
        self.rows.take()
    }

    /// Rows that were kept so far, by table.
    pub(crate) fn count_rows(&self) -> RowCounts {
        self.taken.borrow().clone()
    }
}

impl RowSink for LiveBuffer {
    fn store_rows(&self, rows: RowSet) {
        add_counts(&mut self.taken.borrow_mut(), count_rows(&rows));
        self.rows.borrow_mut().append(rows);
    }

    fn store_line(&self, _: Line) {}
}
