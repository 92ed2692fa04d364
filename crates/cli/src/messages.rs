//! `whylat report --messages` and `--message`: messages, and the parts of their latency.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use diagnose::messages::message::MessageId;
use diagnose::report::About;

use crate::format::AnswerFormat;
use crate::out::Output;
use crate::{exit, load};

/// Connections that text shows by default; JSON has all.
const SHOWN: usize = 4;

/// Options that show messages instead of a diagnosis.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub(crate) struct MessageArgs {
    /// Show the latency of messages and its parts; needs a recording of detail `messages`
    #[arg(long, conflicts_with = "by")]
    messages: bool,

    /// With --messages: split the latency into sender, wire and receiver, with the other host's recording
    ///
    /// Name this recording again if it contains both ends.
    #[arg(long, value_name = "RECORDING", requires = "messages")]
    other_end: Option<PathBuf>,

    /// Show one message step by step; ID as --messages shows it: CONN:rOFFSET received, CONN:sOFFSET sent
    #[arg(long, value_name = "ID", conflicts_with_all = ["by", "messages"])]
    message: Option<MessageId>,
}

impl MessageArgs {
    /// Returns whether messages were requested instead of a diagnosis.
    pub(crate) fn is_asked(&self) -> bool {
        self.messages || self.message.is_some()
    }

    /// Prints the messages of a recording; `None`: they were not requested.
    pub(crate) fn execute(
        &self,
        path: &Path,
        format: AnswerFormat,
        limit: Option<usize>,
        to: &Output,
    ) -> anyhow::Result<Option<ExitCode>> {
        if let Some(id) = self.message {
            return story(path, format, id, to).map(Some);
        }
        if !self.messages {
            return Ok(None);
        }
        let limit = limit.unwrap_or(match format {
            AnswerFormat::Text => SHOWN,
            AnswerFormat::Json => usize::MAX,
        });
        if let Some(other) = &self.other_end {
            return ends(path, other, format, limit, to).map(Some);
        }
        let report = load::messages(path, limit)?;
        match format {
            AnswerFormat::Text => {
                to.write_exact(&view::messages_text(&report, &to.text_options()))?
            }
            AnswerFormat::Json => to.json(&report)?,
        }
        Ok(Some(exit_code(&report.about)))
    }
}

/// Prints the report on one message.
fn story(
    path: &Path,
    format: AnswerFormat,
    id: MessageId,
    to: &Output,
) -> anyhow::Result<ExitCode> {
    let story = load::message(path, id)?;
    match format {
        AnswerFormat::Text => to.write_exact(&view::message_text(&story, &to.text_options()))?,
        AnswerFormat::Json => to.json(&story)?,
    }
    Ok(exit_code(&story.about))
}

/// Prints the report on messages between two recordings.
fn ends(
    path: &Path,
    other: &Path,
    format: AnswerFormat,
    limit: usize,
    to: &Output,
) -> anyhow::Result<ExitCode> {
    let report = load::join_ends(path, other, limit)?;
    match format {
        AnswerFormat::Text => to.write_exact(&view::ends_text(&report, &to.text_options()))?,
        AnswerFormat::Json => to.json(&report)?,
    }
    Ok(exit_code(&report.about))
}

/// Returns 0 if the recording is complete.
fn exit_code(about: &About) -> ExitCode {
    exit::from_complete(about.is_complete())
}
