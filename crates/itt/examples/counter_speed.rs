//! Measures what an ITT call costs the program that makes it, ns: without a collector, with the collector
//! loaded but nobody recording, and recorded while the ring is read. Medians over alternating
//! rounds, each in a process of its own; a call is made as the macros of `ittnotify.h` make it.
//!
//! `cargo build --release -p whylat-itt && cargo run --release -p whylat-itt --example counter_speed`

use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use ittapi_sys as itt;
use whylat_itt::{COLLECTOR_VARIABLE, RING_VARIABLE, Ring, RingShape, check_loadable};

/// Rounds of each condition.
const ROUNDS: usize = 9;
/// Calls between two looks at the clock.
const BATCH_CALLS: u64 = 20_000;
/// Batches of each kind of call in a round; the first one is shown apart.
const BATCHES: usize = 15;
/// `__itt_metadata_u64`
const U64: u32 = 1;
/// Kinds of calls that are measured.
const KINDS: [&str; 4] = [
    "clock_gettime alone",
    "counter_set_value",
    "counter_inc",
    "task_begin + task_end",
];

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("program") {
        return program();
    }
    let collector = collector_path()?;
    check_loadable(&collector)?;
    let mut rows = [const { Vec::new() }; 3];
    let mut reading = Reading::default();
    for _ in 0..ROUNDS {
        for (condition, row) in rows.iter_mut().enumerate() {
            row.push(round(condition, &collector, &mut reading)?);
        }
    }
    println!(
        "ns a call, medians of {ROUNDS} alternating rounds (first {BATCH_CALLS} calls of a process in brackets)"
    );
    println!(
        "{:24}{:>16}{:>16}{:>20}",
        "", "no collector", "not recording", "recording"
    );
    for (kind, name) in KINDS.iter().enumerate() {
        let cell = |row: &Vec<Vec<Figure>>| {
            let of = |part: fn(&Figure) -> f64| median(row.iter().map(|round| part(&round[kind])));
            format!(
                "{:.1} ({:.1})",
                of(|figure| figure.usual_ns),
                of(|figure| figure.first_ns)
            )
        };
        let [none, silent, recording] = rows.each_ref().map(cell);
        println!("{name:24}{none:>16}{silent:>16}{recording:>20}");
    }
    let read_ns = reading.taken_ns as f64 / reading.records as f64;
    println!(
        "reading: {read_ns:.1} ns a record; {} records lost",
        reading.lost
    );
    Ok(())
}

/// Cost of reading over all rounds.
#[derive(Default)]
struct Reading {
    records: usize,
    taken_ns: u128,
    lost: u64,
}

impl Reading {
    /// Reads all records from the ring.
    fn drain_ring(&mut self, ring: &mut Ring) {
        let start = Instant::now();
        let records = ring.drain(|record| drop(black_box(record)));
        if records > 0 {
            self.records += records;
            self.taken_ns += start.elapsed().as_nanos();
        }
    }
}

/// Cost of one kind of call in one round.
struct Figure {
    first_ns: f64,
    usual_ns: f64,
}

/// Returns the path of the collector, beside this example's directory.
fn collector_path() -> Result<PathBuf, Box<dyn Error>> {
    let example = std::env::current_exe()?;
    let dir = example.parent().and_then(Path::parent);
    Ok(dir.ok_or("no directory")?.join("libwhylat_itt.so"))
}

/// Runs the program once. Conditions: 0 no collector, 1 nobody records, 2 recording.
fn round(
    condition: usize,
    collector: &Path,
    reading: &mut Reading,
) -> Result<Vec<Figure>, Box<dyn Error>> {
    let dir = tempfile::Builder::new().tempdir_in("/dev/shm")?;
    let mut ring = Ring::create(&dir.path().join("ring"), RingShape::default())?;
    let mut command = Command::new(std::env::current_exe()?);
    command.arg("program").stdout(Stdio::piped());
    command
        .env_remove(COLLECTOR_VARIABLE)
        .env_remove(RING_VARIABLE);
    if condition > 0 {
        command.env(COLLECTOR_VARIABLE, collector);
    }
    if condition > 1 {
        command.env(RING_VARIABLE, ring.path());
    }
    let mut child = command.spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    let mut figures = Vec::new();
    // The program prints after each batch, which paces the reading.
    let mut batches: Vec<f64> = Vec::new();
    for line in BufReader::new(output).lines() {
        reading.drain_ring(&mut ring);
        batches.push(line?.parse()?);
        if batches.len() == BATCHES {
            figures.push(Figure {
                first_ns: batches[0],
                usual_ns: median(batches.drain(..).skip(1)),
            });
        }
    }
    if !child.wait()?.success() {
        return Err("the measured program failed".into());
    }
    reading.lost += ring.losses().full;
    Ok(figures)
}

/// Returns the median of values.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Runs as the instrumented program: changes a counter many times.
fn program() -> Result<(), Box<dyn Error>> {
    let none = itt::__itt_id {
        d1: 0,
        d2: 0,
        d3: 0,
    };
    // SAFETY: the static part's pointers are called as its header declares them, with handles
    // that it gave, from one thread.
    unsafe {
        let create = itt::__itt_counter_create_typed_ptr__3_0.ok_or("no counter_create_typed")?;
        let counter = create(c"bytes".as_ptr(), c"speed".as_ptr(), U64);
        let domain = itt::__itt_domain_create_ptr__3_0.ok_or("no domain_create")?;
        let domain = domain(c"speed".as_ptr());
        let name = itt::__itt_string_handle_create_ptr__3_0.ok_or("no string_handle_create")?;
        let name = name(c"work".as_ptr());
        time_batches(|_| {
            let mut time = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time);
            black_box(time);
        });
        time_batches(|mut value| {
            if let Some(call) = black_box(itt::__itt_counter_set_value_ptr__3_0) {
                call(counter, (&raw mut value).cast());
            }
        });
        time_batches(|_| {
            if let Some(call) = black_box(itt::__itt_counter_inc_ptr__3_0) {
                call(counter);
            }
        });
        time_batches(|_| {
            if let Some(call) = black_box(itt::__itt_task_begin_ptr__3_0) {
                call(domain, none, none, name);
            }
            if let Some(call) = black_box(itt::__itt_task_end_ptr__3_0) {
                call(domain);
            }
        });
    }
    Ok(())
}

/// Makes the call many times; prints ns a call, batch by batch.
fn time_batches(mut call: impl FnMut(u64)) {
    for _ in 0..BATCHES {
        let start = Instant::now();
        for value in 0..BATCH_CALLS {
            call(value);
        }
        let taken_ns = start.elapsed().as_nanos() as f64;
        println!("{}", taken_ns / BATCH_CALLS as f64);
    }
}
