//! Errors that keep an agent from shipping at all. `ShipState` reports later failures, which are tried again.

use std::io;
use std::path::PathBuf;

/// Shipping cannot begin.
#[derive(Debug, thiserror::Error)]
pub enum ShipError {
    /// The spool cannot be used.
    #[error("cannot use the spool {}: {source}\nhint: [ship] spool must be a directory on a local disk that the agent may write to", path.display())]
    Spool {
        /// The directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Another agent uses the spool.
    #[error("another agent uses the spool {}\nhint: one host needs one agent; a second one needs its own [ship] \
        spool and [host] name", path.display())]
    SpoolBusy {
        /// The directory.
        path: PathBuf,
    },
    /// Another agent writes under the same name.
    #[error("another agent writes to {} as host {host}\nhint: give each host its own [host] name", target.display())]
    NameTaken {
        /// The dataset.
        target: PathBuf,
        /// The name.
        host: String,
    },
    /// The target is none.
    #[error(
        "cannot ship to {target}: {why}\nhint: [ship] target is a directory or a URL; `whylat agent --check` shows more"
    )]
    Target {
        /// As it was given.
        target: String,
        /// The fault in it.
        why: String,
    },
}
