//! A trace as it was read.

use table::tables::Activities;

use crate::tally::Tally;

/// Spans of an imported trace, counts of lines or records that were used, and notes for the reader.
#[derive(Debug, Default)]
pub struct TraceImport {
    /// The spans.
    pub activities: Activities,
    /// How many lines or records were used, and why others were not.
    pub tally: Tally,
    /// Notes on the trace for the reader.
    pub notes: Vec<String>,
}
