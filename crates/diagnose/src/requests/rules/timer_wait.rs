//! Requests wait for a timer: a sleep, or a time limit that nothing else ended. Nobody works on them meanwhile.
//!
//! A server that sends by its own plan, a ping or an event, looks like one that answers late. Where that may be most of the
//! time, the rule does not decide.

use super::rule::{Remedy, RequestDoubt, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    LACK_OF_CPU, direct_confidence, duration_facts, has_own_scheduler, make_advice, number,
    of_requests, of_time, rule_out, share_fact, time_fact,
};
use crate::report::severity::held_up;
use crate::report::{Fact, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::{count, duration, quantity};

/// The rule `timer_wait`.
pub struct TimerWait;

const PARTS: &[RequestPart] = &[RequestPart::Timer];

impl RequestRule for TimerWait {
    fn id(&self) -> RuleId {
        RuleId::TimerWait
    }

    fn summary(&self) -> &'static str {
        "Requests wait for a timer, and no thread works on them"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let harm = case.harm(PARTS);
        if case.is_claimed(RequestPart::Timer) || harm.ns == 0 {
            return RequestVerdict::Quiet;
        }
        match is_mostly(case.digest.pauses.sums.unasked_ns, &harm) {
            true => doubt_verdict(case, &harm),
            false => RequestVerdict::Fires(Box::new(finding(case, &harm))),
        }
    }
}

/// Returns whether `ns` is at least half of the time that requests waited for timers.
fn is_mostly(ns: u64, harm: &PartHarm) -> bool {
    ns > 0 && ns >= harm.ns.div_ceil(2)
}

/// Makes the finding: threads slept by a timer while requests waited.
fn finding(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestFinding {
    let stacks = case.stacks(RequestPart::Timer);
    let place = stacks.first().map(|it| format!(", in {}", it.subject));
    let is_paced = is_mostly(case.digest.pauses.sums.paced_ns, harm);
    let pauses = if is_paced {
        " between parts of responses"
    } else {
        ""
    };
    RequestFinding {
        parts: PARTS.to_vec(),
        involved: name_involved(case),
        headline: format!(
            "A timer delays {}: {}{pauses}{}.",
            of_requests(case),
            of_time(case, harm.ns),
            place.unwrap_or_default()
        ),
        facts: collect_facts(case, harm, is_paced),
        ruled_out: rule_out(
            case,
            &[
                ("computing", &[RequestPart::Cpu]),
                ("lack of CPU", LACK_OF_CPU),
                ("locks", &[RequestPart::Lock]),
                (
                    "the other end",
                    &[RequestPart::Remote, RequestPart::Upstream],
                ),
            ],
        ),
        could_not_see: has_own_scheduler(case)
            .then(|| SCHEDULED.to_owned())
            .into_iter()
            .collect(),
        advice: make_advice(if is_paced { PACED } else { ALONE }),
        gain: Some("the program continues as soon as it can"),
        confidence: direct_confidence(
            case,
            format!(
                "a timer, and no event, ended waits of {}, which were measured",
                duration(harm.ns)
            ),
        ),
        ..RequestFinding::from_harm(case, harm, Remedy::Avoidable)
    }
}

fn collect_facts(case: &ServiceCase<'_>, harm: &PartHarm, is_paced: bool) -> Vec<Fact> {
    let mut facts = duration_facts(case);
    facts.push(time_fact("timer_ns", harm.ns, "wait for timers"));
    facts.push(share_fact(
        "timer_share",
        harm.share,
        "of the time of requests",
    ));
    if is_paced {
        let label = "parts of responses that timers held";
        facts.push(number("paced_parts", case.digest.pauses.sums.paced, label));
    }
    facts
}

/// Facts that threads of Go do not show.
const SCHEDULED: &str =
    "Which goroutine slept: a goroutine that waits for the lock of a sleeping one looks the same.";

/// Fixes of a timer before a response.
const ALONE: [&str; 2] = [
    "Find the code that set the timer: its stack, if one is shown. Wait for the event instead of the time.",
    "curl and libcurl wait a second for `100 Continue` before a large body: `-H 'Expect:'`, \
     `CURLOPT_EXPECT_100_TIMEOUT_MS`.",
];

/// Fixes of a server that sends its responses in parts.
const PACED: [&str; 2] = [
    "If the server limits its rate, raise the limit: nginx `limit_rate` and `limit_rate_after`, Apache \
        mod_ratelimit, HAProxy `bwlim-out`, Envoy's bandwidth limit.",
    "Find the code that set the timer: its stack, if one is shown. A program with a live stream must wait for \
        its data.",
];

/// Returns an undecided verdict: the server may have sent by its own plan.
fn doubt_verdict(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestVerdict {
    if !held_up(harm.ns, case.total_ns()) {
        return RequestVerdict::Quiet;
    }
    let pauses = &case.digest.pauses;
    let unasked_ns = pauses.sums.unasked_ns;
    let mut facts = duration_facts(case);
    facts.push(time_fact("timer_ns", harm.ns, "wait for timers"));
    facts.push(time_fact(
        "unasked_ns",
        unasked_ns,
        "of this before messages that may answer no request",
    ));
    facts.push(number(
        "unasked_requests",
        pauses.unasked,
        "request(s) with such messages",
    ));
    RequestVerdict::Inconclusive(Box::new(RequestDoubt {
        candidates: vec![RuleId::TimerWait],
        concerned_ns: harm.ns,
        headline: format!(
            "{} of {} of {} have late responses, or messages without a request: {}.",
            count(pauses.unasked),
            quantity(case.requests(), "request"),
            case.title(),
            of_time(case, unasked_ns),
        ),
        facts,
        why: "A ping or an event of a server looks like a response that waits for a timer.",
        would_help: vec![
            "Record for longer: after 8 events in a row, whylat knows that the connection pushes."
                .to_owned(),
        ],
    }))
}

/// Names the thread that waited, and where.
fn name_involved(case: &ServiceCase<'_>) -> Vec<String> {
    let threads = case.threads(RequestPart::Timer).into_iter().take(1);
    let threads = threads.map(|it| format!("{} waited {}", it.subject.name, duration(it.ns)));
    let stacks = case.stacks(RequestPart::Timer).into_iter().take(2);
    let stacks = stacks.map(|it| format!("in {}: {}", it.subject, duration(it.ns)));
    threads.chain(stacks).collect()
}
