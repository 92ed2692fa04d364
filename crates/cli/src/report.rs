//! `whylat report`: the diagnosis again, waits in groups, or all of it for another program, from the recording
//! alone.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, ValueEnum};
use diagnose::SnapSettings;
use diagnose::recording::Judging;

use crate::export::ExportArgs;
use crate::format::AnswerFormat;
use crate::messages::MessageArgs;
use crate::out::OutputArgs;
use crate::page::PageOptions;
use crate::tail::TailArgs;
use crate::waits::WaitArgs;
use crate::{exit, load};

/// Prints a diagnosis.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat report                                # the newest recording here
  whylat report r.whylat --format json -o r.json
  whylat report --by object --longer-than 1ms
  whylat report --messages
  whylat report --message 4711:r51790
  whylat report --tail p99.9
  whylat report --format perfetto -o r.pftrace")]
pub(crate) struct ReportArgs {
    /// The recording [default: the newest *.whylat here]
    dir: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    format: ReportFormat,
    /// SNAP's MaxQueuingDelay: what queues may add to a round trip
    #[arg(long, value_name = "MICROSECONDS", default_value_t = SnapSettings::default().max_queuing_delay_us)]
    max_queuing_delay_us: u64,
    /// SNAP's DelayedACKTimeout: the time of the receivers' timer
    #[arg(long, value_name = "MICROSECONDS", default_value_t = SnapSettings::default().delayed_ack_timeout_us)]
    delayed_ack_timeout_us: u64,
    /// Judge so many connections, those seen for longest: each takes 7 kB of memory
    #[arg(long, value_name = "N", default_value_t = Judging::default().max_connections as u64,
          value_parser = clap::value_parser!(u64).range(1..))]
    max_connections: u64,
    #[command(flatten)]
    to: OutputArgs,
    #[command(flatten)]
    export: ExportArgs,
    #[command(flatten)]
    messages: MessageArgs,
    #[command(flatten)]
    tail: TailArgs,
    #[command(flatten)]
    waits: WaitArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ReportFormat {
    /// For people: at most 80 columns.
    Text,
    /// For programs: schema whylat.report/1; with --by whylat.waits/1, with --messages
    /// whylat.messages/1, with --tail whylat.tail/1.
    Json,
    /// To look at: all of it as one file that a browser opens.
    Html,
    /// For Perfetto's user interface (ui.perfetto.dev): a trace of all that happened, which is no text.
    Perfetto,
    /// One table of the recording, as CSV. Needs --table: each has a header of its own.
    Csv,
}

impl ReportArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let path = self.dir.clone().map_or_else(load::newest, Ok)?;
        let part_asked = self.is_part_asked();
        let to = self.to.check()?;
        let judging = Judging {
            snap: SnapSettings {
                max_queuing_delay_us: self.max_queuing_delay_us,
                delayed_ack_timeout_us: self.delayed_ack_timeout_us,
            },
            max_connections: usize::try_from(self.max_connections).unwrap_or(usize::MAX),
        };
        let format = match self.format {
            ReportFormat::Text => AnswerFormat::Text,
            ReportFormat::Json => AnswerFormat::Json,
            ReportFormat::Html if self.waits.is_asked() || self.messages.is_asked() => bail!(
                "a page tells of waits and messages anyway\n\
                 hint: leave out --by, --messages and --message"
            ),
            ReportFormat::Html => {
                let asked = PageOptions {
                    judging,
                    tail: self.tail.question(self.waits.window_ns())?,
                };
                return self.export.html(&path, &asked, &to);
            }
            ReportFormat::Perfetto | ReportFormat::Csv if part_asked => bail!(
                "an export holds all waits and messages\n\
                 hint: leave out --by, --messages, --message and --tail"
            ),
            ReportFormat::Perfetto => return self.export.perfetto(&path, judging, &to),
            ReportFormat::Csv => return self.export.csv(&path, &to),
        };
        self.export.refuse()?;
        let limit = self.waits.limit;
        if let Some(code) = self.messages.execute(&path, format, limit, &to)? {
            return Ok(code);
        }
        let window_ns = self.waits.window_ns();
        let tail = self.tail.execute(&path, format, limit, window_ns, &to)?;
        if let Some(code) = tail {
            return Ok(code);
        }
        if let Some(code) = self.waits.execute(&path, format, &to)? {
            return Ok(code);
        }
        let report = load::diagnose(&path, judging)?;
        match format {
            AnswerFormat::Text => to.exact(&view::text(&report, &to.text_options()))?,
            AnswerFormat::Json => to.json(&report)?,
        }
        Ok(exit::of(report.about.is_complete()))
    }

    /// Whether something else than a diagnosis was asked for.
    fn is_part_asked(&self) -> bool {
        self.waits.is_asked() || self.messages.is_asked() || self.tail.is_asked()
    }
}
