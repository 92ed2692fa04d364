//! `whylat report --drops`: packets that this host dropped, and resets.

use std::io::BufWriter;
use std::path::Path;
use std::process::ExitCode;

use clap::Args;
use diagnose::drops::DropReport;
use diagnose::recording;
use table::Recording;
use view::CsvText;

use crate::exit;
use crate::format::AnswerFormat;
use crate::out::Output;

/// Drops that JSON lists; table `drops` has all.
const LISTED: usize = 10_000;

/// Drops and resets instead of a diagnosis.
#[derive(Debug, Args)]
#[command(next_help_heading = "Drops")]
pub(crate) struct DropArgs {
    /// Show the packets that this host dropped and the resets that it sent and received: by reason and function,
    /// connection and device, with what helps
    #[arg(
        long,
        conflicts_with_all = ["by", "messages", "message", "tail", "requests", "request"]
    )]
    drops: bool,
}

impl DropArgs {
    /// Returns whether drops were asked for instead of a diagnosis.
    pub(crate) fn is_asked(&self) -> bool {
        self.drops
    }

    /// Prints the drops of a recording; `None` when they were not asked for.
    pub(crate) fn execute(
        &self,
        path: &Path,
        limit: Option<usize>,
        format: AnswerFormat,
        to: &Output,
    ) -> anyhow::Result<Option<ExitCode>> {
        if !self.drops {
            return Ok(None);
        }
        let report = read(path, limit.unwrap_or(LISTED))?;
        match format {
            AnswerFormat::Text => {
                let options = view::TextOptions {
                    limit,
                    ..to.text_options()
                };
                to.write_exact(&view::drops_text(&report, &options))?;
            }
            AnswerFormat::Json => to.json(&report)?,
        }
        Ok(Some(exit::from_complete(report.about.is_complete())))
    }

    /// Writes a line a reason and place as CSV.
    pub(crate) fn write_csv(&self, path: &Path, to: &Output) -> anyhow::Result<ExitCode> {
        let report = read(path, 0)?;
        let text = match to.is_terminal() {
            true => CsvText::Clean,
            false => CsvText::Exact,
        };
        to.write(|out| view::drop_csv(&report, text, BufWriter::new(out)))?;
        Ok(exit::from_complete(report.about.is_complete()))
    }
}

/// Returns the report of drops of a recording.
fn read(path: &Path, limit: usize) -> anyhow::Result<DropReport> {
    let recording = Recording::open(path)?;
    Ok(recording::report_drops(&recording, limit))
}
