//! `whylat report --format perfetto` and `--format csv`: a recording for other programs.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, anyhow, bail};
use clap::Args;
use diagnose::SnapSettings;
use diagnose::report::About;
use table::Recording;
use view::CsvText;

use crate::{exit, load};

/// What an export is written to.
#[derive(Debug, Args)]
#[command(next_help_heading = "Export")]
pub(crate) struct ExportArgs {
    /// With --format perfetto or csv: the file to write [default of csv: standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing FILE
    #[arg(long, requires = "output")]
    force: bool,
    /// With --format csv: the table to write, named as in docs/tables.md
    #[arg(long, value_name = "NAME")]
    table: Option<String>,
}

impl ExportArgs {
    /// Says so if a format that is printed was asked for with options of those that are not.
    pub(crate) fn refuse(&self) -> anyhow::Result<()> {
        if self.output.is_some() || self.table.is_some() {
            bail!(
                "-o and --table are for exports\n\
                 hint: add --format csv or --format perfetto, or send the text to a file with `>`"
            );
        }
        Ok(())
    }

    /// Writes a trace, with the findings of the diagnosis in it.
    pub(crate) fn perfetto(&self, path: &Path, settings: SnapSettings) -> anyhow::Result<ExitCode> {
        if self.table.is_some() {
            bail!("--table is for CSV: a trace holds all tables\nhint: leave it out");
        }
        let Some(file) = &self.output else {
            bail!("a trace is no text\nhint: name a file for it: -o NAME.pftrace");
        };
        let recording = Recording::open(path)?;
        let report = load::findings(&recording, settings);
        self.write(file, |out| view::perfetto(&recording, &report, out))?;
        eprintln!(
            "wrote {}: open it with https://ui.perfetto.dev, which keeps it in the browser",
            file.display()
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
                path.display(),
                names(&recording)
            );
        }
        let written = match &self.output {
            Some(file) => self.write(file, |out| {
                view::csv(&recording, table, CsvText::Exact, out)
            })?,
            None => to_stdout(|out, text| view::csv(&recording, table, text, out))?,
        };
        if !written {
            bail!(
                "{} holds a table {table} that this whylat does not know\n\
                 hint: use whylat {} or later, which wrote it",
                path.display(),
                recording.header().whylat
            );
        }
        Ok(code(&recording))
    }

    /// Writes to a file. If that fails, half a file is removed, but not what only has a name there, such as a pipe.
    fn write<T>(
        &self,
        file: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<T>,
    ) -> anyhow::Result<T> {
        let mut out = self.create(file)?;
        write(&mut out).map_err(|error| {
            if out.metadata().is_ok_and(|it| it.is_file()) {
                // Best effort: what was there before --force is gone already.
                let _ = std::fs::remove_file(file);
            }
            anyhow!(
                "cannot write {}: {error}\nhint: name a file on a disk with room for it with -o",
                file.display()
            )
        })
    }

    fn create(&self, file: &Path) -> anyhow::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true);
        if self.force {
            options.create(true).truncate(true);
        } else {
            options.create_new(true);
        }
        options.open(file).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => anyhow!(
                "cannot create {}: it exists already\n\
                 hint: name another file with -o, or replace it with --force",
                file.display()
            ),
            _ => anyhow!(
                "cannot create {}: {error}\nhint: name a file that you may write to with -o",
                file.display()
            ),
        })
    }
}

/// Writes to stdout; a reader that has seen enough and left is no error.
fn to_stdout(
    write: impl FnOnce(&mut dyn Write, CsvText) -> io::Result<bool>,
) -> anyhow::Result<bool> {
    let mut stdout = io::stdout().lock();
    let text = match stdout.is_terminal() {
        true => CsvText::Clean,
        false => CsvText::Exact,
    };
    match write(&mut stdout, text) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(true),
        written => written.context("cannot write to stdout"),
    }
}

/// The tables that there are, in words.
fn names(recording: &Recording) -> String {
    let names: Vec<&str> = recording.tables().collect();
    format!("this recording has {}", names.join(", "))
}

/// Whether all was there to be written.
fn code(recording: &Recording) -> ExitCode {
    let (header, recorded) = (recording.header(), load::recorded(recording));
    let latest_ns = recording.time_range_ns().map_or(0, |range| range.1);
    let about = About::of(header, recorded, latest_ns, (0, u64::MAX));
    for problem in &about.problems {
        eprintln!("warning: {problem}");
    }
    ExitCode::from(if about.is_complete() {
        0
    } else {
        exit::INCOMPLETE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(output: &Path, force: bool) -> ExportArgs {
        ExportArgs {
            output: Some(output.to_owned()),
            force,
            table: None,
        }
    }

    fn fails(_: &mut dyn Write) -> io::Result<()> {
        Err(ErrorKind::StorageFull.into())
    }

    #[test]
    fn a_file_is_replaced_only_when_told() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("t.csv");
        let write = |text: &'static str, force| {
            to(&path, force).write(&path, |out| out.write_all(text.as_bytes()))
        };
        write("first", false).expect("a new file");
        let refused = write("second", false).expect_err("it exists").to_string();
        assert!(refused.contains("hint: ") && refused.contains("--force"));
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "first");
        write("new", true).expect("replaced");
        assert_eq!(std::fs::read_to_string(&path).expect("text"), "new");
    }

    #[test]
    fn half_a_file_is_removed_but_no_device() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = scratch.path().join("t.csv");
        assert!(to(&path, false).write(&path, fails).is_err());
        assert!(!path.exists());
        let pipe = scratch.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || std::fs::read(pipe)
        });
        assert!(to(&pipe, true).write(&pipe, fails).is_err());
        assert_eq!(reader.join().expect("it ends").expect("nothing"), b"");
        assert!(pipe.exists());
    }
}
