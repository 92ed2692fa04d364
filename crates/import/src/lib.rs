//! Traces that other tools made → rows of the table `activity`; captures → rows of connections.
//!
//! - `perf_script`: the text of `perf script`: Intel PT branches, sampled stacks, tracepoints;
//! - `perf_data`: `perf.data` itself: its clock, its threads, and its Intel PT packets;
//! - `ftrace`: the text of ftrace's `trace` file and of `trace-cmd report`.
//! - `pcap`: packet captures, as the tables of a live recording;
//! - `merge`: the functions of a trace among what a recording knows of its CPUs.
//!
//! Bytes in, rows and an account of every line or record out: what was not used is counted by the
//! reason. What a trace does not show becomes rows of kind `untraced` or `decode_error`.

mod branch;
mod error;
mod ftrace;
mod intel_pt;
mod merge;
mod pcap;
mod perf_data;
mod perf_script;
mod stack;
mod tally;
mod text;
mod trace_import;

pub use error::ImportError;
pub use merge::{MergedFunctions, merge};
pub use pcap::{CaptureImport, CaptureReader, Vantage};
pub use tally::Tally;
pub use trace_import::TraceImport;

/// Reads `perf.data`, or the text of `perf script`.
///
/// # Errors
/// When it is neither, or nothing in it is an event.
pub fn read_perf(bytes: &[u8]) -> Result<TraceImport, ImportError> {
    if perf_data::is_perf_data(bytes) {
        return refuse_empty(perf_data::read(bytes)?, ImportError::NoActivity);
    }
    let text = text(bytes)?;
    refuse_empty(perf_script::read(text), ImportError::NotPerf)
}

/// Reads the text of ftrace's `trace` file or of `trace-cmd report`.
///
/// # Errors
/// When nothing in it is an event.
pub fn read_ftrace(bytes: &[u8]) -> Result<TraceImport, ImportError> {
    refuse_empty(ftrace::read(text(bytes)?), ImportError::NotFtrace)
}

/// Returns bytes as text; an error if they are not UTF-8.
fn text(bytes: &[u8]) -> Result<&str, ImportError> {
    std::str::from_utf8(bytes).map_err(|error| ImportError::NotText {
        offset: error.valid_up_to() as u64,
    })
}

/// Refuses a file without a single event.
fn refuse_empty(imported: TraceImport, error: ImportError) -> Result<TraceImport, ImportError> {
    if imported.tally.used == 0 {
        return Err(error);
    }
    Ok(imported)
}
