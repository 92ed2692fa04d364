//! What a watch keeps of the rows that come, until it is next looked at. In: the rows that a recording would store. Out:
//! all that came since the last look.

use std::cell::RefCell;

use table::RowSet;
use table::manifest::Line;

use crate::account::{RowCounts, add_counts, count_rows};
use crate::store::RowSink;

/// See the module.
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
    pub(crate) fn kept(&self) -> RowCounts {
        self.taken.borrow().clone()
    }
}

impl RowSink for LiveBuffer {
    fn put(&self, rows: RowSet) {
        add_counts(&mut self.taken.borrow_mut(), count_rows(&rows));
        self.rows.borrow_mut().append(rows);
    }

    fn put_line(&self, _: Line) {}
}
