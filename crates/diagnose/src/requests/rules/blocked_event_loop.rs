//! A few long requests keep the thread that serves all, and the others wait behind them.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    LACK_OF_CPU, direct_confidence, duration_facts, make_advice, number, of_time, rule_out,
    share_fact, time_fact,
};
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::blockers::BlockerDigest;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::{count, duration, percent, quantity, ratio_of};

/// The rule `blocked_event_loop`.
pub struct BlockedEventLoop;

/// Requests that wait behind long ones are shorter, or all are about alike: if their times are spread as chance spreads them
/// (exponential), half of this time would be waited anyway.
const UNEVEN_LEAST: f64 = 0.5;

impl RequestRule for BlockedEventLoop {
    fn id(&self) -> RuleId {
        RuleId::BlockedEventLoop
    }

    fn summary(&self) -> &'static str {
        "A few long requests keep the thread that serves all, and the others wait behind them"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        if !case.is_server() || case.is_claimed(RequestPart::Queued) {
            return RequestVerdict::Quiet;
        }
        let queued = case.harm(&[RequestPart::Queued]);
        if queued.ns == 0 || !case.evidence.has_waits() {
            return RequestVerdict::Quiet;
        }
        let blockers = &case.digest.blockers;
        let is_few = blockers.count * 2 <= case.requests();
        // Without the table `preemptions` long requests may be ones that had no CPU.
        let is_known = case.evidence.has_preemptions();
        let is_uneven = blockers.waited_ns > 0 && blockers.uneven_share() >= UNEVEN_LEAST;
        match is_known && is_few && is_uneven {
            true => RequestVerdict::Fires(Box::new(finding(case, blockers, &queued))),
            false => RequestVerdict::Quiet,
        }
    }
}

/// Returns the harm of waiting behind long requests, as a part of the time in queues.
fn harm_behind(case: &ServiceCase<'_>, ns: u64, queued: &PartHarm) -> PartHarm {
    let share = ratio_of(ns, queued.ns).min(1.0);
    PartHarm {
        ns,
        share: ratio_of(ns, case.total_ns()),
        excess_ns: (queued.excess_ns as f64 * share) as u64,
        excess_share: queued.excess_share * share,
    }
}

/// Makes the finding: requests waited behind long requests of the same thread.
fn finding(case: &ServiceCase<'_>, blockers: &BlockerDigest, queued: &PartHarm) -> RequestFinding {
    let harm = harm_behind(case, blockers.waited_ns, queued);
    let (why, why_share) = blockers.largest_part();
    let mut facts = duration_facts(case);
    facts.extend([
        time_fact("queued_ns", harm.ns, "wait behind long requests"),
        share_fact("queued_share", harm.share, "of the time of requests"),
        share_fact(
            "queue_share",
            ratio_of(harm.ns, queued.ns),
            "of all time in queues",
        ),
        number(
            "waiters",
            blockers.waiters,
            "request(s) waited behind long ones",
        ),
        number(
            "queue_most",
            case.digest.queue_most,
            "request(s) waited for at a time, at most",
        ),
        number(
            "long_requests",
            blockers.count,
            "long request(s) while others waited",
        ),
        time_fact(
            "long_from_ns",
            blockers.least_ns,
            "time that the shortest of these kept its thread",
        ),
        time_fact(
            "long_most_ns",
            blockers.longest.map_or(0, |it| it.kept_ns),
            "time that the longest of these kept its thread",
        ),
    ]);
    RequestFinding {
        parts: vec![RequestPart::Queued, why],
        involved: name_involved(case, blockers, (why, why_share)),
        headline: format!(
            "Long requests block {}: others waited {} behind {} of {}.",
            case.title(),
            of_time(case, harm.ns),
            count(blockers.count),
            quantity(case.requests(), "request"),
        ),
        facts,
        ruled_out: rule_out(
            case,
            &[
                ("lack of CPU", LACK_OF_CPU),
                ("disk", &[RequestPart::Disk]),
                ("locks", &[RequestPart::Lock]),
            ],
        ),
        could_not_see: vec!["What the long requests ask for: whylat reads no payload.".to_owned()],
        advice: make_advice([
            "Make the long requests short: in redis `SCAN` in place of `KEYS`, `UNLINK` in place of `DEL`, small ranges; \
             `SLOWLOG GET` names them.",
            "Do long work in another thread or process: Node.js worker threads, asyncio `run_in_executor`.",
            "Send them to another server: a replica.",
        ]),
        gain: Some("no request is long"),
        confidence: direct_confidence(
            case,
            "the wait of each request and the activity of its thread were measured",
        ),
        ..RequestFinding::from_harm(case, &harm, Remedy::Avoidable)
    }
}

/// Names the connection with the long requests, one of them, and the function that ran.
fn name_involved(
    case: &ServiceCase<'_>,
    blockers: &BlockerDigest,
    (why, share): (RequestPart, f64),
) -> Vec<String> {
    let names = case.evidence.names();
    let mut lines = Vec::new();
    if let Some(longest) = blockers.longest {
        let conn = case.evidence.table.endpoints.get(longest.endpoint).conn;
        let request = longest.id(conn);
        let request = request.map_or_else(|| "one".to_owned(), |id| id.to_string());
        lines.push(format!(
            "the longest is {request} on {}: {}",
            names.connection(conn).name,
            duration(longest.kept_ns)
        ));
    }
    lines.push(format!("their time: {} {}", why.text(), percent(share)));
    let process = case.process().pid.filter(|_| why == RequestPart::Cpu);
    if let Some((name, share)) =
        process.and_then(|pid| case.evidence.digests.functions.of_process(pid))
    {
        lines.push(format!(
            "{} ran {name} ({} of its CPU time)",
            case.key.name,
            percent(share)
        ));
    }
    lines
}
