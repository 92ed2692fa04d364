//! Workloads with a planted cause are judged rightly: the rule, the direction, the socket, and
//! no other rule beside it, under cubic and under bbr.

use lab::wire::{LossWindow, PacketRecord};
use lab::{Direction, DirectionConfig, Wire, WireConfig};
use serde_json::{Value, json};

use crate::paths::{drop_sent_packets, link, start, wire};
use crate::play::{Outcome, Play, under, under_both};
use crate::shrink::CONNECTIONS;
use testbed::report::{number, share};
use testbed::{RecordedExchange, Site};

const TOPIC: &str = "verdicts";

pub fn plays() -> Vec<Play> {
    let both = |name, record, judge| under_both(TOPIC, name, CONNECTIONS, record, judge);
    let one =
        |congctl, name, record, judge| [under(congctl, TOPIC, name, CONNECTIONS, record, judge)];
    let mut plays = Vec::new();
    plays.extend(both(
        "write_write_read_on_loopback",
        write_write_read_on_loopback,
        held_writes,
    ));
    plays.extend(both(
        "write_write_read_over_the_wire",
        write_write_read_over_the_wire,
        held_writes,
    ));
    plays.extend(both("tiny_send_buffer", tiny_send_buffer, |it| {
        only(it, "send_buffer_limited sending")
    }));
    plays.extend(both("tiny_receive_buffer", tiny_receive_buffer, |it| {
        only(it, "receive_buffer_limited sending")
    }));
    plays.extend(both("black_hole", black_hole, |it| {
        only(it, "retransmit_timeouts sending")
    }));
    plays.extend(both(
        "receive_only_client",
        receive_only_client,
        client_receives,
    ));
    plays.extend(both("connections_of_5_ms", connections_of_5_ms, all_judged));
    plays.extend(both(
        "connections_of_5_ms_in_flight",
        connections_of_5_ms_in_flight,
        all_judged_in_flight,
    ));
    plays.extend(both(
        "connections_of_5_ms_by_stats",
        connections_of_5_ms_by_stats,
        all_judged,
    ));
    plays.extend(both(
        "connections_of_5_ms_in_flight_by_stats",
        connections_of_5_ms_in_flight_by_stats,
        all_judged_in_flight_by_stats,
    ));
    plays.extend(both(
        "quick_request_and_reply",
        quick_request_and_reply,
        quick_is_healthy,
    ));
    plays.extend(one("cubic", "random_loss", random_loss_that_hurts, |it| {
        only(it, "fast_retransmits sending")
    }));
    plays.extend(one(
        "bbr",
        "random_loss",
        random_loss_that_does_not_hurt,
        nothing_of_client,
    ));
    plays.extend(one("cubic", "late_loss", late_loss_of_1_percent, |it| {
        only(it, "fast_retransmits sending")
    }));
    plays.extend(one("bbr", "late_loss", late_loss_of_40_percent, only_loss));
    plays
}

/// The client's socket has this claim and no other, the server's none.
fn only(outcome: &Outcome, claim: &str) {
    let report = &outcome.report;
    report.assert_claims(outcome.client_id(), &[claim], &[]);
    report.assert_claims(number(outcome.server_end(), "/id"), &[], &[]);
}

fn write_write_read(site: &Site) -> Result<Outcome, String> {
    let recorded = site.record("reply-server", "write-write-read --rounds 53");
    let stalls = number(&recorded.client, "/stalled_rounds");
    let why = format!("the workload did not stall: {stalls} of 53 rounds");
    (stalls >= 40).then_some(recorded.into()).ok_or(why)
}

fn write_write_read_on_loopback(congctl: &str) -> Result<Outcome, String> {
    write_write_read(&Site::loopback(congctl))
}

fn write_write_read_over_the_wire(congctl: &str) -> Result<Outcome, String> {
    write_write_read(&Site::over(&wire(congctl, 1_000)))
}

/// Named, and each stall that the client had is a hold.
fn held_writes(outcome: &Outcome) {
    only(outcome, "nagle_delayed_ack sending");
    let stalls = number(&outcome.truth, "/client/stalled_rounds");
    let holds = number(outcome.client_end(), "/totals/nagle_holds");
    assert!(
        holds.abs_diff(stalls) <= 1,
        "{holds} holds, the client stalled {stalls} times: {}",
        outcome.report.brief()
    );
}

fn tiny_send_buffer(congctl: &str) -> Result<Outcome, String> {
    let wire = wire(congctl, 20_000);
    let site = Site::over(&wire);
    Ok(site
        .record("sink", "stream --sndbuf 4096 --seconds 2")
        .into())
}

fn tiny_receive_buffer(congctl: &str) -> Result<Outcome, String> {
    let wire = wire(congctl, 20_000);
    let site = Site::over(&wire);
    Ok(site
        .record("sink --rcvbuf 4096", "stream --seconds 2")
        .into())
}

/// Bulk data over [`link`] with random loss, and how it fared.
struct Bulk {
    recorded: RecordedExchange,
    /// Bits a second, until the last byte was acknowledged.
    rate: f64,
    /// How long the wire delivered no data for two round trips or more, as a share of the transfer:
    /// nothing that is planted here stops it for so long but a timer's wait for what was lost, and no
    /// timer is shorter (`tcp_schedule_loss_probe()`).
    silence: f64,
}

fn bulk_with_loss(congctl: &str, loss_ppm: u32) -> Bulk {
    let lossy = DirectionConfig {
        loss_ppm,
        ..link(congctl)
    };
    let wire = start(congctl, lossy);
    let recorded = Site::over(&wire).record("sink", "stream --seconds 4");
    let truth = &recorded.client["transfers"][0];
    let took_ns = number(truth, "/drained_ns") - number(truth, "/first_send_ns");
    let bytes = number(&recorded.server, "/connections/0/recv/bytes");
    let rate = bytes as f64 * 8e9 / took_ns as f64;
    let silence = silent_ns(&wire.stop().1) as f64 / took_ns as f64;
    Bulk {
        recorded,
        rate,
        silence,
    }
}

/// Between two deliveries of the client's data, whether new or retransmitted.
fn silent_ns(log: &[PacketRecord]) -> u64 {
    const TWO_ROUND_TRIPS_NS: u64 = 40_000_000;
    let data = |row: &&PacketRecord| {
        row.direction == Direction::AToB && row.tcp.is_some_and(|tcp| tcp.payload_bytes > 0)
    };
    let there = log.iter().filter(data);
    let mut delivered_ns: Vec<u64> = there.filter_map(|row| row.delivered_ns).collect();
    delivered_ns.sort_unstable();
    let silences = delivered_ns.windows(2).map(|pair| pair[1] - pair[0]);
    silences.filter(|ns| *ns >= TWO_ROUND_TRIPS_NS).sum()
}

fn random_loss_that_hurts(congctl: &str) -> Result<Outcome, String> {
    let bulk = bulk_with_loss(congctl, 10_000);
    let why = format!("1 % loss did not hurt: {} bit/s", bulk.rate);
    (bulk.rate < 25e6)
        .then_some(bulk.recorded.into())
        .ok_or(why)
}

/// The measure is the rate of the path without loss, on this machine and now. BBR feels it, too,
/// where the end of the data is lost: nothing comes after that, and a timer repairs it. What must be
/// named of that starts at 5 % (docs/findings/README.md).
fn random_loss_that_does_not_hurt(congctl: &str) -> Result<Outcome, String> {
    let without = bulk_with_loss(congctl, 0).rate;
    let with = bulk_with_loss(congctl, 10_000);
    let why = format!(
        "bbr felt the loss: {} of {without} bit/s, silent for {}",
        with.rate, with.silence
    );
    let unfelt = with.rate > 0.85 * without && with.silence < 0.05;
    unfelt.then_some(with.recorded.into()).ok_or(why)
}

fn nothing_of_client(outcome: &Outcome) {
    outcome.report.assert_claims(outcome.client_id(), &[], &[]);
}

/// When loss begins, and how long it lasts.
const LOSS_AFTER_US: u64 = 1_500_000;
const LOSS_FOR_US: u64 = 2_500_000;

/// Bulk data over [`link`]; so much of it is lost from 1.5 s on, for 2.5 s. That must have hurt:
/// the rate in that time is a part of the rate before, by the wire's log.
fn bulk_with_late_loss(congctl: &str, loss_ppm: u32) -> Result<Outcome, String> {
    let window = LossWindow {
        after_us: LOSS_AFTER_US,
        for_us: LOSS_FOR_US,
        every_us: 0,
        loss_ppm,
    };
    let lossy = DirectionConfig {
        windows: vec![window],
        ..link(congctl)
    };
    let wire = start(congctl, lossy);
    let recorded = Site::over(&wire).record("sink", "stream --seconds 4");
    let log = wire.stop().1;
    let first_ns = log.first().map_or(0, |row| row.time_ns);
    // What arrived between two ages of the wire; the first half second is the start.
    let rate = |from_us: u64, to_us: u64| {
        let span_ns = first_ns + from_us * 1000..first_ns + to_us * 1000;
        let there = log.iter().filter(|row| row.direction == Direction::AToB);
        let arrived = there.filter(|row| row.delivered_ns.is_some_and(|at| span_ns.contains(&at)));
        let bytes: u64 = arrived.map(|row| u64::from(row.packet_bytes)).sum();
        bytes as f64 * 8.0 / (to_us - from_us) as f64
    };
    let before = rate(500_000, LOSS_AFTER_US);
    let during = rate(LOSS_AFTER_US, LOSS_AFTER_US + LOSS_FOR_US);
    let why = format!("loss did not hurt: {during:.1} Mbit/s after {before:.1}");
    let rates = json!({ "before": before, "during": during });
    let outcome = Outcome::from(recorded).with("mbit_per_s", rates);
    (during < 0.7 * before).then_some(outcome).ok_or(why)
}

fn late_loss_of_1_percent(congctl: &str) -> Result<Outcome, String> {
    bulk_with_late_loss(congctl, 10_000)
}

/// No congestion control keeps its rate.
fn late_loss_of_40_percent(congctl: &str) -> Result<Outcome, String> {
    bulk_with_late_loss(congctl, 400_000)
}

/// Loss is named: that which a timer repairs, or that which is repaired at once.
fn only_loss(outcome: &Outcome) {
    let claims = outcome.report.findings_above_info(outcome.client_id());
    let names_loss = |claim: &String| {
        claim.starts_with("fast_retransmits sending")
            || claim.starts_with("retransmit_timeouts sending")
    };
    assert!(
        !claims.is_empty() && claims.iter().all(names_loss),
        "{}",
        outcome.report.brief()
    );
}

fn black_hole(congctl: &str) -> Result<Outcome, String> {
    let wire = start(congctl, link(congctl));
    let site = Site::over(&wire);
    let recorded = site.record_with("", "sink", "stream --bytes 6000011", || {
        drop_sent_packets(&wire, 1_000_000_000);
    });
    Ok(recorded.into())
}

fn receive_only_client(congctl: &str) -> Result<Outcome, String> {
    let mut config = WireConfig::both(link(congctl));
    config.congctl = Some(congctl.to_owned());
    let wire = Wire::start(config).expect("a wire");
    let site = Site::over(&wire);
    Ok(site
        .record("push-server --seconds 1.5", "receive-only")
        .into())
}

fn client_receives(outcome: &Outcome) {
    let id = outcome.client_id();
    let (client, report) = (outcome.client_end(), &outcome.report);
    assert_eq!(client["sent_nothing"], true, "{client:#}");
    assert_eq!(client["stages"], json!({}), "{client:#}");
    assert!(client["receive"]["waiting_for_peer"]["share"].as_f64() > Some(0.5));
    assert!(report.findings(id).is_empty());
    let server = outcome.server_end();
    assert!(
        share(server, "sender_app") < Some(0.2),
        "{}",
        report.brief()
    );
    report.assert_claims(number(server, "/id"), &[], &[]);
}

/// How many connections are short-lived.
const SHORT_CONNECTIONS: usize = 23;

/// Every connection is there, judged over its own life, and found healthy. The client opens one for each request: over a path
/// that is harm.
fn all_judged(outcome: &Outcome) {
    let report = &outcome.report;
    report.assert_whole();
    for end in ["client", "server"] {
        let truths = outcome.truth[end]["connections"].as_array();
        let truths = truths.expect("connections");
        assert_eq!(truths.len(), SHORT_CONNECTIONS);
        for truth in truths {
            let id = number(truth, "/cookie");
            let connection = report.by_cookie(id);
            assert_eq!(connection["not_judged"], Value::Null, "{connection:#}");
            let stages = connection["stages"].as_object().expect("stages");
            let total: f64 = stages.values().filter_map(|s| s["share"].as_f64()).sum();
            assert!((total - 1.0).abs() < 1e-6, "shares add up to {total}");
            report.assert_claims(id, &[], &["connection_churn"]);
        }
    }
}

fn short_connections(site: &Site, detail: &str) -> Outcome {
    let server = format!("reply-server --connections {SHORT_CONNECTIONS}");
    let client = format!("short-lived --count {SHORT_CONNECTIONS}");
    let detail = format!("--detail {detail}");
    site.record_with(&detail, &server, &client, || ()).into()
}

fn connections_of_5_ms(congctl: &str) -> Result<Outcome, String> {
    Ok(short_connections(&Site::loopback(congctl), "calls"))
}

fn connections_of_5_ms_by_stats(congctl: &str) -> Result<Outcome, String> {
    Ok(short_connections(&Site::loopback(congctl), "stats"))
}

/// The same over a path of 6 ms: most of their life the data is on its way.
const PATH_NS: f64 = 6e6;

fn connections_of_5_ms_in_flight(congctl: &str) -> Result<Outcome, String> {
    Ok(short_connections(
        &Site::over(&wire(congctl, 3_000)),
        "calls",
    ))
}

fn connections_of_5_ms_in_flight_by_stats(congctl: &str) -> Result<Outcome, String> {
    Ok(short_connections(
        &Site::over(&wire(congctl, 3_000)),
        "stats",
    ))
}

fn all_judged_in_flight(outcome: &Outcome) {
    all_judged(outcome);
    let most_ns = idle_beyond_ns(outcome).into_iter().fold(f64::MIN, f64::max);
    assert!(
        most_ns <= 0.0,
        "idle for {most_ns} ns while data was on its way"
    );
}

/// Without the ledger the kernel's own clock counts. Its ticks may be late: by how much, for
/// one connection, nobody knows.
fn all_judged_in_flight_by_stats(outcome: &Outcome) {
    all_judged(outcome);
    let beyond_ns = idle_beyond_ns(outcome);
    let mean_ns = beyond_ns.iter().sum::<f64>() / beyond_ns.len() as f64;
    assert!(
        mean_ns <= 0.0,
        "idle for {mean_ns} ns while data was on its way"
    );
}

/// The least idle time that was claimed beyond what is possible, of each connection.
fn idle_beyond_ns(outcome: &Outcome) -> Vec<f64> {
    let truths = outcome.truth["client"]["connections"].as_array();
    let beyond_ns = |truth: &Value| {
        let client = outcome.report.by_cookie(number(truth, "/cookie"));
        let life_ns = number(client, "/lifetime_ns") as f64;
        let least_ns = number(truth, "/closed_ns") - number(truth, "/opened_ns");
        assert!(life_ns >= least_ns as f64, "{client:#} {truth}");
        let idle = &client["stages"]["sender_app"];
        let (Some(idle), Some(bound)) = (idle["share"].as_f64(), idle["bound"].as_f64()) else {
            panic!("sender_app was not judged: {client:#}");
        };
        (idle - bound - 1.0) * life_ns + PATH_NS
    };
    truths.expect("connections").iter().map(beyond_ns).collect()
}

fn quick_request_and_reply(congctl: &str) -> Result<Outcome, String> {
    let site = Site::loopback(congctl);
    Ok(site
        .record("reply-server", "request-reply --rounds 1009")
        .into())
}

fn quick_is_healthy(outcome: &Outcome) {
    nothing_of_client(outcome);
    let server = number(outcome.server_end(), "/id");
    outcome.report.assert_claims(server, &[], &[]);
    outcome.report.assert_whole();
}
