//! The result of a session.

use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use probe::hooks::FollowCounts;
use table::WriteError;
use table::manifest::UsdtProbe;

/// A recording that was made.
#[derive(Debug)]
pub struct Outcome {
    /// The directory.
    pub path: PathBuf,
    /// How the command ended; `None` when none was started.
    pub status: Option<ExitStatus>,
    /// Records lost, for any cause.
    pub lost: u64,
    /// The USDT probes that were listened to.
    pub usdt: Vec<UsdtProbe>,
    /// The processes that were followed; `None`: nobody was to be, or could be.
    pub followed: Option<FollowCounts>,
    /// The first error of the disk, if there was one; the rest is stored.
    pub write_error: Option<WriteError>,
}

impl Outcome {
    /// Returns the command's exit code, as a shell reports it: its own, or 128 + signal.
    pub fn command_exit_code(&self) -> Option<u8> {
        let status = self.status?;
        let code = status
            .code()
            .or_else(|| status.signal().map(|signal| 128 + signal));
        code.and_then(|code| u8::try_from(code).ok())
    }
}
