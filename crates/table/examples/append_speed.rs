//! The cost of storing socket calls: nanoseconds a row to append and seal, bytes a row before
//! and after the merge at close, milliseconds to scan a million rows.
//!
//! `cargo run --release -p whylat-table --example append_speed [DIR]`

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use whylat_table::manifest::{FORMAT, Header};
use whylat_table::tables::{Call, Calls};
use whylat_table::{Columns, Recording, WriteOptions, Writer, table};

/// Rows appended at once: what a drain of per-CPU buffers yields.
const BATCH_ROWS: usize = 4096;
/// Batches in a segment: 600,000 calls a second for two seconds.
const SEGMENT_BATCHES: usize = 293;
/// Segments in the recording.
const SEGMENTS: usize = 4;

table! {
    /// The columns of `calls` that a diagnosis of waiting reads.
    row CallWait, columns CallWaits, name "calls", time end_ns {
        /// Socket cookie.
        conn: u64, "-";
        /// When the call was done.
        end_ns: u64, "ns";
        /// Time blocked within the call.
        blocked_ns: Option<u64>, "ns", null = "not measured";
        /// Send or receive.
        is_send: bool, "-";
        /// Bytes done, or a negative errno.
        result: i32, "bytes";
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let dir = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let dir = dir.join(format!("append_speed-{}.whylat", std::process::id()));
    let result = measure(&dir);
    fs::remove_dir_all(&dir)?;
    result
}

/// Measures appending and closing in a directory, and prints the cost.
fn measure(dir: &Path) -> Result<(), Box<dyn Error>> {
    let mut writer = Writer::create(dir, &header(), WriteOptions::default())?;
    let mut source = Source {
        state: 88_172_645_463_325_252,
        now_ns: 1_000_000_000_000,
    };
    let (mut append, mut seal, mut rows) = (Cost::default(), Cost::default(), 0);
    for _ in 0..SEGMENTS {
        for _ in 0..SEGMENT_BATCHES {
            let batch = source.batch();
            append.add(|| writer.append(batch))?;
        }
        rows += BATCH_ROWS * SEGMENT_BATCHES;
        seal.add(|| writer.seal())?;
    }
    let open_bytes = bytes_below(dir)?;
    let mut merge = Cost::default();
    let closed = merge.add(|| writer.close(source.now_ns))?;
    closed.failures.into_iter().next().map_or(Ok(()), Err)?;
    let merged_bytes = bytes_below(dir)?;
    println!("| {rows} rows of calls | CPU | elapsed |\n|---|---:|---:|");
    append.print("append, ns/row", rows as f64);
    seal.print("seal, ns/row", rows as f64);
    seal.print("seal, ms each", SEGMENTS as f64 * 1e6);
    merge.print("close with merge, ns/row", rows as f64);
    scan::<Call>(dir, "scan, all columns, ms per million", rows)?;
    scan::<CallWait>(dir, "scan, 5 columns, ms per million", rows)?;
    println!(
        "| bytes/row, open segments | {:.1} | |",
        open_bytes as f64 / rows as f64
    );
    println!(
        "| bytes/row, merged | {:.1} | |",
        merged_bytes as f64 / rows as f64
    );
    Ok(())
}

/// Opens the recording again, so that comparing digests is part of the time.
fn scan<T: whylat_table::Table>(dir: &Path, what: &str, rows: usize) -> Result<(), Box<dyn Error>> {
    let mut cost = Cost::default();
    let read = cost.add(|| Recording::open(dir).map(|recording| recording.scan::<T>(drop)))?;
    if read != rows as u64 {
        return Err(format!("{read} rows read, {rows} written").into());
    }
    cost.print(what, rows as f64);
    Ok(())
}

/// CPU and elapsed time of one kind of step.
#[derive(Default)]
struct Cost {
    cpu: Duration,
    elapsed: Duration,
}

impl Cost {
    /// Runs a step, and adds its CPU time to the cost.
    fn add<T, E: Error + 'static>(
        &mut self,
        step: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, Box<dyn Error>> {
        let (cpu, start) = (cpu_time()?, Instant::now());
        let result = step()?;
        self.elapsed += start.elapsed();
        self.cpu += cpu_time()? - cpu;
        Ok(result)
    }

    /// Prints the cost for each of `per` units.
    fn print(&self, what: &str, per: f64) {
        let [cpu, elapsed] = [self.cpu, self.elapsed].map(|time| time.as_nanos() as f64 / per);
        println!("| {what} | {cpu:.1} | {elapsed:.1} |");
    }
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Result<Duration, nix::Error> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map(Duration::from)
}

/// Returns the bytes of the table of calls in a recording.
fn bytes_below(dir: &Path) -> std::io::Result<u64> {
    fs::read_dir(dir.join("calls"))?
        .map(|entry| Ok(entry?.metadata()?.len()))
        .sum()
}

fn header() -> Header {
    Header {
        format: FORMAT,
        whylat: env!("CARGO_PKG_VERSION").to_owned(),
        host: "example".to_owned(),
        boot_id: "00000000-0000-0000-0000-000000000000".to_owned(),
        kernel: String::new(),
        cpus: 1,
        architecture: None,
        clocksource: String::new(),
        detail: "calls".to_owned(),
        arguments: Vec::new(),
        started_ns: 0,
        started_realtime_ns: 0,
        jiffy_ns: None,
    }
}

/// Calls of 100 connections of a few threads, half of them blocking, at random (xorshift) but
/// repeatable times and sizes.
struct Source {
    state: u64,
    now_ns: u64,
}

impl Source {
    /// Makes the next batch of calls.
    fn batch(&mut self) -> Calls {
        let mut calls = Calls::default();
        (0..BATCH_ROWS).for_each(|_| calls.push(self.call()));
        calls
    }

    /// Makes the next call.
    fn call(&mut self) -> Call {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        let random = self.state;
        self.now_ns += random % 3_333;
        let connection = (random >> 20) % 100;
        let blocked = (random & 1 == 0).then_some((random >> 9) % 100_000);
        Call {
            conn: 4_000 + connection,
            end_ns: self.now_ns,
            start_ns: blocked.map(|blocked_ns| self.now_ns - blocked_ns),
            blocked_ns: Some(blocked.unwrap_or(0)),
            runq_ns: Some(blocked.map_or(0, |_| (random >> 12) % 3_000)),
            unread_ns: (random & 2 != 0).then_some((random >> 14) % 50_000),
            tcp_ns: (random & 2 == 0).then_some(self.now_ns),
            is_send: random & 2 == 0,
            asked_bytes: Some([64, 1_024, 16_384][(random >> 30) as usize % 3]),
            result: ((random >> 40) % 16_384) as i32,
            offset_end: (random >> 10) % 10_000_000_000,
            flags: 0,
            tid: 1_000 + connection as u32 % 8,
            pid: 1_000,
            cpu: (random >> 50) as u16 % 2,
        }
    }
}
