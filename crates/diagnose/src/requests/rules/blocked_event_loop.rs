//! A few long requests keep the thread that serves all, and the others wait behind them.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    LACK_OF_CPU, direct_confidence, duration_facts, make_advice, number, of_time, rule_out,
    share_fact, time_fact,
};
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::blockers::LongRequests;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::{count, duration, percent, quantity, ratio_of};

/// The rule `blocked_event_loop`.
pub struct BlockedEventLoop;

/// Long requests make most of the queue, or it is of requests that are all alike.
const QUEUE_LEAST: f64 = 0.5;

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
        let long = case.digest.blockers.long_requests(case.evidence.jiffy_ns());
        let harm = harm_behind(case, &long, &queued);
        let is_few = long.count * 2 <= case.requests();
        // Without the table `preemptions` long requests may be ones that had no CPU.
        let is_known = case.evidence.has_preemptions();
        match is_known && is_few && long.queue_share >= QUEUE_LEAST && harm.ns > 0 {
            true => RequestVerdict::Fires(Box::new(finding(case, &long, &harm))),
            false => RequestVerdict::Quiet,
        }
    }
}

/// Returns the time that requests waited behind the long ones: their share of the queue, at most what all other
/// connections can wait while these are served.
fn harm_behind(case: &ServiceCase<'_>, long: &LongRequests, queued: &PartHarm) -> PartHarm {
    let others = case.digest.series.connections.saturating_sub(1);
    let most_ns = long.blocking_ns.saturating_mul(others);
    let ns = ((queued.ns as f64 * long.queue_share) as u64).min(most_ns);
    let share = ratio_of(ns, queued.ns);
    PartHarm {
        ns,
        share: ratio_of(ns, case.total_ns()),
        excess_ns: (queued.excess_ns as f64 * share) as u64,
        excess_share: queued.excess_share * share,
    }
}

fn finding(case: &ServiceCase<'_>, long: &LongRequests, harm: &PartHarm) -> RequestFinding {
    let longest = case.digest.blockers.longest_request();
    let most_ns = longest.map_or(0, |it| it.kept_ns);
    let largest = long.parts.largest();
    let why = largest
        .first()
        .map_or(RequestPart::Unknown, |(part, _)| *part);
    let mut facts = duration_facts(case);
    facts.extend([
        time_fact("queued_ns", harm.ns, "waited behind long requests"),
        share_fact("queued_share", harm.share, "of the time of requests"),
        number(
            "queue_most",
            case.digest.queue_most,
            "request(s) waited for at a time, at most",
        ),
        number("long_requests", long.count, "long request(s)"),
        time_fact(
            "long_from_ns",
            long.from_ns,
            "the shortest of these kept its thread",
        ),
        time_fact(
            "long_most_ns",
            most_ns,
            "the longest of these kept its thread",
        ),
        share_fact(
            "queue_share",
            long.queue_share,
            "of the queue is behind these, by their squares",
        ),
    ]);
    RequestFinding {
        parts: vec![RequestPart::Queued, why],
        involved: name_involved(case, long, why),
        headline: format!(
            "Long requests block {}: others waited {} behind {} of {}.",
            case.title(),
            of_time(case, harm.ns),
            count(long.count),
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
        could_not_see: vec!["What the long requests ask for: no payload is read.".to_owned()],
        advice: make_advice([
            "Make the long requests short: in redis `SCAN` in place of `KEYS`, `UNLINK` in place of `DEL`, small ranges; \
             `SLOWLOG GET` names them.",
            "Do long work in another thread or process: Node.js worker threads, asyncio `run_in_executor`.",
            "Send them to another server: a replica.",
        ]),
        gain: Some("no request is long"),
        confidence: direct_confidence(
            case,
            "the queue of each request was measured; its share behind long ones is estimated",
        ),
        ..RequestFinding::from_harm(case, harm, Remedy::Avoidable)
    }
}

/// Names the connection with the long requests, one of these, and what the process ran.
fn name_involved(case: &ServiceCase<'_>, long: &LongRequests, why: RequestPart) -> Vec<String> {
    let names = case.evidence.names();
    let mut lines = Vec::new();
    if let Some(longest) = case.digest.blockers.longest_request() {
        let conn = longest.id.conn;
        lines.push(format!(
            "the longest is {} on {}: {}",
            longest.id,
            names.connection(conn).name,
            duration(longest.kept_ns)
        ));
    }
    let share = percent(ratio_of(long.parts.get(why), long.parts.total_ns()));
    lines.push(format!("their time: {} {share}", why.text()));
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
