//! `whylat validate` and `whylat recover`. Both end with 3 where a report of the recording does, but `validate` with 1
//! where it finds damage.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use diagnose::recording;
use diagnose::report::{About, CloseState};
use diagnose::units::quantity;
use serde_json::{Value, json};
use table::{Problem, Recording, RecoveryResult};

use crate::out::OutputArgs;
use crate::{exit, load, out};

/// Checks a recording.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat validate                    # the newest recording here
  whylat validate r.whylat --json")]
pub(crate) struct Validate {
    /// The recording [default: the newest *.whylat here]
    dir: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    to: OutputArgs,
}

impl Validate {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let dir = self.dir.map_or_else(load::find_newest_recording, Ok)?;
        let to = self.to.check()?;
        let found = CheckResult::check(&dir)?;
        if self.json {
            to.json(&found.json())?;
        } else {
            to.print(&found.text())?;
        }
        if found.is_left_open() {
            eprintln!("hint: whylat recover {}", out::name(&dir));
        }
        Ok(ExitCode::from(found.exit_code()))
    }
}

/// Result of a check.
struct CheckResult {
    dir: PathBuf,
    problems: Vec<Problem>,
    about: About,
    is_live: bool,
}

impl CheckResult {
    /// Checks all files of a recording.
    fn check(dir: &Path) -> anyhow::Result<Self> {
        // Opened first: who closes it between the two is not called a crash.
        let recording = Recording::open(dir)?;
        Ok(Self {
            dir: dir.to_owned(),
            problems: table::validate(dir)?,
            about: recording::describe_recording(&recording),
            is_live: recording.is_live(),
        })
    }

    /// Returns whether the recording was never closed, and no process writes it.
    fn is_left_open(&self) -> bool {
        !self.is_live && self.about.closed == CloseState::NotClosed
    }

    /// Returns 0 if the recording is complete and undamaged.
    fn exit_code(&self) -> u8 {
        match (self.problems.is_empty(), self.about.is_complete()) {
            (false, _) => exit::FAILED,
            (true, false) => exit::INCOMPLETE,
            (true, true) => 0,
        }
    }

    /// Returns a line for each problem, and what is known of the recording.
    fn text(&self) -> String {
        let mut lines: Vec<_> = self.problems.iter().map(ToString::to_string).collect();
        let dir = out::name(&self.dir);
        let end = match self.about.closed {
            CloseState::InOrder => None,
            CloseState::Recovered => Some("closed after a crash: the end may be missing"),
            CloseState::NotClosed if self.is_live => Some("is still being written"),
            CloseState::NotClosed => Some("not closed: the end is missing"),
        };
        lines.extend(match (end, self.problems.is_empty()) {
            (Some(end), true) => Some(format!("{dir}: {end}; all data in it is undamaged")),
            (Some(end), false) => Some(format!("{dir}: {end}")),
            (None, true) => Some(format!(
                "{dir}: every digest, row count and loss count is correct"
            )),
            (None, false) => None,
        });
        lines.extend(describe_losses(&self.about).map(|losses| format!("{dir}: {losses}")));
        lines.join("\n") + "\n"
    }

    /// Returns the result as JSON.
    fn json(&self) -> Value {
        let problem = |problem: &Problem| {
            json!({
                "file": problem.file.to_string_lossy(),
                "offset": problem.offset,
                "rows": problem.rows,
                "cause": problem.cause,
            })
        };
        json!({
            "schema": "whylat.validate/1",
            "recording": self.dir.to_string_lossy(),
            "live": self.is_live,
            "closed": self.about.closed,
            "lost_total": lost_records(&self.about),
            "problems": self.problems.iter().map(problem).collect::<Vec<_>>(),
        })
    }
}

/// Records of all probes that were lost.
fn lost_records(about: &About) -> u64 {
    let lost = about.loss.iter().map(|loss| loss.lost_total);
    lost.fold(0, u64::saturating_add)
}

/// Returns the lost records in words; `None`: nothing was lost.
fn describe_losses(about: &About) -> Option<String> {
    let lost = lost_records(about);
    let words = || format!("{} lost; the report says which", quantity(lost, "record"));
    (lost > 0).then(words)
}

/// Closes a recording that a crash left open.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat recover             # the newest recording here
  whylat recover r.whylat")]
pub(crate) struct Recover {
    /// The recording [default: the newest *.whylat here]
    dir: Option<PathBuf>,
}

impl Recover {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let dir = self.dir.map_or_else(load::find_newest_recording, Ok)?;
        let (message, is_complete) = recover_recording(&dir)?;
        out::line(&message)?;
        Ok(exit::from_complete(is_complete))
    }
}

/// Closes a recording. Returns what was done, and whether the recording is complete.
fn recover_recording(dir: &Path) -> anyhow::Result<(String, bool)> {
    let recovered = table::recover_recording(dir)?;
    let about = recording::describe_recording(&Recording::open(dir)?);
    Ok((recovery_text(dir, &recovered, &about), about.is_complete()))
}

/// Returns the result in words. Rows that the recorder had not sealed when it died are gone and not counted.
fn recovery_text(dir: &Path, recovered: &RecoveryResult, about: &About) -> String {
    let text = recovered.to_string();
    let (state, rest) = text.split_at(text.find('\n').unwrap_or(text.len()));
    let end = match about.closed {
        CloseState::InOrder => "",
        CloseState::Recovered | CloseState::NotClosed => "; the end may be missing",
    };
    let losses = describe_losses(about).map_or_else(String::new, |losses| format!("\n{losses}"));
    format!("{}: {state}{end}{rest}{losses}", out::name(dir))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use table::manifest::{Line, Loss};
    use table::{WriteOptions, Writer};

    use super::*;
    use crate::load::tests::golden;

    /// Takes the last line of the manifest away.
    fn open_again(path: &Path) {
        let manifest = path.join("manifest.jsonl");
        let whole = std::fs::read_to_string(&manifest).expect("read");
        let (rest, last) = whole.trim_end().rsplit_once('\n').expect("lines");
        assert!(last.contains("close"), "{last}");
        std::fs::write(&manifest, format!("{rest}\n")).expect("written");
    }

    /// Begins a recording without rows, with the header of a golden one.
    fn begun(scratch: &Path) -> (PathBuf, Writer) {
        let sound = golden("slow_reader/fires", true, scratch);
        let header = Recording::open(&sound).expect("read").header().clone();
        let path = scratch.join("begun.whylat");
        let writer = Writer::create(&path, &header, WriteOptions::default());
        (path, writer.expect("created"))
    }

    #[test]
    fn unclosed_recording_is_reported() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = golden("slow_reader/fires", true, scratch.path());
        let found = CheckResult::check(&path).expect("read");
        assert_eq!((found.exit_code(), found.is_left_open()), (0, false));
        open_again(&path);
        let found = CheckResult::check(&path).expect("read");
        let known = (found.exit_code(), found.is_left_open());
        assert_eq!(known, (exit::INCOMPLETE, true));
        let text = ": not closed: the end is missing; all data in it is undamaged\n";
        assert!(found.text().ends_with(text), "{}", found.text());
        for state in ["closed", "was closed already"] {
            let (text, is_complete) = recover_recording(&path).expect("closed");
            let first = text.lines().next().unwrap_or_default();
            let state = format!(".whylat: {state}; the end may be missing");
            assert!(first.ends_with(&state), "{text}");
            assert!(!is_complete, "{text}");
        }
        let found = CheckResult::check(&path).expect("read");
        let known = (found.exit_code(), found.is_left_open());
        assert_eq!(known, (exit::INCOMPLETE, false));
        let text = ": closed after a crash: the end may be missing; all data in it is undamaged\n";
        assert!(found.text().ends_with(text), "{}", found.text());
    }

    #[test]
    fn live_recording_is_not_left_open() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (path, writer) = begun(scratch.path());
        let found = CheckResult::check(&path).expect("read");
        let known = (found.exit_code(), found.is_left_open());
        assert_eq!(known, (exit::INCOMPLETE, false));
        assert!(
            found.text().contains("still being written"),
            "{}",
            found.text()
        );
        drop(writer);
    }

    #[test]
    fn losses_are_reported() {
        let scratch = tempfile::tempdir().expect("a directory");
        let (path, mut writer) = begun(scratch.path());
        let loss = Loss {
            probe: "calls".to_owned(),
            produced: 7,
            lost: BTreeMap::from([("ring_full".to_owned(), 7)]),
            ..Loss::default()
        };
        writer.line(&Line::Loss(loss)).expect("written");
        writer.close(1).expect("closed");
        let found = CheckResult::check(&path).expect("read");
        assert_eq!(found.exit_code(), exit::INCOMPLETE);
        assert!(
            found.text().contains(": 7 records lost"),
            "{}",
            found.text()
        );
        let json = found.json();
        assert_eq!(json["lost_total"], 7);
        assert_eq!(
            (&json["closed"], &json["live"]),
            (&json!("in_order"), &json!(false))
        );
        let (text, is_complete) = recover_recording(&path).expect("closed already");
        assert!(!is_complete && text.contains("7 records lost"), "{text}");
    }

    #[test]
    fn remaining_damage_is_reported() {
        let scratch = tempfile::tempdir().expect("a directory");
        let path = golden("slow_reader/fires", true, scratch.path());
        let files = std::fs::read_dir(path.join("tcp_stages")).expect("there");
        for file in files.flatten() {
            std::fs::remove_file(file.path()).expect("removed");
        }
        let (text, is_complete) = recover_recording(&path).expect("closed already");
        assert!(!is_complete && text.contains("damage stays: "), "{text}");
        let found = CheckResult::check(&path).expect("read");
        assert_eq!(found.exit_code(), exit::FAILED);
        let json = found.json();
        assert_eq!(json["problems"][0]["cause"], "missing", "{json}");
    }
}
