//! iperf3 over the same path with the same write size, in turn with A1: whether the study is as fast as a program
//! that is made for it.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::bed::{RunOutcome, TestBed};
use super::journal::{JournalEntry, StudyJournal};
use super::matrix::{RunConfig, SendVariant};
use super::options::RunOptions;
use lab::LabError;
use lab::process::ChildGuard;
use lab::tie_to_parent;

/// Bytes of a write, and of a message.
const SIZE: usize = 65_536;
/// iperf3 waits for no answer: enough requests are under way that A1's server need not, either.
const WINDOW: usize = 32;
const HINT: &str = "apt-get install iperf3, or leave out --peer";

/// Measures own throughput and iperf3's in turn, as far as the journal lacks them.
///
/// # Errors
/// When iperf3 is missing or fails, or there are no namespaces.
pub(super) fn measure_peer(
    journal: &mut StudyJournal,
    bed: &TestBed,
    how: &RunOptions,
    repeat: usize,
) -> Result<(), LabError> {
    let how = &RunOptions {
        window: WINDOW.max(how.window),
        ..how.clone()
    };
    let done = journal.entries.iter();
    let done = done
        .filter(|entry| matches!(entry, JournalEntry::Peer { .. }))
        .count();
    for repetition in done..repeat {
        eprintln!("iperf3 and A1, {SIZE} bytes, 1 thread");
        let iperf3_gbps = run_iperf3(bed, how.seconds)?;
        let config = RunConfig {
            variant: SendVariant::Send,
            size: SIZE,
            threads: 1,
        };
        let RunOutcome::Measured(figures) = bed.run(config, how)? else {
            continue;
        };
        journal.add(JournalEntry::Peer {
            size: SIZE,
            repetition,
            iperf3_gbps,
            gbps: figures.get("throughput").unwrap_or(f64::NAN),
        })?;
    }
    Ok(())
}

/// Returns iperf3's throughput from the server to the client, Gbit/s.
fn run_iperf3(bed: &TestBed, seconds: f64) -> Result<f64, LabError> {
    let failed = |why| LabError::os("run", "iperf3", why, HINT);
    let (Some(mut server), Some(mut client)) = (
        bed.command_at_server("iperf3"),
        bed.command_at_client("iperf3"),
    ) else {
        let why = std::io::Error::other("the server is another machine");
        return Err(LabError::os(
            "compare with",
            "iperf3",
            why,
            "leave out --host",
        ));
    };
    server
        .args(["-s", "-1", "--forceflush"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut server = ChildGuard(start(&mut server).map_err(failed)?);
    let answer = server.0.stdout.take().map(BufReader::new);
    let mut lines = answer.into_iter().flat_map(BufRead::lines);
    let listens = lines.any(|line| line.is_ok_and(|line| line.contains("listening")));
    if !listens {
        return Err(failed(std::io::Error::other("its server does not listen")));
    }
    let length = SIZE.to_string();
    let whole_s = seconds.ceil().to_string();
    client.args([
        "-c",
        &bed.server_address(),
        "-R",
        "-l",
        &length,
        "-t",
        &whole_s,
        "-J",
    ]);
    let output = client.stdin(Stdio::null()).output().map_err(failed)?;
    let answer: Value =
        serde_json::from_slice(&output.stdout).map_err(|why| failed(std::io::Error::from(why)))?;
    answer["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .map(|bps| bps / 1e9)
        .ok_or_else(|| failed(std::io::Error::other(answer["error"].to_string())))
}

/// Starts a process that ends with this one.
fn start(command: &mut Command) -> std::io::Result<std::process::Child> {
    tie_to_parent(command).spawn()
}
