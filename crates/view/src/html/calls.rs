//! The send or receive call around each wait, for a browser.

use std::collections::HashMap;

use table::tables::{Call, Waits};
use table::{Columns, Field, Recording};

use super::column::{CellKind, ColumnCells, DerivedColumn};

const CALL_BYTES: Field = Field {
    name: "call_bytes",
    doc: "Bytes that the send or receive call around it moved.",
    unit: "bytes",
    null: "no call around it moved bytes, or calls were not recorded",
};
const CALL_SENDS: Field = Field {
    name: "call_sends",
    doc: "Whether that call sent.",
    unit: "-",
    null: "as `call_bytes`",
};

/// Calls that blocked and moved something, by thread: end, start, whether it sent, bytes.
#[derive(Debug)]
pub struct BlockedCalls {
    by_thread: HashMap<u32, Vec<(u64, u64, bool, i32)>>,
}

impl BlockedCalls {
    /// Reads the blocked calls of a recording.
    pub fn read(recording: &Recording) -> Self {
        let mut by_thread: HashMap<u32, Vec<(u64, u64, bool, i32)>> = HashMap::new();
        recording.scan::<Call>(|rows| {
            for row in 0..rows.len() {
                if let Some(start_ns) = rows.start_ns[row].filter(|_| rows.result[row] > 0) {
                    let call = (
                        rows.end_ns[row],
                        start_ns,
                        rows.is_send[row],
                        rows.result[row],
                    );
                    by_thread.entry(rows.tid[row]).or_default().push(call);
                }
            }
        });
        by_thread.values_mut().for_each(|it| it.sort_unstable());
        Self { by_thread }
    }

    /// Returns the columns that are added to waits.
    pub fn columns(&self, waits: &Waits) -> [DerivedColumn; 2] {
        let calls = (0..waits.len()).map(|row| self.call_around(waits, row));
        let bytes = calls.clone().map(|it| Some(it?.1.to_string()));
        let sends = calls.map(|it| Some(it?.0.to_string()));
        let word = |cells| ColumnCells::Word(cells);
        [
            (&CALL_BYTES, CellKind::Word, word(bytes.collect())),
            (&CALL_SENDS, CellKind::Word, word(sends.collect())),
        ]
    }

    /// Returns the call around a wait: whether it is a send call, and its bytes.
    fn call_around(&self, waits: &Waits, row: usize) -> Option<(bool, i32)> {
        let calls = self.by_thread.get(&waits.tid[row])?;
        let first = calls.partition_point(|(end_ns, ..)| *end_ns < waits.end_ns[row]);
        let (_, start_ns, sends, bytes) = calls.get(first)?;
        (*start_ns <= waits.start_ns[row]).then_some((*sends, *bytes))
    }
}
