//! `whylat report`: the diagnosis of a recording, its waits or messages, or an export for another program.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use diagnose::SnapSettings;
use diagnose::recording::DiagnosisOptions;
use view::TextOptions;

use crate::drops::DropArgs;
use crate::export::ExportArgs;
use crate::format::AnswerFormat;
use crate::messages::MessageArgs;
use crate::out::OutputArgs;
use crate::page::PageOptions;
use crate::requests::RequestArgs;
use crate::tail::TailArgs;
use crate::waits::WaitArgs;
use crate::{exit, load};

/// Diagnoses a recording.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat report                                # the newest recording here
  whylat report --full --limit 20
  whylat report r.whylat --format json -o r.json
  whylat report --by object --longer-than 1ms
  whylat report --requests --longer-than 10ms
  whylat report --request 4711:q51790
  whylat report --drops
  whylat report --messages
  whylat report --message 4711:r51790
  whylat report --tail p99.9
  whylat report --format perfetto -o r.pftrace")]
pub(crate) struct ReportArgs {
    /// The recording [default: the newest *.whylat here]
    dir: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: ReportFormat,
    /// Show the evidence of findings that are no problem, too
    #[arg(long)]
    full: bool,
    /// Largest queueing delay of a healthy round trip, in µs (SNAP's MaxQueuingDelay)
    #[arg(long, value_name = "MICROSECONDS", default_value_t = SnapSettings::default().max_queuing_delay_us)]
    max_queuing_delay_us: u64,
    /// Delayed-ACK timeout of the receivers, in µs (SNAP's DelayedACKTimeout)
    #[arg(long, value_name = "MICROSECONDS", default_value_t = SnapSettings::default().delayed_ack_timeout_us)]
    delayed_ack_timeout_us: u64,
    /// Judge at most N connections, the longest ones; each takes 7 kB of memory
    #[arg(long, value_name = "N", default_value_t = DiagnosisOptions::default().max_connections as u64,
          value_parser = clap::value_parser!(u64).range(1..))]
    max_connections: u64,
    #[command(flatten)]
    to: OutputArgs,
    #[command(flatten)]
    export: ExportArgs,
    #[command(flatten)]
    requests: RequestArgs,
    #[command(flatten)]
    drops: DropArgs,
    #[command(flatten)]
    messages: MessageArgs,
    #[command(flatten)]
    tail: TailArgs,
    #[command(flatten)]
    waits: WaitArgs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ReportFormat {
    /// Text of at most 80 columns.
    Text,
    /// JSON by a schema: whylat.report/1; whylat.waits/1 with --by, whylat.requests/1 with --requests,
    /// whylat.drops/1 with --drops, whylat.messages/1 with --messages, whylat.tail/1 with --tail.
    Json,
    /// One file for a browser.
    Html,
    /// A binary trace for ui.perfetto.dev.
    Perfetto,
    /// One table of the recording; needs --table, --requests or --drops.
    Csv,
}

impl ReportArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let path = self
            .dir
            .clone()
            .map_or_else(load::find_newest_recording, Ok)?;
        let part_asked = self.is_part_asked();
        let to = self.to.check()?;
        let judging = DiagnosisOptions {
            snap: SnapSettings {
                max_queuing_delay_us: self.max_queuing_delay_us,
                delayed_ack_timeout_us: self.delayed_ack_timeout_us,
            },
            max_connections: usize::try_from(self.max_connections).unwrap_or(usize::MAX),
        };
        let format = match self.format {
            ReportFormat::Text => AnswerFormat::Text,
            ReportFormat::Json => AnswerFormat::Json,
            ReportFormat::Html
                if self.waits.is_asked()
                    || self.messages.is_asked()
                    || self.drops.is_asked()
                    || self.requests.is_asked() =>
            {
                return Err(exit::wrong_usage(
                    "--format html does not go with --by, --messages, --message, --drops, --requests and --request\n\
                     hint: leave these options out",
                ));
            }
            ReportFormat::Html => {
                let asked = PageOptions {
                    judging,
                    tail: self.tail.tail_options(self.waits.window_ns())?,
                };
                return self.export.html(&path, &asked, &to);
            }
            ReportFormat::Csv if self.drops.is_asked() => {
                self.export.refuse_table()?;
                return self.drops.write_csv(&path, &to);
            }
            ReportFormat::Csv if self.requests.is_list() => {
                self.export.refuse_table()?;
                return self.requests.write_csv(&path, self.waits.requests()?, &to);
            }
            ReportFormat::Perfetto | ReportFormat::Csv if part_asked => {
                return Err(exit::wrong_usage(
                    "an export does not go with --by, --drops, --messages, --message, --tail and --request: it contains everything\n\
                     hint: leave these options out",
                ));
            }
            ReportFormat::Perfetto => return self.export.write_perfetto(&path, judging, &to),
            ReportFormat::Csv => return self.export.write_csv(&path, &to),
        };
        self.export.refuse_table()?;
        let limit = self.waits.limit;
        let wanted = (self.waits.requests()?, limit);
        if let Some(code) = self.requests.execute(&path, wanted, format, &to)? {
            return Ok(code);
        }
        if let Some(code) = self.drops.execute(&path, limit, format, &to)? {
            return Ok(code);
        }
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
            AnswerFormat::Text => {
                let options = TextOptions {
                    limit,
                    is_full: self.full,
                    ..to.text_options()
                };
                to.write_exact(&view::text(&report, &options))?;
            }
            AnswerFormat::Json => to.json(&report)?,
        }
        Ok(exit::from_complete(report.about.is_complete()))
    }

    /// Returns whether waits, messages or slow messages were requested instead of a diagnosis.
    fn is_part_asked(&self) -> bool {
        self.waits.is_asked()
            || self.messages.is_asked()
            || self.tail.is_asked()
            || self.drops.is_asked()
            || self.requests.is_asked()
    }
}
