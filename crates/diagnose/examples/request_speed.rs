//! How fast calls and waits become requests: a server with eight threads, 1,000 connections, 1 M requests of a receive, a
//! send and an epoll wait each, one of eight with a lock and one of eight with an upstream request, in batches of 64 Ki
//! rows, in memory. Prints requests per second of CPU time, and the memory of the process.
//!
//! ```text
//! cargo run --release -p whylat-diagnose --example request_speed
//! ```

use std::rc::Rc;
use std::time::Duration;

use serde_json::json;
use table::manifest::Header;
use table::tables::{Call, Calls, Connection, Connections, Wait, Waits};
use table::{Columns, Role, WaitObject, Waker};
use whylat_diagnose::report::RecordingState;
use whylat_diagnose::requests::{RequestFilter, RequestTable, Source};
use whylat_diagnose::waits::NameTable;

const REQUESTS: u64 = 1_000_000;
const BATCH: usize = 65_536;
const THREADS: u64 = 8;
const CONNECTIONS: u64 = 1_000;
const UPSTREAM: u64 = 1_000_000;

fn header() -> Header {
    let header = json!({
        "format": 1, "whylat": "", "host": "", "boot_id": "", "kernel": "", "cpus": 2,
        "clocksource": "", "detail": "waits", "arguments": [], "started_ns": 0,
        "started_realtime_ns": 0, "jiffy_ns": 4_000_000,
    });
    serde_json::from_value(header).expect("a header")
}

fn make_connection(conn: u64, role: Role) -> Connection {
    let (local, remote) = match role {
        Role::Client => ("10.0.0.1:40000", "10.0.0.3:5432"),
        _ => ("10.0.0.1:80", "10.0.0.2:50000"),
    };
    Connection {
        netns: 1,
        role,
        pid: Some(100),
        ..Connection::with_addresses(conn, local, remote)
    }
}

fn make_names() -> Rc<NameTable> {
    let mut rows = Connections::default();
    (0..CONNECTIONS).for_each(|conn| rows.push(make_connection(conn, Role::Server)));
    (0..THREADS).for_each(|thread| rows.push(make_connection(UPSTREAM + thread, Role::Client)));
    let mut names = NameTable::default();
    names.add_connections(&rows);
    names.complete()
}

/// A call on a connection's stream of 100 bytes a turn.
fn make_call(conn: u64, turn: u64, end_ns: u64, is_send: bool, tid: u32) -> Call {
    Call {
        conn,
        end_ns,
        start_ns: None,
        blocked_ns: Some(0),
        runq_ns: Some(0),
        unread_ns: (!is_send).then_some(2_000),
        tcp_ns: None,
        is_send,
        asked_bytes: Some(4_096),
        result: 100,
        offset_end: (turn + 1) * 100,
        flags: 0,
        tid,
        pid: 100,
        cpu: 0,
    }
}

fn wait(tid: u32, start_ns: u64, end_ns: u64, kind: WaitObject, conn: Option<u64>) -> Wait {
    Wait {
        end_ns,
        start_ns,
        woken_ns: Some(end_ns - 500),
        tid,
        pid: 100,
        kind,
        object: None,
        device: None,
        conn: None,
        fd: None,
        syscall: None,
        waker: Waker::Interrupt,
        waker_tid: None,
        waker_pid: None,
        ready_fd: conn.map(|_| 5),
        ready_conn: conn,
        ready_kind: None,
        uninterruptible: false,
        stack: None,
        kernel_stack: None,
        cpu: 0,
        limit_ns: None,
    }
}

/// Adds the calls and waits of one request: the threads take turns, 10 µs apart.
fn add(number: u64, calls: &mut Vec<Call>, waits: &mut Vec<Wait>) {
    let thread = number % THREADS;
    let tid = 100 + thread as u32;
    let (conn, turn) = (number % CONNECTIONS, number / CONNECTIONS);
    let at_ns = 1_000_000 + number * 10_000;
    waits.push(wait(
        tid,
        at_ns - 20_000,
        at_ns,
        WaitObject::Epoll,
        Some(conn),
    ));
    calls.push(make_call(conn, turn, at_ns + 1_000, false, tid));
    match number / THREADS % 8 {
        1 => waits.push(wait(
            tid,
            at_ns + 5_000,
            at_ns + 20_000,
            WaitObject::Futex,
            None,
        )),
        2 => {
            let (upstream, turn) = (UPSTREAM + thread, number / THREADS / 8);
            calls.push(make_call(upstream, turn, at_ns + 5_000, true, tid));
            waits.push(wait(
                tid,
                at_ns + 6_000,
                at_ns + 20_000,
                WaitObject::Epoll,
                Some(upstream),
            ));
            calls.push(make_call(upstream, turn, at_ns + 21_000, false, tid));
        }
        _ => {}
    }
    calls.push(make_call(conn, turn, at_ns + 30_000, true, tid));
}

/// Returns the CPU time that this process has used.
fn cpu_time() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("the kernel counts");
    let ns = text.split(' ').next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.expect("a number"))
}

/// Returns the memory of this process, in KiB; 0 without `/proc`.
fn resident_kb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kb = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kb.expect("a number")
}

fn main() {
    let (mut calls, mut waits) = (Vec::new(), Vec::new());
    let filter = (RequestFilter::default(), 100);
    let mut table = RequestTable::new(header(), make_names(), (&[], &[]), filter);
    let mut made = 0..REQUESTS;
    let mut spent = Duration::ZERO;
    while let Some(source) = table.missing_source() {
        while calls.len().min(waits.len()) < BATCH
            && let Some(number) = made.next()
        {
            add(number, &mut calls, &mut waits);
        }
        let (mut call_rows, mut wait_rows) = (Calls::default(), Waits::default());
        match source {
            Source::Calls => {
                let rows = calls.drain(..calls.len().min(BATCH));
                rows.for_each(|row| call_rows.push(row));
            }
            Source::Waits => {
                let rows = waits.drain(..waits.len().min(BATCH));
                rows.for_each(|row| wait_rows.push(row));
            }
            Source::Preemptions | Source::Samples => {}
        }
        let since = cpu_time();
        match source {
            Source::Calls => table.add_calls((!call_rows.is_empty()).then_some(&call_rows)),
            Source::Waits => table.add_waits((!wait_rows.is_empty()).then_some(&wait_rows)),
            Source::Preemptions => table.add_preemptions(None),
            Source::Samples => table.add_on_cpu_samples(None),
        }
        spent += cpu_time() - since;
    }
    let since = cpu_time();
    table.finish();
    let report = table.report(RecordingState::default());
    spent += cpu_time() - since;
    let found = report.count();
    println!("requests      {found}");
    println!("CPU time      {:.2} s", spent.as_secs_f64());
    println!("requests/s    {:.0}", found as f64 / spent.as_secs_f64());
    println!(
        "memory        {} MB, rows in memory included",
        resident_kb() / 1_000
    );
    for service in &report.services {
        let parts = serde_json::to_string(&service.parts.all).expect("plain values");
        println!("{} {}: {parts}", service.requests, service.address);
    }
}
