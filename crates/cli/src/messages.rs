//! `whylat report --messages` and `--message`: messages, and the parts of their way.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use diagnose::messages::message::MessageId;
use diagnose::report::About;

use crate::format::AnswerFormat;
use crate::out::Output;
use crate::{exit, load};

/// Connections that text shows; JSON has all.
const SHOWN: usize = 4;

/// Messages instead of a diagnosis.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub(crate) struct MessageArgs {
    /// Show how long messages took between the driver and the program, and in which parts of their way;
    /// of recordings of detail `messages`
    #[arg(long, conflicts_with = "by")]
    messages: bool,

    /// With --messages: the recording of the other end, to tell how long messages took in the one program, on
    /// the wire, and in the other; this recording itself, if it has both ends
    #[arg(long, value_name = "RECORDING", requires = "messages")]
    other_end: Option<PathBuf>,

    /// Show what happened to one message, step by step: CONN:rOFFSET for a received one, CONN:sOFFSET for a
    /// sent one, as --messages names them
    #[arg(long, value_name = "ID", conflicts_with_all = ["by", "messages"])]
    message: Option<MessageId>,
}

impl MessageArgs {
    /// Whether messages were asked for instead of a diagnosis.
    pub(crate) fn is_asked(&self) -> bool {
        self.messages || self.message.is_some()
    }

    /// Prints the messages of a recording; `None` when it was not asked for.
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
            AnswerFormat::Text => to.exact(&view::messages_text(&report, &to.text_options()))?,
            AnswerFormat::Json => to.json(&report)?,
        }
        Ok(Some(code(&report.about)))
    }
}

fn story(
    path: &Path,
    format: AnswerFormat,
    id: MessageId,
    to: &Output,
) -> anyhow::Result<ExitCode> {
    let story = load::message(path, id)?;
    match format {
        AnswerFormat::Text => to.exact(&view::message_text(&story, &to.text_options()))?,
        AnswerFormat::Json => to.json(&story)?,
    }
    Ok(code(&story.about))
}

fn ends(
    path: &Path,
    other: &Path,
    format: AnswerFormat,
    limit: usize,
    to: &Output,
) -> anyhow::Result<ExitCode> {
    let report = load::ends(path, other, limit)?;
    match format {
        AnswerFormat::Text => to.exact(&view::ends_text(&report, &to.text_options()))?,
        AnswerFormat::Json => to.json(&report)?,
    }
    Ok(code(&report.about))
}

fn code(about: &About) -> ExitCode {
    exit::of(about.is_complete())
}
