//! `whylat export otlp`: the requests and findings of a recording for OpenTelemetry.
//!
//! Two processes: the one that the user started delivers, and reads no recording; a second one reads the recording, has no
//! network, and writes messages to its standard output.

use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitCode, Stdio};

use agent::ship::Backoff;
use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use diagnose::recording::DiagnosisOptions;
use diagnose::units::quantity;
use otlp::delivery::{Delivery, RetryPolicy, SignalAccount};
use otlp::frame::{self, Frame};
use otlp::settings::{self, DeliveryOptions, Header, Protocol};
use otlp::{ExportOptions, ExportSummary, Signal};
use table::Recording;

use crate::confine::confine_process;
use crate::{exit, load, out};

/// Sends a recording to other systems.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat export otlp r.whylat --endpoint http://collector:4318")]
pub(crate) struct Export {
    #[command(subcommand)]
    to: ExportTarget,
}

#[derive(Debug, Subcommand)]
enum ExportTarget {
    /// Send metrics, slow requests as spans, and findings as logs to an OpenTelemetry collector.
    Otlp(OtlpArgs),
}

impl Export {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let ExportTarget::Otlp(args) = self.to;
        args.execute()
    }
}

/// Exports to OpenTelemetry.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat export otlp                       # the newest recording, to this host
  whylat export otlp --endpoint https://otel.example.com --header key=SECRET
  whylat export otlp r.whylat --protocol grpc --endpoint http://collector:4317

Variables: OTEL_EXPORTER_OTLP_ENDPOINT, _HEADERS, _PROTOCOL, _TIMEOUT,
_COMPRESSION, _CERTIFICATE, _CLIENT_CERTIFICATE, _CLIENT_KEY, also for one
signal (OTEL_EXPORTER_OTLP_TRACES_ENDPOINT); OTEL_RESOURCE_ATTRIBUTES.
Options come first.

Exit codes: 0 all delivered, 1 something was not delivered, 3 delivered, but
the collector rejected some or the recording is incomplete, 2 wrong usage")]
struct OtlpArgs {
    /// The recording [default: the newest *.whylat here]
    dir: Option<PathBuf>,
    /// Base URL of the collector [default: http://localhost:4318; 4317 for gRPC]
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,
    /// Header of each request, such as a key; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = settings::header)]
    header: Vec<Header>,
    /// http/protobuf or grpc [default: http/protobuf]
    #[arg(long, value_name = "PROTOCOL")]
    protocol: Option<Protocol>,
    /// Send at most N requests as spans: the slowest; metrics count all
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    spans: usize,
    /// Try each message at most N times, with pauses that grow from 1 s
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    tries: u32,
    /// Write messages to standard output in place of delivering them: for whylat itself
    #[arg(long, hide = true)]
    only_read: bool,
}

impl OtlpArgs {
    /// Exports a recording, and prints what was delivered.
    fn execute(self) -> anyhow::Result<ExitCode> {
        let path = self
            .dir
            .clone()
            .map_or_else(load::find_newest_recording, Ok)?;
        if self.only_read {
            confine_process();
            return self.read(&path);
        }
        let options = DeliveryOptions {
            endpoint: self.endpoint.clone(),
            protocol: self.protocol,
            headers: self.header.clone(),
        };
        let retry = RetryPolicy {
            tries: self.tries,
            pause_after: |failures| Backoff::default().pause_after(failures),
        };
        let mut delivery = Delivery::new(&options, &|name| std::env::var(name).ok(), retry)?;
        let (mut reader, output) = self.start_reader(&path)?;
        let summary = deliver(BufReader::new(output), &mut delivery);
        let status = reader.wait().context("cannot wait for the reader")?;
        let Some(summary) = summary? else {
            print_problems(&delivery);
            bail!(
                "the export of {} ended early: the process that reads it ended with {status}\n\
                 hint: whylat validate shows whether the recording is sound",
                out::name(&path)
            );
        };
        print_summary(&summary, &delivery)?;
        print_problems(&delivery);
        Ok(exit_code(&summary, &delivery))
    }

    /// Reads the recording, and writes its OTLP messages to standard output.
    fn read(&self, path: &Path) -> anyhow::Result<ExitCode> {
        let recording = Recording::open(path)?;
        let options = ExportOptions {
            requests: self.spans,
            judging: DiagnosisOptions::default(),
        };
        let mut out = BufWriter::new(io::stdout().lock());
        let summary = otlp::export(&recording, options, &mut |message| {
            frame::write_message(&message, &mut out)
        });
        let written = summary.and_then(|summary| {
            frame::write_end(summary, &mut out)?;
            out.flush()
        });
        written.context("cannot hand over messages")?;
        Ok(ExitCode::SUCCESS)
    }

    /// Starts a confined process that reads the recording.
    fn start_reader(&self, path: &Path) -> anyhow::Result<(Child, ChildStdout)> {
        let program = std::env::current_exe().context("cannot find whylat's own program file")?;
        let mut command = Command::new(program);
        command.args([
            "export",
            "otlp",
            "--only-read",
            "--spans",
            &self.spans.to_string(),
            "--",
        ]);
        command
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            // secrets, which reading does not need
            if text.starts_with("OTEL_EXPORTER_OTLP_") && text.ends_with("HEADERS") {
                command.env_remove(&name);
            }
        }
        let mut child = command
            .spawn()
            .context("cannot start whylat a second time")?;
        let output = child
            .stdout
            .take()
            .context("the reader has no standard output")?;
        Ok((child, output))
    }
}

/// Delivers all messages of the reader; `None`: the reader ended too early.
fn deliver(
    mut from: BufReader<ChildStdout>,
    delivery: &mut Delivery,
) -> anyhow::Result<Option<ExportSummary>> {
    loop {
        match frame::read(&mut from).context("cannot read messages of the reader")? {
            Some(Frame::Message(message)) => delivery.send(&message),
            Some(Frame::End(summary)) => return Ok(Some(summary)),
            None => return Ok(None),
        }
    }
}

/// Prints what was delivered, and where.
fn print_summary(summary: &ExportSummary, delivery: &Delivery) -> anyhow::Result<()> {
    for signal in Signal::ALL {
        let account = delivery.account(signal);
        let mut line = format!(
            "{signal}: {} to {}",
            quantity(account.delivered, signal.item()),
            out::name(&delivery.address(signal))
        );
        if signal == Signal::Traces && account.delivered > 0 {
            line += &format!(", of {}", quantity(summary.requests, "request"));
        }
        out::line(&line)?;
    }
    let left_out = summary.requests_left_out;
    if left_out > 0 {
        out::line(&format!(
            "{} with shorter durations: only in the metrics; --spans N sends more",
            quantity(left_out, "request")
        ))?;
    }
    if !summary.has_calls {
        eprintln!(
            "note: the recording holds no calls, and so no requests\nhint: record with --detail calls, or waits"
        );
    }
    if summary.connections_left_out > 0 {
        eprintln!(
            "note: {} are not judged, because there are too many",
            quantity(summary.connections_left_out, "connection")
        );
    }
    for problem in &summary.problems {
        eprintln!("warning: {problem}");
    }
    Ok(())
}

/// Prints what was not delivered or was rejected, and why.
fn print_problems(delivery: &Delivery) {
    for signal in Signal::ALL {
        let account = delivery.account(signal);
        for (why, lost) in &account.problems {
            eprintln!(
                "error: {} not delivered: {why}",
                quantity(*lost, signal.item())
            );
        }
        for (remark, rejected) in &account.remarks {
            match rejected {
                0 => eprintln!("note: the collector remarks on {signal}: {remark}"),
                _ => eprintln!(
                    "warning: the collector rejected {}: {remark}\nhint: its log says why",
                    quantity(*rejected, signal.item())
                ),
            }
        }
    }
}

/// Returns the exit code: 1 if something was not delivered, 3 if the collector or the recording lacks something.
fn exit_code(summary: &ExportSummary, delivery: &Delivery) -> ExitCode {
    let accounts = Signal::ALL.map(|signal| delivery.account(signal));
    let any = |count: fn(&SignalAccount) -> u64| accounts.iter().any(|it| count(it) > 0);
    match any(|it| it.undelivered) {
        true => ExitCode::from(exit::FAILED),
        false => exit::from_complete(summary.is_complete && !any(|it| it.rejected)),
    }
}
