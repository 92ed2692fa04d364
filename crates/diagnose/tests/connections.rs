//! Connections that are easy to judge wrongly: short ones, ones that only receive, ones with a
//! end is missing, readers that never read, timeouts seen only from outside. Rows in, report
//! out.

use serde_json::{Value, json};
use table::manifest::{Close, Header};
use table::row_of;
use table::tables::{Call, Connection, TcpEvent, TcpSample, TcpStage};
use table::{Columns, Method, Stage, Table};
use whylat_diagnose::report::{DataDirection, Report, Severity};
use whylat_diagnose::{Evidence, diagnose, report};

const MS: u64 = 1_000_000;

fn columns<T: Table + serde::de::DeserializeOwned>(rows: &[Value]) -> T::Columns {
    let mut columns = T::Columns::default();
    for given in rows {
        columns.push(row_of::<T>(given.clone()).expect("a row of the table"));
    }
    columns
}

fn evidence(detail: &str) -> Evidence {
    let header = Header {
        format: 1,
        whylat: "0.1.0".to_owned(),
        host: "lab1".to_owned(),
        boot_id: "boot".to_owned(),
        kernel: "6.18".to_owned(),
        cpus: 2,
        architecture: None,
        clocksource: "tsc".to_owned(),
        detail: detail.to_owned(),
        arguments: Vec::new(),
        started_ns: 0,
        started_realtime_ns: 0,
        jiffy_ns: Some(4 * MS),
    };
    let close = Close {
        ended_ns: 10_000 * MS,
        in_order: true,
    };
    Evidence::new(
        header,
        Vec::new(),
        Vec::new(),
        None,
        Some(close),
        Vec::new(),
    )
}

/// Returns the report's only connection.
fn only(report: &Report) -> &report::Connection {
    assert_eq!(report.connections.len(), 1);
    &report.connections[0]
}

#[test]
fn a_connection_of_five_milliseconds_is_judged_by_its_last_counters() {
    let mut evidence = evidence("stats");
    evidence.add_connections(&columns::<Connection>(&[
        json!({"conn": 1, "opened_ns": 100 * MS, "closed_ns": 105 * MS}),
    ]));
    evidence.add_samples(&columns::<TcpSample>(&[json!({
        "conn": 1, "time_ns": 105 * MS, "kind": "close", "bytes_sent": 900, "busy_us": 2_000,
        "rwnd_limited_us": 0, "data_segs_out": 1, "mss_bytes": 1448,
    })]));
    let report = diagnose(evidence);
    let connection = only(&report);
    assert_eq!(connection.lifetime_ns, 5 * MS);
    let app = connection.stages.get(Stage::SenderApp).expect("measured");
    assert_eq!((app.share, app.method), (0.6, Method::Chronograph));
    assert_eq!(
        app.bound, 0.8,
        "a jiffy of 4 ms is most of 5 ms, and it says so"
    );
    assert_eq!(
        connection.stages.get(Stage::DelayedAck),
        None,
        "a poll does not show it"
    );
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.severity == Severity::Info)
    );
}

#[test]
fn a_single_poll_of_an_old_connection_is_not_judged() {
    let mut evidence = evidence("stats");
    evidence.add_connections(&columns::<Connection>(&[json!({"conn": 1})]));
    evidence.add_samples(&columns::<TcpSample>(&[
        json!({"conn": 1, "time_ns": 105 * MS, "bytes_sent": 900, "busy_us": 2_000}),
    ]));
    let report = diagnose(evidence);
    assert!(only(&report).stages.is_empty());
    assert!(
        only(&report)
            .not_judged
            .as_deref()
            .is_some_and(|why| why.contains("one sample"))
    );
    assert!(!only(&report).sent_nothing, "not known is not nothing");
}

#[test]
fn a_socket_that_only_receives_has_no_sending_stages() {
    let mut evidence = evidence("calls");
    evidence.add_connections(&columns::<Connection>(&[
        json!({"conn": 1, "opened_ns": 0, "closed_ns": 100 * MS}),
    ]));
    evidence.add_stages(&columns::<TcpStage>(&[json!({
        "conn": 1, "time_ns": 100 * MS, "closed": true, "sender_app_ns": 100 * MS,
        "reader_slow_ns": 25 * MS, "reader_slow_waits": 5,
    })]));
    evidence.add_calls(&columns::<Call>(&[
        json!({"conn": 1, "end_ns": 50 * MS, "result": 4096, "blocked_ns": 20 * MS}),
    ]));
    let report = diagnose(evidence);
    let connection = only(&report);
    assert!(connection.sent_nothing && connection.stages.is_empty());
    let receive = connection.receive.as_ref().expect("it received");
    assert_eq!(
        (receive.reader_slow.share, receive.waiting_for_peer.share),
        (0.25, 0.75)
    );
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn life_beyond_the_last_reading_is_unknown() {
    let mut evidence = evidence("calls");
    evidence.add_connections(&columns::<Connection>(&[
        json!({"conn": 1, "opened_ns": 0, "closed_ns": 1_000 * MS}),
    ]));
    evidence.add_stages(&columns::<TcpStage>(&[
        json!({"conn": 1, "time_ns": 600 * MS, "sender_app_ns": 600 * MS}),
    ]));
    let report = diagnose(evidence);
    let stages = &only(&report).stages;
    assert_eq!(only(&report).lifetime_ns, 1_000 * MS);
    assert_eq!(
        stages.get(Stage::Unknown).map(|share| share.share),
        Some(0.4)
    );
    assert_eq!(
        stages.get(Stage::SenderApp).map(|share| share.share),
        Some(0.6)
    );
}

#[test]
fn a_span_is_judged_by_the_difference_of_readings() {
    let mut evidence = evidence("calls").limit_to(500 * MS, 2_000 * MS);
    evidence.add_stages(&columns::<TcpStage>(&[
        json!({"conn": 1, "time_ns": 400 * MS, "nagle_ns": 400 * MS, "nagle_holds": 9}),
        json!({"conn": 1, "time_ns": 900 * MS, "nagle_ns": 400 * MS, "sender_app_ns": 500 * MS,
               "nagle_holds": 9}),
        json!({"conn": 1, "time_ns": 2_900 * MS, "nagle_ns": 2_400 * MS,
               "sender_app_ns": 500 * MS, "nagle_holds": 90}),
    ]));
    let report = diagnose(evidence);
    let connection = only(&report);
    assert_eq!(connection.lifetime_ns, 500 * MS);
    assert_eq!(connection.stages.stage_ns(Stage::Nagle), 0);
    assert_eq!(connection.totals.nagle_holds, Some(0));
}

#[test]
fn a_timeout_is_counted_from_the_unanswered_segment() {
    let mut evidence = evidence("stats");
    evidence.add_connections(&columns::<Connection>(&[
        json!({"conn": 1, "opened_ns": 0, "congestion": "cubic"}),
    ]));
    let sample = |time_ms: u64, busy_ms: u64, sent: u64| {
        json!({
            "conn": 1, "time_ns": time_ms * MS, "busy_us": busy_ms * 1_000, "rwnd_limited_us": 0,
            "bytes_sent": sent, "rto_us": 224_000, "srtt_us": 20_000, "mss_bytes": 1448,
            "data_segs_out": sent / 1_000, "min_rtt_us": 20_000,
        })
    };
    evidence.add_samples(&columns::<TcpSample>(&[
        sample(500, 100, 5_000),
        sample(2_000, 1_200, 9_000),
        sample(4_000, 1_400, 20_000),
    ]));
    evidence.add_events(&columns::<TcpEvent>(&[
        json!({"conn": 1, "time_ns": 1_000 * MS, "kind": "congestion_state", "old": 0, "new": 4}),
        json!({"conn": 1, "time_ns": 1_400 * MS, "kind": "congestion_state", "old": 4, "new": 4}),
        json!({"conn": 1, "time_ns": 1_750 * MS, "kind": "congestion_state", "old": 4, "new": 0}),
    ]));
    let report = diagnose(evidence);
    // 750 ms in Loss, and 204 ms before: the timer of 224 ms less a round trip of 20 ms.
    assert_eq!(
        only(&report).stages.stage_ns(Stage::RetransmitTimeout),
        954 * MS
    );
    let finding = report.findings.first().expect("a finding");
    assert_eq!(
        (finding.rule.name(), finding.severity),
        ("retransmit_timeouts", Severity::Warning)
    );
    assert_eq!(finding.harm_ns, 954 * MS);
}

/// Makes both ends on one host; the sender's window is full for nearly all of the time.
fn window_limited(receiver: Value, receives: &[Value]) -> Report {
    let mut evidence = evidence("calls");
    evidence.add_connections(&columns::<Connection>(&[
        json!({"conn": 1, "opened_ns": 0, "peer_conn": 2}),
        json!({"conn": 2, "opened_ns": 0, "peer_conn": 1, "role": "server", "chosen": "peer"}),
    ]));
    let mut stages = json!({"conn": 2, "time_ns": 4_000 * MS, "sender_app_ns": 4_000 * MS});
    for (name, value) in receiver.as_object().into_iter().flatten() {
        stages[name] = value.clone();
    }
    evidence.add_stages(&columns::<TcpStage>(&[
        json!({"conn": 1, "time_ns": 4_000 * MS, "sender_app_ns": 100 * MS,
               "receiver_window_ns": 3_900 * MS}),
        stages,
    ]));
    let full = |time_ms: u64| {
        json!({"conn": 2, "time_ns": time_ms * MS, "bytes_received": 70_000,
               "receive_queue_bytes": 70_000})
    };
    if receives.len() < 2 {
        evidence.add_samples(&columns::<TcpSample>(&[full(100), full(3_900)]));
    }
    evidence.add_calls(&columns::<Call>(receives));
    evidence.add_calls(&columns::<Call>(&[
        json!({"conn": 1, "end_ns": 3_900 * MS, "is_send": true, "result": 90_000}),
    ]));
    diagnose(evidence)
}

#[test]
fn the_reader_decides_between_slow_reader_and_small_buffer() {
    let receive = |time_ms: u64| json!({"conn": 2, "end_ns": time_ms * MS, "result": 4_000});
    let reads = [receive(10), receive(2_000)];
    let slow = window_limited(json!({"reader_slow_ns": 3_800 * MS}), &reads);
    assert_eq!(slow.findings[0].rule.name(), "slow_reader");
    let keeps_up = window_limited(json!({"reader_slow_ns": 3 * MS}), &reads);
    assert_eq!(keeps_up.findings[0].rule.name(), "receive_buffer_limited");
    assert!(
        keeps_up
            .findings
            .iter()
            .all(|finding| finding.rule.name() != "slow_reader")
    );
}

#[test]
fn a_reader_that_never_reads_is_slow() {
    let waits = json!({"reader_slow_ns": 3_890 * MS, "reader_slow_waits": 1});
    let report = window_limited(waits, &[]);
    assert_eq!(report.findings[0].rule.name(), "slow_reader");
    assert_eq!(report.findings[0].severity, Severity::Critical);
}

#[test]
fn a_receiver_without_its_sender_is_judged_alone() {
    let mut evidence = evidence("calls");
    evidence.add_connections(&columns::<Connection>(&[
        json!({"conn": 1, "opened_ns": 0, "role": "server"}),
    ]));
    evidence.add_stages(&columns::<TcpStage>(&[json!({
        "conn": 1, "time_ns": 1_000 * MS, "sender_app_ns": 1_000 * MS,
        "reader_slow_ns": 900 * MS, "reader_slow_waits": 7, "window_closed_ns": 800 * MS,
    })]));
    evidence.add_calls(&columns::<Call>(&[
        json!({"conn": 1, "end_ns": 500 * MS, "result": 65_536, "blocked_ns": 0}),
    ]));
    let report = diagnose(evidence);
    let finding = report.findings.first().expect("a finding");
    assert_eq!(
        (finding.rule.name(), finding.direction),
        ("slow_reader", DataDirection::Receiving)
    );
    assert_eq!(finding.harm_ns, 800 * MS);
}

#[test]
fn many_short_stalls_of_one_program_are_one_finding() {
    let mut evidence = evidence("calls");
    let conns: Vec<u64> = (1..=5_003).collect();
    let connection = |conn: &u64| json!({"conn": conn, "opened_ns": 0, "closed_ns": 46 * MS});
    let stage = |conn: &u64| {
        json!({
            "conn": conn, "time_ns": 46 * MS, "closed": true, "sender_app_ns": 3 * MS,
            "delayed_ack_ns": 43 * MS, "nagle_holds": 1, "delayed_acks": 1,
            "longest_hold_ns": 43 * MS + conn,
        })
    };
    evidence.add_connections(&columns::<Connection>(
        &conns.iter().map(connection).collect::<Vec<_>>(),
    ));
    evidence.add_stages(&columns::<TcpStage>(
        &conns.iter().map(stage).collect::<Vec<_>>(),
    ));
    let report = diagnose(evidence);
    let [finding] = report.findings.as_slice() else {
        panic!("one finding, not {}", report.findings.len());
    };
    assert_eq!(
        (finding.rule.name(), finding.severity),
        ("nagle_delayed_ack", Severity::Critical)
    );
    assert_eq!(
        (finding.subject.connections, finding.subject.ids.len()),
        (5_003, 16)
    );
    assert_eq!(finding.harm_ns, 5_003 * 43 * MS);
    let fact = |name| {
        finding
            .evidence
            .0
            .iter()
            .find(|fact| fact.name == name)
            .map(|f| f.value)
    };
    assert_eq!(fact("nagle_holds"), Some(report::FactValue::Whole(5_003)));
    let longest = Some(report::FactValue::Whole(43 * MS + 5_003));
    assert_eq!(fact("longest_hold_ns"), longest);
}

/// Makes a BBR flow that fell to a third of its best rate, with this share of loss.
fn bbr_with_loss(loss_share: f64) -> Report {
    let mut evidence = evidence("stats");
    evidence.add_connections(&columns::<Connection>(&[json!({
        "conn": 1, "opened_ns": 0, "closed_ns": 9_000 * MS, "congestion": "bbr",
    })]));
    evidence.add_samples(&columns::<TcpSample>(&[json!({
        "conn": 1, "time_ns": 9_000 * MS, "kind": "close", "bytes_sent": 20_000_000,
        "total_retrans": 400, "data_segs_out": 14_000, "mss_bytes": 1448,
    })]));
    let delivered: u64 = 6_000_000;
    evidence.add_stages(&columns::<TcpStage>(&[json!({
        "conn": 1, "time_ns": 9_000 * MS, "since_ns": 0, "closed": true,
        "pacing_ns": 8_000 * MS, "sender_app_ns": 1_000 * MS, "loss_limited_ns": 6_000 * MS,
        "best_rate_bytes_per_s": 3_000_000, "loss_limited_bytes": delivered,
        "loss_limited_retrans_bytes": (delivered as f64 * loss_share / (1.0 - loss_share)) as u64,
    })]));
    diagnose(evidence)
}

#[test]
fn bbr_is_not_slowed_by_loss_that_it_does_not_answer() {
    let loss = |share| {
        let report = bbr_with_loss(share);
        let named = report
            .findings
            .iter()
            .any(|f| f.rule.name() == "fast_retransmits");
        let candidate =
            |u: &report::UndecidedFinding| u.candidates.contains(&report::RuleId::FastRetransmits);
        let undecided = report.undecided.iter().any(candidate);
        (named, undecided)
    };
    assert_eq!(loss(0.01), (false, false));
    assert_eq!(loss(0.1), (false, true), "its version is not known");
    assert_eq!(loss(0.4), (true, false));
}

/// Makes a Cubic flow at a third of its best rate for six seconds, with stalls of this length.
fn cubic_with_stalls(stalled_ns: u64) -> Report {
    let mut evidence = evidence("stats");
    evidence.add_connections(&columns::<Connection>(&[json!({
        "conn": 1, "opened_ns": 0, "closed_ns": 13_000 * MS, "congestion": "cubic",
    })]));
    evidence.add_samples(&columns::<TcpSample>(&[json!({
        "conn": 1, "time_ns": 13_000 * MS, "kind": "close", "bytes_sent": 20_000_000,
        "total_retrans": 400, "data_segs_out": 14_000, "mss_bytes": 1448,
    })]));
    evidence.add_stages(&columns::<TcpStage>(&[json!({
        "conn": 1, "time_ns": 13_000 * MS, "since_ns": 0, "closed": true,
        "cwnd_loss_ns": 6_000 * MS, "retransmit_timeout_ns": stalled_ns, "timeout_stalls": 1,
        "sender_app_ns": 7_000 * MS - stalled_ns, "loss_limited_ns": 6_000 * MS,
        "best_rate_bytes_per_s": 3_000_000, "loss_limited_bytes": 6_000_000,
        "loss_limited_cwnd_byte_ms": 20_000 * 6_000,
    })]));
    diagnose(evidence)
}

#[test]
fn losses_of_one_path_are_one_finding_while_timeouts_are_the_lesser_part() {
    let found = |stalled_ns| {
        let report = cubic_with_stalls(stalled_ns);
        let found = report
            .findings
            .iter()
            .filter(|it| it.rule.name() != "sender_app_limited");
        found
            .map(|it| (it.rule.name(), it.harm_ns))
            .collect::<Vec<_>>()
    };
    assert_eq!(found(0), [("fast_retransmits", 4_000 * MS)]);
    assert_eq!(found(1_000 * MS), [("fast_retransmits", 5_000 * MS)]);
    let greater = found(4_500 * MS);
    assert_eq!(greater.len(), 2, "{greater:?}");
    assert!(
        greater.contains(&("fast_retransmits", 4_000 * MS)),
        "{greater:?}"
    );
    assert!(
        greater.contains(&("retransmit_timeouts", 4_500 * MS)),
        "{greater:?}"
    );
}

/// A receiver with bytes that had waited before the recording.
fn late_reader() -> Report {
    let mut evidence = evidence("calls");
    evidence.add_connections(&columns::<Connection>(&[json!({"conn": 1})]));
    let reading = |time_ms: u64, unread_ms: u64, closed_ms: u64| {
        json!({"conn": 1, "time_ns": (1_000 + time_ms) * MS, "since_ns": 1_000 * MS,
               "sender_app_ns": time_ms * MS, "reader_slow_ns": unread_ms * MS,
               "reader_slow_waits": 1, "window_closed_ns": closed_ms * MS})
    };
    evidence.add_stages(&columns::<TcpStage>(&[
        reading(100, 500, 50),
        reading(784, 1_060, 390),
    ]));
    evidence.add_calls(&columns::<Call>(&[
        json!({"conn": 1, "end_ns": 1_050 * MS, "result": 4096, "blocked_ns": 0}),
    ]));
    diagnose(evidence)
}

#[test]
fn share_is_harm_over_printed_lifetime() {
    let report = late_reader();
    let finding = report.findings.first().expect("a finding");
    assert_eq!(finding.rule.name(), "slow_reader");
    assert!(
        finding
            .headline
            .ends_with("cost 390 ms of 784 ms (49.7 %)."),
        "{}",
        finding.headline
    );
    assert!(
        (finding.share - 390.0 / 784.0).abs() < 1e-9,
        "{}",
        finding.share
    );
}

#[test]
fn waits_before_the_recording_are_not_counted() {
    let report = late_reader();
    let facts = &report.findings[0].evidence.0;
    let waited = facts.iter().find(|fact| fact.name == "reader_slow_ns");
    // 400 ms of the first reading's 500 were before the ledger.
    assert_eq!(
        waited.map(|fact| fact.value),
        Some(report::FactValue::Whole(660 * MS))
    );
}

/// 36 segments retransmitted since the first sample, and 53 by duplicate ACKs since hooks were attached.
#[test]
fn fast_retransmits_are_at_most_all_retransmits() {
    let mut evidence = evidence("calls");
    evidence.add_connections(&columns::<Connection>(&[json!({"conn": 1})]));
    let sample = |time_ms: u64, retransmits: u64| {
        json!({"conn": 1, "time_ns": time_ms * MS, "total_retrans": retransmits,
               "bytes_sent": retransmits * 1_448, "mss_bytes": 1448, "rto_us": 224_000,
               "dsack_dups": 2 * retransmits})
    };
    evidence.add_samples(&columns::<TcpSample>(&[sample(450, 20), sample(4_000, 56)]));
    evidence.add_stages(&columns::<TcpStage>(&[json!({
        "conn": 1, "time_ns": 4_000 * MS, "retransmit_timeout_ns": 3_000 * MS,
        "sender_app_ns": 1_000 * MS, "timeout_stalls": 5,
    })]));
    let again = |time_ms: u64, segments: u64| json!({"conn": 1, "time_ns": time_ms * MS, "kind": "fast_retransmit", "segments": segments});
    evidence.add_events(&columns::<TcpEvent>(&[
        again(100, 20),
        again(449, 2),
        again(1_000, 30),
        again(4_001, 1),
    ]));
    let report = diagnose(evidence);
    let finding = report.findings.first().expect("a finding");
    assert_eq!(finding.rule.name(), "retransmit_timeouts");
    let fact = |name: &str| {
        let found = finding.evidence.0.iter().find(|fact| fact.name == name);
        match found.map(|fact| fact.value) {
            Some(report::FactValue::Whole(value)) => value,
            other => panic!("{name}: {other:?}"),
        }
    };
    assert_eq!((fact("retransmits"), fact("fast_retransmits")), (36, 30));
    assert!(fact("spurious") <= fact("retransmits"));
}
