//! CPU time of an agent's export by OTLP, per interval: of the collecting thread, of the encoding thread (the registry's part
//! included), and of all together. The receiver is this process, too: its time is within the last number. `docs/otlp.md` has
//! the figures.

#[path = "../tests/common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{HOUR_NS, MINUTE_NS, interval, row};
use nix::time::{ClockId, clock_gettime};
use serde_json::json;
use table::Columns;
use table::fleet::{FleetConnection, FleetCoverage, FleetInterval};
use testbed::receiver::{Answer, Receiver};
use whylat_agent::Interval;
use whylat_agent::config::OtlpConfig;
use whylat_agent::metrics::Metrics;
use whylat_agent::telemetry::PreparedExport;

/// Intervals that are measured, after two that are not.
const INTERVALS: i64 = 50;

fn main() {
    println!(
        "applications  connections  bytes  collecting thread (us)  encoding thread (ms)  all (ms)"
    );
    for (applications, connections) in [(1, 10), (10, 150), (100, 1_000), (100, 10_000)] {
        measure(applications, connections);
    }
}

/// Returns an interval of connections with every problem, a tenth of the time each.
fn busy_interval(number: i64, applications: i64, connections: i64) -> Interval {
    let begin_ns = HOUR_NS + number * MINUTE_NS;
    let mut interval = interval(begin_ns, 0);
    interval.coverage =
        row::<FleetCoverage>(json!({"begin_ns": begin_ns, "length_us": 60_000_000, "bpf_us": 1}));
    for conn_id in 0..connections {
        let app = format!("app-{}", conn_id % applications);
        interval.connections.push(row::<FleetConnection>(
            json!({"conn_id": conn_id, "time_ns": begin_ns, "app": app, "process": "server", "pid": 7}),
        ));
        let stages = ["receiver_window", "sender_app", "delayed_ack", "in_flight"];
        interval.intervals.push(row::<FleetInterval>(json!({
            "conn_id": conn_id, "begin_ns": begin_ns, "length_us": 60_000_000, "send_buffer_us": 6_000_000,
            "fast_retransmit_us": 6_000_000, "timeout_us": 6_000_000, "delayed_ack_us": 6_000_000,
            "receiver_window_us": 6_000_000, "srtt_us": 100 + conn_id % 5_000,
            "verdict": stages[(conn_id % 4) as usize],
        })));
    }
    interval
}

/// Measures the cost of an export with this many applications and connections, and prints it.
fn measure(applications: i64, connections: i64) {
    let receiver = Receiver::start(|_, _| Answer::ok());
    let config = OtlpConfig {
        endpoint: receiver.url(),
        ..OtlpConfig::default()
    };
    let prepared = PreparedExport::new(&config).expect("settings");
    let prepared = prepared.expect("an endpoint");
    let mut export = prepared.start("host", "kernel").expect("a thread");
    let metrics = Metrics::new();
    // rows from JSON take far more time than the export: they are made once
    let rows = busy_interval(0, applications, connections);
    let mut spent = Duration::ZERO;
    let mut encoding = Duration::ZERO;
    let mut began = Duration::ZERO;
    for number in 0..INTERVALS + 2 {
        if number == 2 {
            (spent, encoding) = (Duration::ZERO, Duration::ZERO);
            began = cpu(ClockId::CLOCK_PROCESS_CPUTIME_ID);
        }
        let made = cpu(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let interval = Arc::new(at_minute(&rows, number));
        // what makes the rows is no export
        began += cpu(ClockId::CLOCK_THREAD_CPUTIME_ID) - made;
        let before = cpu(ClockId::CLOCK_THREAD_CPUTIME_ID);
        let before_encoding = thread_time("encode");
        assert!(
            export.add_interval(&interval, &metrics),
            "the one before is encoded"
        );
        spent += cpu(ClockId::CLOCK_THREAD_CPUTIME_ID) - before;
        testbed::until("the interval encoded", || {
            (export.encoded_intervals() > number.unsigned_abs()).then_some(())
        });
        encoding += thread_time("encode") - before_encoding;
    }
    export.end_by(Instant::now() + testbed::LONGEST);
    export.join();
    let all = cpu(ClockId::CLOCK_PROCESS_CPUTIME_ID) - began;
    let bytes: usize = receiver.posts().iter().map(|post| post.body.len()).sum();
    let each_ms = |time: Duration| time.as_secs_f64() * 1e3 / INTERVALS as f64;
    println!(
        "{applications:12} {connections:12} {:6} {:23.1} {:21.2} {:9.2}",
        bytes / (INTERVALS as usize + 2),
        each_ms(spent) * 1e3,
        each_ms(encoding),
        each_ms(all)
    );
}

/// Returns these rows as those of another minute.
fn at_minute(rows: &Interval, number: i64) -> Interval {
    let mut interval = rows.clone();
    interval.begin_ns += number * MINUTE_NS;
    interval.coverage.begin_ns = interval.begin_ns;
    interval.connections.time_ns.fill(interval.begin_ns);
    interval
}

/// Returns the CPU time of this process's thread with this name.
fn thread_time(name: &str) -> Duration {
    let threads = std::fs::read_dir("/proc/self/task").expect("threads");
    for thread in threads.map(|it| it.expect("a thread").path()) {
        let comm = std::fs::read_to_string(thread.join("comm")).unwrap_or_default();
        if comm.trim() == name {
            // the first field: time on a CPU, ns (Documentation/scheduler/sched-stats.rst)
            let times = std::fs::read_to_string(thread.join("schedstat")).expect("its times");
            let ns = times.split(' ').next().and_then(|it| it.parse().ok());
            return Duration::from_nanos(ns.expect("a number"));
        }
    }
    panic!("no thread {name}");
}

/// Returns the time of a CPU clock.
fn cpu(clock: ClockId) -> Duration {
    clock_gettime(clock).expect("a clock of Linux").into()
}
