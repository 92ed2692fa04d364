//! Format of an answer.

use clap::ValueEnum;

/// A format of one answer.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AnswerFormat {
    /// Text of at most 80 columns.
    Text,
    /// JSON by the schemas in docs.
    Json,
}
