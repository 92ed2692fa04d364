//! `whylat report --messages`: received messages, and the parts of their way.

use std::path::Path;
use std::process::ExitCode;

use clap::Args;

use crate::report::Format;
use crate::{args, exit, load, out};

/// Connections that text shows; JSON has all.
const SHOWN: usize = 4;

/// Received messages instead of a diagnosis.
#[derive(Debug, Args)]
#[command(next_help_heading = "Messages")]
pub(crate) struct MessageArgs {
    /// Show how long received messages took from their arrival to the program, and in which parts of
    /// their way; of recordings of detail `messages`
    #[arg(long, conflicts_with = "by")]
    messages: bool,
}

impl MessageArgs {
    /// Prints the messages of a recording; `None` when it was not asked for.
    pub(crate) fn execute(
        &self,
        path: &Path,
        format: Format,
        limit: Option<usize>,
    ) -> anyhow::Result<Option<ExitCode>> {
        if !self.messages {
            return Ok(None);
        }
        let limit = limit.unwrap_or(match format {
            Format::Text => SHOWN,
            Format::Json => usize::MAX,
        });
        let report = load::messages(path, limit)?;
        match format {
            Format::Text => out::print(&view::messages_text(&report, &args::text_options()))?,
            Format::Json => out::line(&view::messages_json(&report))?,
        }
        let complete = report.about.is_complete();
        let code = if complete { 0 } else { exit::INCOMPLETE };
        Ok(Some(ExitCode::from(code)))
    }
}
