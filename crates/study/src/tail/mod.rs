//! `whylat lab tail`: the case study of NSight (section 7), here: a server with slowest answers that take a hundred
//! times as long as the others is measured, recorded, fixed as the diagnosis says, and measured again.
//!
//! Latencies are measured without a recording, in rounds in which all steps take turns; the recordings that are
//! diagnosed are of their own. What is planted in each step is known beforehand, and printed beside what was named.

mod result;
mod scene;
mod steps;
mod text;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{CommandFactory, Parser, ValueEnum};
use serde_json::Value;
use tempfile::TempDir;

use lab::LabError;
use result::{MeasuredRound, NamedCause, RoundLatencies, StepResult, StudyResult};
use scene::StudyStage;
use steps::{APPS, StudiedServer, StudyStep};

/// The part of the slowest messages that is explained, and that of ordinary ones that is compared where a change
/// is no good one.
const TAIL: &str = "p99";
const ORDINARY: &str = "p50-p90";

/// Measures a server's slowest answers, records them, fixes what the diagnosis names, and measures again.
#[derive(Debug, Parser)]
#[command(
    name = "whylat lab tail",
    no_binary_name = true,
    after_help = "\
Examples:
  whylat lab tail
  whylat lab tail --app redis --rounds 1 -o recordings"
)]
struct TailOptions {
    /// The server.
    #[arg(long, value_enum, default_value = "memcached")]
    app: ServerName,
    /// Rounds in which every step is measured.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Requests in each, 5,000 a second.
    #[arg(long, default_value_t = 40_000)]
    requests: usize,
    /// How often at most a round is repeated because a CPU was stalled.
    #[arg(long, default_value_t = 4)]
    repeats: u64,
    /// How to print it.
    #[arg(long, value_enum, default_value = "text")]
    format: OutputFormat,
    /// Directory to create for the recordings, which are else not kept.
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Replace the recordings in an existing PATH.
    #[arg(long, requires = "output")]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ServerName {
    Memcached,
    Redis,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum OutputFormat {
    /// For people.
    Text,
    /// For programs: schema whylat.study/1.
    Json,
}

/// Returns the options of `whylat lab tail`.
pub fn declaration() -> clap::Command {
    TailOptions::command()
}

/// Runs `whylat lab tail` with the arguments after these words.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match TailOptions::try_parse_from(args) {
        Ok(options) => options,
        Err(usage) => return lab::output::print_usage(&usage),
    };
    let printed = study(&options).and_then(|result| match options.format {
        OutputFormat::Text => text::print(&result),
        OutputFormat::Json => lab::output::print_json(&result.json()),
    });
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("error: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Returns the estimated time of the remaining steps, as text.
fn left(took: Duration, done: usize, all: usize) -> String {
    let each = u32::try_from(done)
        .ok()
        .and_then(|done| took.checked_div(done));
    let left = each.map(|each| each * (all - done) as u32);
    left.map_or_else(String::new, |left| {
        format!("; about {} s left", left.as_secs())
    })
}

/// Measures a server before and after each cause is planted.
fn study(options: &TailOptions) -> Result<StudyResult, LabError> {
    let app = &APPS[options.app as usize];
    let stage = StudyStage::new()?;
    let scratch = TempDir::new().map_err(|why| directory_failed("a temporary directory", why))?;
    let keep = options.output.as_deref().unwrap_or(scratch.path());
    if options.output.is_some() && !(options.force && keep.is_dir()) {
        std::fs::create_dir(keep)
            .map_err(|why| directory_failed(&keep.display().to_string(), why))?;
    }
    let all: Vec<&StudyStep> = app.steps.iter().chain(&app.mistake).collect();
    let mut measured = vec![RoundLatencies::new(options.requests); all.len()];
    let begun = Instant::now();
    for round in 0..options.rounds {
        for (number, (step, measured)) in all.iter().zip(&mut measured).enumerate() {
            let done = round * all.len() + number;
            let left = left(begun.elapsed(), done, options.rounds * all.len());
            eprintln!(
                "round {} of {}: {}{left}",
                round + 1,
                options.rounds,
                step.name
            );
            measured.add(measure(&stage, app, step, options)?);
        }
    }
    let path = |number: usize| keep.join(format!("{}-{}.whylat", app.name, number + 1));
    let mut steps = Vec::new();
    for (number, (step, measured)) in all.iter().zip(measured).enumerate() {
        eprintln!("recorded: {}", step.name);
        let recording = path(number);
        stage.set(app, step)?.record(options.requests, &recording)?;
        let before = (number >= app.steps.len()).then(|| path(app.steps.len() - 1));
        let cause = asked(&stage, before.as_deref(), &recording)?;
        steps.push(StepResult {
            name: step.name,
            planted: step.planted,
            measured,
            cause: NamedCause::first(&cause, step.server[0]),
        });
    }
    let mistake = steps.split_off(app.steps.len()).pop();
    Ok(StudyResult {
        app: app.name,
        rate: app.rate,
        rounds: options.rounds,
        requests: options.requests,
        cpus: stage.cpus(),
        steps,
        mistake,
    })
}

/// Runs one round of a step; again if a CPU was stalled.
fn measure(
    stage: &StudyStage,
    app: &StudiedServer,
    step: &StudyStep,
    options: &TailOptions,
) -> Result<MeasuredRound, LabError> {
    let scene = stage.set(app, step)?;
    let mut repeated = 0;
    loop {
        let (truth, pauses) = scene.measure(options.requests)?;
        if pauses == 0 || repeated == options.repeats {
            return Ok(MeasuredRound {
                latency: truth["client"].clone(),
                repeated,
                pauses,
            });
        }
        repeated += 1;
    }
}

/// Returns whylat's explanation of the slowest messages, or of the difference to the recording
/// `before`.
fn asked(stage: &StudyStage, before: Option<&Path>, recording: &Path) -> Result<Value, LabError> {
    let recording = recording.as_os_str();
    let json = ["--format", "json"].map(OsStr::new);
    let words: Vec<&OsStr> = match before {
        None => ["report", "--tail", TAIL].map(OsStr::new).into(),
        Some(before) => {
            let mut words: Vec<&OsStr> = ["diff", "--band", ORDINARY].map(OsStr::new).into();
            words.push(before.as_os_str());
            words
        }
    };
    stage.ask(&[&words, &json[..], &[recording]].concat())
}

/// Makes the error of a directory that cannot be made.
fn directory_failed(name: &str, why: std::io::Error) -> LabError {
    LabError::os(
        "make",
        name,
        why,
        "name another directory with -o, or write into it with --force",
    )
}
