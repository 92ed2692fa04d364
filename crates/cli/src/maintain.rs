//! `whylat validate` and `whylat recover`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use table::{Recording, Recovered};

use crate::{exit, out};

/// Checks a recording.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat validate r.whylat")]
pub(crate) struct Validate {
    /// The recording
    dir: PathBuf,
}

impl Validate {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let found = Found::of(&self.dir)?;
        for line in &found.lines {
            out::line(line)?;
        }
        if found.is_left_open {
            eprintln!("hint: whylat recover {}", self.dir.display());
        }
        Ok(ExitCode::from(found.code))
    }
}

/// What a check says.
struct Found {
    lines: Vec<String>,
    /// Nobody writes it any more, and nobody closed it.
    is_left_open: bool,
    code: u8,
}

impl Found {
    fn of(dir: &Path) -> anyhow::Result<Self> {
        // Opened first: who closes it between the two is not called a crash.
        let recording = Recording::open(dir)?;
        let problems = table::validate(dir)?;
        let (is_live, is_closed) = (recording.live(), recording.closed().is_some());
        let is_left_open = !is_live && !is_closed;
        let mut lines: Vec<_> = problems.iter().map(ToString::to_string).collect();
        let dir = dir.display();
        lines.extend(match (problems.is_empty(), is_left_open, is_live) {
            (true, true, _) => Some(format!(
                "{dir}: not closed: the end is missing; what is there is right"
            )),
            (false, true, _) => Some(format!("{dir}: not closed: the end is missing")),
            (true, _, true) => Some(format!(
                "{dir}: is still being written; what is there is right"
            )),
            (true, ..) => Some(format!(
                "{dir}: every digest, row count and account is right"
            )),
            (false, ..) => None,
        });
        Ok(Self {
            code: match (problems.is_empty(), is_left_open) {
                (false, _) => exit::FAILED,
                (true, true) => exit::INCOMPLETE,
                (true, false) => 0,
            },
            lines,
            is_left_open,
        })
    }
}

/// Closes a recording that a crash left open.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat recover r.whylat")]
pub(crate) struct Recover {
    /// The recording
    dir: PathBuf,
}

impl Recover {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let outcome = table::recover(&self.dir)?;
        out::line(&told(&self.dir, &outcome))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What was done. What the recorder had not sealed when it died is gone, and nobody knows how much that was.
fn told(dir: &Path, recovered: &Recovered) -> String {
    let said = recovered.to_string();
    let (state, rest) = said.split_at(said.find('\n').unwrap_or(said.len()));
    let end = if recovered.was_closed {
        ""
    } else {
        "; the end may be missing"
    };
    format!("{}: {state}{end}{rest}", dir.display())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::golden;

    /// Takes the last line of the manifest away.
    fn open_again(path: &Path) {
        let manifest = path.join("manifest.jsonl");
        let whole = std::fs::read_to_string(&manifest).expect("read");
        let (rest, last) = whole.trim_end().rsplit_once('\n').expect("lines");
        assert!(last.contains("close"), "{last}");
        std::fs::write(&manifest, format!("{rest}\n")).expect("written");
    }

    #[test]
    fn a_recording_that_was_not_closed_says_so() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = golden("slow_reader/fires", true, scratch.path());
        let found = Found::of(&path).expect("read");
        assert_eq!((found.code, found.is_left_open), (0, false));
        open_again(&path);
        let found = Found::of(&path).expect("read");
        assert_eq!((found.code, found.is_left_open), (exit::INCOMPLETE, true));
        let said = ": not closed: the end is missing; what is there is right";
        assert!(found.lines[0].ends_with(said), "{:?}", found.lines);
        let outcome = table::recover(&path).expect("closed");
        let said = told(&path, &outcome);
        let first = said.lines().next().unwrap_or_default();
        assert!(
            first.ends_with(".whylat: closed; the end may be missing"),
            "{said}"
        );
        let found = Found::of(&path).expect("read");
        assert_eq!((found.code, found.is_left_open), (0, false));
    }

    #[test]
    fn one_that_is_being_written_was_not_left_open() {
        let scratch = tempfile::tempdir().expect("a directory");
        let sound = golden("slow_reader/fires", true, scratch.path());
        let header = Recording::open(&sound).expect("read").header().clone();
        let path = scratch.path().join("live.whylat");
        let writer = table::Writer::create(&path, &header, table::WriteOptions::default());
        let writer = writer.expect("created");
        let found = Found::of(&path).expect("read");
        assert_eq!((found.code, found.is_left_open), (0, false));
        assert!(
            found.lines[0].contains("still being written"),
            "{:?}",
            found.lines
        );
        drop(writer);
    }
}
