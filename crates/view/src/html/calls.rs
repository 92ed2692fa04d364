//! The send or receive call around each wait, for a browser.

use std::collections::HashMap;

use table::tables::{Call, Waits};
use table::{Columns, Field, Recording};

use super::column::{CellKind, ColumnCells, DerivedColumn};

const CALL_BYTES: Field = Field {
    name: "call_bytes",
    doc: "What the send or receive call that it was in moved.",
    unit: "bytes",
    null: "it was in none, which moved something, or calls were not logged",
};
const CALL_SENDS: Field = Field {
    name: "call_sends",
    doc: "Whether that call sent.",
    unit: "-",
    null: "as `call_bytes`",
};

/// Columns that are added to waits.
pub fn columns(recording: &Recording, waits: &Waits) -> [DerivedColumn; 2] {
    let calls = around(recording, waits).into_iter();
    let bytes = calls.clone().map(|it| Some(it?.1.to_string()));
    let sends = calls.map(|it| Some(it?.0.to_string()));
    [
        (
            &CALL_BYTES,
            CellKind::Word,
            ColumnCells::Word(bytes.collect()),
        ),
        (
            &CALL_SENDS,
            CellKind::Word,
            ColumnCells::Word(sends.collect()),
        ),
    ]
}

/// Returns the call around each wait: whether it sent, and its bytes.
fn around(recording: &Recording, waits: &Waits) -> Vec<Option<(bool, i32)>> {
    let mut calls: HashMap<u32, Vec<(u64, u64, bool, i32)>> = HashMap::new();
    recording.scan::<Call>(|rows| {
        for row in 0..rows.len() {
            if let Some(start_ns) = rows.start_ns[row].filter(|_| rows.result[row] > 0) {
                let call = (
                    rows.end_ns[row],
                    start_ns,
                    rows.is_send[row],
                    rows.result[row],
                );
                calls.entry(rows.tid[row]).or_default().push(call);
            }
        }
    });
    calls.values_mut().for_each(|it| it.sort_unstable());
    let around = |row: usize| {
        let calls = calls.get(&waits.tid[row])?;
        let first = calls.partition_point(|(end_ns, ..)| *end_ns < waits.end_ns[row]);
        let (_, start_ns, sends, bytes) = calls.get(first)?;
        (*start_ns <= waits.start_ns[row]).then_some((*sends, *bytes))
    };
    (0..waits.len()).map(around).collect()
}
