//! `whylat check`: a gate for continuous integration. Records a command several times, and judges what does not depend on
//! the speed of the machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::str::FromStr;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use diagnose::check::baseline::{Baseline, SCHEMA};
use diagnose::check::count::CheckedRecording;
use diagnose::check::limit::CheckLimit;
use diagnose::check::report::CheckReport;
use diagnose::check::{Check, CheckOptions};
use diagnose::recording::{self, DiagnosisOptions};
use diagnose::report::RuleId;
use table::Recording;

use crate::out::{Output, OutputArgs};
use crate::scratch::ScratchDirectory;
use crate::{exit, out};

/// File of a baseline in a directory.
const FILE: &str = "whylat-baseline.json";

/// Checks a command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo whylat check --repeat 5 --write-baseline whylat-baseline.json -- ./test
  sudo whylat check --repeat 3 --baseline whylat-baseline.json -- ./test
  sudo whylat check --limit connections=1 --limit share.nagle=0.05 -- ./client
  sudo whylat check --format junit -o whylat.xml -- ./client

Exit codes: 0 passed, 4 failed the check, 3 passed but a recording is incomplete,
1 the command failed, 2 wrong usage")]
pub(crate) struct CheckArgs {
    /// Compare counts with this file, or with whylat-baseline.json in this directory
    #[arg(long, value_name = "PATH")]
    baseline: Option<PathBuf>,
    /// Write the counts of these runs to a file to commit; findings do not fail then
    #[arg(long, value_name = "PATH", conflicts_with = "baseline")]
    write_baseline: Option<PathBuf>,
    /// Do not fail on findings of this rule; may be given several times
    #[arg(long, value_name = "RULE", value_parser = parse_rule)]
    allow: Vec<RuleId>,
    /// Fail above this value of a count, of findings of a rule, or of share.STAGE; may be given several times
    #[arg(long, value_name = "NAME=VALUE")]
    limit: Vec<CheckLimit>,
    /// Run the command N times; the median of each count decides
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    repeat: u32,
    /// Under sudo, run the command as root instead of as the invoking user
    #[arg(long)]
    as_root: bool,
    /// Keep the recordings in this directory, which is created
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    format: CheckFormat,
    #[command(flatten)]
    to: OutputArgs,
    /// Write the answer to a file in another format, too; may be given several times
    #[arg(long, value_name = "FORMAT=PATH")]
    also: Vec<AlsoFormat>,
    /// The command and its arguments; what it prints goes to standard error
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Format of a check.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum CheckFormat {
    /// Text of at most 80 columns.
    Text,
    /// JSON by the schema whylat.check/1.
    Json,
    /// Annotations of GitHub Actions.
    Github,
    /// A summary with tables.
    Markdown,
    /// JUnit's XML.
    Junit,
    /// SARIF 2.1.0.
    Sarif,
}

/// A further format, and its file.
#[derive(Debug, Clone)]
struct AlsoFormat {
    format: CheckFormat,
    path: PathBuf,
}

impl FromStr for AlsoFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (format, path) = text
            .split_once('=')
            .ok_or_else(|| format!("{text} is not FORMAT=PATH, such as junit=whylat.xml"))?;
        Ok(Self {
            format: CheckFormat::from_str(format, false)?,
            path: path.into(),
        })
    }
}

/// Reads the name of a rule.
fn parse_rule(text: &str) -> Result<RuleId, String> {
    let mut rules = RuleId::ALL.iter();
    let found = rules.find(|it| it.name() == text).copied();
    found.ok_or_else(|| format!("there is no rule {text}; docs/findings has a page for each"))
}

impl CheckArgs {
    pub(crate) fn execute(mut self) -> anyhow::Result<ExitCode> {
        let mut outputs = vec![(self.format, std::mem::take(&mut self.to).check()?)];
        for AlsoFormat { format, path } in &self.also {
            let file = OutputArgs::from_file(path.clone()).check()?;
            outputs.push((*format, file));
        }
        let baseline = self.baseline.as_deref().map(read).transpose()?;
        let written = self.write_baseline.as_deref().map(to_write).transpose()?;
        let scratch = self.make_scratch_directory()?;
        let mut check = Check::new(CheckOptions {
            baseline,
            allowed: self.allow.clone(),
            limits: self.limit.clone(),
        });
        for number in 1..=self.repeat {
            let path = scratch.path.join(format!("run-{number}.whylat"));
            self.record_run(&path, number)?;
            let recording = Recording::open(&path)?;
            let report = recording::report(&recording, DiagnosisOptions::default())?;
            check.add(&CheckedRecording {
                recording: &recording,
                report: &report,
            });
        }
        if let Some(written) = written {
            written.pretty_json(&check.to_baseline(env!("CARGO_PKG_VERSION")))?;
        }
        let words = self
            .command
            .iter()
            .map(|it| it.to_string_lossy().into_owned());
        let report = check.report(words.collect());
        for (format, to) in &outputs {
            self.print(&report, *format, to)?;
        }
        Ok(self.exit_code(&report))
    }

    /// Returns the directory of the recordings.
    fn make_scratch_directory(&self) -> anyhow::Result<ScratchDirectory> {
        let Some(kept) = &self.keep else {
            return ScratchDirectory::new("check");
        };
        std::fs::create_dir(kept).map_err(|error| {
            anyhow!(
                "cannot create {}: {error}\nhint: name a directory that does not exist",
                out::name(kept)
            )
        })?;
        Ok(ScratchDirectory::from_kept(kept))
    }

    /// Returns the exit code of the check; writing a baseline is always a success.
    fn exit_code(&self, report: &CheckReport) -> ExitCode {
        match report.is_passed || self.write_baseline.is_some() {
            false => ExitCode::from(exit::CHECK_FAILED),
            true => exit::from_complete(report.is_complete),
        }
    }

    /// Records one run of the command.
    fn record_run(&self, path: &Path, number: u32) -> anyhow::Result<()> {
        let program = std::env::current_exe().context("cannot find whylat's own program file")?;
        let mut recorder = Command::new(program);
        recorder
            // counts are of the command alone
            .args(["run", "--no-report", "--force", "--follow", "none"])
            .arg("--output")
            .arg(path);
        if self.as_root {
            recorder.arg("--as-root");
        }
        recorder.arg("--").args(&self.command);
        // what the command prints is no part of the answer
        recorder.stdout(Stdio::from(std::io::stderr()));
        let status = recorder
            .status()
            .context("cannot start whylat a second time")?;
        if !status.success() {
            bail!(
                "run {number} of {} ended with {status}\n\
                 hint: check a command that succeeds; whylat run -- COMMAND shows what it does",
                self.command.first().map(out::name).unwrap_or_default()
            );
        }
        Ok(())
    }

    /// Prints the report in this format.
    fn print(&self, report: &CheckReport, format: CheckFormat, to: &Output) -> anyhow::Result<()> {
        match format {
            CheckFormat::Text => to.write_exact(&view::check::text(report, &to.text_options())),
            CheckFormat::Json => to.json(report),
            CheckFormat::Github => to.write_exact(&view::check::write_github(report)),
            CheckFormat::Markdown => to.write_exact(&view::check::write_markdown(report)),
            CheckFormat::Junit => to.write_exact(&view::check::write_junit(report)?),
            CheckFormat::Sarif => {
                let version = env!("CARGO_PKG_VERSION");
                to.write_exact(&view::check::write_sarif(
                    report,
                    &self.artifact_name(),
                    version,
                )?)
            }
        }
    }

    /// Returns the artifact of SARIF results: the baseline, else the program.
    fn artifact_name(&self) -> String {
        match &self.baseline {
            Some(path) => out::name(&in_directory(path)),
            None => self.command.first().map(out::name).unwrap_or_default(),
        }
    }
}

/// Returns the file itself, or the baseline's file in a directory.
fn in_directory(path: &Path) -> PathBuf {
    match path.is_dir() {
        true => path.join(FILE),
        false => path.to_owned(),
    }
}

/// Reads a baseline from a file.
fn read(path: &Path) -> anyhow::Result<Baseline> {
    let path = in_directory(path);
    let name = out::name(&path);
    let hint = "hint: make one with `whylat check --repeat 5 --write-baseline PATH -- COMMAND`";
    let text = std::fs::read_to_string(&path)
        .map_err(|error| anyhow!("cannot read {name}: {error}\n{hint}"))?;
    let value: serde_json::Value = serde_json::from_str(&text)
        .map_err(|error| anyhow!("{name} is no JSON: {error}\n{hint}"))?;
    match value["schema"].as_str() {
        Some(SCHEMA) => {}
        other => bail!(
            "{name} has the schema {}, this whylat reads {SCHEMA}\n{hint}",
            other.map_or_else(|| "of no baseline".to_owned(), view::remove_controls)
        ),
    }
    serde_json::from_value(value).map_err(|error| anyhow!("{name} is no baseline: {error}\n{hint}"))
}

/// Returns the output of a baseline; it replaces an existing one.
fn to_write(path: &Path) -> anyhow::Result<Output> {
    let path = in_directory(path);
    let is_other = path.exists() && read(&path).is_err();
    if is_other {
        bail!(
            "{} is there, and is no baseline\nhint: name another file",
            out::name(&path)
        );
    }
    Ok(Output::replacing(path))
}
