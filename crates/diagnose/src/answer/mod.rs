//! Shows what all answers share: what they say of their recording, and how they write processes and shares.

mod about;
pub(crate) mod decimals;
mod host;
mod process;

pub use about::{About, OmittedRows, RecordingState};
pub use host::{CloseState, ProbeLoss, RecordingHost};
pub use process::Process;
