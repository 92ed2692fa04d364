//! All threads of a process stand still together: a signal or a debugger stopped it, or a freezer its control group.

use super::host::{HostCause, judge};
use super::rule::{RequestRule, RequestVerdict};
use super::shared::number;
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::duration;

/// The rule `process_pause`.
pub struct ProcessPause;

impl RequestRule for ProcessPause {
    fn id(&self) -> RuleId {
        RuleId::ProcessPause
    }

    fn summary(&self) -> &'static str {
        "The whole process was stopped"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        judge(case, |harm| cause(case, harm), RequestPart::Paused)
    }
}

fn cause(case: &ServiceCase<'_>, harm: &PartHarm) -> HostCause {
    let threads = case.threads(RequestPart::Paused);
    let count = threads.iter().map(|it| it.count).sum();
    let wakers = case.wakers(RequestPart::Paused);
    let waker = wakers.first().map(|it| it.subject.name.as_str());
    HostCause {
        part: RequestPart::Paused,
        holds: "A stop of the whole process holds",
        place: waker.map_or_else(String::new, |waker| format!("; {waker} ended it")),
        fact: ("paused_ns", "stopped"),
        facts: vec![number(
            "pauses",
            count,
            "stops of a thread that had a request",
        )],
        could_not_see: vec!["Who stopped it: only who let it go on is seen.".to_owned()],
        advice: vec![
            "Find who sends SIGSTOP or SIGTSTP to it (`kill -STOP`, Ctrl-Z, a job scheduler), and end that.",
            "Find who freezes its control group: `docker pause`, `cgroup.freeze`, `freezer.state`, a checkpoint (CRIU), a \
             suspended host.",
            "Take no core and no stack of a serving process with a debugger: gdb, gcore, jstack -F and jmap -F stop it \
             meanwhile.",
        ],
        gain: "nobody stops the process",
        because: format!("the kernel's stack shows stops of {}", duration(harm.ns)),
    }
}
