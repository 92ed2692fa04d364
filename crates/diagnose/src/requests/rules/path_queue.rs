//! Requests wait in a queue on the path: round trips take far longer than the path without a queue. A slow link with a deep queue
//! does this when one transfer fills it, of this host or of another one ("bufferbloat").

use std::collections::BTreeMap;

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    duration_facts, make_advice, number, of_requests, of_time, rule_out, time_fact,
};
use crate::kernel::TCP_DELACK_MAX_NS;
use crate::report::{Confidence, ConfidenceLevel, Fact, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::ServiceCase;
use crate::requests::digests::round_trips::{CODEL_TARGET_NS, RoundTripInterval};
use crate::requests::endpoint::Endpoint;
use crate::rows::addresses::host;
use crate::units::{duration, format_rate};

/// The rule `path_queue`.
pub struct PathQueue;

/// Time beyond the path's min RTT counts as the other end's, if that was not recorded.
const PART_OF_OTHER_END: RequestPart = RequestPart::Remote;
/// If it was, all of the path's time is known.
const PART_OF_PATH: RequestPart = RequestPart::Network;

/// Transfers that are named.
const NAMED_MOST: usize = 3;

impl RequestRule for PathQueue {
    fn id(&self) -> RuleId {
        RuleId::PathQueue
    }

    fn summary(&self) -> &'static str {
        "Requests wait in a queue on the path"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let queue = QueueSums::new(case);
        let is_claimed = queue.parts(case).iter().any(|part| case.is_claimed(*part));
        if case.is_server() || is_claimed {
            return RequestVerdict::Quiet;
        }
        match queue.harm_ns(case) {
            0 => RequestVerdict::Quiet,
            harm_ns => RequestVerdict::Fires(Box::new(finding(case, &queue, harm_ns))),
        }
    }
}

/// Round trips of a service's connections that took longer by a queue.
#[derive(Debug, Default)]
struct QueueSums {
    /// Smallest round trip to the other host, ns.
    min_ns: u64,
    /// Samples of all intervals.
    samples: u64,
    /// Samples of the intervals with a queue, and their sum, ns.
    queued_samples: u64,
    queued_sum_ns: u64,
    /// Samples that a delayed ACK could not explain, whatever other connections show.
    beyond_delayed_acks: u64,
    /// Transfers with the same queue: segments sent meanwhile, by connection, and the time of these intervals, ns.
    transfers: BTreeMap<u64, (u64, u64)>,
}

impl QueueSums {
    /// Adds up the round trips of a service's connections.
    fn new(case: &ServiceCase<'_>) -> Self {
        let mut sums = Self::default();
        let Some(min_ns) = min_rtt_ns(case) else {
            return sums;
        };
        sums.min_ns = min_ns;
        for endpoint in case.endpoints().filter(|it| !it.is_within_host) {
            if let Some(own) = case.evidence.digests.round_trips.connection(endpoint.conn) {
                sums.samples += own.samples;
                let long = own.long.iter();
                long.for_each(|interval| sums.add(case, endpoint, interval));
            }
        }
        sums
    }

    /// Adds an interval of a connection, if a queue made its round trips longer.
    fn add(&mut self, case: &ServiceCase<'_>, endpoint: &Endpoint, interval: &RoundTripInterval) {
        let excess_ns = interval.mean_ns().saturating_sub(self.min_ns);
        // A queue as long as the path's round trip is what congestion control by loss needs: the rule of thumb of one
        // bandwidth-delay product (Villamizar and Song, 1994).
        if excess_ns < self.min_ns.max(CODEL_TARGET_NS) {
            return;
        }
        let transfers = transfers_with(case, endpoint, interval, excess_ns);
        let is_beyond = excess_ns > TCP_DELACK_MAX_NS;
        if !is_beyond && transfers.is_empty() && !interval.is_bulk() {
            return;
        }
        self.queued_samples += interval.samples;
        self.queued_sum_ns += interval.sum_ns;
        if is_beyond {
            self.beyond_delayed_acks += interval.samples;
        }
        for (conn, other) in transfers {
            let known = self.transfers.entry(conn).or_default();
            known.0 += other.segments;
            known.1 += other.length_ns();
        }
    }

    /// Returns the mean round trip while there was a queue, ns.
    fn mean_ns(&self) -> u64 {
        self.queued_sum_ns / self.queued_samples.max(1)
    }

    /// Returns the time of requests in the queue, ns: each has a round trip, and as many of them as of the samples a longer one.
    fn harm_ns(&self, case: &ServiceCase<'_>) -> u64 {
        let excess_ns = self.mean_ns().saturating_sub(self.min_ns);
        let all = u128::from(case.requests()) * u128::from(self.queued_samples);
        let queued_ns = all * u128::from(excess_ns) / u128::from(self.samples.max(1));
        let beyond_ns = case.part_ns(PART_OF_OTHER_END) + self.path_beyond_ns(case);
        u64::try_from(queued_ns).unwrap_or(u64::MAX).min(beyond_ns)
    }

    /// Returns the time of requests on the path that is known to be so, beyond a round trip without a queue for each, ns.
    fn path_beyond_ns(&self, case: &ServiceCase<'_>) -> u64 {
        let round_trips_ns = self.min_ns.saturating_mul(case.requests());
        case.part_ns(PART_OF_PATH).saturating_sub(round_trips_ns)
    }

    /// Returns the parts of requests that hold the time in the queue.
    fn parts(&self, case: &ServiceCase<'_>) -> Vec<RequestPart> {
        match self.path_beyond_ns(case) > case.part_ns(PART_OF_OTHER_END) {
            true => vec![PART_OF_OTHER_END, PART_OF_PATH],
            false => vec![PART_OF_OTHER_END],
        }
    }
}

/// Returns the smallest round trip of all connections to the service's hosts, ns; `None` without samples.
fn min_rtt_ns(case: &ServiceCase<'_>) -> Option<u64> {
    case.endpoints().filter_map(|it| it.min_rtt_ns).min()
}

/// Returns the other connections to the same host with many segments in flight meanwhile, and round trips that are
/// longer by the same queue: twice or half as long at most. A transfer to another host may wait in another queue.
fn transfers_with(
    case: &ServiceCase<'_>,
    endpoint: &Endpoint,
    interval: &RoundTripInterval,
    excess_ns: u64,
) -> Vec<(u64, RoundTripInterval)> {
    let names = case.evidence.names();
    let own = names.row(endpoint.conn);
    let is_same_queue = |(conn, other): &(u64, RoundTripInterval)| {
        let row = names.row(*conn);
        let is_here = own.zip(row).is_some_and(|(own, row)| {
            own.netns == row.netns && host(&own.remote) == host(&row.remote)
        });
        let path = case.evidence.digests.round_trips.path(*conn);
        let min_ns = path.map_or(u64::MAX, |it| it.min_rtt_ns);
        let other_ns = other.mean_ns().saturating_sub(min_ns);
        let is_alike = other_ns <= 2 * excess_ns && excess_ns <= 2 * other_ns;
        *conn != endpoint.conn && is_here && is_alike
    };
    let beside = case.evidence.digests.round_trips.transfers_beside(interval);
    beside.into_iter().filter(is_same_queue).collect()
}

/// Makes the finding: a queue on the path delays requests.
fn finding(case: &ServiceCase<'_>, queue: &QueueSums, harm_ns: u64) -> RequestFinding {
    RequestFinding {
        parts: queue.parts(case),
        harm_ns,
        involved: name_transfers(case, queue),
        remedy: Remedy::Avoidable,
        headline: format!(
            "A queue on the path delays {}: {}. A round trip took {} then, and {} without the queue.",
            of_requests(case),
            of_time(case, harm_ns),
            duration(queue.mean_ns()),
            duration(queue.min_ns)
        ),
        facts: collect_facts(case, queue, harm_ns),
        ruled_out: rule_out(
            case,
            &[
                (
                    "retransmissions",
                    &[
                        RequestPart::RetransmitTimeout,
                        RequestPart::TailLoss,
                        RequestPart::FastRetransmit,
                    ],
                ),
                ("computing", &[RequestPart::Cpu]),
                ("connecting", &[RequestPart::Connect, RequestPart::Dns]),
            ],
        ),
        could_not_see: could_not_see(queue),
        advice: make_advice(FIXES),
        gain: Some("the queue stays short"),
        confidence: confidence(queue),
        ..RequestFinding::new(case)
    }
}

const FIXES: [&str; 3] = [
    "At the slow link, use a qdisc that keeps queues short: `tc qdisc replace dev DEV root cake bandwidth RATE`, or fq_codel \
     below an htb or tbf. RATE is a little less than the link's, so that the queue is there (RFC 7567, RFC 8290).",
    "Limit the transfers that fill the link, or move them to another time: `curl --limit-rate`, `rsync --bwlimit`, SO_MAX_PACING_RATE.",
    "Use BBR for these transfers: it keeps the queue short (`ip route change … congctl bbr`, TCP_CONGESTION).",
];

/// Returns the transfers of this host that have the same queue, with their rates.
fn name_transfers(case: &ServiceCase<'_>, queue: &QueueSums) -> Vec<String> {
    let names = case.evidence.names();
    let mut all: Vec<_> = queue.transfers.iter().collect();
    all.sort_by_key(|(conn, (segments, _))| (std::cmp::Reverse(*segments), **conn));
    let name = |(conn, (segments, ns)): (&u64, &(u64, u64))| {
        let row = names.row(*conn)?;
        let path = case.evidence.digests.round_trips.path(*conn)?;
        let mss = u64::from(path.mss_bytes);
        let who = row
            .pid
            .map_or_else(|| "a process".to_owned(), |pid| names.process(pid).title());
        let bytes = segments.saturating_mul(mss) as f64;
        let rate = bytes * 1e9 / (*ns).max(1) as f64;
        Some(format!(
            "{who} sent {} to {} meanwhile",
            format_rate(rate),
            row.remote
        ))
    };
    all.into_iter().filter_map(name).take(NAMED_MOST).collect()
}

fn collect_facts(case: &ServiceCase<'_>, queue: &QueueSums, harm_ns: u64) -> Vec<Fact> {
    let mut facts = vec![
        time_fact("queue_ns", harm_ns, "wait in the queue"),
        time_fact(
            "queued_rtt_ns",
            queue.mean_ns(),
            "round trip while there was a queue (mean)",
        ),
        time_fact("min_rtt_ns", queue.min_ns, "min RTT of the path"),
        number(
            "queued_samples",
            queue.queued_samples,
            "round trips measured then",
        ),
        number("rtt_samples", queue.samples, "round trips measured in all"),
    ];
    facts.extend(duration_facts(case));
    facts
}

/// Returns what the recording does not show of the queue.
fn could_not_see(queue: &QueueSums) -> Vec<String> {
    let which = "Which link has the queue.".to_owned();
    let who = "Which transfers fill it: none that is recorded here.".to_owned();
    let who = queue.transfers.is_empty().then_some(who);
    [which].into_iter().chain(who).collect()
}

/// Returns how sure the finding is: a transfer shows the same queue, or no receiver delays ACKs for so long.
fn confidence(queue: &QueueSums) -> Confidence {
    match queue.transfers.is_empty() {
        false => Confidence {
            level: ConfidenceLevel::High,
            because: "a transfer with many segments in flight had the same round trips".to_owned(),
        },
        true => Confidence {
            level: ConfidenceLevel::Medium,
            because: "round trips took longer than receivers delay ACKs (Linux: 200 ms)".to_owned(),
        },
    }
}
