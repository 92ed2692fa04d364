//! `whylat run` and `whylat record`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use record::{Command, Outcome, Target};

use crate::{args, exit, load, out, page, progress};

/// Records a command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat run -- ./client --its --options
  sudo whylat run --detail messages --keep p99,sample=100 -- ./client
  whylat run -u 'whylat:*' -- ./client   # and values that it tells by USDT
  whylat run --profile deep -o deep.whylat -- ./client")]
pub(crate) struct Run {
    #[command(flatten)]
    recording: args::Recording,
    /// Keep root for the command under sudo, instead of running it as the invoking user
    #[arg(long)]
    as_root: bool,
    /// Print the diagnosis as JSON
    #[arg(long)]
    json: bool,
    /// Then look at the recording in a browser, as `whylat view` does
    #[arg(long)]
    open: bool,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Run {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let command = Command {
            argv: self.command,
            as_root: self.as_root,
            silent: false,
        };
        let options = self.recording.options(Target::Command(command), None)?;
        let outcome = match record::record(&options) {
            Ok(outcome) => outcome,
            Err(error) => {
                let code = error.command_exit_code().unwrap_or(exit::FAILED);
                eprintln!("error: {error}");
                return Ok(ExitCode::from(code));
            }
        };
        tell(&outcome);
        print_diagnosis(&outcome, self.json)?;
        // the command's own status is what this one ends with
        if self.open
            && let Err(error) = show(&outcome.path)
        {
            eprintln!("error: {error:#}");
        }
        Ok(ExitCode::from(
            outcome.command_exit_code().unwrap_or(exit::FAILED),
        ))
    }
}

/// Shows a recording in a browser.
fn show(recording: &Path) -> anyhow::Result<()> {
    let file = page::beside(recording);
    page::write(recording, page::Asked::plainly()?, &file)?;
    page::open(&file)
}

/// Records what is running.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo whylat record -p 4321 -d 10
  sudo whylat record --port 6379 --detail calls
  sudo whylat record --all --detail messages --trigger 'latency>5ms'")]
pub(crate) struct Record {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    recording: args::Recording,
    /// End after this many seconds [default: when interrupted]
    #[arg(short, long, value_name = "SECONDS")]
    duration: Option<f64>,
}

/// Whose connections; exactly one.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct TargetArgs {
    /// Processes, and what they start
    #[arg(short, long, value_name = "PID", value_delimiter = ',')]
    pid: Vec<u32>,
    /// Processes with this command name, now or later
    #[arg(long, value_name = "NAME")]
    comm: Option<String>,
    /// Connections with this local or remote port
    #[arg(long, value_name = "PORT")]
    port: Option<u16>,
    /// Processes of this control group (v2)
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Every connection of the host
    #[arg(short, long)]
    all: bool,
}

impl TargetArgs {
    fn target(self) -> Target {
        match self {
            Self {
                comm: Some(name), ..
            } => Target::Comm(name),
            Self {
                port: Some(port), ..
            } => Target::Port(port),
            Self {
                cgroup: Some(path), ..
            } => Target::Cgroup(path),
            Self { all: true, .. } => Target::All,
            Self { pid, .. } => Target::Pids(pid),
        }
    }
}

impl Record {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let duration = self.duration.map(Duration::try_from_secs_f64).transpose()?;
        let options = self.recording.options(self.target.target(), duration)?;
        if duration.is_none() {
            eprintln!("recording to {}; Ctrl-C ends", options.output.display());
        }
        let outcome = record::record(&options)?;
        tell(&outcome);
        if outcome.write_error.is_some() {
            return Ok(ExitCode::from(exit::FAILED));
        }
        eprintln!("hint: whylat report {}", outcome.path.display());
        Ok(exit::of(outcome.lost == 0))
    }
}

/// Says where the recording is and what went wrong with it.
fn tell(outcome: &Outcome) {
    progress::clear();
    eprintln!("recorded to {}", outcome.path.display());
    for probe in &outcome.usdt {
        let fired = probe.fired.unwrap_or_default();
        eprintln!(
            "{}:{} in {} fired {fired} times",
            probe.provider, probe.name, probe.path
        );
    }
    if outcome.lost > 0 {
        eprintln!(
            "warning: {} records were lost; the report says which",
            outcome.lost
        );
    }
    if let Some(error) = &outcome.write_error {
        eprintln!("error: {error}");
    }
}

fn print_diagnosis(outcome: &Outcome, json: bool) -> anyhow::Result<()> {
    let report = load::diagnose(&outcome.path, diagnose::SnapSettings::default())?;
    if json {
        out::line(&view::json(&report))
    } else {
        out::print(&view::text(&report, &args::text_options()))
    }
}

/// Asks a running recorder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo whylat snapshot
  sudo whylat snapshot -p 4321   # the recorder with this process id")]
pub(crate) struct Snapshot {
    /// The recorder [default: the only one that runs]
    #[arg(short, long, value_name = "PID")]
    pid: Option<u32>,
}

impl Snapshot {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        out::line(&record::snapshot(self.pid)?)?;
        Ok(ExitCode::SUCCESS)
    }
}
