//! One of several processes that serve at an address has more connections than an even spread gives it: its requests wait
//! behind each other while other workers have nothing to do.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    direct_confidence, duration_facts, make_advice, number, of_requests, of_time, rule_out,
    share_fact, time_fact,
};
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::ServiceCase;
use crate::requests::workers::{WorkerLife, WorkerSpread};
use crate::units::{quantity, ratio_of};

/// The rule `uneven_workers`.
pub struct UnevenWorkers;

const PARTS: &[RequestPart] = &[RequestPart::Queued, RequestPart::Unread];

impl RequestRule for UnevenWorkers {
    fn id(&self) -> RuleId {
        RuleId::UnevenWorkers
    }

    fn summary(&self) -> &'static str {
        "One worker has most of the connections while others are idle"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        if !case.is_server() || !case.evidence.has_waits() {
            return RequestVerdict::Quiet;
        }
        let spread = case.digest.workers.spread(&listening_workers(case));
        let avoidable_ns: u64 = spread.workers.iter().map(|it| it.avoidable_ns).sum();
        // time on the path of requests is what counts: not that of a client that does not wait
        let harm_ns = avoidable_ns.min(case.harm(PARTS).ns);
        // one connection at a time, as of clients that connect for each request, cannot be spread better
        let has_several = spread.workers.first().is_some_and(|it| it.connections > 1);
        if spread.number < 2 || harm_ns == 0 || !has_several {
            return RequestVerdict::Quiet;
        }
        RequestVerdict::Fires(Box::new(finding(case, &spread, harm_ns)))
    }
}

/// Returns the processes that have a listening socket of their own at the address.
fn listening_workers(case: &ServiceCase<'_>) -> Vec<WorkerLife> {
    let all = case.evidence.names().listeners_at(&case.key.address);
    let life = |listener: &table::tables::Connection| {
        Some(WorkerLife {
            pid: listener.pid?,
            begin_ns: listener.opened_ns.unwrap_or(0),
            end_ns: listener.closed_ns.unwrap_or(u64::MAX),
        })
    };
    all.into_iter().filter_map(life).collect()
}

/// Makes the finding: some workers are busy while others are idle.
fn finding(case: &ServiceCase<'_>, spread: &WorkerSpread, harm_ns: u64) -> RequestFinding {
    let worst = spread.workers.first().copied().unwrap_or_default();
    let others = spread.workers.iter().skip(1);
    let others_ns: u64 = others.map(|it| it.busy_ns).sum();
    let others_ns = others_ns / (spread.number - 1).max(1);
    let name = case.evidence.names().process(worst.pid).title();
    let mut facts = duration_facts(case);
    facts.extend([
        number("workers", spread.number, "worker(s) at this address"),
        number("connections", spread.connections, "connections in use"),
        number(
            "connections_of_worst",
            worst.connections,
            "of them at one worker",
        ),
        share_fact(
            "requests_of_worst",
            ratio_of(worst.requests, case.requests()),
            "of the requests at that worker",
        ),
        share_fact(
            "busy",
            ratio_of(worst.busy_ns, spread.span_ns),
            "of the time that worker had a request",
        ),
        share_fact(
            "busy_others",
            ratio_of(others_ns, spread.span_ns),
            "of the time the other workers had a request, on average",
        ),
        time_fact(
            "avoidable_ns",
            harm_ns,
            "wait at that worker while other workers were idle",
        ),
    ]);
    RequestFinding {
        parts: PARTS.to_vec(),
        harm_ns,
        remedy: Remedy::Avoidable,
        headline: format!(
            "{name} has {} of {}, while others of {} workers are idle: {} waited {}.",
            worst.connections,
            quantity(spread.connections, "connection"),
            spread.number,
            of_requests(case),
            of_time(case, harm_ns)
        ),
        facts,
        ruled_out: rule_out(
            case,
            &[
                ("computing", &[RequestPart::Cpu]),
                (
                    "lack of CPU",
                    &[
                        RequestPart::RunQueue,
                        RequestPart::Preempted,
                        RequestPart::CpuQuota,
                    ],
                ),
                ("locks", &[RequestPart::Lock]),
                ("disks", &[RequestPart::Disk]),
            ],
        ),
        could_not_see: blind_spots(spread),
        advice: make_advice([
            "Let an idle worker take the next connection: all workers wait for one listening socket with \
                EPOLLEXCLUSIVE. SO_REUSEPORT spreads connections by a hash, also to busy workers. nginx: \
                `listen` without `reuseport`. Envoy: `connection_balance_config: exact_balance`.",
            "Keep SO_REUSEPORT, and choose the socket yourself: SO_ATTACH_REUSEPORT_CBPF or _EBPF.",
            "Close connections sometimes, so that they are spread again: nginx `keepalive_requests`, Envoy \
                `max_requests_per_connection`, gRPC MAX_CONNECTION_AGE. Or balance requests, not connections.",
        ]),
        gain: Some("no worker has more connections than an even spread gives it"),
        confidence: direct_confidence(
            case,
            "begin, end and serving process of each request were measured",
        ),
        ..RequestFinding::new(case)
    }
}

fn blind_spots(spread: &WorkerSpread) -> Vec<String> {
    let cut = "How the requests after the first 65,536 were spread.";
    spread.is_cut.then(|| cut.to_owned()).into_iter().collect()
}
