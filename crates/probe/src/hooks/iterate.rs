//! Iterators of attached hooks, run to their end.

use std::os::fd::AsFd;

use libbpf_rs::Link;

use crate::interface::HooksError;
use crate::iterator::run_iterator;

/// Runs an iterator to its end; its programs write to rings.
pub(super) fn read_iterator(link: Option<&Link>, what: &'static str) -> Result<(), HooksError> {
    let read = link.map_or(Ok(()), |link| run_iterator(link.as_fd()));
    read.map_err(|error| HooksError::Read { what, error })
}
