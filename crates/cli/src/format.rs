//! How an answer is printed.

use clap::ValueEnum;

/// A format of one answer.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AnswerFormat {
    /// For people: at most 80 columns.
    Text,
    /// For programs: by the schemas in docs.
    Json,
}
