//! Holds a trace as it was read.

use table::tables::Activities;

use crate::tally::Tally;

/// Holds what was read from a trace.
#[derive(Debug, Default)]
pub struct TraceImport {
    /// The spans.
    pub activities: Activities,
    /// How many lines or records were used, and why others were not.
    pub tally: Tally,
    /// Notes on the trace for the reader.
    pub notes: Vec<String>,
}
