//! The control group of a program used up its CPU quota: its threads could run, and the kernel does not let them until the
//! next period.

use super::host::{HostCause, judge_cause};
use super::rule::{RequestRule, RequestVerdict};
use super::shared::number;
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::duration;

/// The rule `cpu_quota`.
pub struct CpuQuota;

impl RequestRule for CpuQuota {
    fn id(&self) -> RuleId {
        RuleId::CpuQuota
    }

    fn summary(&self) -> &'static str {
        "A CPU quota stops the program until the next period"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        judge_cause(
            case,
            |harm| host_cause(case, harm),
            &[RequestPart::CpuQuota],
        )
    }
}

/// Returns texts and facts of the time that a CPU quota stopped the threads.
fn host_cause(case: &ServiceCase<'_>, harm: &PartHarm) -> HostCause {
    let threads = case.threads(RequestPart::CpuQuota);
    let count = threads.iter().map(|it| it.count).sum();
    let woken_ns = case.part_ns(RequestPart::RunQueue);
    let woken_ns = woken_ns.saturating_sub(case.digest.wakes_ns);
    HostCause {
        parts: &[RequestPart::CpuQuota],
        holds: "A CPU quota stops",
        place: String::new(),
        fact: ("cpu_quota_ns", "stopped by the quota"),
        facts: vec![number("throttled", count, "times that a thread was stopped")],
        could_not_see: [
            Some("How large the quota is: `cpu.max` of its control group (version 1: `cpu.cfs_quota_us`).".to_owned()),
            (woken_ns > 0).then(|| {
                format!(
                    "Whether the quota also held threads that were woken. They waited {} for a CPU.",
                    duration(woken_ns)
                )
            }),
        ]
        .into_iter()
        .flatten()
        .collect(),
        advice: vec![
            "Raise the quota, or remove it: `cpu.max`, Kubernetes `resources.limits.cpu`, `docker run --cpus`. A share \
             (`cpu.weight`, `resources.requests.cpu`) protects others without stopping anyone.",
            "Run at most as many threads as the quota has CPUs: GOMAXPROCS (set by Go since 1.25), \
                -XX:ActiveProcessorCount, worker processes. Many threads use a period's quota in a part of the \
                period.",
            "If the load comes in bursts: keep unused quota with `cpu.max.burst`.",
        ],
        gain: "the quota stops no thread, and a CPU is free",
        because: format!(
            "the kernel reported a used-up quota for all of the {}",
            duration(harm.ns)
        ),
    }
}
