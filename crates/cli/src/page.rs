//! A recording as one HTML file: `whylat report --format html`, `whylat view`, `whylat run --open`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context, bail};
use clap::Args;
use diagnose::SnapSettings;
use diagnose::causes::Categories;
use diagnose::tail::Question;
use diagnose::tail::report::TailReport;
use table::Recording;

use crate::format::OutputArgs;
use crate::{exit, load, out};

/// What a page is of, besides its recording.
#[derive(Debug)]
pub(crate) struct Asked {
    /// SNAP's settings.
    pub(crate) settings: SnapSettings,
    /// Which messages are explained; `None`: the slowest, as many as it is worth.
    pub(crate) question: Option<Question>,
    /// What functions are.
    pub(crate) categories: Categories,
}

impl Asked {
    /// As a report without options.
    pub(crate) fn plainly() -> anyhow::Result<Self> {
        Ok(Self {
            settings: SnapSettings::default(),
            question: None,
            categories: Categories::built_in()?,
        })
    }
}

/// Opens a recording in a browser.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat view
  whylat view r.whylat --no-open -o r.html")]
pub(crate) struct View {
    /// The recording [default: the newest *.whylat here]
    dir: Option<PathBuf>,
    // -o: default: beside the recording, its name with .html, made anew each time
    #[command(flatten)]
    to: OutputArgs,
    /// Only write the file, and print its path
    #[arg(long)]
    no_open: bool,
}

impl View {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let path = self.dir.map_or_else(load::newest, Ok)?;
        let (file, is_complete) = match self.to.file() {
            Some(file) => {
                let (page, is_complete) = of(&path, Asked::plainly()?)?;
                self.to.page(&page)?;
                (file.to_owned(), is_complete)
            }
            None => {
                let file = beside(&path);
                let is_complete = write(&path, Asked::plainly()?, &file)?;
                (file, is_complete)
            }
        };
        if self.no_open {
            out::line(&file.display().to_string())?;
        } else {
            open(&file)?;
        }
        Ok(exit::of(is_complete))
    }
}

/// Where the page of a recording goes: `r.whylat` → `r.whylat.html`.
pub(crate) fn beside(recording: &Path) -> PathBuf {
    let mut name = recording.components().as_path().as_os_str().to_owned();
    name.push(".html");
    name.into()
}

/// Writes the page of a recording to `file`. Returns whether the recording is complete.
pub(crate) fn write(path: &Path, asked: Asked, file: &Path) -> anyhow::Result<bool> {
    let (page, is_complete) = of(path, asked)?;
    fs::write(file, page).with_context(|| {
        format!(
            "cannot write the page to {}\nhint: -o FILE writes it elsewhere",
            file.display()
        )
    })?;
    Ok(is_complete)
}

/// The page of a recording, and whether that is complete.
pub(crate) fn of(path: &Path, asked: Asked) -> anyhow::Result<(String, bool)> {
    let recording = Recording::open(path)?;
    let answers = load::answers(&recording, asked)?;
    of_sides(&[side(&recording, answers)], None)
}

/// The page of two recordings side by side, and whether both are complete. `difference`: why messages of the second take
/// longer, where that is known.
pub(crate) fn of_both(
    paths: [&Path; 2],
    asked: impl Fn() -> anyhow::Result<Asked>,
    difference: Option<&TailReport>,
) -> anyhow::Result<(String, bool)> {
    let recordings = [Recording::open(paths[0])?, Recording::open(paths[1])?];
    let mut sides = Vec::new();
    for recording in &recordings {
        let answers = load::answers(recording, asked()?)?;
        sides.push(side(recording, answers));
    }
    of_sides(&sides, difference)
}

fn of_sides(
    sides: &[view::html::Side<'_>],
    difference: Option<&TailReport>,
) -> anyhow::Result<(String, bool)> {
    let is_complete = |side: &view::html::Side<'_>| side.answers.report.about.is_complete();
    let page = view::html::html(sides, difference).context("cannot make the page")?;
    Ok((page, sides.iter().all(is_complete)))
}

fn side(recording: &Recording, answers: view::html::Answers) -> view::html::Side<'_> {
    let path = recording.path();
    let name = path.file_name().unwrap_or(path.as_os_str());
    view::html::Side {
        name: name.to_string_lossy().into_owned(),
        recording,
        answers,
    }
}

/// Has the desktop open a file.
pub(crate) fn open(file: &Path) -> anyhow::Result<()> {
    let mut opener = Command::new("xdg-open");
    let opener = opener.arg(file).stdin(Stdio::null());
    let opener = opener.stdout(Stdio::null()).stderr(Stdio::null());
    let done = opener.status();
    let file = file.display();
    match done {
        Ok(status) if status.success() => {
            eprintln!("opened {file}");
            Ok(())
        }
        Ok(status) => bail!(
            "xdg-open could not show {file}: {status}\nhint: open this file in a browser yourself; --no-open prints its path"
        ),
        Err(error) => bail!(
            "cannot start xdg-open to show {file}: {error}\nhint: open this file in a browser yourself; --no-open prints its path"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lies_beside_the_recording() {
        for given in ["a/r.whylat", "a/r.whylat/", "a/./r.whylat"] {
            assert_eq!(beside(Path::new(given)), Path::new("a/r.whylat.html"));
        }
    }
}
