//! Requests wait for a lock of the process that another thread holds.

use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    LACK_OF_CPU, advice, durations, measured, of_requests, of_time, rule_out, share, time,
};
use crate::report::RuleId;
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::units::{duration, percent};

/// The rule `lock_wait`.
pub struct LockWait;

const PARTS: &[RequestPart] = &[RequestPart::Lock];

/// Functions in which a thread of CPython waits for the interpreter's lock.
const INTERPRETER: [&str; 2] = ["take_gil", "PyEval_RestoreThread"];

impl RequestRule for LockWait {
    fn id(&self) -> RuleId {
        RuleId::LockWait
    }

    fn summary(&self) -> &'static str {
        "Requests wait for a lock that another thread of the process holds"
    }

    fn check(&self, case: &ServiceCase<'_>) -> RequestVerdict {
        // a collector: `process_pause`
        if case.is_claimed(RequestPart::Lock) {
            return RequestVerdict::Quiet;
        }
        RequestVerdict::of_parts(case, PARTS, finding)
    }
}

fn finding(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestFinding {
    let stacks = case.stacks(RequestPart::Lock);
    let is_interpreter = stacks
        .first()
        .is_some_and(|it| INTERPRETER.iter().any(|name| it.subject.contains(name)));
    let holder = case.wakers(RequestPart::Lock).into_iter().next();
    let what = match is_interpreter {
        true => "The lock of the interpreter (GIL)",
        false => "A lock",
    };
    let by = holder.as_ref().map_or_else(String::new, |holder| {
        format!(", which {} had", holder.subject.name)
    });
    let mut facts = durations(case);
    facts.push(time("lock_ns", harm.ns, "waited for locks"));
    facts.push(share("lock_share", harm.share, "of the time of requests"));
    RequestFinding {
        parts: PARTS.to_vec(),
        involved: involved(case),
        headline: format!(
            "{what} holds {}: {}{by}.",
            of_requests(case),
            of_time(case, harm.ns),
        ),
        facts,
        ruled_out: rule_out(
            case,
            &[
                ("computing", &[RequestPart::Cpu]),
                ("lack of CPU", LACK_OF_CPU),
                ("disk", &[RequestPart::Disk]),
            ],
        ),
        could_not_see: vec!["Who had the lock before the thread that gave it away.".to_owned()],
        advice: fixes(is_interpreter),
        gain: Some("the lock is free whenever a request needs it"),
        confidence: measured(case, "each wait was measured, and who ended it"),
        ..RequestFinding::from_harm(case, harm, Remedy::Avoidable)
    }
}

/// Names the thread that waited, where, and those that had the lock.
fn involved(case: &ServiceCase<'_>) -> Vec<String> {
    let functions = &case.evidence.digests.functions;
    let runs = |tid: u32| match functions.of_thread(tid) {
        Some((name, share)) => format!(", which ran {name} ({} of its CPU time)", percent(share)),
        None => String::new(),
    };
    let mut lines = Vec::new();
    for waiting in case.threads(RequestPart::Lock).iter().take(1) {
        let (thread, ns) = (&waiting.subject, duration(waiting.ns));
        lines.push(format!("{} waited {ns}", thread.name));
    }
    for stack in case.stacks(RequestPart::Lock).iter().take(2) {
        lines.push(format!("in {}: {}", stack.subject, duration(stack.ns)));
    }
    for holder in case.wakers(RequestPart::Lock).iter().take(2) {
        let (thread, ns) = (&holder.subject, duration(holder.ns));
        lines.push(format!(
            "ended by {}{}: {ns}",
            thread.name,
            runs(thread.tid)
        ));
    }
    lines
}

fn fixes(is_interpreter: bool) -> Vec<crate::report::Advice> {
    match is_interpreter {
        true => advice([
            "Move the computing thread to a process of its own: `multiprocessing`, \
             `concurrent.futures.ProcessPoolExecutor`.",
            "Compute in an extension that releases the lock (numpy, `Py_BEGIN_ALLOW_THREADS`), or use a free-threaded \
             build of Python (3.13 and later).",
            "Let the threads switch more often: `sys.setswitchinterval(0.0005)` in place of 5 ms.",
        ]),
        false => advice([
            "Hold the lock for less time: no system call, no logging and no memory allocation while it is held.",
            "Use a lock for each part of the data, or data that needs none.",
        ]),
    }
}
