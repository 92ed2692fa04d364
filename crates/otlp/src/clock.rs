//! Times of a recording, which count from the boot of its host, as times of the day.

use diagnose::report::RecordingHost;

/// Reading of both clocks at the start of a recording.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecordingClock {
    started_ns: u64,
    started_realtime_ns: u64,
}

impl RecordingClock {
    /// Reads the clock pair from a recording's header.
    pub(crate) fn new(host: &RecordingHost) -> Self {
        Self {
            started_ns: host.started_ns,
            started_realtime_ns: host.started_realtime_ns,
        }
    }

    /// Returns when the recording began, ns since 1970.
    pub(crate) fn begin_ns(self) -> u64 {
        self.started_realtime_ns
    }

    /// Converts a time of `CLOCK_MONOTONIC` to ns since 1970. What came before the recording is earlier, too.
    pub(crate) fn unix_ns(self, monotonic_ns: u64) -> u64 {
        let ns = i128::from(self.started_realtime_ns) + i128::from(monotonic_ns)
            - i128::from(self.started_ns);
        u64::try_from(ns).unwrap_or(0)
    }
}
