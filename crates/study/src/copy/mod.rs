//! `whylat lab copy`: what a copy costs. A server that sends the same message by send(), sendmsg(), MSG_ZEROCOPY and
//! the ways that came later, measured over message sizes and numbers of clients, in two network namespaces.
//!
//! ```text
//! matrix     what is measured
//! bed        where: namespaces, or another machine
//! server     a thread a client; variant/ how it sends
//! client     all clients of a run; receive: one that asks, checks, times; figures what they measure
//! study      costs, noise, runs, diagnoses → journal
//! csv        journal → results, one row a configuration
//! plot       results → figures; analysis → answers; page both as one file
//! ```

mod analysis;
mod bed;
mod client;
mod costs;
mod counters;
mod crossover;
mod csv;
mod diagnosis;
mod doc;
mod errqueue;
mod figures;
mod journal;
mod matrix;
mod message;
mod options;
mod outputs;
mod parquet;
mod peer;
mod pin;
mod plot;
mod protocol;
mod published;
mod receive;
mod server;
mod stats;
mod study;
mod svg;
mod trend;
mod variant;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand, ValueEnum};
use serde_json::json;

use bed::TestBed;
use journal::{StudyJournal, StudyPlan};
use lab::LabError;
use matrix::{ALL, RunConfig, SendVariant, configs};

/// The published study's matrix, and its time of a run.
const SIZES: [usize; 4] = [64, 512, 4096, 65_536];
const THREADS: [usize; 4] = [1, 2, 4, 8];
const SECONDS: f64 = 5.0;
/// Of a first look.
const QUICK_SIZES: [usize; 2] = [64, 65_536];
const QUICK_THREADS: [usize; 2] = [1, 2];
const QUICK_SECONDS: f64 = 0.2;
/// A run warms up for this part of its time.
const WARM_UP: f64 = 0.1;
/// The least number of values with a spread.
const REPEAT: usize = 3;

/// Measures what copies cost when a server sends: send, sendmsg, MSG_ZEROCOPY, io_uring and others, over message sizes
/// and numbers of clients, between two network namespaces; with figures, answers and crossovers.
#[derive(Debug, Parser)]
#[command(
    name = "whylat lab copy",
    no_binary_name = true,
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  whylat lab copy --quick
  whylat lab copy --variants A1,A3 --sizes 4096,65536 --threads 1,2
  whylat lab copy --plot results.csv"
)]
struct CopyOptions {
    #[command(subcommand)]
    end: Option<EndCommand>,
    /// How messages are sent [default: all ways]
    #[arg(long, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    variants: Option<Vec<SendVariant>>,
    /// Bytes of a message [default: 64,512,4096,65536]
    #[arg(long, value_delimiter = ',', value_name = "BYTES,…")]
    sizes: Option<Vec<usize>>,
    /// Clients at a time, each with a thread at both ends [default: 1,2,4,8]
    #[arg(long, value_delimiter = ',', value_name = "N,…")]
    threads: Option<Vec<usize>>,
    /// Seconds that a run is measured [default: 5]
    #[arg(long)]
    seconds: Option<f64>,
    /// Runs of each configuration [default: 3]
    #[arg(long)]
    repeat: Option<usize>,
    /// Requests of a client that are under way at a time; 1 is request and response, as in the published study
    #[arg(long, default_value_t = 1)]
    window: usize,
    /// Check every byte of every nth message; of the others number, order and length
    #[arg(long, default_value_t = 64, value_name = "N")]
    check_every: u64,
    /// Threads of the server and of the clients on CPUs of their own
    #[arg(long)]
    pin: bool,
    /// A first look in a minute: 64 and 65536 bytes, 1 and 2 clients, 0.2 s, one run
    #[arg(long)]
    quick: bool,
    /// The server is another machine, on which `whylat lab copy serve` runs
    #[arg(long, value_name = "ADDRESS:PORT")]
    host: Option<SocketAddr>,
    /// net.core.optmem_max of the server's namespace: how much zero-copy sends may note down
    #[arg(long, value_name = "BYTES", conflicts_with = "host")]
    optmem: Option<u64>,
    /// Compare with iperf3, 65536 bytes a write, over the same path
    #[arg(long, conflicts_with = "host")]
    peer: bool,
    /// Do not record a run of each configuration
    #[arg(long)]
    no_diagnosis: bool,
    /// Directory to create [default: whylat-copy-<process id> here]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Go on with a study that was interrupted
    #[arg(long, value_name = "DIR", conflicts_with_all = ["output", "variants", "sizes", "threads", "seconds", "repeat", "quick"])]
    resume: Option<PathBuf>,
    /// Measure nothing: draw the figures of results that are there, such as the published study's
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["resume", "quick", "variants", "host", "peer"])]
    plot: Option<PathBuf>,
    /// How to print the answers
    #[arg(long, value_enum, default_value = "text")]
    format: CopyFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CopyFormat {
    /// For people: Markdown.
    Text,
    /// For programs: schema whylat.copy/1.
    Json,
}

#[derive(Debug, Subcommand)]
enum EndCommand {
    /// The server alone, for --host on another machine
    Serve(server::ServerOptions),
    /// The clients of one configuration alone; prints its figures as JSON
    Ask(options::ClientOptions),
}

/// Returns the options of `whylat lab copy`.
pub fn declaration() -> clap::Command {
    CopyOptions::command()
}

/// Runs `whylat lab copy` with the arguments after these words.
pub fn main(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let options = match CopyOptions::try_parse_from(args) {
        Ok(options) => options,
        Err(usage) => return lab::output::print_usage(&usage),
    };
    let ended = match &options.end {
        Some(EndCommand::Serve(serve)) => serve.run(),
        Some(EndCommand::Ask(ask)) => asked(ask),
        None => options.execute().map(|()| ExitCode::SUCCESS),
    };
    ended.unwrap_or_else(|why| {
        eprintln!("error: {why}");
        ExitCode::FAILURE
    })
}

/// Runs the client, and prints figures or why it was skipped.
fn asked(ask: &options::ClientOptions) -> Result<ExitCode, LabError> {
    let answer = match ask.run()? {
        client::ClientOutcome::Figures(figures) => json!(figures),
        client::ClientOutcome::Skipped(why) => json!({ "skipped": why }),
    };
    lab::output::print_json(&answer).map(|()| ExitCode::SUCCESS)
}

impl CopyOptions {
    /// Runs the study, and writes its files.
    fn execute(&self) -> Result<(), LabError> {
        if let Some(csv) = &self.plot {
            let directory = self
                .output
                .clone()
                .unwrap_or_else(|| csv.with_extension("plots"));
            return outputs::write_from_csv(csv, &directory, self.format == CopyFormat::Json);
        }
        let bed = match self.host {
            Some(server) => TestBed::remote(server)?,
            None => TestBed::local(self.optmem)?,
        };
        let default = || PathBuf::from(format!("whylat-copy-{}", std::process::id()));
        let (directory, mut journal) = if let Some(directory) = &self.resume {
            (directory.clone(), StudyJournal::resume(directory)?)
        } else {
            let directory = self.output.clone().unwrap_or_else(default);
            let study = self.study()?;
            let journal = StudyJournal::create(&directory, study)?;
            eprintln!("results in {}", directory.display());
            (directory, journal)
        };
        let also = study::ExtraRuns {
            diagnosis: !self.no_diagnosis,
            peer: self.peer,
        };
        study::measure_study(&mut journal, &bed, also)?;
        outputs::write_from_journal(&journal, &directory, self.format == CopyFormat::Json)
    }

    /// Returns the plan of the study: variants, sizes, threads, rounds.
    fn study(&self) -> Result<StudyPlan, LabError> {
        let quick = |full: &[usize], quick: &[usize]| {
            if self.quick {
                quick.to_vec()
            } else {
                full.to_vec()
            }
        };
        let variants = self.variants.clone().unwrap_or_else(|| ALL.to_vec());
        let sizes = self
            .sizes
            .clone()
            .unwrap_or_else(|| quick(&SIZES, &QUICK_SIZES));
        let threads = self
            .threads
            .clone()
            .unwrap_or_else(|| quick(&THREADS, &QUICK_THREADS));
        let seconds = if self.quick { QUICK_SECONDS } else { SECONDS };
        let seconds = self.seconds.unwrap_or(seconds);
        let repeat = if self.quick { 1 } else { REPEAT };
        let repeat = self.repeat.unwrap_or(repeat);
        let configs = configs(&variants, &sizes, &threads);
        self.check(&configs, seconds, repeat)?;
        let machine = outputs::MachineFacts::read();
        Ok(StudyPlan {
            version: 1,
            whylat: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: machine.kernel,
            cpu: machine.cpu,
            cpus: lab::workload::allowed_cpus()?.len(),
            path: self
                .host
                .map_or_else(|| "namespaces".to_owned(), |host| host.to_string()),
            configs,
            repeat,
            seconds,
            warm_up: seconds * WARM_UP,
            window: self.window,
            check_every: self.check_every,
            pin: self.pin,
            seed: lab::now_ns(),
        })
    }

    /// Refuses configurations that cannot be measured, before the first run.
    fn check(&self, configs: &[RunConfig], seconds: f64, repeat: usize) -> Result<(), LabError> {
        if configs.is_empty() || repeat == 0 {
            return Err(LabError::Option {
                option: "--repeat, --variants, --sizes or --threads",
                value: "none".to_owned(),
                why: "nothing would be measured",
                hint: "name one or more",
            });
        }
        let how = options::RunOptions {
            seconds,
            warm_up: seconds * WARM_UP,
            window: self.window,
            check_every: self.check_every,
            pin: self.pin,
        };
        configs
            .iter()
            .try_for_each(|config| options::ClientOptions::new(*config, &how).check())
    }
}
