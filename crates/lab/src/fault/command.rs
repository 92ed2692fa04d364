//! `whylat lab fault NAME`, `whylat lab list` and `whylat lab score`.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, ValueEnum};
use serde_json::{Value, json};

use super::catalogue::{FAULTS, find};
use super::run::FaultRun;
use super::scene::{RecordedPrograms, SeededDice, Variant};
use super::score::Score;
use crate::error::LabError;

/// Plants a fault: runs a client and a server, with one thing wrong between or in them, in network
/// namespaces of their own. Prints the ground truth as JSON.
#[derive(Debug, Parser)]
#[command(
    name = "whylat lab fault",
    no_binary_name = true,
    after_help = "\
Examples:
  whylat lab fault write_write_read
  whylat lab fault incast --variant healthy --seed 7
  whylat run --as-root -- whylat lab fault slow_reader   # and its diagnosis
  whylat lab fault remote_slow --record r.whylat   # records its programs",
    mut_arg("output", |output| output.visible_alias("truth"))
)]
struct Options {
    /// Name of the fault; `whylat lab list` shows all.
    name: String,
    /// With the fault, its twin without it, or fixed as the finding advises (mended).
    #[arg(long, value_enum, default_value = "faulty")]
    variant: Variant,
    /// With --variant mended: the fix, if there are several; `whylat lab list` shows them.
    #[arg(long = "cure", value_name = "FIX")]
    fix: Option<String>,
    /// Congestion control of both ends: cubic, bbr, reno.
    #[arg(long, default_value = "cubic")]
    congctl: String,
    /// Sizes, delays and losses follow from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Puts a router between the ends, and captures packets with tcpdump: client.pcap, server.pcap and between.pcap in this
    /// directory.
    #[arg(long, value_name = "DIR")]
    captures: Option<PathBuf>,
    /// Records it by `whylat run`: all of its programs, or the client alone where the fault is that of another host.
    #[arg(long, value_name = "RECORDING")]
    record: Option<PathBuf>,
    #[command(flatten)]
    to: OutputArgs,
}

/// Options that say where the answer is written.
#[derive(Debug, Args)]
struct OutputArgs {
    /// Creates this file for the answer; `-` is stdout, as is no file.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replaces an existing PATH.
    #[arg(long, requires = "output")]
    force: bool,
}

impl OutputArgs {
    /// Opens the output file, if one is named, before the work. A path that cannot be written must
    /// not cost a whole run.
    fn open(&self) -> Result<Option<File>, LabError> {
        let path = self.output.as_ref().filter(|path| path.as_os_str() != "-");
        path.map(|path| create(path, self.force)).transpose()
    }
}

/// Writes an answer as JSON to the open file, else to standard output.
fn write(answer: &Value, file: Option<File>) -> Result<(), LabError> {
    match file {
        None => crate::output::print_json(answer),
        Some(mut file) => writeln!(file, "{answer}")
            .map_err(|why| LabError::os("write", "the answer", why, "check the disk's space")),
    }
}

/// Lists all faults.
#[derive(Debug, Parser)]
#[command(
    name = "whylat lab list",
    no_binary_name = true,
    after_help = "\
Examples:
  whylat lab list
  whylat lab list --json"
)]
struct ListOptions {
    /// One JSON object a line.
    #[arg(long)]
    json: bool,
}

/// Compares a report with the ground truth of a fault. Prints as JSON what was planted, what of it
/// was found, and what was reported beside it: each a rule and a socket cookie, the side and address of a service, or a process.
#[derive(Debug, Parser)]
#[command(
    name = "whylat lab score",
    no_binary_name = true,
    after_help = "\
Examples:
  whylat lab score truth.json report.json"
)]
struct ScoreOptions {
    /// The output of `whylat lab fault --truth`.
    truth: PathBuf,
    /// The output of `whylat report --format json` for a recording of it.
    report: PathBuf,
    #[command(flatten)]
    to: OutputArgs,
}

/// Returns the options of `whylat lab fault`.
pub fn declaration() -> clap::Command {
    Options::command()
}

/// Runs `whylat lab fault` with the arguments after these words.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match Options::try_parse_from(args) {
        Ok(options) => options,
        Err(usage) => return crate::output::print_usage(&usage),
    };
    match play(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Creates a file; one that is there is replaced only with `force`.
fn create(path: &Path, force: bool) -> Result<File, LabError> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true);
    let opened = options.create_new(!force).open(path);
    let hint = "name another path with -o, or replace it with --force";
    opened.map_err(|why| LabError::os("create", path.display().to_string(), why, hint))
}

/// Plays one fault, and records it.
fn play(options: &Options) -> Result<(), LabError> {
    let fault = find(&options.name).ok_or_else(|| LabError::UnknownFault {
        name: options.name.clone(),
        known: FAULTS.iter().map(|fault| fault.name).collect(),
    })?;
    let program = std::env::current_exe()
        .map_err(|why| LabError::os("find", "this program's file", why, "mount /proc"))?;
    let play = FaultRun {
        fault,
        variant: options.variant,
        fix: options.fix.as_deref(),
        congctl: &options.congctl,
        seed: options.seed,
        captures: options.captures.as_deref(),
        recording: options.record.as_deref(),
    };
    if let Some(recording) = &options.record
        && play.recorded()? == RecordedPrograms::All
    {
        return record(&program, recording, options);
    }
    let file = options.to.open()?;
    write(&play.run(&program)?, file)
}

/// Plays the fault again, under `whylat run`.
fn record(program: &Path, recording: &Path, options: &Options) -> Result<(), LabError> {
    let variant = options.variant.to_possible_value();
    let variant = variant.map_or_else(String::new, |it| it.get_name().to_owned());
    let mut command = std::process::Command::new(program);
    command.args(["run", "--output"]).arg(recording).arg("--");
    command.arg(program).args(["lab", "fault", &options.name]);
    command.args(["--variant", &variant, "--congctl", &options.congctl]);
    command.args(["--seed", &options.seed.to_string()]);
    if let Some(fix) = &options.fix {
        command.args(["--cure", fix]);
    }
    if let Some(output) = &options.to.output {
        command.arg("--output").arg(output);
    }
    if let Some(captures) = &options.captures {
        command.arg("--captures").arg(captures);
    }
    if options.to.force {
        command.arg("--force");
    }
    let hint = "read what it printed on stderr";
    let status = crate::tie_to_parent(&mut command).status();
    let status = status.map_err(|why| LabError::os("run", "the recorder", why, hint))?;
    match status.success() {
        true => Ok(()),
        false => Err(LabError::Command {
            command: format!("{command:?}"),
            detail: status.to_string(),
            hint,
        }),
    }
}

/// Returns the options of `whylat lab list`.
pub fn list_declaration() -> clap::Command {
    ListOptions::command()
}

/// Runs `whylat lab list`.
pub fn run_list(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match ListOptions::try_parse_from(args) {
        Ok(options) => options,
        Err(usage) => return crate::output::print_usage(&usage),
    };
    // text takes all that is written to it
    let mut list = String::new();
    for fault in FAULTS {
        let rule = (fault.claim)("cubic").map(|claim| claim.rule);
        let (name, summary, source) = (fault.name, fault.summary, fault.source);
        let congctls = fault.congctls;
        let fixes = (fault.scene)(Variant::Fixed, &mut SeededDice::new(1)).fixes;
        if options.json {
            let bbr = (fault.claim)("bbr").map(|claim| claim.rule);
            let rules = json!({ "cubic": rule, "bbr": bbr });
            let _ = writeln!(
                list,
                "{}",
                json!({ "name": name, "summary": summary, "source": source, "rules": rules, "congctls": congctls, "mendable": fault.mendable, "cures": fixes })
            );
        } else {
            let _ = writeln!(list, "{name:<20} {summary}");
            let _ = writeln!(
                list,
                "{:<20} finding: {}; {source}",
                "",
                rule.unwrap_or("none")
            );
            for fix in fixes {
                let _ = writeln!(list, "{:<20} --cure {}: {}", "", fix.name, fix.summary);
            }
        }
    }
    match std::io::stdout().write_all(list.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            eprintln!("error: cannot write to stdout: {error}");
            ExitCode::FAILURE
        }
        // a reader that has seen enough is no error
        _ => ExitCode::SUCCESS,
    }
}

/// Returns the options of `whylat lab score`.
pub fn score_declaration() -> clap::Command {
    ScoreOptions::command()
}

/// Runs `whylat lab score` with the arguments after these words. `answers` are the rules that are
/// never above info.
pub fn run_score(args: impl IntoIterator<Item = OsString>, answers: &[&str]) -> ExitCode {
    let options = match ScoreOptions::try_parse_from(args) {
        Ok(options) => options,
        Err(usage) => return crate::output::print_usage(&usage),
    };
    match compare(&options, answers) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Compares a report with the truth, and prints the score.
fn compare(options: &ScoreOptions, answers: &[&str]) -> Result<(), LabError> {
    let file = options.to.open()?;
    let (truth, report) = (read_json(&options.truth)?, read_json(&options.report)?);
    write(&json!(Score::new(&truth, &report, answers)), file)
}

/// Reads a file of JSON.
fn read_json(path: &Path) -> Result<Value, LabError> {
    let text = std::fs::read_to_string(path);
    let read = text.and_then(|text| Ok(serde_json::from_str(&text)?));
    read.map_err(|why| {
        let hint = "`whylat lab score --help` says what the two files are";
        LabError::os("read", path.display().to_string(), why, hint)
    })
}
