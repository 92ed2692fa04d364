//! Waits on the tracks of their threads.

use std::io;

use table::tables::{Wait, Waits};
use table::{Columns, Recording};

use super::trace::{NoteValue, TraceEvent};
use super::tracks::TraceDrawing;

/// Writes the waits of all threads.
pub(super) fn draw(drawing: &mut TraceDrawing<'_>, recording: &Recording) -> io::Result<()> {
    for rows in recording.batches::<Wait>() {
        for row in 0..rows.len() {
            span(drawing, &rows, row)?;
        }
    }
    Ok(())
}

/// Draws one wait on its thread's track; waits of a thread never overlap.
fn span(drawing: &mut TraceDrawing<'_>, rows: &Waits, row: usize) -> io::Result<()> {
    let track = drawing.thread(rows.pid[row], rows.tid[row])?;
    let names = drawing.names;
    let object = names.object_of(rows, row).name;
    let ready = rows.ready_conn[row].map(|conn| names.connection(conn).name);
    let mut notes = vec![
        ("kind", NoteValue::Text(rows.kind[row].name())),
        ("waker", NoteValue::Text(rows.waker[row].name())),
    ];
    if let Some(ready) = &ready {
        notes.push(("ready", NoteValue::Text(ready)));
    }
    let numbers = [
        ("waker_tid", rows.waker_tid[row].map(u64::from)),
        (
            "runq_ns",
            rows.woken_ns[row].map(|ns| rows.end_ns[row].saturating_sub(ns)),
        ),
        ("conn", rows.conn[row]),
    ];
    let known = numbers.into_iter();
    notes.extend(known.filter_map(|(name, number)| Some((name, NoteValue::Unsigned(number?)))));
    let what = TraceEvent {
        name: &object,
        category: "wait",
        flow: None,
        notes: &notes,
    };
    let (start_ns, end_ns) = (rows.start_ns[row], rows.end_ns[row]);
    drawing.trace.open(track, start_ns, &what)?;
    drawing.trace.close(track, end_ns.max(start_ns))
}
