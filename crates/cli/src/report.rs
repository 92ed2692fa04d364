//! `whylat report`: the diagnosis again, waits in groups, or all of it as a page, from the recording alone.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use diagnose::SnapSettings;

use crate::messages::MessageArgs;
use crate::page::Asked;
use crate::tail::TailArgs;
use crate::waits::WaitArgs;
use crate::{args, exit, load, out, page};

/// Prints a diagnosis.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The recording [default: the newest *.whylat here]
    dir: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    format: AnyFormat,
    /// With --format html: the file to write [default: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// SNAP's MaxQueuingDelay: what queues may add to a round trip
    #[arg(long, value_name = "MICROSECONDS", default_value_t = SnapSettings::default().max_queuing_delay_us)]
    max_queuing_delay_us: u64,
    /// SNAP's DelayedACKTimeout: the time of the receivers' timer
    #[arg(long, value_name = "MICROSECONDS", default_value_t = SnapSettings::default().delayed_ack_timeout_us)]
    delayed_ack_timeout_us: u64,
    #[command(flatten)]
    messages: MessageArgs,
    #[command(flatten)]
    tail: TailArgs,
    #[command(flatten)]
    waits: WaitArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum AnyFormat {
    /// For people: at most 80 columns.
    Text,
    /// For programs: schema whylat.report/1; with --by whylat.waits/1, with --messages
    /// whylat.messages/1, with --tail whylat.tail/1.
    Json,
    /// To look at: all of it as one file that a browser opens.
    Html,
}

/// A format of one answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Format {
    Text,
    Json,
}

impl AnyFormat {
    /// The format of one answer; `None`: all of them in a page.
    pub(crate) fn of_one(self) -> Option<Format> {
        match self {
            Self::Text => Some(Format::Text),
            Self::Json => Some(Format::Json),
            Self::Html => None,
        }
    }
}

impl ReportArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let path = self.dir.map_or_else(load::newest, Ok)?;
        let settings = SnapSettings {
            max_queuing_delay_us: self.max_queuing_delay_us,
            delayed_ack_timeout_us: self.delayed_ack_timeout_us,
        };
        let limit = self.waits.limit;
        let window_ns = self.waits.window_ns();
        let Some(format) = self.format.of_one() else {
            if self.waits.is_asked() || self.messages.is_asked() {
                bail!(
                    "a page tells of waits and messages anyway\nhint: leave out --by, --messages and --message"
                );
            }
            let asked = Asked {
                settings,
                question: self.tail.question(window_ns),
                categories: self.tail.categories()?,
            };
            let is_complete = page::write(&path, asked, self.output.as_deref())?;
            return Ok(code(is_complete));
        };
        if self.output.is_some() {
            bail!("-o is for pages\nhint: add --format html, or send the text to a file with `>`");
        }
        if let Some(code) = self.messages.execute(&path, format, limit)? {
            return Ok(code);
        }
        let tail = self.tail.execute(&path, format, limit, window_ns)?;
        if let Some(code) = tail {
            return Ok(code);
        }
        if let Some(code) = self.waits.execute(&path, format)? {
            return Ok(code);
        }
        let report = load::diagnose(&path, settings)?;
        match format {
            Format::Text => out::print(&view::text(&report, &args::text_options()))?,
            Format::Json => out::line(&view::json(&report))?,
        }
        Ok(code(report.about.is_complete()))
    }
}

fn code(is_complete: bool) -> ExitCode {
    ExitCode::from(if is_complete { 0 } else { exit::INCOMPLETE })
}
