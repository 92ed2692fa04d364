//! How fast waits become groups: 5 M rows in batches of 64 Ki over connections and futexes, each used by
//! four of 64 threads, at 64 places of the program, with all conditions of a filter but the object's, in
//! memory. Then the join of slow waits to what went before them: each connection's waits once more, each
//! with two sends and a receive, and with two counters. Prints nanoseconds of CPU time a row.
//!
//! ```text
//! cargo run --release -p whylat-diagnose --example waits_speed
//! ```

use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use table::manifest::Header;
use table::tables::{Call, Calls, Counter, Counters, StackFrame, StackFrames, Wait, Waits};
use table::{Caller, Columns, CounterKind, ValueSource, WaitObject, Waker};
use whylat_diagnose::report::RecordingState;
use whylat_diagnose::waits::join::JoinSource;
use whylat_diagnose::waits::{Grouping, NameTable, WaitFilter, WaitTable};

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

/// Makes waits that jump between objects, as those of a busy server do; one of eight is slow.
fn make_waits(from: u64, objects: u64) -> Waits {
    let mut rows = Waits::default();
    for number in from..(from + BATCH).min(ROWS) {
        let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let object = mixed % objects;
        let tid = 100 + (object + (mixed >> 20) % 4) as u32 % THREADS;
        let start_ns = number * 1_000_000;
        let blocked_ns = if (mixed >> 16).is_multiple_of(8) {
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
            device: None,
            conn: (!is_futex).then_some(object),
            fd: None,
            syscall: Some(0),
            waker: Waker::Thread,
            waker_tid: Some(100 + (object + (mixed >> 24) % 4) as u32 % THREADS),
            waker_pid: Some(100),
            ready_fd: None,
            ready_conn: None,
            ready_kind: None,
            uninterruptible: false,
            stack: Some((mixed % u64::from(STACKS)) as u32),
            kernel_stack: Some(object as u32 % 2),
            cpu: 0,
            limit_ns: None,
        });
    }
    rows
}

/// Returns the CPU time of this thread so far: the first field of `schedstat`.
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
            measure_waits(objects, grouping, conditions.clone());
        }
        measure_join(objects);
    }
}

/// Makes names with stacks of one frame.
fn make_names() -> Rc<NameTable> {
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
    let mut names = NameTable::default();
    names.add_frames(&frames);
    names.complete()
}

/// Times the grouping of waits for this many objects, and prints the cost of a row.
fn measure_waits(objects: u64, grouping: Grouping, conditions: WaitFilter) {
    let mut waits = WaitTable::new(header(), make_names(), grouping, conditions);
    let mut took = Duration::ZERO;
    for from in (0..ROWS).step_by(BATCH as usize) {
        let rows = make_waits(from, objects);
        let since = cpu_time();
        waits.add(&rows);
        took += cpu_time() - since;
    }
    let since = cpu_time();
    let report = waits.report(RecordingState::default(), usize::MAX);
    println!(
        "{objects:>6} objects, by {:<7} {:>5.1} ns a row, {:>5.1} M rows/s; {} groups in {:.0} ms",
        grouping.name(),
        took.as_nanos() as f64 / ROWS as f64,
        ROWS as f64 / took.as_secs_f64() / 1e6,
        report.groups.len(),
        (cpu_time() - since).as_secs_f64() * 1e3
    );
}

/// Makes the calls around a batch of waits: two sends before each wait on a connection, and its
/// receive.
fn make_calls(waits: &Waits) -> Calls {
    let mut rows = Calls::default();
    for row in 0..waits.len() {
        let Some(conn) = waits.conn[row] else {
            continue;
        };
        let is_slow = waits.end_ns[row] - waits.start_ns[row] > 100_000_000;
        let (start_ns, end_ns) = (waits.start_ns[row], waits.end_ns[row]);
        for (end_ns, is_send, start_ns) in [
            (start_ns.saturating_sub(20), true, None),
            (start_ns.saturating_sub(10), true, None),
            (end_ns + 10, false, Some(start_ns)),
        ] {
            rows.push(Call {
                conn,
                end_ns,
                start_ns,
                blocked_ns: Some(start_ns.map_or(0, |start_ns| end_ns - start_ns)),
                runq_ns: Some(0),
                unread_ns: (!is_send).then_some(0),
                tcp_ns: None,
                is_send,
                asked_bytes: None,
                result: if is_slow { 100 } else { 1_400 } + (end_ns % 64) as i32,
                offset_end: 1 << 20,
                flags: 0,
                tid: waits.tid[row],
                pid: 100,
                cpu: 0,
            });
        }
    }
    rows
}

/// Makes values of two counters of the thread, right before each wait on a connection.
fn make_counters(waits: &Waits) -> Counters {
    let mut rows = Counters::default();
    for row in (0..waits.len()).filter(|row| waits.conn[*row].is_some()) {
        for counter in 0..2 {
            rows.push(Counter {
                time_ns: waits.start_ns[row].saturating_sub(5),
                pid: 100,
                tid: waits.tid[row],
                source: ValueSource::Itt,
                domain: Some("domain".to_owned()),
                name: Some(format!("counter {counter}")),
                counter: Some(counter),
                kind: CounterKind::Set,
                value_u64: Some(u64::from(counter) * 1_000 + waits.start_ns[row] % 64),
                value_s64: None,
                value_f64: None,
                unit: None,
                given_ticks: None,
            });
        }
    }
    rows
}

/// Times the join of waits with calls and counters, and prints the cost of a row.
fn measure_join(objects: u64) {
    let all = WaitFilter::default();
    let mut waits = WaitTable::new(header(), Rc::default(), Grouping::Object, all);
    let batches = || {
        (0..ROWS)
            .step_by(BATCH as usize)
            .map(|from| make_waits(from, objects))
    };
    batches().for_each(|rows| waits.add(&rows));
    let since = cpu_time();
    let mut join = waits.join(usize::MAX).expect("slow waits");
    let mut took = cpu_time() - since;
    let (mut rows_of_calls, mut rows_of_counters) = (0, 0);
    let (mut waits_left, mut calls_left, mut counters_left) = (batches(), batches(), batches());
    while let Some(source) = join.lacks() {
        let (mut waits, mut of_calls, mut of_counters) = (None, None, None);
        match source {
            JoinSource::Waits => waits = waits_left.next(),
            JoinSource::Calls => of_calls = calls_left.next().map(|rows| make_calls(&rows)),
            JoinSource::Counters => {
                of_counters = counters_left.next().map(|rows| make_counters(&rows))
            }
        }
        rows_of_calls += of_calls.as_ref().map_or(0, Columns::len);
        rows_of_counters += of_counters.as_ref().map_or(0, Columns::len);
        let since = cpu_time();
        match source {
            JoinSource::Waits => join.add_waits(waits.as_ref()),
            JoinSource::Calls => join.add_calls(of_calls.as_ref()),
            JoinSource::Counters => join.add_counters(of_counters.as_ref()),
        }
        took += cpu_time() - since;
    }
    let since = cpu_time();
    join.finish();
    took += cpu_time() - since;
    let rows = ROWS as usize + rows_of_calls + rows_of_counters;
    println!(
        "{objects:>6} objects, joined     {:>5.1} ns a row, {:>5.1} M rows/s; {ROWS} waits, \
         {rows_of_calls} calls and {rows_of_counters} values",
        took.as_nanos() as f64 / rows as f64,
        rows as f64 / took.as_secs_f64() / 1e6
    );
}
