//! Requests wait for a CPU: a thread that has one was woken and does not run yet, or another thread runs in its place.
//! The rule on connections of the same name judges what no requests show.

use super::host::{HostCause, judge_harm};
use super::rule::{RequestRule, RequestVerdict};
use super::shared::time_fact;
use crate::kernel::LONGEST_SLICE_NS;
use crate::report::RuleId;
use crate::report::finding::CPU_FIXES;
use crate::report::severity::WARNING_SHARE;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::duration;

/// The rule `cpu_contention`, of requests.
pub struct CpuContention;

const PARTS: &[RequestPart] = &[RequestPart::RunQueue, RequestPart::Preempted];

impl RequestRule for CpuContention {
    fn id(&self) -> RuleId {
        RuleId::CpuContention
    }

    fn summary(&self) -> &'static str {
        "The application waited for a CPU that others used"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        let own = case.harm(PARTS).without(case.digest.wakes_ns);
        let quota_ns = case.part_ns(RequestPart::CpuQuota);
        let (all, _) = case.harm_with_queue(own, PARTS);
        // some wait is part of every thread's life; of a group without quota, woken threads wait, too
        if all.share <= WARNING_SHARE || own.ns <= quota_ns {
            return RequestVerdict::Quiet;
        }
        let mut verdict = judge_harm(case, |harm| host_cause(case, harm), own);
        if let RequestVerdict::Fires(fired) = &mut verdict {
            fired.turn_ns = LONGEST_SLICE_NS;
        }
        verdict
    }
}

fn host_cause(case: &ServiceCase<'_>, harm: &PartHarm) -> HostCause {
    let mut could_not_see = vec!["Who used the CPUs meanwhile.".to_owned()];
    if !case.evidence.has_preemptions() {
        could_not_see.push(
            "Whether other threads ran in between: preemptions were not recorded, and count as computing."
                .to_owned(),
        );
    }
    HostCause {
        parts: PARTS,
        holds: "Lack of CPU delays",
        place: String::new(),
        fact: (
            "lack_of_cpu_ns",
            "without a CPU, beyond what a wake-up takes",
        ),
        facts: vec![
            time_fact(
                "run_queue_ns",
                case.part_ns(RequestPart::RunQueue),
                "run-queue delay after wake-ups",
            ),
            time_fact(
                "preempted_ns",
                case.part_ns(RequestPart::Preempted),
                "preempted: another thread ran",
            ),
        ],
        could_not_see,
        advice: CPU_FIXES.to_vec(),
        gain: "the threads run as soon as they can",
        because: format!(
            "wake-ups and switches of threads with requests were measured: {}",
            duration(harm.ns)
        ),
    }
}
