//! A recording as one HTML file: `whylat report --format html`, `whylat view`, `whylat run --open`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use diagnose::recording::{self, DiagnosisOptions, TailOptions};
use diagnose::tail::report::TailReport;
use table::Recording;

use crate::confine::confine_process;
use crate::out::{Output, OutputArgs};
use crate::{exit, load, out};

/// Options of a page.
#[derive(Debug, Default)]
pub(crate) struct PageOptions {
    /// Limits of the diagnosis.
    pub(crate) judging: DiagnosisOptions,
    /// Messages to explain.
    pub(crate) tail: TailOptions,
}

/// Opens a recording in a browser.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat view
  whylat view r.whylat --no-open -o r.html")]
#[command(mut_arg("output", |it| it.help(
    "File to create; `-`: standard output [default: DIR.html, replaced each time]"
)))]
pub(crate) struct View {
    /// The recording [default: the newest *.whylat here]
    dir: Option<PathBuf>,
    #[command(flatten)]
    to: OutputArgs,
    /// Write the file and print its path, without opening it
    #[arg(long)]
    no_open: bool,
}

impl View {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let path = self.dir.map_or_else(load::find_newest_recording, Ok)?;
        let to = self.to.check_or(|| Output::replacing(page_path(&path)))?;
        let shown = to.file().filter(|_| !self.no_open).map(Path::to_owned);
        let opener = shown.map(Opener::start).transpose()?;
        confine_process();
        let (page, is_complete) = page_of_one(&path, &PageOptions::default())?;
        to.write_exact(&page)?;
        match (opener, to.file()) {
            (Some(opener), _) => opener.open()?,
            (None, Some(file)) => out::line(&out::name(file))?,
            (None, None) => {}
        }
        Ok(exit::from_complete(is_complete))
    }
}

/// Returns where the page of a recording goes: `r.whylat` → `r.whylat.html`.
pub(crate) fn page_path(recording: &Path) -> PathBuf {
    let mut name = recording.components().as_path().as_os_str().to_owned();
    name.push(".html");
    name.into()
}

/// Writes the page of a recording beside it, and replaces an older one.
pub(crate) fn write(recording: &Path) -> anyhow::Result<()> {
    let (page, _) = page_of_one(recording, &PageOptions::default())?;
    Output::replacing(page_path(recording)).write_exact(&page)
}

/// Returns the page of a recording, and whether the recording is complete.
pub(crate) fn page_of_one(path: &Path, asked: &PageOptions) -> anyhow::Result<(String, bool)> {
    let recording = Recording::open(path)?;
    make_page(&[side(&recording, asked)?], None)
}

/// Returns the page of two recordings side by side, and whether both are complete. `difference`:
/// why messages of the second take longer, if known.
pub(crate) fn compare(
    paths: [&Path; 2],
    asked: &PageOptions,
    difference: Option<&TailReport>,
) -> anyhow::Result<(String, bool)> {
    let recordings = [Recording::open(paths[0])?, Recording::open(paths[1])?];
    let mut sides = Vec::new();
    for recording in &recordings {
        sides.push(side(recording, asked)?);
    }
    make_page(&sides, difference)
}

/// Makes the page of one or two recordings; returns whether all are complete, too.
fn make_page(
    sides: &[view::html::PageSide<'_>],
    difference: Option<&TailReport>,
) -> anyhow::Result<(String, bool)> {
    let is_complete = |side: &view::html::PageSide<'_>| side.answers.report.about.is_complete();
    let page = view::html::html(sides, difference).context("cannot make the page")?;
    Ok((page, sides.iter().all(is_complete)))
}

/// Reads what the page shows of a recording.
fn side<'a>(
    recording: &'a Recording,
    asked: &PageOptions,
) -> anyhow::Result<view::html::PageSide<'a>> {
    let path = recording.path();
    let name = path.file_name().unwrap_or(path.as_os_str());
    Ok(view::html::PageSide {
        name: name.to_string_lossy().into_owned(),
        recording,
        answers: recording::page(recording, asked.judging, &asked.tail)?,
    })
}

/// The desktop's opener of files, which waits until the page is there. It is started before this process gives up
/// what it needs for starting programs.
#[derive(Debug)]
pub(crate) struct Opener {
    shell: Child,
    file: PathBuf,
}

impl Opener {
    /// Starts the program that opens files on the desktop; an interrupt does not end it.
    pub(crate) fn start(file: PathBuf) -> anyhow::Result<Self> {
        const WAIT: &str =
            "trap '' INT; read -r go || exit; trap - INT; exec xdg-open \"$1\" </dev/null";
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", WAIT, "xdg-open"]).arg(&file);
        let shell = shell.stdin(Stdio::piped()).stdout(Stdio::null());
        let started = shell.stderr(Stdio::null()).spawn();
        let shell =
            started.with_context(|| format!("cannot start sh to show {}", out::name(&file)))?;
        Ok(Self { shell, file })
    }

    /// Opens the finished file.
    pub(crate) fn open(mut self) -> anyhow::Result<()> {
        /// Exit code of a shell without such a program.
        const NO_PROGRAM: i32 = 127;
        let line = self.shell.stdin.take();
        let sent = line.map_or(Ok(()), |mut line| line.write_all(b"\n"));
        let done = sent.and_then(|()| self.shell.wait());
        let (file, hint) = (
            out::name(&self.file),
            "hint: open this file in a browser; --no-open only prints its path",
        );
        match done {
            Ok(status) if status.success() => {
                eprintln!("opened {file}");
                Ok(())
            }
            Ok(status) if status.code() == Some(NO_PROGRAM) => {
                bail!("there is no xdg-open to show {file}\n{hint}")
            }
            Ok(status) => bail!("xdg-open could not show {file}: {status}\n{hint}"),
            Err(error) => bail!("cannot have xdg-open show {file}: {error}\n{hint}"),
        }
    }
}

impl Drop for Opener {
    /// Ends the thread that waits for the page.
    fn drop(&mut self) {
        self.shell.stdin.take();
        // It ends at once, if it has not yet.
        let _ = self.shell.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_path_is_beside_recording() {
        for given in ["a/r.whylat", "a/r.whylat/", "a/./r.whylat"] {
            assert_eq!(page_path(Path::new(given)), Path::new("a/r.whylat.html"));
        }
    }
}
