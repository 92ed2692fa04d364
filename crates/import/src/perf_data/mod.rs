//! `perf.data` → spans: who had which CPU, from its context-switch records, and what Intel PT shows
//! without the programs' code.

mod bytes;
mod file;
mod sideband;
mod trace;

#[cfg(test)]
mod against_perf;

pub(crate) use file::is_perf_data;

use file::PerfData;
use sideband::Sideband;

use crate::TraceImport;
use crate::error::ImportError;

/// Reads a file of `perf record`.
///
/// # Errors
/// When its header makes no sense, or it holds nothing that is an activity.
pub(crate) fn read(bytes: &[u8]) -> Result<TraceImport, ImportError> {
    let file = PerfData::parse(bytes)?;
    let mut imported = TraceImport::default();
    let sideband = Sideband::read(&file, &mut imported.tally);
    trace::read(&file, &sideband, &mut imported);
    sideband.store_tasks(&mut imported.activities);
    imported.notes.extend(file.damage);
    Ok(imported)
}
