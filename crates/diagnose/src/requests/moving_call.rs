//! A call that moved bytes, and ranges of a stream.

use super::id::ThreadId;

/// Bytes of a stream: from the first to the one after the last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamRange {
    /// Offset of the first byte.
    pub first: u64,
    /// Offset after the last byte.
    pub end: u64,
}

impl StreamRange {
    /// Returns the number of bytes.
    pub fn bytes(self) -> u64 {
        self.end.saturating_sub(self.first)
    }
}

/// A call that moved bytes.
#[derive(Debug, Clone, Copy)]
pub struct MovingCall {
    /// Whether the bytes are of a request.
    pub is_request: bool,
    /// When its first byte was there: arrived, or given to send.
    pub begin_ns: u64,
    /// `begin_ns` is known to a jiffy only.
    pub is_coarse: bool,
    /// When it ended.
    pub end_ns: u64,
    /// It had not begun before: the thread did something else.
    pub began_after_ns: u64,
    /// Its bytes.
    pub range: StreamRange,
    /// Thread that made the call.
    pub thread: ThreadId,
}

impl MovingCall {
    /// Returns the call with a start of no earlier than `ns`, if its start is coarse.
    pub(super) fn no_earlier_than(&self, ns: u64) -> Self {
        let least_ns = if self.is_coarse { ns } else { 0 };
        Self {
            begin_ns: self.begin_ns.max(least_ns),
            ..*self
        }
    }
}
