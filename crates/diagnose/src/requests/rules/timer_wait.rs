//! Requests wait for a timer: a sleep, or a time limit that nothing else ended. Nobody works on them meanwhile.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    advice, durations, measured, of_requests, of_time, rule_out, share, time, unseen,
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
        let harm = case.harm(PARTS);
        match harm.ns {
            0 => unseen(case),
            _ => RequestVerdict::Fires(Box::new(finding(case, &harm))),
        }
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
        harm_ns: harm.ns,
        excess_ns: harm.excess_ns,
        excess_share: harm.excess_share,
        remedy: Remedy::Avoidable,
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
                (
                    "lack of CPU",
                    &[
                        RequestPart::RunQueue,
                        RequestPart::Preempted,
                        RequestPart::CpuQuota,
                    ],
                ),
                ("locks", &[RequestPart::Lock]),
                (
                    "the other end",
                    &[RequestPart::Remote, RequestPart::Upstream],
                ),
            ],
        ),
        could_not_see: Vec::new(),
        advice: advice([
            "Find who set the timer, at the stack above, and wait for the event instead of the time.",
        ]),
        gain: Some("the program goes on as soon as it can"),
        confidence: measured(
            case,
            format!(
                "waits of {} were measured that no event ended",
                duration(harm.ns)
            ),
        ),
    }
}
