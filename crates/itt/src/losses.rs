//! Counts of records that are not in the ring.

/// Records that were produced and are not there. For each process and thread:
/// calls made = records read + `full` + `interrupted` + `invalid`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Losses {
    /// Records for which no chunk was free.
    pub full: u64,
    /// Records of calls from a signal handler that had interrupted another call.
    pub interrupted: u64,
    /// Calls with a handle that nobody had created, or without a value.
    pub invalid: u64,
    /// Names that wait for room, or that were given up. Values of a counter without a name are
    /// there all the same.
    pub missing_definitions: u64,
    /// Chunks with a rest that was dropped because a record in it made no sense: the program had
    /// written over it. How many records that were cannot be known.
    pub damaged_chunks: u64,
}

impl Losses {
    /// Returns whether anything is missing.
    pub fn has_any(&self) -> bool {
        *self != Losses::default()
    }
}
