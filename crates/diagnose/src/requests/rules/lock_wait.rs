//! Requests wait for a lock of the process that another thread holds.

use super::host::{OF_CLIENTS, describe_work};
use super::rule::{Remedy, RequestFinding, RequestRule, RequestVerdict};
use super::shared::{
    LACK_OF_CPU, direct_confidence, duration_facts, has_own_scheduler, make_advice, of_requests,
    of_time, rule_out, share_fact, time_fact,
};
use crate::report::severity::held_up;
use crate::report::{RuleDoubt, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::requests::holder_times::HolderWork;
use crate::units::{duration, percent};
use crate::waits::INTERPRETER_FUNCTIONS;

/// The rule `lock_wait`.
pub struct LockWait;

const PARTS: &[RequestPart] = &[RequestPart::Lock];

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
        let harm = case.harm(PARTS);
        match behind_runtime(case) {
            Some(doubt) if !held_up(harm.ns, case.total_ns()) => doubt,
            _ => RequestVerdict::of_parts(case, PARTS, finding),
        }
    }
}

/// Returns a doubt, if timers hold requests of a server with a runtime that puts tasks to sleep itself, and requests overlap: the
/// others may wait for a lock of the one that sleeps.
fn behind_runtime(case: &ServiceCase<'_>) -> Option<RequestVerdict> {
    let (first_ns, last_ns) = case.digest.time?;
    let timer_ns = case.harm(&[RequestPart::Timer]).ns;
    let overlap_ns = case.total_ns().saturating_sub(last_ns - first_ns);
    let bound_ns = timer_ns.min(overlap_ns);
    let is_meant = case.is_server() && has_own_scheduler(case);
    if !is_meant || !held_up(bound_ns, case.total_ns()) {
        return None;
    }
    let mut facts = duration_facts(case);
    facts.push(time_fact("timer_ns", timer_ns, "wait for timers"));
    facts.push(time_fact(
        "overlap_ns",
        overlap_ns,
        "time of requests beside other requests",
    ));
    Some(RequestVerdict::undecided(
        format!(
            "Timers delay {}. Up to {} of that may be waits for a lock with a holder that sleeps.",
            of_requests(case),
            of_time(case, bound_ns)
        ),
        RuleDoubt {
            candidates: vec![RuleId::LockWait, RuleId::TimerWait],
            concerned_ns: bound_ns,
            facts,
            why: "Go blocks goroutines without the kernel. Its threads do not show which goroutine waits for what.",
            would_help: Some(
                "Read the mutex profile: runtime.SetMutexProfileFraction(1), `go tool pprof URL/debug/pprof/mutex`.",
            ),
        },
    ))
}

/// Makes the finding: requests waited for a lock, and who held it.
fn finding(case: &ServiceCase<'_>, harm: &PartHarm) -> RequestFinding {
    let is_interpreter = case.is_mostly_in(RequestPart::Lock, &INTERPRETER_FUNCTIONS);
    let holder = case.part_wakers(RequestPart::Lock).into_iter().next();
    let what = match is_interpreter {
        true => "The lock of the interpreter (GIL)",
        false => "A lock",
    };
    let work = holder_work(case, harm);
    let meanwhile = work.and_then(|work| describe_work(case, work));
    let meanwhile = meanwhile.map_or_else(String::new, |work| format!("; it {work}"));
    let by = holder.as_ref().map_or_else(String::new, |holder| {
        format!(", which {} had{meanwhile}", holder.subject.name)
    });
    let mut facts = duration_facts(case);
    facts.push(time_fact("lock_ns", harm.ns, "wait for locks"));
    facts.push(share_fact(
        "lock_share",
        harm.share,
        "of the time of requests",
    ));
    RequestFinding {
        parts: PARTS.to_vec(),
        involved: name_involved(case),
        headline: format!(
            "{what} delays {}: {}{by}.",
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
        could_not_see: vec![
            "Which thread had the lock before the one that released it.".to_owned(),
        ],
        advice: make_advice(list_fixes(
            &case.key.name,
            is_interpreter,
            waits_for_client(work),
        )),
        gain: Some("the lock is free whenever a request needs it"),
        confidence: direct_confidence(case, "each wait and the thread that ended it were measured"),
        ..RequestFinding::from_harm(case, harm, Remedy::Avoidable)
    }
}

/// Returns the work of the threads that had the lock, if that is known of at least half of the time.
fn holder_work<'a>(case: &ServiceCase<'a>, harm: &PartHarm) -> Option<&'a HolderWork> {
    let work = &case.digest.holders.lock;
    (2 * work.parts.total_ns() >= harm.ns).then_some(work)
}

/// Returns whether those with the lock mostly waited for their own clients: a session of a database within its transaction.
fn waits_for_client(work: Option<&HolderWork>) -> bool {
    let part = work.and_then(HolderWork::largest_part);
    part.is_some_and(|(part, _)| part == RequestPart::Remote)
}

/// Names the waiting thread, where it waited, and the threads that held the lock.
fn name_involved(case: &ServiceCase<'_>) -> Vec<String> {
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
    // of a long wait, the thread is the last holder, and not who ended it
    let is_followed = case.digest.holders.lock.parts.total_ns() > 0;
    for holder in case.part_wakers(RequestPart::Lock).iter().take(2) {
        let (name, ns) = (&holder.subject.name, duration(holder.ns));
        let ran = runs(holder.subject.tid);
        lines.push(match is_followed {
            true => format!("held by {name}{ran}: {ns}"),
            false => format!("ended by {name}{ran}: {ns}"),
        });
    }
    lines
}

/// Databases with a thread for each session, by the command names of their processes.
const DATABASES: [&str; 2] = ["mariadbd", "mysqld"];

/// Returns the fixes, best first.
fn list_fixes(program: &str, is_interpreter: bool, waits_for_client: bool) -> Vec<&'static str> {
    let is_database = DATABASES.contains(&program);
    match (is_interpreter, waits_for_client) {
        (true, _) => OF_INTERPRETER.to_vec(),
        (false, true) if is_database => vec![OF_CLIENTS],
        (false, true) => [&[OF_BODIES], OF_THREADS.as_slice()].concat(),
        (false, false) => OF_THREADS.to_vec(),
    }
}

/// Fix where a thread of any other server waits for its own client with the lock.
const OF_BODIES: &str =
    "Wait for no client with the lock: read the whole request before, and send the response after.";

const OF_INTERPRETER: [&str; 3] = [
    "Move the computing thread to a process of its own: `multiprocessing`, `concurrent.futures.ProcessPoolExecutor`.",
    "Compute in an extension that releases the lock (numpy, `Py_BEGIN_ALLOW_THREADS`), or use a free-threaded build of \
     Python (3.13 and later).",
    "Let the threads switch more often: `sys.setswitchinterval(0.0005)` in place of 5 ms.",
];

const OF_THREADS: [&str; 2] = [
    "Hold the lock for less time: no system call, no logging and no memory allocation while it is held.",
    "Use a lock for each part of the data, or data structures without locks.",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_databases_need_a_commit() {
        assert_eq!(list_fixes("mariadbd", false, true), [OF_CLIENTS]);
        let of_server = list_fixes("java", false, true);
        assert_eq!(of_server.first(), Some(&OF_BODIES));
        assert!(!of_server.contains(&OF_CLIENTS));
        assert_eq!(list_fixes("java", false, false), OF_THREADS);
    }
}
