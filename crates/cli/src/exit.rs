//! Exit codes of every command but `run`.

/// Failed.
pub(crate) const FAILED: u8 = 1;
/// Done, but the data is partial: events were lost, or the recording is damaged or was not closed in order.
pub(crate) const INCOMPLETE: u8 = 3;

/// A check failed: the command got worse.
pub(crate) const CHECK_FAILED: u8 = 4;

/// Returns the code for finished work.
pub(crate) fn from_complete(is_complete: bool) -> std::process::ExitCode {
    if is_complete { 0 } else { INCOMPLETE }.into()
}
