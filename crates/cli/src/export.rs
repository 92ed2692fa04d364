//! `whylat report --format perfetto` and `--format csv`: a recording for other programs.

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use table::Recording;
use view::CsvText;

use crate::format::OutputArgs;
use crate::load::Judging;
use crate::page::{self, Asked};
use crate::{exit, load, out};

/// What an export is written to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Export")]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    to: OutputArgs,
    /// With --format csv: the table to write, named as in docs/tables.md
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
}

impl ExportArgs {
    /// Says so if a format that is printed was asked for with options of those that are not.
    pub(crate) fn refuse(&self) -> anyhow::Result<()> {
        self.refuse_table()?;
        self.to.refuse()
    }

    fn refuse_table(&self) -> anyhow::Result<()> {
        if self.table.is_some() {
            bail!("--table is for CSV: all else tells of all tables\nhint: add --format csv");
        }
        Ok(())
    }

    /// Writes the page.
    pub(crate) fn html(&self, path: &Path, asked: Asked) -> anyhow::Result<ExitCode> {
        self.refuse_table()?;
        let (page, is_complete) = page::of(path, asked)?;
        self.to.page(&page)?;
        Ok(exit::of(is_complete))
    }

    /// Writes a trace, with the findings of the diagnosis in it.
    pub(crate) fn perfetto(&self, path: &Path, judging: Judging) -> anyhow::Result<ExitCode> {
        self.refuse_table()?;
        let Some(file) = self.to.file() else {
            bail!("a trace is no text\nhint: name a file for it: -o NAME.pftrace");
        };
        let recording = Recording::open(path)?;
        let report = load::findings(&recording, judging);
        self.to
            .write(file, |out| view::perfetto(&recording, &report, out))?;
        eprintln!(
            "wrote {}: open it with https://ui.perfetto.dev, which keeps it in the browser",
            out::name(file)
        );
        Ok(code(&recording))
    }

    /// Writes one table.
    pub(crate) fn csv(&self, path: &Path) -> anyhow::Result<ExitCode> {
        let recording = Recording::open(path)?;
        let Some(table) = &self.table else {
            bail!(
                "CSV is of one table\nhint: --table NAME; {}",
                names(&recording)
            );
        };
        if !recording.tables().any(|name| name == table) {
            bail!(
                "{} holds no table {table}\nhint: {}",
                out::name(path),
                names(&recording)
            );
        }
        if !view::knows_table(table) {
            bail!(
                "{} holds a table {table} that this whylat does not know\n\
                 hint: use whylat {} or later, which wrote it",
                out::name(path),
                out::name(&recording.header().whylat)
            );
        }
        match self.to.file() {
            Some(file) => self.to.write(file, |out| {
                view::csv(&recording, table, CsvText::Exact, out)
            })?,
            None => to_stdout(|out, text| view::csv(&recording, table, text, out))?,
        }
        Ok(code(&recording))
    }
}

/// Writes to stdout; a reader that has seen enough and left is no error.
fn to_stdout(write: impl FnOnce(&mut dyn Write, CsvText) -> io::Result<()>) -> anyhow::Result<()> {
    let mut stdout = io::stdout().lock();
    let text = match stdout.is_terminal() {
        true => CsvText::Clean,
        false => CsvText::Exact,
    };
    match write(&mut stdout, text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to stdout"),
    }
}

/// The tables that there are, in words.
fn names(recording: &Recording) -> String {
    let names: Vec<&str> = recording.tables().collect();
    format!("this recording has {}", out::name(&names.join(", ")))
}

/// Whether all was there to be written.
fn code(recording: &Recording) -> ExitCode {
    let about = load::about(recording);
    for problem in &about.problems {
        eprintln!("warning: {problem}");
    }
    exit::of(about.is_complete())
}
