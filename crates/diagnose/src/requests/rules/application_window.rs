//! The other end sends a part of its data, and waits for a small message of this one before it sends the next: a window in the
//! application, on top of TCP's. Each part costs a round trip of the path.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    direct_confidence, duration_facts, make_advice, make_fact, number, of_time, rule_out, time_fact,
};
use crate::report::severity::held_up;
use crate::report::{Fact, FactUnit, FactValue, RuleDoubt, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::ServiceCase;
use crate::requests::runs::{RunDigest, SERIES_LEAST};
use crate::units::{format_bytes, quantity};

/// The rule `application_window`.
pub struct ApplicationWindow;

const PARTS: &[RequestPart] = &[RequestPart::Network];

impl RequestRule for ApplicationWindow {
    fn id(&self) -> RuleId {
        RuleId::ApplicationWindow
    }

    fn summary(&self) -> &'static str {
        "The sender waits for a small message from the receiver before it sends more data"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let runs = &case.digest.runs;
        if case.is_server() {
            return RequestVerdict::Quiet;
        }
        // most of the series are such messages, and the path takes most of their time
        let is_window = 2 * runs.credits.count > runs.requests;
        let is_path = 2 * runs.round_trips_ns >= runs.duration_ns;
        match runs.runs {
            0 => doubt_verdict(case),
            _ if is_window && is_path => RequestVerdict::Fires(Box::new(finding(case, runs))),
            _ => RequestVerdict::Quiet,
        }
    }
}

/// Makes the finding: senders wait for small messages that let them go on.
fn finding(case: &ServiceCase<'_>, runs: &RunDigest) -> RequestFinding {
    let credits = runs.credits;
    let mut facts = vec![
        number(
            "credits",
            credits.count,
            "small messages after which the sender went on",
        ),
        bytes_of(
            "window_bytes",
            credits.bytes / credits.count.max(1),
            "data after such a message (mean)",
        ),
        bytes_of(
            "window_max_bytes",
            credits.most_bytes,
            "data after such a message (most)",
        ),
    ];
    let path = case.digest.path_ns;
    facts.extend(path.map(|ns| time_fact("min_rtt_ns", ns, "min RTT of the path")));
    facts.extend(duration_facts(case));
    RequestFinding {
        parts: PARTS.to_vec(),
        harm_ns: runs.round_trips_ns,
        remedy: Remedy::Avoidable,
        headline: format!(
            "A window of the application limits {}: the sender waits for a message after {} at most, {}.",
            case.title(),
            format_bytes(credits.most_bytes),
            of_time(case, runs.round_trips_ns)
        ),
        facts,
        ruled_out: rule_out(
            case,
            &[
                ("the other end", &[RequestPart::Remote]),
                ("the receive window of TCP", &[RequestPart::ReceiverWindow]),
                ("computing", &[RequestPart::Cpu]),
            ],
        ),
        could_not_see: vec!["What the small messages are: whylat reads no payload.".to_owned()],
        advice: make_advice(FIXES),
        gain: Some("the sender need not wait for the messages"),
        confidence: direct_confidence(case, "each message and the data after it were measured"),
        ..RequestFinding::new(case)
    }
}

const FIXES: [&str; 3] = [
    "Make the window as large as the path needs: rate × round trip. HTTP/2 begins with 65,535 bytes (RFC 9113, \
        6.9.2). gRPC in Go: grpc.WithInitialWindowSize and WithInitialConnWindowSize. gRPC in Java: \
        NettyChannelBuilder.flowControlWindow. h2 and hyper: initial_stream_window_size. nginx: \
        http2_body_preread_size for uploads.",
    "Let the receiver send its message earlier: after half of the window.",
    "Use several connections or streams, if the protocol has a window for each.",
];

/// Makes a fact in bytes.
fn bytes_of(name: &'static str, value: u64, label: &'static str) -> Fact {
    make_fact(name, FactValue::Whole(value), FactUnit::Bytes, label)
}

/// Returns an undecided verdict: no sample shows how long the path takes.
fn doubt_verdict(case: &ServiceCase<'_>) -> RequestVerdict {
    let credits = case.digest.series.credits;
    let remote = case.harm(&[RequestPart::Remote]);
    let is_often = credits >= SERIES_LEAST && 2 * credits > case.requests();
    if !is_often || case.digest.path_ns.is_some() || !held_up(remote.ns, case.total_ns()) {
        return RequestVerdict::Quiet;
    }
    let mut facts = duration_facts(case);
    facts.push(number(
        "credits",
        credits,
        "small messages after which the sender went on",
    ));
    RequestVerdict::undecided(
        format!(
            "{} waited for data after {}. The recording does not show how long the path takes.",
            case.key.name,
            quantity(credits, "small message")
        ),
        RuleDoubt {
            candidates: vec![RuleId::ApplicationWindow, RuleId::RemoteSlow],
            concerned_ns: remote.ns,
            facts,
            why: "No sample has the round trip of the path.",
            would_help: Some("Record for longer, so that connections are sampled."),
        },
    )
}
