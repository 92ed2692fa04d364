//! `whylat report`: the diagnosis again, or waits in groups, from the recording alone.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use diagnose::SnapSettings;

use crate::messages::MessageArgs;
use crate::tail::TailArgs;
use crate::waits::WaitArgs;
use crate::{args, exit, load, out};

/// Prints a diagnosis.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The recording [default: the newest *.whylat here]
    dir: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
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
pub(crate) enum Format {
    /// For people: at most 80 columns.
    Text,
    /// For programs: schema whylat.report/1; with --by whylat.waits/1, with --messages
    /// whylat.messages/1, with --tail whylat.tail/1.
    Json,
}

impl ReportArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let path = self.dir.map_or_else(load::newest, Ok)?;
        let limit = self.waits.limit;
        if let Some(code) = self.messages.execute(&path, self.format, limit)? {
            return Ok(code);
        }
        let window_ns = self.waits.window_ns();
        let tail = self.tail.execute(&path, self.format, limit, window_ns)?;
        if let Some(code) = tail {
            return Ok(code);
        }
        if let Some(code) = self.waits.execute(&path, self.format)? {
            return Ok(code);
        }
        let settings = SnapSettings {
            max_queuing_delay_us: self.max_queuing_delay_us,
            delayed_ack_timeout_us: self.delayed_ack_timeout_us,
        };
        let report = load::diagnose(&path, settings)?;
        match self.format {
            Format::Text => out::print(&view::text(&report, &args::text_options()))?,
            Format::Json => out::line(&view::json(&report))?,
        }
        let complete = report.about.is_complete();
        Ok(ExitCode::from(if complete { 0 } else { exit::INCOMPLETE }))
    }
}
