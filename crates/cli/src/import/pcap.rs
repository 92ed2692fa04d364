//! `whylat import pcap`: packet captures → a recording of connections.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::import::{CaptureImport, CaptureReader, ImportError, Vantage};
use anyhow::anyhow;
use clap::{Args, ValueEnum};
use diagnose::units::quantity;
use table::manifest::{CAPTURE, Coverage, Header, Line, Loss, ProbeState};
use table::{ClosedRecording, WriteError, WriteOptions, Writer};

use super::header::header;
use crate::out::DirectoryArgs;
use crate::{args, out};

/// Names of parts that a capture does not have: probes of a live recording, as its coverage names them, and a part of the ledger.
const OFF: [&str; 5] = ["calls", "waits", "cpu", "send_buffer", "receive_queue"];

/// Names of probes with tables that are filled.
const ON: [&str; 4] = ["inventory", "tcp_stats", "tcp_events", "tcp_stages"];

/// Why.
const WHY: &str = "packets do not show what happens within the hosts";

/// A capture is not at the clients if it is so far away: their kernels answer sooner.
const AWAY_NS: u64 = 1_000_000;

/// Remedy for these.
const REMEDY: &str = "record on the host: sudo whylat record";

#[derive(Debug, Args)]
pub(super) struct CaptureFiles {
    /// Captures to convert; several are read together, in the order of time
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Host on which the capture was made
    #[arg(long, value_enum, default_value = "auto", value_name = "END")]
    at: Place,
    #[command(flatten)]
    to: DirectoryArgs,
}

/// Place of the capture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Place {
    /// Estimated for each connection, from its round trips to either end.
    Auto,
    /// The end that opened the connections.
    Client,
    /// The end that accepted them.
    Server,
}

impl CaptureFiles {
    pub(super) fn execute(self) -> anyhow::Result<ExitCode> {
        let default = || args::default_output(Path::new(""));
        let output = self.to.path()?.map_or_else(default, Path::to_owned);
        let mut inputs = Vec::new();
        for path in &self.files {
            let name = out::name(path);
            let file = File::open(path).map_err(|error| {
                anyhow!(
                    "cannot read {name}: {error}\n\
                     hint: name a capture that you may read, such as FILE of `tcpdump -w FILE tcp`"
                )
            })?;
            inputs.push((name, Box::new(file) as Box<dyn Read + Send>));
        }
        let names = inputs.iter().map(|(name, _)| name.clone());
        let names = names.collect::<Vec<_>>().join(", ");
        let reader = CaptureReader::new(inputs);
        let reader = reader.map_err(|error| anyhow!("cannot import {names}: {error}"))?;
        let vantage = match self.at {
            Place::Auto => Vantage::Estimated,
            Place::Client => Vantage::Client,
            Place::Server => Vantage::Server,
        };
        let stored = store(reader, vantage, (&names, &output), self.to.force);
        let import = stored.map_err(|error| error.explain(&names))?;
        for note in &import.notes {
            eprintln!("note: {note}");
        }
        eprintln!("{names}: {}", import.tally);
        eprintln!("{}", summarize_import(&import, &out::name(&output)));
        Ok(ExitCode::SUCCESS)
    }
}

/// Summarises an import: what was found, and where the capture was made.
fn summarize_import(import: &CaptureImport, output: &str) -> String {
    let mut text = format!(
        "imported {} to {output}; round trips from the capture on average: {} to clients, {} to servers",
        quantity(import.connections, "connection"),
        mean(import.trips_ns[0], import.connections),
        mean(import.trips_ns[1], import.connections),
    );
    let joined = import.connections - import.from_begin;
    if joined > 0 {
        text += &format!(
            "\nnote: open before the capture: {}",
            quantity(joined, "connection")
        );
    }
    if import.unseen_bytes > 0 {
        let bytes = import.unseen_bytes;
        text +=
            &format!("\nnote: the capture does not have {bytes} bytes that receivers acknowledged");
    }
    text
}

/// Returns the mean duration as text.
fn mean(sum_ns: u64, count: u64) -> String {
    let micros = sum_ns.checked_div(count).unwrap_or(0) / 1_000;
    match micros {
        0..10_000 => format!("{micros} µs"),
        _ => format!("{} ms", micros / 1_000),
    }
}

/// Why a capture could not be stored.
#[derive(Debug)]
enum StoreError {
    Import(ImportError),
    Write(WriteError),
}

impl From<ImportError> for StoreError {
    fn from(error: ImportError) -> Self {
        Self::Import(error)
    }
}

impl From<WriteError> for StoreError {
    fn from(error: WriteError) -> Self {
        Self::Write(error)
    }
}

impl StoreError {
    /// Turns the error into a text that names the files.
    fn explain(self, names: &str) -> anyhow::Error {
        match self {
            Self::Import(error) => anyhow!("cannot import {names}: {error}"),
            Self::Write(error) => error.into(),
        }
    }
}

/// Writes a recording of the captured connections.
fn store(
    reader: CaptureReader,
    vantage: Vantage,
    (name, output): (&str, &Path),
    force: bool,
) -> Result<CaptureImport, StoreError> {
    let (since_1970_ns, started_ns) = reader.started_ns();
    let options = WriteOptions {
        force,
        ..WriteOptions::default()
    };
    let header = Header {
        host: name.to_owned(),
        detail: CAPTURE.to_owned(),
        clocksource: "the capture's own".to_owned(),
        started_realtime_ns: since_1970_ns,
        ..header(started_ns)
    };
    let mut writer = Writer::create(output, &header, options)?;
    let import = reader.read(vantage, |rows| -> Result<(), StoreError> {
        writer.append_all(rows)?;
        if writer.is_full() {
            writer.seal()?;
        }
        Ok(())
    });
    let import = import.inspect_err(|_| {
        // Nothing half made stays; what cannot be removed says so itself next time.
        let _ = std::fs::remove_dir_all(output);
    })?;
    for coverage in coverage(&import) {
        writer.line(&Line::Coverage(coverage))?;
    }
    writer.line(&Line::Loss(Loss {
        probe: CAPTURE.to_owned(),
        produced: import.tally.read,
        stored: import.tally.used,
        filtered: import.tally.ignored.values().sum(),
        lost: BTreeMap::new(),
    }))?;
    let ClosedRecording { failures, .. } = writer.close(import.last_ns)?;
    match failures.into_iter().next() {
        Some(error) => Err(error.into()),
        None => Ok(import),
    }
}

/// Returns what a capture shows, and what it cannot show.
fn coverage(import: &CaptureImport) -> Vec<Coverage> {
    let state = match import.notes.as_slice() {
        [] if import.unseen_bytes + import.dropped == 0 => ProbeState::On,
        notes => {
            let mut why = notes.to_vec();
            if import.dropped > 0 {
                why.push(format!(
                    "the capturing host dropped {} packets",
                    import.dropped
                ));
            }
            if import.unseen_bytes > 0 {
                why.push(format!(
                    "it does not have {} acknowledged bytes",
                    import.unseen_bytes
                ));
            }
            ProbeState::Fallback {
                which: "the packets that it has".to_owned(),
                why: why.join("; "),
            }
        }
    };
    let all = Coverage {
        probe: CAPTURE.to_owned(),
        state,
    };
    let off = OFF.map(|probe| Coverage {
        probe: probe.to_owned(),
        state: ProbeState::Off {
            why: WHY.to_owned(),
            remedy: REMEDY.to_owned(),
        },
    });
    let on = ON.map(|probe| Coverage {
        probe: probe.to_owned(),
        state: ProbeState::On,
    });
    let is_away = import.trips_ns[0] / import.connections.max(1) >= AWAY_NS;
    let lost = is_away.then(|| Coverage {
        probe: "lost_syns".to_owned(),
        state: ProbeState::Off {
            why: "a capture does not show SYNs that are lost before it".to_owned(),
            remedy: "capture at the client".to_owned(),
        },
    });
    let all = std::iter::once(all).chain(on).chain(off);
    all.chain(lost).collect()
}
