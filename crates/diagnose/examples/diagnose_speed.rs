//! How fast rows become a report: 1 M calls in batches of 64 Ki and 10,000 connections, each with
//! samples and ledger readings, in memory. Prints nanoseconds a row.
//!
//! ```text
//! cargo run --release -p whylat-diagnose --example diagnose_speed
//! ```

use std::time::Instant;

use serde::de::DeserializeOwned;
use serde_json::json;
use table::manifest::Header;
use table::row_of;
use table::tables::{
    Call, Calls, Connection, Connections, TcpSample, TcpSamples, TcpStage, TcpStages,
};
use table::{Columns, Role, Table};
use whylat_diagnose::{Evidence, diagnose};

const CONNECTIONS: u64 = 10_000;
const CALLS: u64 = 1_000_003;
const BATCH: u64 = 65_536;
const READINGS: u64 = 10;

fn header() -> Header {
    Header {
        format: 1,
        whylat: String::new(),
        host: String::new(),
        boot_id: String::new(),
        kernel: String::new(),
        cpus: 2,
        architecture: None,
        clocksource: String::new(),
        detail: "calls".to_owned(),
        arguments: Vec::new(),
        started_ns: 0,
        started_realtime_ns: 0,
        jiffy_ns: Some(4_000_000),
    }
}

/// Calls that jump between connections, as those of a busy server do.
fn make_calls(from: u64, to: u64) -> Calls {
    let mut calls = Calls::default();
    for call in from..to {
        let (end_ns, blocked_ns) = (call * 1_000, call % 3 * 1_000);
        let is_send = call % 2 == 0;
        calls.push(Call {
            conn: 1 + call.wrapping_mul(0x9E37_79B9) % CONNECTIONS,
            end_ns,
            start_ns: (blocked_ns > 0).then(|| end_ns.saturating_sub(blocked_ns)),
            blocked_ns: Some(blocked_ns),
            runq_ns: Some(0),
            unread_ns: (!is_send).then_some(0),
            tcp_ns: None,
            is_send,
            asked_bytes: Some(100),
            result: 100,
            offset_end: 1 << 20,
            flags: 0,
            tid: 1,
            pid: 1,
            cpu: 0,
        });
    }
    calls
}

fn make_connections() -> Connections {
    let mut rows = Connections::default();
    for conn in 1..=CONNECTIONS {
        rows.push(Connection {
            time_ns: conn,
            netns: 1,
            role: Role::Client,
            opened_ns: Some(conn),
            nodelay: Some(false),
            congestion: Some("cubic".to_owned()),
            mss_bytes: Some(1_448),
            ..Connection::with_addresses(conn, format!("10.0.0.1:{conn}"), "10.0.0.2:80")
        });
    }
    rows
}

/// Makes a row with 0 in every column.
fn zero_row<T: Table + DeserializeOwned>() -> T {
    row_of(json!({})).expect("a row of zeros")
}

/// Makes one reading of the ledgers of all connections, every 500 ms.
fn stages(reading: u64) -> TcpStages {
    let time_ns = (reading + 1) * 500_000_000;
    let zero: TcpStage = zero_row();
    let mut rows = TcpStages::default();
    for conn in 1..=CONNECTIONS {
        rows.push(TcpStage {
            conn,
            time_ns,
            sender_app_ns: time_ns / 2,
            delayed_ack_ns: time_ns / 4,
            in_flight_ns: time_ns / 4,
            nagle_holds: 9,
            delayed_acks: 9,
            acks_by_timer: 9,
            data_segs_out: 100,
            ..zero.clone()
        });
    }
    rows
}

/// Makes one sample of every connection for this reading.
fn samples(reading: u64) -> TcpSamples {
    let zero: TcpSample = zero_row();
    let mut rows = TcpSamples::default();
    for conn in 1..=CONNECTIONS {
        rows.push(TcpSample {
            conn,
            time_ns: (reading + 1) * 500_000_000 + conn,
            bytes_acked: reading * 10_000,
            bytes_sent: Some(reading * 10_000),
            busy_us: Some(reading * 400_000),
            min_rtt_us: Some(50),
            ..zero.clone()
        });
    }
    rows
}

fn main() {
    let batches: Vec<Calls> = (0..CALLS)
        .step_by(BATCH as usize)
        .map(|from| make_calls(from, (from + BATCH).min(CALLS)))
        .collect();
    let readings: Vec<TcpStages> = (0..READINGS).map(stages).collect();
    let samples: Vec<TcpSamples> = (0..READINGS).map(samples).collect();
    let connections = make_connections();
    let mut evidence = Evidence::new(header(), Vec::new(), Vec::new(), None, None, Vec::new());
    let report_time = |what: &str, rows: u64, since: Instant| {
        let took = since.elapsed();
        let each = took.as_nanos() as f64 / rows as f64;
        println!(
            "{what:<24} {rows:>9} rows {:>8.1} ms {each:>8.1} ns a row",
            took.as_secs_f64() * 1e3
        );
    };
    let since = Instant::now();
    for batch in &batches {
        evidence.add_calls(batch);
    }
    report_time("calls", CALLS, since);
    let since = Instant::now();
    for reading in &readings {
        evidence.add_stages(reading);
    }
    report_time("tcp_stages", CONNECTIONS * READINGS, since);
    let since = Instant::now();
    for sample in &samples {
        evidence.add_samples(sample);
    }
    report_time("tcp_samples", CONNECTIONS * READINGS, since);
    let since = Instant::now();
    evidence.add_connections(&connections);
    let report = diagnose(evidence);
    report_time("diagnose (connections)", CONNECTIONS, since);
    println!("{} findings", report.findings.len());
}
