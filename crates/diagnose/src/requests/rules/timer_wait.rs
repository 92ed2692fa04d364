//! Requests wait for a timer: a sleep, or a time limit that nothing else ended. Nobody works on them meanwhile.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    LACK_OF_CPU, advice, durations, measured, of_requests, of_time, rule_out, share, time,
};
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::duration;

/// The rule `timer_wait`.
pub struct TimerWait;

const PARTS: &[RequestPart] = &[RequestPart::Timer];

impl RequestRule for TimerWait {
    fn id(&self) -> RuleId {
        RuleId::TimerWait
    }

    fn summary(&self) -> &'static str {
        "Requests wait for a timer, and nobody works on them"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        if case.is_claimed(RequestPart::Timer) {
            return RequestVerdict::Quiet;
        }
        RequestVerdict::of_parts(case, PARTS, finding)
    }
}

fn finding(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestFinding {
    let stacks = case.stacks(RequestPart::Timer);
    let mut facts = durations(case);
    facts.push(time("timer_ns", harm.ns, "waited for timers"));
    facts.push(share("timer_share", harm.share, "of the time of requests"));
    let place = stacks.first().map(|it| format!(", in {}", it.subject));
    RequestFinding {
        parts: PARTS.to_vec(),
        involved: involved(case),
        headline: format!(
            "A timer holds {}: {}{}.",
            of_requests(case),
            of_time(case, harm.ns),
            place.unwrap_or_default()
        ),
        facts,
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
        advice: advice([
            "Find who set the timer, at the stack above, and wait for the event instead of the time.",
            "curl and libcurl wait a second for `100 Continue` before a large body: `-H 'Expect:'`, \
             `CURLOPT_EXPECT_100_TIMEOUT_MS`.",
        ]),
        gain: Some("the program goes on as soon as it can"),
        confidence: measured(
            case,
            format!(
                "waits of {} were measured that no event ended",
                duration(harm.ns)
            ),
        ),
        ..RequestFinding::from_harm(case, harm, Remedy::Avoidable)
    }
}

/// Names the thread that waited, and where.
fn involved(case: &ServiceCase<'_>) -> Vec<String> {
    let threads = case.threads(RequestPart::Timer).into_iter().take(1);
    let threads = threads.map(|it| format!("{} waited {}", it.subject.name, duration(it.ns)));
    let stacks = case.stacks(RequestPart::Timer).into_iter().take(2);
    let stacks = stacks.map(|it| format!("in {}: {}", it.subject, duration(it.ns)));
    threads.chain(stacks).collect()
}
