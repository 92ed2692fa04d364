//! Requests in series over a path: each waits for the response to the one before, and most of their time is the round trip.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    direct_confidence, duration_facts, make_advice, number, of_requests, of_time, rule_out,
    time_fact,
};
use crate::report::severity::held_up;
use crate::report::{RuleDoubt, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::ServiceCase;
use crate::requests::runs::{RunDigest, SERIES_LEAST};
use crate::units::quantity;

/// The rule `serial_round_trips`.
pub struct SerialRoundTrips;

const PARTS: &[RequestPart] = &[RequestPart::Network];

impl RequestRule for SerialRoundTrips {
    fn id(&self) -> RuleId {
        RuleId::SerialRoundTrips
    }

    fn summary(&self) -> &'static str {
        "Requests go one after another, and the round trips of the path take their time"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let runs = &case.digest.runs;
        if case.is_server() || case.is_claimed(RequestPart::Network) {
            return RequestVerdict::Quiet;
        }
        match runs.runs {
            0 => doubt_verdict(case),
            // the path takes most of the time, else another cause is what makes them slow
            _ if runs.round_trips_ns * 2 >= runs.duration_ns => {
                RequestVerdict::Fires(Box::new(finding(case, runs)))
            }
            _ => RequestVerdict::Quiet,
        }
    }
}

/// Makes the finding: a thread sends requests one after the other, and waits for each.
fn finding(case: &ServiceCase<'_>, runs: &RunDigest) -> RequestFinding {
    let each = |sum_ns: u64| sum_ns / runs.requests.max(1);
    let mut facts = vec![
        number("series_requests", runs.requests, "requests in series"),
        number(
            "series_longest",
            runs.longest,
            "requests of the longest series",
        ),
    ];
    facts.extend(min_rtt_ns(case).map(|ns| time_fact("min_rtt_ns", ns, "min RTT of the path")));
    facts.extend(duration_facts(case));
    let gap_ns = each(runs.gaps_ns);
    let label = "gap from a response to the next request (mean)";
    facts.push(time_fact("series_gap_ns", gap_ns, label));
    let beyond_ns = each(runs.duration_ns.saturating_sub(runs.round_trips_ns));
    let label = "duration of a request beyond the round trip (mean)";
    facts.push(time_fact("beyond_round_trip_ns", beyond_ns, label));
    let requests = quantity(runs.requests, "request");
    RequestFinding {
        parts: PARTS.to_vec(),
        harm_ns: runs.round_trips_ns,
        remedy: Remedy::Avoidable,
        headline: format!(
            "Network round trips make the requests slow: {requests} from {}, one after another, {}.",
            case.title(),
            of_time(case, runs.round_trips_ns)
        ),
        facts,
        ruled_out: rule_out(
            case,
            &[
                ("the other end", &[RequestPart::Remote]),
                ("computing", &[RequestPart::Cpu]),
                ("connecting", &[RequestPart::Connect, RequestPart::Dns]),
                (
                    "delayed ACKs",
                    &[RequestPart::DelayedAck, RequestPart::Nagle],
                ),
                (
                    "retransmissions",
                    &[
                        RequestPart::RetransmitTimeout,
                        RequestPart::TailLoss,
                        RequestPart::FastRetransmit,
                    ],
                ),
            ],
        ),
        could_not_see: vec![
            "Whether a request needs the response to the one before. If so, it must wait for it."
                .to_owned(),
        ],
        advice: make_advice([
            "Ask for many rows or keys in one request: INSERT of many rows, COPY, psycopg2's execute_values, JDBC's \
                addBatch(), MGET. Or use a JOIN or IN (…) instead of a query for each row.",
            "Send the next request before the response: pipeline mode of psycopg 3 and libpq, pipelines of redis clients.",
            "If the requests do not depend on each other, send them in parallel, with several connections or \
                HTTP/2 streams.",
            "Move the program nearer to the other end, or use a cache near the program.",
        ]),
        gain: Some("each series takes one round trip"),
        confidence: direct_confidence(
            case,
            "the order of requests and the path's round trip were measured",
        ),
        ..RequestFinding::new(case)
    }
}

/// Returns an undecided verdict: the RTT of the path is unknown.
fn doubt_verdict(case: &ServiceCase<'_>) -> RequestVerdict {
    let waited = case.harm(&[RequestPart::Remote]);
    let has_paths = !case.is_within_host() && min_rtt_ns(case).is_none();
    let is_slow = held_up(waited.ns, case.total_ns()) && waited.share >= 0.5;
    let series = &case.digest.series;
    // the mean pause is no longer than a request, else it is not one after another
    let is_series = series.followed >= SERIES_LEAST
        && series.followed > series.overlapping
        && series.followed_gaps_ns / series.followed <= case.quantile_ns(0.5);
    if !has_paths || !is_slow || !is_series {
        return RequestVerdict::Quiet;
    }
    RequestVerdict::undecided(
        format!(
            "{} waited one after another for the other end. The recording does not show how much of this is the path.",
            of_requests(case)
        ),
        RuleDoubt {
            candidates: vec![RuleId::SerialRoundTrips],
            concerned_ns: waited.ns,
            facts: duration_facts(case),
            why: "No statistics of the connections were recorded, so the round trip of the path is unknown.",
            would_help: Some("Compare with `ping` to the other end."),
        },
    )
}

/// Returns the smallest round trip of the service's connections.
fn min_rtt_ns(case: &ServiceCase<'_>) -> Option<u64> {
    case.endpoints().filter_map(|it| it.min_rtt_ns).min()
}
