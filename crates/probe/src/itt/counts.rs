//! Counts of what became of records.

/// Counts of the program's calls, by their fate. Each record that was read is a row, filtered (it gave a
/// name, or ended or completed a row), or lost without its beginning.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct IttCounts {
    /// Records read and lost.
    pub produced: u64,
    /// Records that only added to other rows.
    pub filtered: u64,
    /// Ends of what was never seen to begin.
    pub lost_no_begin: u64,
    /// The ring was full.
    pub lost_ring_full: u64,
    /// Made in a signal handler, within another call.
    pub lost_interrupted: u64,
    /// Made with a handle that nobody had created, or without a value.
    pub lost_invalid: u64,
    /// IttNames for which there was no room.
    pub lost_names: u64,
    /// Stretches of the ring over which the program had written; each counts as one record.
    pub lost_damaged: u64,
}
