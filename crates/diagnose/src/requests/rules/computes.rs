//! The program computes: that is where the time of requests goes.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    EXPLAINS_LEAST, LACK_OF_CPU, direct_confidence, duration_facts, make_advice, of_requests,
    of_time, rule_out, share_fact, slows_slowest, time_fact, unseen_verdict,
};
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::{duration, percent};

/// The rule `computes`.
pub struct Computes;

const PARTS: &[RequestPart] = &[RequestPart::Cpu];

impl RequestRule for Computes {
    fn id(&self) -> RuleId {
        RuleId::Computes
    }

    fn summary(&self) -> &'static str {
        "The program computes: that takes the time of requests"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let harm = case.harm(PARTS);
        let explains = harm.share.max(harm.excess_share) >= EXPLAINS_LEAST;
        match explains && !case.is_claimed(RequestPart::Cpu) {
            true => RequestVerdict::Fires(Box::new(finding(case, &harm))),
            false => unseen_verdict(case),
        }
    }
}

/// Makes the finding: the program computes for much of a request.
fn finding(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestFinding {
    let is_slow = is_shown(case, harm) && slows_slowest(case, harm);
    let process = case.process().pid;
    let functions = &case.evidence.digests.functions;
    let function = process.and_then(|pid| functions.of_process(pid));
    let headline = match is_slow {
        true => format!(
            "Computing makes the slowest of {} slow: {} more than usual.",
            of_requests(case),
            duration(harm.excess_ns)
        ),
        false => format!(
            "Computing takes {} of {}.",
            of_time(case, harm.ns),
            of_requests(case)
        ),
    };
    let mut facts = duration_facts(case);
    facts.push(time_fact("cpu_ns", harm.ns, "CPU time for requests"));
    facts.push(share_fact(
        "cpu_share",
        harm.share,
        "of the time of requests",
    ));
    if harm.excess_share > 0.0 {
        let label = "of the extra time of the slowest 1 %";
        facts.push(share_fact("cpu_excess_share", harm.excess_share, label));
    }
    let involved = function.map(|(name, share)| {
        let name = format!("{} ran {name}", case.key.name);
        format!("{name} ({} of its CPU time)", percent(share))
    });
    RequestFinding {
        parts: PARTS.to_vec(),
        involved: involved.into_iter().collect(),
        headline,
        facts,
        ruled_out: rule_out(
            case,
            &[
                ("lack of CPU", LACK_OF_CPU),
                ("locks", &[RequestPart::Lock]),
                ("disk", &[RequestPart::Disk]),
                ("queues", &[RequestPart::Queued]),
            ],
        ),
        could_not_see: vec![
            "Which functions ran for which request: samples cover the whole process.".to_owned(),
        ],
        advice: make_advice([
            "Find the functions: `perf record -g -p PID`, py-spy, `perf-PID.map` of Java and Node.js.",
            "See what the slowest requests have in common: `whylat report --requests` lists them.",
        ]),
        confidence: direct_confidence(
            case,
            "the threads with the requests ran, or whylat could not see their waits",
        ),
        excess_share: if is_slow { harm.excess_share } else { 0.0 },
        ..RequestFinding::from_harm(case, harm, Remedy::Unavoidable)
    }
}

/// Whether the CPU time that the slowest had more is no time without a CPU: preemptions are recorded, and samples found the
/// processes of the service on CPUs for half of that time or more.
fn is_shown(case: &ServiceCase<'_>, harm: &PartHarm) -> bool {
    let processes = case.digest.processes.worst(usize::MAX).into_iter();
    let functions = &case.evidence.digests.functions;
    let sampled_ns: u64 = processes.map(|it| functions.sampled_ns(it.number)).sum();
    case.evidence.has_preemptions() && 2 * sampled_ns >= harm.excess_ns
}
