//! Errors of the lab, each with the next step.

use std::io;

/// A lab step that failed: what, on what, why, and the next command.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// A system call or file access was refused.
    #[error("cannot {action} {subject}: {source}\nhint: {hint}")]
    Os {
        /// The action that failed, as a verb: `make`, `open`.
        action: &'static str,
        /// The object of the action.
        subject: String,
        /// Why the kernel refused.
        source: io::Error,
        /// The next step.
        hint: &'static str,
    },
    /// A program that configures a namespace ended with an error.
    #[error("`{command}` failed in the namespace: {detail}\nhint: {hint}")]
    Command {
        /// The command line as it was run.
        command: String,
        /// Its stderr, or its exit status.
        detail: String,
        /// The next step.
        hint: &'static str,
    },
    /// An option that cannot be used.
    #[error("option {option} is {value}: {why}\nhint: {hint}")]
    Option {
        /// Name of the option.
        option: &'static str,
        /// The value that was given.
        value: String,
        /// Why it is refused.
        why: &'static str,
        /// The next step.
        hint: &'static str,
    },
    /// A name that is not in the catalogue of faults.
    #[error("there is no fault {name:?}\nhint: known are {}", .known.join(", "))]
    UnknownFault {
        /// The name that was asked for.
        name: String,
        /// All names.
        known: Vec<&'static str>,
    },
    /// The peer of a workload ended a connection too early.
    #[error(
        "connection {connection} ended after {done} of {expected} bytes\n\
         hint: read the peer's own output; it stopped first"
    )]
    PeerGone {
        /// Local and remote address.
        connection: String,
        /// Bytes moved before the end.
        done: usize,
        /// Bytes that were expected.
        expected: usize,
    },
}

/// Hint of the steps that need `CAP_SYS_ADMIN` or `CAP_NET_ADMIN`.
pub(crate) const HINT_ROOT: &str = "run as root: sudo whylat lab …";

impl LabError {
    /// Makes the error of a system call or file access that was refused.
    pub fn os(
        action: &'static str,
        subject: impl Into<String>,
        source: impl Into<io::Error>,
        hint: &'static str,
    ) -> Self {
        LabError::Os {
            action,
            subject: subject.into(),
            source: source.into(),
            hint,
        }
    }
}
