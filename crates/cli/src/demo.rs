//! `whylat demo`: a real client and server that stall on Nagle's algorithm and delayed ACKs,
//! recorded and explained; then the same work fixed; then both side by side.

use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, anyhow, bail};
use clap::Args;
use diagnose::Report;
use diagnose::recording::DiagnosisOptions;
use lab::LabProcess;
use table::Recording;

use crate::out::DirectoryArgs;
use crate::scratch::ScratchDirectory;
use crate::{load, out};

/// Requests of each run: half of them stall about 40 ms, which makes a run of two seconds.
const ROUNDS: u32 = 101;

/// Records a stall and its fix.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sudo whylat demo
  sudo whylat demo -o recordings")]
#[command(mut_arg("output", |it| it.help("Directory to create for the two recordings [default: they are not kept]")))]
#[command(mut_arg("force", |it| it.requires("output").help("Replace the recordings in an existing PATH")))]
pub(crate) struct Demo {
    #[command(flatten)]
    to: DirectoryArgs,
}

/// One recorded run.
struct DemoRun {
    report: Report,
    took_ns: u64,
}

impl Demo {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let to = out::stdout();
        let scratch = match self.to.make_directory()? {
            Some(kept) => ScratchDirectory::from_kept(kept),
            None => ScratchDirectory::new("demo")?,
        };
        eprintln!(
            "1/2  a client sends {ROUNDS} requests of two small writes each, and waits for every reply"
        );
        let stalled = record_run(&scratch.path.join("stalled.whylat"), &[])?;
        to.write_exact(&view::text(&stalled.report, &to.text_options()))?;
        eprintln!("\n2/2  the same with TCP_NODELAY on the client's socket");
        let fixed = record_run(&scratch.path.join("fixed.whylat"), &["--nodelay"])?;
        let before = view::ComparedSide {
            label: "two writes",
            report: &stalled.report,
            total_ns: stalled.took_ns,
        };
        let after = view::ComparedSide {
            label: "with TCP_NODELAY",
            report: &fixed.report,
            total_ns: fixed.took_ns,
        };
        out::line("")?;
        to.write_exact(&view::side_by_side(&before, &after, &to.text_options()))?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Starts a server, records a client that talks to it, and diagnoses the recording.
fn record_run(output: &Path, fix: &[&str]) -> anyhow::Result<DemoRun> {
    let program = std::env::current_exe().context("cannot find whylat's own program file")?;
    let mut command = Command::new(&program);
    command.args(["lab", "workload", "reply-server"]);
    let mut server = LabProcess::start(command)?;
    let port = server.port()?;
    let mut recorder = Command::new(&program);
    recorder.args([
        "run",
        "--detail",
        "calls",
        "--as-root",
        "--force",
        "--output",
    ]);
    recorder.arg(output).arg("--").arg(&program);
    recorder.args(["lab", "workload", "write-write-read", "--connect"]);
    recorder.arg(format!("127.0.0.1:{port}"));
    recorder.args(["--rounds", &ROUNDS.to_string()]).args(fix);
    let printed = recorder
        .output()
        .context("cannot start whylat a second time")?;
    server.finish()?;
    if !printed.status.success() {
        let why = String::from_utf8_lossy(&printed.stderr);
        bail!(
            "the demo's client failed: {}\nhint: whylat doctor",
            why.trim()
        );
    }
    load::require_calls(&Recording::open(output)?)?;
    let report = load::diagnose(output, DiagnosisOptions::default())?;
    let took_ns = client_life_ns(&report)
        .ok_or_else(|| anyhow!("the demo's connection was not recorded\nhint: whylat doctor"))?;
    Ok(DemoRun { report, took_ns })
}

/// Returns how long the client's connection lasted: connected, every request answered, closed.
fn client_life_ns(report: &Report) -> Option<u64> {
    let is_client = |c: &&diagnose::report::Connection| c.role == table::Role::Client;
    report
        .connections
        .iter()
        .find(is_client)
        .map(|connection| connection.lifetime_ns)
}
