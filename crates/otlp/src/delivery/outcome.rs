//! Meaning of a collector's answer.

use std::time::Duration;

use prost::Message as _;

use crate::proto::ExportResponse;

/// Result of one try.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The collector has it.
    Accepted(Partial),
    /// It will not take it. `why` has a hint.
    Refused {
        /// Why.
        why: String,
        /// Whether it will refuse everything else for the same reason.
        is_final: bool,
    },
    /// It may take it later. `why` has a hint.
    Failed {
        /// Why.
        why: String,
        /// Pause that it asks for.
        after: Option<Duration>,
    },
}

/// Remark of a collector on a message that it took.
#[derive(Debug, Default)]
pub(super) struct Partial {
    /// Items that it rejected.
    pub(super) rejected: u64,
    /// Why, or a remark.
    pub(super) remark: String,
}

impl Partial {
    /// Reads the partial success of a response; a damaged response counts as full success. The
    /// status counts then.
    pub(super) fn from_response(bytes: &[u8]) -> Self {
        let response = ExportResponse::decode(bytes).unwrap_or_default();
        let partial = response.partial_success.unwrap_or_default();
        Self {
            rejected: u64::try_from(partial.rejected).unwrap_or(0),
            remark: partial.error_message,
        }
    }
}
