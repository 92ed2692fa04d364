//! `whylat report`: the diagnosis again, from the recording alone.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};

use crate::{args, exit, load, out};

/// Prints a diagnosis.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// The recording [default: the newest *.whylat here]
    dir: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value = "text")]
    format: Format,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// For people: at most 80 columns.
    Text,
    /// For programs: schema whylat.report/1.
    Json,
}

impl ReportArgs {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let path = self.dir.map_or_else(load::newest, Ok)?;
        let report = load::diagnose(&path)?;
        match self.format {
            Format::Text => out::print(&view::text(&report, &args::text_options()))?,
            Format::Json => out::line(&view::json(&report))?,
        }
        let complete = report.is_complete();
        Ok(ExitCode::from(if complete { 0 } else { exit::INCOMPLETE }))
    }
}
