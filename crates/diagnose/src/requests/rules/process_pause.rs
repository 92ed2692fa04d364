//! All threads of a process stand still together: a signal or a debugger stopped it, or a freezer its control group.

use super::host::{HostCause, judge_cause};
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
        match find_collector(case) {
            Some(function) => judge_cause(
                case,
                |harm| collection_cause(case, harm, &function),
                &[RequestPart::Lock],
            ),
            None => judge_cause(case, |harm| host_cause(case, harm), &[RequestPart::Paused]),
        }
    }
}

/// Parts of the names of functions that collect garbage: of HotSpot (src/hotspot/share/gc).
const COLLECTORS: [&str; 18] = [
    "MarkSweep",
    "GenCollectedHeap",
    "DefNewGeneration",
    "TenuredGeneration",
    "OopOopIterate",
    "ContiguousSpace",
    "G1CollectedHeap",
    "G1FullGC",
    "G1Par",
    "G1RemSet",
    "G1ScanHR",
    "G1CMTask",
    "PSParallelCompact",
    "PSScavenge",
    "PSPromotionManager",
    "Shenandoah",
    "ZMark",
    "ZRelocate",
];

/// Functions in which threads of HotSpot wait for memory that a collection makes free (src/hotspot/share/gc).
const COLLECTION_WAITS: [&str; 6] = [
    "G1CollectedHeap::",
    "GenCollectedHeap::",
    "ParallelScavengeHeap::",
    "ShenandoahHeap::",
    "ZPageAllocator::",
    "ZHeap::",
];

/// Returns the function in which the thread that ended most waits for locks collects garbage, or else its process if no sample
/// of that thread was taken. Else it is the function in which threads waited for a collection: the thread that starts it need
/// not be one that collects. `None`: it does something else, or other waits are longer.
fn find_collector(case: &ServiceCase<'_>) -> Option<String> {
    if case.part_ns(RequestPart::Lock) <= case.part_ns(RequestPart::Paused) {
        return None;
    }
    let wakers = case.part_wakers(RequestPart::Lock);
    let holder = &wakers.first()?.subject;
    let functions = &case.evidence.digests.functions;
    let of_thread = functions.of_thread(holder.tid);
    let ran = of_thread.or_else(|| functions.of_process(holder.pid));
    let is_collector = |name: &&str| COLLECTORS.iter().any(|part| name.contains(part));
    let collector = ran.map(|(name, _)| name).filter(is_collector);
    collector
        .map(str::to_owned)
        .or_else(|| case.find_function(RequestPart::Lock, &COLLECTION_WAITS))
}

/// Returns texts and facts of a garbage collection: threads wait until it lets them go on.
fn collection_cause(case: &ServiceCase<'_>, harm: &PartHarm, function: &str) -> HostCause {
    let threads = case.threads(RequestPart::Lock);
    let count = threads.iter().map(|it| it.count).sum();
    HostCause {
        parts: &[RequestPart::Lock],
        holds: "Garbage collection stops",
        place: format!(", in {function}"),
        fact: ("paused_ns", "wait until the collector was done"),
        facts: vec![number(
            "pauses",
            count,
            "waits of a thread that had a request",
        )],
        could_not_see: vec![
            "Which of these waits were for a lock of the program: the collector's thread ended all of them."
                .to_owned(),
        ],
        advice: vec![
            "See how long and how often it collects: `-Xlog:gc,safepoint`. Repeated full collections mean that \
                the heap is too small. Raise -Xmx, or find what keeps the objects (`jcmd PID GC.class_histogram`).",
            "Use a collector with short pauses: -XX:+UseZGC, -XX:+UseShenandoahGC, or G1 with \
                -XX:MaxGCPauseMillis. A JVM with one CPU or less than 2 GB uses the serial collector by default.",
            "Allocate less for each request: reuse buffers, read in parts.",
        ],
        gain: "the collector stops no thread",
        because: format!(
            "the collector's thread ended waits of {}, which were measured",
            duration(harm.ns)
        ),
    }
}

/// Returns texts and facts of the time that all threads of a process paused.
fn host_cause(case: &ServiceCase<'_>, harm: &PartHarm) -> HostCause {
    let threads = case.threads(RequestPart::Paused);
    let count = threads.iter().map(|it| it.count).sum();
    let wakers = case.part_wakers(RequestPart::Paused);
    let waker = wakers.first().map(|it| it.subject.name.as_str());
    HostCause {
        parts: &[RequestPart::Paused],
        holds: "A stop of the whole process delays",
        place: waker.map_or_else(String::new, |waker| format!("; {waker} ended it")),
        fact: ("paused_ns", "stopped"),
        facts: vec![number(
            "pauses",
            count,
            "stops of a thread that had a request",
        )],
        could_not_see: vec![
            "Who stopped it: the recording only shows who let it continue.".to_owned(),
        ],
        advice: vec![
            "Find who sends SIGSTOP or SIGTSTP to it (`kill -STOP`, Ctrl-Z, a job scheduler), and prevent it.",
            "Find who freezes its control group: `docker pause`, `cgroup.freeze`, `freezer.state`, a checkpoint (CRIU), a \
             suspended host.",
            "Use no debugger for cores and stacks of a serving process: gdb, gcore, jstack -F and jmap -F stop it.",
        ],
        gain: "nobody stops the process",
        because: format!("the kernel's stack shows stops of {}", duration(harm.ns)),
    }
}
