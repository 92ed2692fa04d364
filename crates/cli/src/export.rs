//! `whylat report --format perfetto` and `--format csv`: a recording for other programs.

use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use diagnose::recording::{self, DiagnosisOptions};
use table::Recording;
use view::CsvText;

use crate::out::Output;
use crate::page::{self, PageOptions};
use crate::{exit, out};

/// Options of exports.
#[derive(Debug, Args)]
#[command(next_help_heading = "Export")]
pub(crate) struct ExportArgs {
    /// With --format csv: the table to write (docs/tables.md lists them)
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
}

impl ExportArgs {
    /// Refuses a table for a format that contains all tables.
    pub(crate) fn refuse_table(&self) -> anyhow::Result<()> {
        if self.table.is_some() {
            return Err(exit::wrong_usage(
                "--table needs --format csv: other formats contain all tables\nhint: add --format csv",
            ));
        }
        Ok(())
    }

    /// Writes the page of a recording.
    pub(crate) fn html(
        &self,
        path: &Path,
        asked: &PageOptions,
        to: &Output,
    ) -> anyhow::Result<ExitCode> {
        self.refuse_table()?;
        let (page, is_complete) = page::page_of_one(path, asked)?;
        to.write_exact(&page)?;
        Ok(exit::from_complete(is_complete))
    }

    /// Writes a trace, with the findings of the diagnosis in it.
    pub(crate) fn write_perfetto(
        &self,
        path: &Path,
        judging: DiagnosisOptions,
        to: &Output,
    ) -> anyhow::Result<ExitCode> {
        self.refuse_table()?;
        if to.is_terminal() {
            bail!("cannot write a binary trace to a terminal\nhint: name a file: -o NAME.pftrace");
        }
        let recording = Recording::open(path)?;
        let report = recording::findings(&recording, judging);
        to.write(|out| view::write_trace(&recording, &report, out))?;
        if let Some(file) = to.file() {
            eprintln!(
                "wrote {}; open it at https://ui.perfetto.dev",
                out::name(file)
            );
        }
        Ok(exit_code(&recording))
    }

    /// Writes one table.
    pub(crate) fn write_csv(&self, path: &Path, to: &Output) -> anyhow::Result<ExitCode> {
        let recording = Recording::open(path)?;
        let Some(table) = &self.table else {
            return Err(exit::wrong_usage(format!(
                "--format csv needs a table\nhint: --table NAME; {}",
                list_tables(&recording)
            )));
        };
        require_table(&recording, table)?;
        let text = match to.is_terminal() {
            true => CsvText::Clean,
            false => CsvText::Exact,
        };
        to.write(|out| view::write_csv(&recording, table, text, out))?;
        Ok(exit_code(&recording))
    }
}

/// Returns an error if the recording does not have a table's rows, with the reason.
pub(crate) fn require_table(recording: &Recording, table: &str) -> anyhow::Result<()> {
    let path = out::name(recording.path());
    if !recording.tables().any(|name| name == table) {
        bail!(
            "{path} holds no table {}\nhint: {}",
            out::name(table),
            list_tables(recording)
        );
    }
    if view::find_declaration(table).is_none() {
        bail!(
            "{path} holds a table {table} that this whylat does not know\nhint: use whylat {} or later; that \
                version wrote it",
            out::name(&recording.header().whylat)
        );
    }
    Ok(())
}

/// Returns the names of the recording's tables.
fn list_tables(recording: &Recording) -> String {
    let names: Vec<&str> = recording.tables().collect();
    format!("this recording has {}", out::name(&names.join(", ")))
}

/// Prints damage of the recording, and returns the exit code.
fn exit_code(recording: &Recording) -> ExitCode {
    let about = recording::describe_recording(recording);
    for problem in &about.problems {
        eprintln!("warning: {problem}");
    }
    exit::from_complete(about.is_complete())
}
