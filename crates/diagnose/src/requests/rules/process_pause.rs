//! All threads of a process stand still together: a signal or a debugger stopped it, or a freezer its control group.

use super::host::{HostCause, judge_cause, judge_harm};
use super::rule::{RequestRule, RequestVerdict};
use super::shared::{EXPLAINS_LEAST, number, time_fact};
use crate::report::{ConfidenceLevel, RuleId};
use crate::requests::RequestPart;
use crate::requests::case::{PartHarm, ServiceCase};
use crate::requests::functions::SAMPLES_LEAST;
use crate::units::{duration, ratio_of};

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
        let Some(found) = find_collection(case) else {
            return judge_cause(case, |harm| host_cause(case, harm), &[RequestPart::Paused]);
        };
        let cause = |harm: &PartHarm| collection_cause(case, harm, &found);
        let harm = case.harm(found.waits()) + found.computing;
        found.evidence.weigh(judge_harm(case, cause, harm))
    }
}

/// A garbage collection that requests waited for.
struct CollectionFinding {
    evidence: CollectorEvidence,
    /// Time that threads which worked for requests spent in the collector themselves.
    computing: PartHarm,
    /// That is most of the time in which they computed.
    is_most_computing: bool,
}

impl CollectionFinding {
    /// Returns the parts in which threads waited for the collector.
    fn waits(&self) -> &'static [RequestPart] {
        match self.evidence {
            CollectorEvidence::Samples(_) => &[],
            _ => &[RequestPart::Lock],
        }
    }

    /// Returns the parts that it explains.
    fn parts(&self) -> &'static [RequestPart] {
        match (&self.evidence, self.is_most_computing) {
            (CollectorEvidence::Samples(_), true) => &[RequestPart::Cpu],
            (CollectorEvidence::Samples(_), false) => &[],
            (_, true) => &[RequestPart::Lock, RequestPart::Cpu],
            (_, false) => &[RequestPart::Lock],
        }
    }
}

/// Returns the garbage collection that requests waited for, in locks or in threads that worked for them; `None`: none is known.
fn find_collection(case: &ServiceCase<'_>) -> Option<CollectionFinding> {
    let computed = find_computing(case);
    let waited = find_collector(case);
    let computing = computed.as_ref().map(|(harm, _)| *harm);
    let computing = computing.unwrap_or_default();
    let evidence =
        waited.or_else(|| computed.map(|(_, function)| CollectorEvidence::Samples(function)))?;
    Some(CollectionFinding {
        evidence,
        computing,
        is_most_computing: 2 * computing.ns > case.part_ns(RequestPart::Cpu),
    })
}

/// Returns the time that threads which worked for requests spent in a collector, by samples, and the function with most of it. A
/// thread may collect itself, or wake the one that does, and wait for it. `None`: that is no tenth of the time of requests, or
/// there are few samples, or the process was stopped for longer.
fn find_computing(case: &ServiceCase<'_>) -> Option<(PartHarm, String)> {
    let samples = case.digest.functions().samples();
    if !case.is_server() || samples < SAMPLES_LEAST {
        return None;
    }
    let named = case.evidence.named_samples(case.id);
    let collecting: Vec<_> = named.filter(|(name, _)| is_collector(name)).collect();
    let collected: u64 = collecting.iter().map(|(_, samples)| samples).sum();
    let computing = case.harm(&[RequestPart::Cpu]);
    let others = 1.0 - ratio_of(collected, samples);
    let harm = computing.without((computing.ns as f64 * others) as u64);
    let most = collecting.into_iter().max_by_key(|(_, samples)| *samples);
    let function = most.map(|(name, _)| name)?;
    let is_longest = harm.ns > case.part_ns(RequestPart::Paused);
    (is_longest && harm.share >= EXPLAINS_LEAST).then_some((harm, function))
}

/// Returns whether a function of this name collects garbage.
fn is_collector(name: &str) -> bool {
    COLLECTORS.iter().any(|part| name.contains(part))
}

/// Parts of the names of functions that collect garbage: of HotSpot (src/hotspot/share/gc).
const COLLECTORS: [&str; 20] = [
    "MarkSweep",
    "CompactibleSpace::",
    "oop_oop_iterate",
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

/// Evidence of a collection, with the name of a function.
enum CollectorEvidence {
    /// The thread that ended most waits for locks collects garbage there.
    Thread(String),
    /// No sample of that thread was taken; its process collects garbage there.
    Process(String),
    /// Threads waited there for most of the time; the thread that ended that is not known to collect.
    Stacks(String),
    /// Threads that worked for requests collected there.
    Samples(String),
}

impl CollectorEvidence {
    /// Returns the function.
    fn function(&self) -> &str {
        match self {
            Self::Thread(function)
            | Self::Process(function)
            | Self::Stacks(function)
            | Self::Samples(function) => function,
        }
    }

    /// Returns what the evidence does not show.
    fn blind_spot(&self) -> &'static str {
        match self {
            Self::Thread(_) => {
                "Which of these waits were for a lock of the program: the collector's thread ended most of them."
            }
            Self::Process(_) => {
                "Which thread collected: no sample was taken of the one that ended most of these waits."
            }
            Self::Stacks(_) => {
                "Which thread collected, and for how long: the thread that ended the waits need not be a collector's."
            }
            Self::Samples(_) => "How long each collection took: samples give the sum of all.",
        }
    }

    /// Returns why the finding is sure.
    fn because(&self, harm: &PartHarm) -> String {
        let waited = duration(harm.ns);
        match self {
            Self::Thread(_) => {
                format!("the collector's thread ended most waits of {waited}, which were measured")
            }
            Self::Process(_) => {
                format!(
                    "waits of {waited} were measured, and samples show the process in its collector"
                )
            }
            Self::Stacks(_) => {
                format!("most waits of {waited} were in functions that wait for a collection")
            }
            Self::Samples(_) => {
                format!(
                    "samples of the threads that worked for requests show {waited} in the collector"
                )
            }
        }
    }

    /// Returns a verdict, less sure unless the collector's thread ended the waits.
    fn weigh(&self, mut verdict: RequestVerdict) -> RequestVerdict {
        let is_seen = matches!(self, Self::Thread(_));
        if let RequestVerdict::Fires(found) = &mut verdict
            && !is_seen
        {
            found.confidence.level = ConfidenceLevel::Medium;
        }
        verdict
    }
}

/// Returns the evidence that most waits for locks were for a garbage collection; `None`: there is none, or other waits
/// are longer.
fn find_collector(case: &ServiceCase<'_>) -> Option<CollectorEvidence> {
    if case.part_ns(RequestPart::Lock) <= case.part_ns(RequestPart::Paused) {
        return None;
    }
    let wakers = case.part_wakers(RequestPart::Lock);
    let holder = &wakers.first()?.subject;
    let functions = &case.evidence.digests.functions;
    let ran = match functions.of_thread(holder.tid) {
        Some((name, _)) => is_collector(name).then(|| CollectorEvidence::Thread(name.to_owned())),
        None => functions
            .of_process(holder.pid)
            .filter(|(name, _)| is_collector(name))
            .map(|(name, _)| CollectorEvidence::Process(name.to_owned())),
    };
    let waited = || case.find_function(RequestPart::Lock, &COLLECTION_WAITS);
    ran.or_else(|| waited().map(CollectorEvidence::Stacks))
}

/// Returns texts and facts of a garbage collection: threads wait until it lets them go on.
fn collection_cause(
    case: &ServiceCase<'_>,
    harm: &PartHarm,
    found: &CollectionFinding,
) -> HostCause {
    let collector = &found.evidence;
    let threads = case.threads(RequestPart::Lock);
    let count = threads.iter().map(|it| it.count).sum();
    let has_waits = !found.waits().is_empty();
    let label = "waits of a thread that had a request";
    let pauses = has_waits.then(|| number("pauses", count, label));
    let label = "of this time: threads with requests in the collector";
    let computed = (has_waits && found.computing.ns > 0)
        .then(|| time_fact("collecting_ns", found.computing.ns, label));
    HostCause {
        parts: found.parts(),
        holds: "Garbage collection stops",
        place: format!(", in {}", collector.function()),
        fact: ("paused_ns", "wait until the collector was done"),
        facts: pauses.into_iter().chain(computed).collect(),
        could_not_see: vec![collector.blind_spot().to_owned()],
        advice: vec![
            "See how long and how often it collects: `-Xlog:gc,safepoint`. Repeated full collections mean that \
                the heap is too small. Raise -Xmx, or find what keeps the objects (`jcmd PID GC.class_histogram`).",
            "Use a collector with short pauses: -XX:+UseZGC, -XX:+UseShenandoahGC, or G1 with \
                -XX:MaxGCPauseMillis. A JVM with one CPU or less than 2 GB uses the serial collector by default.",
            "Allocate less for each request: reuse buffers, read in parts.",
        ],
        gain: "the collector stops no thread",
        because: collector.because(harm),
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
