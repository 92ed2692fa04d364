//! A thread that has a request waits for memory: a page that has to come from a file or from swap, or memory that has to be
//! freed first because the host or the control group has none left.

use super::host::{HostCause, judge_cause, longest_place};
use super::rule::{RequestRule, RequestVerdict};
use super::shared::number;
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::duration;

/// The rule `memory_stall`.
pub struct MemoryStall;

impl RequestRule for MemoryStall {
    fn id(&self) -> RuleId {
        RuleId::MemoryStall
    }

    fn summary(&self) -> &'static str {
        "Requests wait for memory"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        judge_cause(case, |harm| host_cause(case, harm), &[RequestPart::Memory])
    }
}

/// Returns texts and facts of the time that threads waited for memory.
fn host_cause(case: &ServiceCase<'_>, harm: &PartHarm) -> HostCause {
    let threads = case.threads(RequestPart::Memory);
    let count = threads.iter().map(|it| it.count).sum();
    HostCause {
        parts: &[RequestPart::Memory],
        holds: "Lack of memory delays",
        place: longest_place(case, RequestPart::Memory),
        fact: ("memory_ns", "waited for pages"),
        facts: vec![number("memory_waits", count, "waits for pages")],
        could_not_see: vec![
            "CPU time in which the program itself freed memory: it counts as computing.".to_owned(),
        ],
        advice: vec![
            "Give the program more memory, or let it use less: `memory.high` and `memory.max` of its control group, Kubernetes \
             `resources.limits.memory`. `memory.pressure` and /proc/pressure/memory show the stalls.",
            "Keep the pages that requests need: mlockall(), `vm.swappiness`, `memory.low`; read a mapped file ahead \
             (madvise(MADV_WILLNEED), MAP_POPULATE).",
            "Move other users of memory elsewhere: a batch job, a backup, a program with a large page cache.",
        ],
        gain: "the pages are in memory",
        because: format!("waits of {} for pages were measured", duration(harm.ns)),
    }
}
