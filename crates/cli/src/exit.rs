//! Exit codes of every command but `run`.

/// Failed.
pub(crate) const FAILED: u8 = 1;
/// The options are wrong, or contradict each other; clap ends with the same code.
const WRONG_USAGE: u8 = 2;
/// Done, but the data is partial: events were lost, or the recording is damaged or was not closed in order.
pub(crate) const INCOMPLETE: u8 = 3;

/// A check failed: the command got worse.
pub(crate) const CHECK_FAILED: u8 = 4;

/// Options that contradict each other, or a value that none takes: cause, then `hint:`.
#[derive(Debug)]
struct WrongUsage(String);

impl std::fmt::Display for WrongUsage {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for WrongUsage {}

/// Returns the error of options that contradict each other.
pub(crate) fn wrong_usage(text: impl Into<String>) -> anyhow::Error {
    WrongUsage(text.into()).into()
}

/// Returns the code of a command that ended with an error.
pub(crate) fn from_error(error: &anyhow::Error) -> std::process::ExitCode {
    let is_usage = error.chain().any(|cause| cause.is::<WrongUsage>());
    if is_usage { WRONG_USAGE } else { FAILED }.into()
}

/// Returns the code for finished work.
pub(crate) fn from_complete(is_complete: bool) -> std::process::ExitCode {
    if is_complete { 0 } else { INCOMPLETE }.into()
}
