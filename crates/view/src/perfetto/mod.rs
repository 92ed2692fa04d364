//! A recording as a trace for Perfetto's user interface: a `.pftrace`, written while the tables are read, batch by
//! batch.
//!
//! ```text
//! wire      the protobuf wire format
//! trace     Perfetto's packets: clocks, tracks, events
//! lanes     spans of one name, so that those on a track nest
//! tracks    processes, threads, connections, CPUs
//! findings, requests, cpus, tasks, waits, messages, counters    what is drawn, a table each
//! ```
//!
//! Memory grows with the tracks, and with the spans of programs, in a short form.

mod counters;
mod cpus;
mod findings;
mod lanes;
mod messages;
mod requests;
mod tasks;
mod trace;
mod tracks;
mod waits;
mod wire;

use std::io::{self, BufWriter, Write};

use diagnose::Report;
use table::tables::ClockPair;
use table::{Columns, Recording};

use trace::{TraceClock, TraceWriter};
use tracks::TraceDrawing;

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes the trace of a recording, with the findings of its report.
///
/// # Errors
/// When `out` cannot be written.
pub fn write_trace(recording: &Recording, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
    let names = diagnose::recording::read_names(recording);
    let mut drawing = TraceDrawing::new(TraceWriter::begin(&mut out)?, &names);
    write_clocks(&mut drawing.trace, recording)?;
    findings::draw(&mut drawing, &report.findings)?;
    requests::draw(&mut drawing, recording)?;
    cpus::draw(&mut drawing, recording)?;
    tasks::draw(&mut drawing, recording)?;
    waits::draw(&mut drawing, recording)?;
    messages::draw(&mut drawing, recording)?;
    counters::draw_programs(&mut drawing, recording)?;
    counters::draw_connections(&mut drawing, recording)?;
    drawing.trace.finish()
}

/// Writes the readings of other clocks, if the recording has any.
fn write_clocks(trace: &mut TraceWriter<'_>, recording: &Recording) -> io::Result<()> {
    trace.clocks(recording.header().started_ns, &[])?;
    for rows in recording.batches::<ClockPair>() {
        for row in 0..rows.len() {
            let clock = match rows.clock[row].as_str() {
                "realtime" => TraceClock::Realtime,
                "monotonic_raw" => TraceClock::MonotonicRaw,
                "boottime" => TraceClock::Boottime,
                _ => continue,
            };
            if let Ok(ns) = u64::try_from(rows.other_ns[row]) {
                trace.clocks(rows.monotonic_ns[row], &[(clock, ns)])?;
            }
        }
    }
    Ok(())
}
