//! The header of an imported recording.

use std::time::{SystemTime, UNIX_EPOCH};

use table::manifest::{FORMAT, Header};

/// Returns the header of the recording. A trace does not name its host, and has a clock of its own.
pub(super) fn header(started_ns: u64) -> Header {
    let unknown = || "unknown".to_owned();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    Header {
        format: FORMAT,
        whylat: env!("CARGO_PKG_VERSION").to_owned(),
        host: unknown(),
        boot_id: unknown(),
        kernel: unknown(),
        cpus: 0,
        architecture: None,
        clocksource: "the trace's own".to_owned(),
        detail: "import".to_owned(),
        arguments: std::env::args_os()
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
        started_ns,
        started_realtime_ns: now.unwrap_or_default().as_nanos() as u64,
        jiffy_ns: None,
    }
}
