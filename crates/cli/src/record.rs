//! `whylat run` and `whylat record`.

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;
use diagnose::recording::DiagnosisOptions;
use diagnose::report::why_unseen;
use record::{Command, FollowCounts, Outcome, Target};
use table::Recording;
use table::tables::{Connection, Listener, UdpSocket, UnixSocket, Wait};

use crate::confine::confine_process;
use crate::page::Opener;
use crate::progress::ProgressClock;
use crate::{args, container, exit, load, out, page, progress};

/// Records a command.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat run -- ./client --its --options
  sudo whylat run --detail messages --keep p99,sample=100 -- ./client
  whylat run -u 'whylat:*' -- ./client   # with its USDT values
  whylat run --profile deep -o deep.whylat -- ./client")]
pub(crate) struct Run {
    #[command(flatten)]
    recording: args::RecordArgs,
    /// Under sudo, run the command as root instead of as the invoking user
    #[arg(long)]
    as_root: bool,
    /// Print the diagnosis as JSON
    #[arg(long)]
    json: bool,
    /// Record only, and say nothing of it: `check` reports by itself
    #[arg(long, hide = true)]
    no_report: bool,
    /// Show the recording in a browser afterwards, as `whylat view` does
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
        };
        let options = self.recording.options(Target::Command(command), None)?;
        let opener = self
            .open
            .then(|| Opener::start(page::page_path(&options.output)));
        let outcome = match record::record(&options, |_| ()) {
            Ok(outcome) => outcome,
            Err(error) => {
                let code = error.command_exit_code().unwrap_or(exit::FAILED);
                eprintln!("error: {error}");
                return Ok(ExitCode::from(code));
            }
        };
        if self.no_report {
            return Ok(ExitCode::from(
                outcome.command_exit_code().unwrap_or(exit::FAILED),
            ));
        }
        print_outcome(&outcome);
        confine_process();
        print_diagnosis(&outcome, self.json)?;
        // the command's own status is what this one ends with
        if let Some(Err(error)) = opener.map(|opener| show_in_browser(&outcome.path, opener?)) {
            eprintln!("error: {error:#}");
        }
        Ok(ExitCode::from(
            outcome.command_exit_code().unwrap_or(exit::FAILED),
        ))
    }
}

/// Shows a recording in a browser.
fn show_in_browser(recording: &Path, opener: Opener) -> anyhow::Result<()> {
    page::write(recording)?;
    opener.open()
}

/// Records what is running.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo whylat record -p 4321 -d 10
  sudo whylat record -p 4321 --follow host -d 10
  sudo whylat record --port 6379 --detail calls
  sudo whylat record --container redis -d 10
  sudo whylat record --pod shop/cache-0 -d 10
  sudo whylat record --all --detail messages --trigger 'latency>5ms'")]
pub(crate) struct Record {
    #[command(flatten)]
    target: TargetArgs,
    #[command(flatten)]
    recording: args::RecordArgs,
    /// Stop after this many seconds [default: when interrupted]
    #[arg(short, long, value_name = "SECONDS", value_parser = args::parse_recording_time)]
    duration: Option<Duration>,
}

/// The selected processes or connections; exactly one option.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
struct TargetArgs {
    /// Processes, their descendants, and processes that share a listening socket with them
    ///
    /// The master or any worker of a server selects the whole server.
    #[arg(short, long, value_name = "PID", value_delimiter = ',', value_parser = args::parse_process_id)]
    pid: Vec<u32>,
    /// Processes with this command name, present and future
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new())]
    comm: Option<String>,
    /// Connections with this local or remote port, and the local processes that own them
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Processes in this control group (v2) and below, present and future
    #[arg(long, value_name = "PATH")]
    cgroup: Option<String>,
    /// Processes of a container of docker, podman, containerd or CRI-O
    #[arg(long, value_name = "NAME|ID")]
    container: Option<String>,
    /// Processes of all containers of a pod on this node, present and future
    #[arg(long, value_name = "[NAMESPACE/]NAME")]
    pod: Option<String>,
    /// Every connection and process of the host, without whylat itself
    #[arg(short, long)]
    all: bool,
}

impl TargetArgs {
    /// Returns what to record: processes, a command, ports or all.
    fn into_target(self) -> anyhow::Result<Target> {
        Ok(match self {
            Self {
                container: Some(wanted),
                ..
            } => container::target(&wanted)?,
            Self {
                pod: Some(wanted), ..
            } => container::pod_target(&wanted)?,
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
        })
    }
}

impl Record {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let options = self
            .recording
            .options(self.target.into_target()?, self.duration)?;
        let what = format!("recording to {}", out::name(&options.output));
        let mut clock = None;
        let outcome = record::record(&options, |begun| {
            begun.processes.into_iter().for_each(print_process_count);
            if self.duration.is_none() {
                eprintln!("{what}; Ctrl-C ends");
            }
            clock = self.duration.and_then(|of| ProgressClock::start(what, of));
        })?;
        drop(clock);
        print_outcome(&outcome);
        if let Some(warning) = nothing_seen(&outcome.path, &options.target) {
            eprintln!("warning: {warning}");
        }
        if outcome.write_error.is_some() {
            return Ok(ExitCode::from(exit::FAILED));
        }
        eprintln!("hint: whylat report {}", out::name(&outcome.path));
        Ok(exit::from_complete(outcome.lost == 0))
    }
}

/// Prints how many processes are recorded from the start.
fn print_process_count(processes: usize) {
    match processes {
        0 => eprintln!("recording no process yet"),
        1 => eprintln!("recording 1 process"),
        _ => eprintln!("recording {processes} processes"),
    }
}

/// Prints the path of the recording and the problems with it.
fn print_outcome(outcome: &Outcome) {
    progress::clear();
    eprintln!("recorded to {}", out::name(&outcome.path));
    for probe in &outcome.usdt {
        let fired = probe.fired.unwrap_or_default();
        eprintln!(
            "{}:{} in {} fired {fired} times",
            probe.provider, probe.name, probe.path
        );
    }
    outcome.followed.into_iter().for_each(print_follow_counts);
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

/// Prints how many processes were followed.
fn print_follow_counts(counts: FollowCounts) {
    match counts.followed {
        0 => {}
        1 => eprintln!("followed connections to 1 process"),
        processes => eprintln!("followed connections to {processes} processes"),
    }
    if counts.left_out > 0 {
        eprintln!(
            "warning: connections lead to {} more, which were not followed: the bound was reached",
            counts.left_out
        );
    }
}

/// Returns a warning for a recording without any connection, socket or wait.
fn nothing_seen(path: &Path, target: &Target) -> Option<String> {
    let recording = Recording::open(path).ok()?;
    let rows = [
        recording.rows::<Connection>(),
        recording.rows::<Listener>(),
        recording.rows::<UdpSocket>(),
        recording.rows::<UnixSocket>(),
        recording.rows::<Wait>(),
    ];
    if rows.iter().sum::<u64>() > 0 {
        return None;
    }
    let who = match target {
        Target::Comm(name) => format!("process named {name}"),
        Target::Port(port) => format!("connection with port {port}"),
        Target::Cgroup(path) => format!("process of control group {path}"),
        Target::Pids(pids) => {
            let pids: Vec<_> = pids.iter().map(u32::to_string).collect();
            let unseen = format!(
                "no connection of process {} was seen; nothing was recorded",
                pids.join(", ")
            );
            let why = why_unseen(recording.sockets(), recording.coverage(), 0);
            return Some(why.map_or_else(|| unseen.clone(), |why| format!("{unseen}. {why}")));
        }
        Target::All => "connection".to_owned(),
        Target::Command(_) => return None,
    };
    Some(format!("no {who} was seen; nothing was recorded"))
}

/// Prints the answer after a recording.
fn print_diagnosis(outcome: &Outcome, json: bool) -> anyhow::Result<()> {
    let report = load::diagnose(&outcome.path, DiagnosisOptions::default())?;
    let to = out::stdout();
    if json {
        to.json(&report)
    } else {
        to.write_exact(&view::text(&report, &to.text_options()))
    }
}

/// Asks a running recorder.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo whylat snapshot
  sudo whylat snapshot -p 4321   # the recorder with this process id")]
pub(crate) struct Snapshot {
    /// Process id of the recorder [default: the only one that runs]
    #[arg(short, long, value_name = "PID", value_parser = args::parse_process_id)]
    pid: Option<u32>,
}

impl Snapshot {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        out::line(&record::snapshot(self.pid)?)?;
        Ok(ExitCode::SUCCESS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_recording_is_reported() {
        let scratch = tempfile::tempdir().expect("a directory");
        let recorded = |tables| load::tests::golden("slow_reader/fires", tables, scratch.path());
        let (full, empty) = (recorded(true), recorded(false));
        let warning = |target: Target| nothing_seen(&empty, &target).expect("nothing was seen");
        assert_eq!(
            warning(Target::Comm("nosuchprog".to_owned())),
            "no process named nosuchprog was seen; nothing was recorded"
        );
        assert!(warning(Target::Port(7)).starts_with("no connection with port 7 was seen"));
        assert!(warning(Target::Pids(vec![1, 2])).contains("process 1, 2 was seen"));
        assert_eq!(
            nothing_seen(&full, &Target::Comm("nosuchprog".to_owned())),
            None
        );
    }
}
