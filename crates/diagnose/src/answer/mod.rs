//! Parts that all answers share: the state of their recording, processes, and shares as numbers.

mod about;
pub(crate) mod decimals;
mod host;
mod process;
mod side;

pub use about::{About, OmittedRows, RecordingState};
pub use host::{CloseState, ProbeLoss, RecordingHost};
pub use process::Process;
pub use side::Side;
