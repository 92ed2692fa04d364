//! `whylat import`: converts a trace or a capture of another tool to a recording, or adds functions to one.

mod header;
mod pcap;
mod with;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::import::TraceImport;
use anyhow::anyhow;
use clap::{Args, Subcommand};
use table::manifest::{Coverage, Line, Loss, ProbeState};
use table::{ClosedRecording, Columns, WriteOptions, Writer};

use crate::out::DirectoryArgs;
use crate::{args, out};
use header::header;
use with::Clock;

/// Name under which a recording accounts for imported rows.
const PROBE: &str = "activity";

/// Reader of a format.
type Reader = fn(&[u8]) -> Result<TraceImport, ::import::ImportError>;

/// Makes a recording of a trace or a packet capture.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  whylat import pcap x.pcap -o x.whylat
  whylat import perf perf.data
  whylat import ftrace trace.txt --with whylat-20261121T203000Z.whylat")]
pub(crate) struct Import {
    #[command(subcommand)]
    from: From,
}

#[derive(Debug, Subcommand)]
enum From {
    /// Convert perf.data or the text of `perf script`
    ///
    /// Reads Intel PT, call stacks and tracepoints.
    #[command(after_help = "\
Examples:
  whylat import perf perf.data -o trace.whylat
  whylat import perf script.txt --with r.whylat --clock monotonic")]
    Perf(File),
    /// Convert ftrace's `trace` file or the text of `trace-cmd report`
    #[command(after_help = "\
Examples:
  whylat import ftrace trace.txt
  whylat import ftrace report.txt --with r.whylat --clock monotonic")]
    Ftrace(File),
    /// Convert packet captures of tcpdump, Wireshark and others
    ///
    /// Reads pcap and pcapng, plain or compressed by gzip or zstd. Needs no root.
    #[command(after_help = "\
Examples:
  whylat import pcap x.pcap -o x.whylat
  whylat report x.whylat
  whylat import pcap x1.pcap.gz x2.pcapng --at server")]
    Pcap(pcap::CaptureFiles),
}

#[derive(Debug, Args)]
struct File {
    /// Trace to convert
    file: PathBuf,
    /// Add the functions of the trace to a copy of this recording of the same host and time
    ///
    /// The recording needs `--keep` or `--trigger`.
    #[arg(long, value_name = "RECORDING")]
    with: Option<PathBuf>,
    /// Clock of the trace's timestamps
    #[arg(long, value_enum, default_value = "perf", requires = "with")]
    clock: Clock,
    #[command(flatten)]
    to: DirectoryArgs,
}

impl Import {
    pub(crate) fn execute(self) -> anyhow::Result<ExitCode> {
        let (file, read): (File, Reader) = match self.from {
            From::Perf(file) => (file, ::import::read_perf),
            From::Ftrace(file) => (file, ::import::read_ftrace),
            From::Pcap(files) => return files.execute(),
        };
        let default = || args::default_output(Path::new(""));
        let output = file.to.path()?.map_or_else(default, Path::to_owned);
        let force = file.to.force;
        let path = out::name(&file.file);
        let bytes = std::fs::read(&file.file).map_err(|error| {
            anyhow!(
                "cannot read {path}: {error}\n\
                 hint: name a trace that you may read, such as perf.data of `perf record`"
            )
        })?;
        let imported = read(&bytes).map_err(|error| anyhow!("cannot import {path}: {error}"))?;
        for note in &imported.notes {
            eprintln!("note: {note}");
        }
        eprintln!("{path}: {}", imported.tally);
        if let Some(recording) = file.with {
            let message = with::store(&imported, &recording, file.clock, &output, force)?;
            eprintln!("{message}");
            return Ok(ExitCode::SUCCESS);
        }
        let rows = store(imported, &output, force)?;
        eprintln!("imported {rows} rows of activity to {}", out::name(&output));
        Ok(ExitCode::SUCCESS)
    }
}

/// Writes a recording of the trace; returns the number of rows.
fn store(imported: TraceImport, output: &Path, force: bool) -> anyhow::Result<u64> {
    let TraceImport {
        activities,
        tally: _,
        notes,
    } = imported;
    let (first_ns, _) = activities.time_range_ns().unwrap_or_default();
    let last_ns = activities.end_ns.iter().copied().max().unwrap_or(first_ns);
    let options = WriteOptions {
        force,
        ..WriteOptions::default()
    };
    let produced = activities.len() as u64;
    let mut writer = Writer::create(output, &header(first_ns), options)?;
    writer.append(activities)?;
    writer.line(&Line::Coverage(coverage(&notes)))?;
    writer.line(&Line::Loss(Loss {
        probe: PROBE.to_owned(),
        produced,
        stored: produced,
        filtered: 0,
        lost: BTreeMap::new(),
    }))?;
    let closed = writer.close(last_ns)?;
    let ClosedRecording {
        stored, failures, ..
    } = closed;
    if let Some(error) = failures.into_iter().next() {
        return Err(error.into());
    }
    Ok(stored.values().sum())
}

/// Returns the coverage of an import; `notes` say what the file lacks.
fn coverage(notes: &[String]) -> Coverage {
    let state = match notes {
        [] => ProbeState::On,
        notes => ProbeState::Fallback {
            which: "the content of the file alone".to_owned(),
            why: notes.join("; "),
        },
    };
    Coverage {
        probe: PROBE.to_owned(),
        state,
    }
}

#[cfg(test)]
mod tests {
    use super::store;
    use table::Recording;
    use table::tables::Activity;

    const TEXT: &[u8] = include_bytes!("../../../import/tests/traces/sched.txt");

    #[test]
    fn an_imported_recording_is_valid() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("trace.whylat");
        let rows = store(::import::read_ftrace(TEXT).unwrap(), &path, false).unwrap();
        assert_eq!(rows, 12);
        assert_eq!(table::validate(&path).unwrap(), []);
        assert_eq!(Recording::open(&path).unwrap().rows::<Activity>(), rows);
        let again = store(::import::read_ftrace(TEXT).unwrap(), &path, false).unwrap_err();
        assert!(again.to_string().contains("hint: "), "{again}");
        assert_eq!(
            store(::import::read_ftrace(TEXT).unwrap(), &path, true).unwrap(),
            rows
        );
    }
}
