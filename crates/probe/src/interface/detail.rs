//! How much is recorded.

/// How much is recorded. Each level includes the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Detail {
    /// Polled statistics, events, last statistics of every connection.
    Stats,
    /// Also every send and receive call, and the exact stage ledger.
    Calls,
    /// Also every interval in which a thread was blocked, and on what.
    Waits,
    /// Also every received message, with the times of its way to the program.
    Messages,
}

impl Detail {
    /// Returns the name on the command line and in the recording.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stats => "stats",
            Self::Calls => "calls",
            Self::Waits => "waits",
            Self::Messages => "messages",
        }
    }
}
