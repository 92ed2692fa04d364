//! How fast waits become groups: 5 M rows in batches of 64 Ki over connections and futexes, each used by
//! four of 64 threads, at 64 places of the program, with all conditions of a filter but the object's, in
//! memory. Prints nanoseconds of CPU time a row.
//!
//! ```text
//! cargo run --release -p whylat-diagnose --example waits_speed
//! ```

use std::time::Duration;

use serde_json::json;
use table::manifest::Header;
use table::tables::{StackFrame, StackFrames, Wait, Waits};
use table::{Caller, Columns, WaitObject, Waker};
use whylat_diagnose::waits::{Grouping, Names, Recorded, WaitFilter, WaitTable};

const ROWS: u64 = 5_000_011;
const BATCH: u64 = 65_536;
const OBJECTS: [u64; 2] = [1_000, 10_000];
const THREADS: u32 = 64;
const STACKS: u32 = 64;

fn header() -> Header {
    let header = json!({
        "format": 1, "whylat": "", "host": "", "boot_id": "", "kernel": "", "cpus": 2,
        "clocksource": "", "detail": "waits", "arguments": [], "started_ns": 0,
        "started_realtime_ns": 0, "jiffy_ns": 4_000_000,
    });
    serde_json::from_value(header).expect("a header")
}

/// Waits that jump between objects, as those of a busy server do; one of eight is slow.
fn batch(from: u64, objects: u64) -> Waits {
    let mut rows = Waits::default();
    for number in from..(from + BATCH).min(ROWS) {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let object = mixed % objects;
        let tid = 100 + (object + (mixed >> 20) % 4) as u32 % THREADS;
        let start_ns = number * 1_000;
        let blocked_ns = if mixed.is_multiple_of(8) {
            200_000_000
        } else {
            900_000
        } + mixed % 100_000;
        let is_futex = object.is_multiple_of(2);
        rows.push(Wait {
            end_ns: start_ns + blocked_ns + 10_000,
            start_ns,
            woken_ns: Some(start_ns + blocked_ns),
            tid,
            pid: 100,
            kind: if is_futex {
                WaitObject::Futex
            } else {
                WaitObject::Connection
            },
            object: is_futex.then_some(object << 6),
            conn: (!is_futex).then_some(object),
            fd: None,
            syscall: Some(0),
            waker: Waker::Thread,
            waker_tid: Some(100 + (object + (mixed >> 24) % 4) as u32 % THREADS),
            waker_pid: Some(100),
            ready_fd: None,
            ready_conn: None,
            uninterruptible: false,
            stack: Some((mixed % u64::from(STACKS)) as u32),
            kernel_stack: Some(object as u32 % 2),
            cpu: 0,
        });
    }
    rows
}

/// CPU time of this thread so far: the first field of `schedstat`.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text.split(' ').next().and_then(|field| field.parse().ok());
    Duration::from_nanos(ns.expect("a kernel with schedstat"))
}

fn main() {
    let conditions = WaitFilter {
        from_ns: Some(0),
        to_ns: Some(u64::MAX),
        pid: Some(100),
        longer_than_ns: Some(1),
        ..WaitFilter::default()
    };
    for objects in OBJECTS {
        for grouping in [
            Grouping::Object,
            Grouping::Thread,
            Grouping::Stack,
            Grouping::Waker,
        ] {
            measure(objects, grouping, conditions.clone());
        }
    }
}

/// Stacks of one frame.
fn names() -> Names {
    let mut frames = StackFrames::default();
    for stack in 0..STACKS {
        frames.push(StackFrame {
            time_ns: 0,
            stack,
            depth: 0,
            pid: Some(100),
            object: Some("program".to_owned()),
            build_id: None,
            offset: Some(u64::from(stack)),
            caller: Caller::None,
        });
    }
    let mut names = Names::default();
    names.add_frames(&frames);
    names
}

fn measure(objects: u64, grouping: Grouping, conditions: WaitFilter) {
    let mut waits = WaitTable::new(header(), names(), grouping, conditions);
    let mut took = Duration::ZERO;
    for from in (0..ROWS).step_by(BATCH as usize) {
        let rows = batch(from, objects);
        let since = cpu_time();
        waits.add(&rows);
        took += cpu_time() - since;
    }
    let since = cpu_time();
    let report = waits.report(Recorded::default(), usize::MAX);
    println!(
        "{objects:>6} objects, by {:<7} {:>5.1} ns a row, {:>5.1} M rows/s; {} groups in {:.0} ms",
        grouping.name(),
        took.as_nanos() as f64 / ROWS as f64,
        ROWS as f64 / took.as_secs_f64() / 1e6,
        report.groups.len(),
        (cpu_time() - since).as_secs_f64() * 1e3
    );
}
